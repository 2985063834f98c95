"""Data files and delete files: writing them as Parquet with field ids, and describing them by their footers."""

from __future__ import annotations

import posixpath
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from platform_plugin.algebra.types.data_types import Field, can_widen, stored_field
from platform_plugin.errors import InvalidValue, NullRefused, StorageError, UnsupportedType
from platform_plugin.lake.catalogue.identifiers import new_uuid
from platform_plugin.lake.catalogue.statistics import ColumnStatistics, encode, merge
from platform_plugin.lake.files.bounds import plan_bounded_columns
from platform_plugin.lake.files.encodings import plan_encodings
from platform_plugin.lake.files.file_options import STANDARD, FileOptions
from platform_plugin.lake.files.storage import explain_storage_errors
from platform_plugin.lake.values.arrow_columns import assign_column
from platform_plugin.lake.values.defaults import default_column
from platform_plugin.lake.values.intervals import store_intervals
from platform_plugin.lake.values.types import FIELD_ID, arrow_schema, from_arrow, to_spark

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from platform_plugin.lake.catalogue.tables import Table
    from platform_plugin.lake.files.storage import Storage

# Field ids that the specification reserves for columns a table does not have.
ROW_ID = 2147483540
SNAPSHOT_ID = 2147483539
DELETE_PATH = 2147483646
DELETE_POSITION = 2147483645
OWN_NAME = b"platform.file"  # the key under which a file's own name stands in its footer
RESERVED_IDS = frozenset({ROW_ID, SNAPSHOT_ID, DELETE_PATH, DELETE_POSITION})

# A page is the least that is read for a single row; at this size files are 2 % larger and as fast to scan, at half of it no longer.
PAGE_ROWS = 4096
# A scan wants row groups that one core reads in some tens of milliseconds, and pages that a filter can skip.
ROW_GROUP_ROWS = 256 * PAGE_ROWS
_PAGE_BYTES = 64 * 1024 * 1024
_ROW_GROUP_BYTES = 128 * 1024 * 1024
TARGET_FILE_BYTES = 128 * 1024 * 1024
_FOOTER_THREADS = 8
_ZSTD_LEVEL = 1

ROW_ID_FIELD = pa.field("_ducklake_internal_row_id", pa.int64(), metadata={FIELD_ID: str(ROW_ID).encode()})
SNAPSHOT_ID_FIELD = pa.field("_ducklake_internal_snapshot_id", pa.int64(), metadata={FIELD_ID: str(SNAPSHOT_ID).encode()})


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """A Parquet file that exists and that no snapshot names yet; `path` is relative to the data folder."""

    path: str
    record_count: int
    size_bytes: int
    footer_bytes: int
    statistics: tuple[ColumnStatistics, ...]
    has_row_ids: bool = False
    partition_values: tuple[str | None, ...] = ()
    partial_max: int | None = None
    row_groups: int | None = None


class WrittenFile(Protocol):
    """A file that was written for a commit."""

    @property
    def path(self) -> str:
        """Where it is below the data folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteFile:
    """A file that lists all deleted positions of one data file, those of earlier delete files included."""

    path: str
    delete_count: int
    size_bytes: int
    footer_bytes: int
    last_position: int = -1
    row_groups: int | None = None


def new_path(table: Table, *, suffix: str = "") -> str:
    """A path in the table's folder that no other file has had."""
    return f"{table.path}{new_uuid()}{suffix}.parquet"


def write_data_file(
    storage: Storage, table: Table, rows: pa.Table | pa.RecordBatchReader, *, path: str | None = None, row_ids: pa.Array | None = None
) -> DataFile:
    """Write rows as one new Parquet file of the table; it is invisible until a commit appends it.

    Columns are matched by name. Missing columns get their default; unknown columns, wrong types and NULL in a NOT NULL column are errors,
    and then the file is removed. With `row_ids` the rows keep these ids, as a rewrite of existing rows needs.
    """
    whole = rows if isinstance(rows, pa.Table) else None
    groups = iter([rows]) if isinstance(rows, pa.Table) else row_groups(rows, table.file_options)
    return write_groups(storage, table, groups, path=path, whole=whole, row_ids=row_ids)


def write_groups(
    storage: Storage,
    table: Table,
    groups: Iterator[pa.Table],
    *,
    path: str | None = None,
    whole: pa.Table | None = None,
    row_ids: pa.Array | None = None,
    full_bytes: int | None = None,
) -> DataFile:
    """Write row groups as one file, all of them or as many as reach `full_bytes`; `whole` is given when it is the only group."""
    path = path or new_path(table)
    schema, kept = arrow_schema(table.fields), arrow_schema(map(stored_field, table.fields))
    stored = kept if row_ids is None else kept.append(ROW_ID_FIELD)
    nans = {field.id: False for field in table.fields if field.id is not None and pa.types.is_floating(schema.field(field.name).type)}
    now = datetime.now(UTC)
    fitted = None if whole is None else store_intervals(fit_rows(whole, table.fields, schema, now=now), table.fields)
    options = table.file_options
    with storage.open(path, "wb") as file, _parquet_writer(file, path, stored, fitted, options) as writer:
        for group in groups:
            shaped = store_intervals(fit_rows(group, table.fields, schema, now=now), table.fields) if fitted is None else fitted
            for field in table.fields:
                if field.id in nans and not nans[field.id]:
                    nans[field.id] = bool(pc.any(pc.is_nan(shaped.column(field.name))).as_py())
            rows = shaped if row_ids is None else shaped.append_column(ROW_ID_FIELD, row_ids)
            writer.write_table(rows, row_group_size=options.row_group_rows or ROW_GROUP_ROWS)
            if full_bytes is not None and file.tell() >= full_bytes:
                break
    return describe_file(storage, table, path, nans=nans)


@contextmanager
def new_parquet(
    storage: Storage, path: str, schema: pa.Schema, *, rows: pa.Table | None = None, options: FileOptions = STANDARD
) -> Iterator[pq.ParquetWriter]:
    """A writer of a new file that stores its own path and a checksum of each page, so that readers detect a swapped or damaged file.

    Pass all its `rows` where they are in memory: then columns of fractions without NaN get bounds, and numbers with many different values
    are written in half the time.
    """
    with storage.open(path, "wb") as file, _parquet_writer(file, path, schema, rows, options) as writer:
        yield writer


def _parquet_writer(file: BinaryIO, path: str, schema: pa.Schema, rows: pa.Table | None, options: FileOptions) -> pq.ParquetWriter:
    return pq.ParquetWriter(
        file,
        schema.with_metadata({OWN_NAME: posixpath.basename(path).encode()}),
        compression=options.compression,
        compression_level=_ZSTD_LEVEL if options.compression == "zstd" else None,
        write_page_checksum=True,
        write_statistics=plan_bounded_columns(schema if rows is None else rows.schema, rows),
        **plan_encodings(schema, rows),
        write_page_index=True,
        # As DuckDB and Spark write them; to read them takes a fifth to a half of the time of bytes.
        store_decimal_as_integer=True,
        # The same rows in the pages of all columns, also where one of them gives up its dictionary.
        max_rows_per_page=PAGE_ROWS,
        write_batch_size=PAGE_ROWS,
        data_page_size=_PAGE_BYTES,
    )


def row_groups(rows: pa.RecordBatchReader, options: FileOptions, *, most_bytes: int = _ROW_GROUP_BYTES) -> Iterator[pa.Table]:
    """Batches joined to the size of row groups, so that a scan does not meet thousands of small ones."""
    most_rows = options.row_group_rows or ROW_GROUP_ROWS
    gathered: list[pa.RecordBatch] = []
    for batch in rows:
        gathered.append(batch)
        if sum(part.nbytes for part in gathered) >= most_bytes:
            yield pa.Table.from_batches(gathered)
            gathered = []
        elif sum(part.num_rows for part in gathered) >= most_rows:
            whole = pa.Table.from_batches(gathered)
            full = whole.num_rows - whole.num_rows % most_rows
            yield whole.slice(0, full)
            gathered = whole.slice(full).to_batches()
    if gathered:
        yield pa.Table.from_batches(gathered)


def fit_rows(rows: pa.Table, fields: Sequence[Field], schema: pa.Schema | None = None, *, now: datetime | None = None) -> pa.Table:
    """Rows with the columns of a table: by name, in order, values by the assignment rule, defaults filled in."""
    schema = schema or arrow_schema(fields)
    known = {field.name for field in fields}
    unknown = [name for name in rows.column_names if name not in known]
    if unknown:
        raise InvalidValue(
            f'column "{unknown[0]}" is not in the table', hint=f"its columns are {', '.join(field.name for field in fields)}"
        )
    given = set(rows.column_names)
    if len(given) < rows.num_columns:
        raise InvalidValue("a column is there twice", detail=", ".join(rows.column_names))
    columns = []
    for field in fields:
        column = assign_column(rows.column(field.name), field) if field.name in given else default_column(field, len(rows), now)
        if not field.nullable and column.null_count:
            raise NullRefused(f'column "{field.name}" holds NULL, which it must not', hint="give every row a value")
        columns.append(column)
    return pa.Table.from_arrays(columns, schema=schema)


def write_delete_file(storage: Storage, table: Table, data_file_path: str, positions: pa.Array) -> DeleteFile:
    """Write the positions that are deleted from a data file; they are sorted and made unique."""
    path = new_path(table, suffix="-delete")
    unique = pc.unique(positions.cast(pa.int64()))
    ordered = unique.take(pc.sort_indices(unique))
    if ordered.null_count or (len(ordered) and ordered[0].as_py() < 0):
        raise InvalidValue("a position to delete is negative or missing", hint="positions count a file's rows from 0")
    schema = pa.schema(
        [
            pa.field("file_path", pa.string(), nullable=False, metadata={FIELD_ID: str(DELETE_PATH).encode()}),
            pa.field("pos", pa.int64(), nullable=False, metadata={FIELD_ID: str(DELETE_POSITION).encode()}),
        ]
    )
    full = storage.readable(data_file_path)
    with new_parquet(storage, path, schema) as writer:
        writer.write_table(pa.table([pa.repeat(pa.scalar(full), len(ordered)), ordered], schema=schema))
    footer = _footer(storage, path)
    return DeleteFile(
        path=path,
        delete_count=len(ordered),
        size_bytes=storage.size(path),
        footer_bytes=footer.serialized_size,
        last_position=ordered[-1].as_py() if len(ordered) else -1,
        row_groups=footer.num_row_groups,
    )


def read_data_files(storage: Storage, table: Table, paths: Sequence[str]) -> list[DataFile]:
    """Describe files that other programs wrote, in the order given, and wait until they are on disk; footers are read in parallel."""

    def settled(path: str) -> DataFile:
        found = describe_file(storage, table, path)
        storage.settle(path)
        return found

    if len(paths) == 1:
        return [settled(paths[0])]
    with ThreadPoolExecutor(max_workers=_FOOTER_THREADS) as pool:
        return list(pool.map(settled, paths))


def _footer(storage: Storage, path: str) -> pq.FileMetaData:
    full = storage.absolute(path)
    try:
        if storage.is_local:
            with explain_storage_errors(path):
                return pq.read_metadata(full)
        with storage.open(path) as file:
            return pq.read_metadata(file)
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise StorageError(
            f'file "{path}" is not a whole Parquet file', detail=str(error).splitlines()[0], hint="write it again"
        ) from error


def describe_file(
    storage: Storage, table: Table, path: str, *, nans: Mapping[int, bool] | None = None, known_only: bool = False
) -> DataFile:
    """The description of one Parquet file for the catalogue; a file that does not fit the table is an error.

    With `known_only` the file may have columns that the table has dropped since: a merge keeps them for older snapshots.
    """
    footer = _footer(storage, path)
    schema = footer.schema.to_arrow_schema()
    if not known_only:
        _check_columns(table, schema, path)
    leaves = list(_leaf_ids(schema))
    by_id = {leaf.id: leaf for field in map(stored_field, table.fields) for leaf in field.walk()}
    statistics = []
    for index, field_id in enumerate(leaves):
        field = by_id.get(field_id) if field_id is not None else None
        if field is None:
            continue
        groups = [
            _group_statistics(footer.row_group(group).column(index), field, (nans or {}).get(field_id or 0))
            for group in range(footer.num_row_groups)
        ]
        if groups:
            statistics.append(merge(groups, field.type))
    result = DataFile(
        path=storage.relative(path),
        record_count=footer.num_rows,
        size_bytes=storage.size(path),
        footer_bytes=footer.serialized_size,
        statistics=tuple(statistics),
        has_row_ids=any(_field_id(field) == ROW_ID for field in schema),
        row_groups=footer.num_row_groups,
    )
    if not known_only:
        _check_nulls(table, result)
    return result


def _group_statistics(column: Any, field: Field, has_nan: bool | None) -> ColumnStatistics:  # noqa: FBT001  three states, not a switch
    stats = column.statistics if column.is_stats_set else None
    nulls = stats.null_count if stats is not None and stats.has_null_count else None
    low = high = None
    if stats is not None and stats.has_min_max:
        try:
            low, high = encode(stats.min, field.type), encode(stats.max, field.type)
        except (ValueError, OverflowError, UnicodeDecodeError):
            low = high = None  # bounds beyond Python's own types, such as the year 20000
    return ColumnStatistics(
        column_id=field.id or 0,
        size_bytes=column.total_compressed_size,
        value_count=None if nulls is None else column.num_values - nulls,
        null_count=nulls,
        min_value=low,
        max_value=high,
        contains_nan=has_nan,
    )


def _field_id(field: pa.Field) -> int | None:
    text = (field.metadata or {}).get(FIELD_ID)
    return int(text) if text is not None and int(text) >= 0 else None


def _leaf_ids(fields: Iterable[pa.Field]) -> Iterable[int | None]:
    for field in fields:
        kind = field.type
        if pa.types.is_map(kind):
            yield from _leaf_ids([kind.key_field, kind.item_field])
        elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
            yield from _leaf_ids([kind.value_field])
        elif pa.types.is_struct(kind):
            yield from _leaf_ids(list(kind))
        else:
            yield _field_id(field)


def _check_columns(table: Table, schema: pa.Schema, path: str) -> None:
    by_id = {field.id: field for field in table.fields}
    present = set()
    for column in schema:
        field_id = _field_id(column)
        if field_id in RESERVED_IDS:
            continue
        if field_id is None:
            raise StorageError(
                f'file "{path}" has no field id on column "{column.name}"',
                hint=f'write it through the lake, or with the schema of table "{table.name}"',
            )
        field = by_id.get(field_id)
        if field is None:
            raise StorageError(
                f'file "{path}" has a column "{column.name}" (field id {field_id}) that table "{table.name}" lacks', hint=_COLUMNS_HINT
            )
        if field_id in present:
            raise StorageError(f'file "{path}" has the field id {field_id} twice', hint=_COLUMNS_HINT)
        present.add(field_id)
        if not _reads_as(column, field):
            raise StorageError(
                f'file "{path}" has column "{column.name}" as {column.type}, which does not read as {field.type}', hint=_COLUMNS_HINT
            )
    for field in table.fields:
        if field.id not in present and not field.nullable and field.initial_default is None:
            raise InvalidValue(f'file "{path}" lacks column "{field.name}", which must not be NULL', hint=_COLUMNS_HINT)


_COLUMNS_HINT = "write files with the table's current columns and their ids"


def _reads_as(column: pa.Field, field: Field) -> bool:
    """Whether values in the file read as the column's without loss: the same type, a narrower one, or Spark's form of it."""
    try:
        (found,) = from_arrow(pa.schema([column]))
    except UnsupportedType:
        return False
    return _fits(found, stored_field(field))


def _fits(found: Field, field: Field) -> bool:
    if found.children or field.children:
        # Struct parts may have been added or dropped; the reader matches them by id.
        return type(found.type) is type(field.type)
    if found.type == field.type or can_widen(found.type, field.type):
        return True
    try:
        return to_spark(found.type) == to_spark(field.type)
    except UnsupportedType:
        return False


def _check_nulls(table: Table, file: DataFile) -> None:
    nulls = {stats.column_id: stats.null_count for stats in file.statistics}
    for field in table.fields:
        if not field.nullable and not field.children and field.id is not None and nulls.get(field.id):
            raise NullRefused(
                f'file "{file.path}" holds NULL in column "{field.name}", which must not be NULL', hint="give every row a value"
            )


def with_partition(file: DataFile, values: Sequence[str | None]) -> DataFile:
    """The file with the values of its one partition."""
    return replace(file, partition_values=tuple(values))


def discard(storage: Storage, files: Iterable[WrittenFile]) -> None:
    """Remove files that no commit will name."""
    storage.delete(file.path for file in files)
