"""`read_rows`: a scan's rows as Arrow, read in this process; for small reads, checks and merges."""

from __future__ import annotations

import os
import posixpath
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from platform_plugin.algebra.predicates.conditions import ALWAYS
from platform_plugin.cache import Cache
from platform_plugin.errors import StorageError, UnknownObject
from platform_plugin.lake.files.deletion_vectors import DamagedVector, read_vectors
from platform_plugin.lake.files.files import OWN_NAME, ROW_ID, SNAPSHOT_ID
from platform_plugin.lake.files.pages import read_pages, take_rows
from platform_plugin.lake.files.storage import explain_storage_errors, is_of_store
from platform_plugin.lake.read.evolution import adapt_rows
from platform_plugin.lake.read.inlined import read_inlined
from platform_plugin.lake.read.matching import match_rows
from platform_plugin.lake.values.defaults import constant_column
from platform_plugin.lake.values.types import FIELD_ID, arrow_field, arrow_schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType

    from platform_plugin.algebra.predicates.conditions import Condition
    from platform_plugin.algebra.types.data_types import Field
    from platform_plugin.lake.catalogue.tables import Snapshot, Table
    from platform_plugin.lake.files.data_folder import DataFolder
    from platform_plugin.lake.lake import Lake
    from platform_plugin.lake.read.scan import DeleteList, FileScan, TableScan

_UNMAPPED = -1
_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
_THREADS = min(8, os.cpu_count() or 1)


class FileSpan(NamedTuple):
    """Positions of a file from `first` up to but not including `until`, by which it is divided among tasks at its row groups."""

    first: int
    until: int


def read_rows(lake: Lake, scan: TableScan, *, columns: Sequence[str] | None = None, where: Condition = ALWAYS) -> pa.Table:
    """All rows of a scan that are in the description of a condition, in the order of row ids."""
    wanted = _fields(scan.table, columns)
    tables = list(iter_rows(lake, scan, columns=columns, where=where))
    # An `empty_table` can't be made where a UUID is inside of another value.
    return pa.concat_tables(tables) if tables else pa.Table.from_batches([], schema=arrow_schema(wanted))


def iter_rows(lake: Lake, scan: TableScan, *, columns: Sequence[str] | None = None, where: Condition = ALWAYS) -> Iterator[pa.Table]:
    """The same by file; a few files are read ahead."""
    wanted = _fields(scan.table, columns)
    tested = _fields(scan.table, where.columns)
    fields = tuple(dict.fromkeys((*wanted, *tested)))

    def load(file: FileScan) -> pa.Table:
        rows, _ = read_file(lake, scan.table, file, scan.snapshot, fields=fields)
        return match_rows(rows, fields, where).select([field.name for field in wanted])

    with ThreadPoolExecutor(max_workers=_THREADS) as pool:
        ahead: list[Any] = []
        for file in scan.files:
            ahead.append(pool.submit(load, file))
            if len(ahead) > _THREADS:
                yield ahead.pop(0).result()
        for future in ahead:
            yield future.result()
    if scan.inlined:
        with lake.reading() as connection:
            for inlined in scan.inlined:
                rows, _, _ = read_inlined(connection, inlined, scan.table, scan.snapshot, fields=fields)
                yield match_rows(rows, fields, where).select([field.name for field in wanted])


def _fields(table: Table, columns: Sequence[str] | None) -> tuple[Field, ...]:
    if columns is None:
        return table.fields
    found = []
    for name in columns:
        field = table.field(name)
        if field is None:
            raise UnknownObject(
                f'column "{name}" does not exist in table "{table.name}"',
                hint=f"its columns are {', '.join(field.name for field in table.fields)}",
            )
        found.append(field)
    return tuple(found)


def read_file(
    lake: DataFolder,
    table: Table,
    file: FileScan,
    snapshot: Snapshot,
    *,
    fields: Sequence[Field] | None = None,
    positions: np.ndarray[Any, np.dtype[np.int64]] | None = None,
    span: FileSpan | None = None,
) -> tuple[pa.Table, pa.Array]:
    """The rows of one file that are part of the snapshot, and their positions in the file.

    With `positions`, ascending, exactly those rows whatever their snapshot; only the row groups that hold them are read. With a `span` only
    rows of row groups that begin in it.
    """
    raw, kept = read_raw(lake, file, snapshot, fields=table.fields if fields is None else fields, positions=positions, span=span)
    return adapt_rows(raw, table.fields if fields is None else fields), kept


def read_raw(
    lake: DataFolder,
    file: FileScan,
    snapshot: Snapshot,
    *,
    fields: Sequence[Field],
    hidden: Sequence[int] = (),
    positions: np.ndarray[Any, np.dtype[np.int64]] | None = None,
    span: FileSpan | None = None,
) -> tuple[pa.Table, pa.Array]:
    """The same with the file's own column names and types, with ids; `hidden` are the ids of reserved columns to include.

    With a `span` only rows of row groups that begin in it.
    """
    mapping, in_path = lake.read_name_mapping(file.mapping_id) if file.mapping_id is not None else (None, {})
    wanted = {leaf for field in fields for leaf in (field.id,)} | set(hidden) | ({SNAPSHOT_ID} if file.until is not None else set())
    opened = _opened(lake, file.path, file.size_bytes, snapshot)
    with opened as parquet:
        own = parquet.schema_arrow
        schema = own if mapping is None else _mapped(own, mapping)
        if parquet.metadata.num_rows != file.record_count:
            raise _foreign(file.path, f"it has {parquet.metadata.num_rows} rows, the catalogue says {file.record_count}")
        places = [index for index, column in enumerate(schema) if _id(column) in wanted]
        if mapping is None and all(_id(column) is None for column in schema):
            raise _foreign(file.path, "its columns have no field ids")
        names = [own.field(index).name for index in places]
        groups, first, until = _groups_in(parquet, span)
        rows = None
        if names and positions is not None:
            # Files of two lakes may have the same path below their folders.
            rows = read_pages(opened.file, parquet, (lake.storage.readable(file.path), file.size_bytes), names, positions)
        if rows is None:
            rows = _read_columns(parquet, names, positions, groups) if names else pa.table({"": pa.nulls(until - first)}).select([])
        if names:
            rows = pa.Table.from_arrays(rows.select(names).columns, schema=pa.schema([schema.field(index) for index in places]))
    if in_path:
        rows = _with_path_values(rows, file, fields, in_path, until - first if positions is None else len(positions))
    if positions is not None:
        return rows, pa.array(positions)
    keep = _kept(lake, file, snapshot, rows, FileSpan(first, until))
    if keep is None:
        return rows, pa.array(np.arange(first, until))
    picked = rows.take(pa.array(keep)) if rows.num_columns else pa.table({"": pa.nulls(len(keep))}).select([])
    return picked, pa.array(keep + first)


_WITH_ROW_IDS: Cache[tuple[str, int], bool] = Cache("files with row ids")


def has_row_ids(lake: DataFolder, file: FileScan, snapshot: Snapshot) -> bool:
    """Whether a file stores the row ids of its rows, as files of changed rows do. The answer is cached, since files never change."""
    place = (lake.storage.readable(file.path), file.size_bytes)
    known = _WITH_ROW_IDS.get(place)
    if known is None:
        with _opened(lake, file.path, file.size_bytes, snapshot) as parquet:
            known = any(_id(column) == ROW_ID for column in parquet.schema_arrow)
        _WITH_ROW_IDS.put(place, known)
    return known


def _groups_in(parquet: pq.ParquetFile, span: FileSpan | None) -> tuple[list[int] | None, int, int]:
    """The row groups that begin in a span, None for all, and the positions from the first of their rows up to the end of the last."""
    if span is None:
        return None, 0, parquet.metadata.num_rows
    counts = [parquet.metadata.row_group(group).num_rows for group in range(parquet.metadata.num_row_groups)]
    begins = np.concatenate(([0], np.cumsum(counts, dtype=np.int64)))
    first, end = np.searchsorted(begins[:-1], (span.first, span.until)).tolist()
    return list(range(first, end)), int(begins[first]), int(begins[end])


def _read_columns(
    parquet: pq.ParquetFile, names: Sequence[str], positions: np.ndarray[Any, np.dtype[np.int64]] | None, only: list[int] | None
) -> pa.Table:
    if positions is None:
        return parquet.read(columns=names) if only is None else parquet.read_row_groups(only, columns=names)
    counts = [parquet.metadata.row_group(group).num_rows for group in range(parquet.metadata.num_row_groups)]
    ends = np.cumsum(counts, dtype=np.int64)
    owners = np.searchsorted(ends, positions, side="right")
    groups = np.unique(owners).tolist()
    parts = [take_rows(parquet, names, positions[owners == group] - (ends[group] - counts[group]), [group]) for group in groups]
    return pa.concat_tables(parts) if parts else parquet.schema_arrow.empty_table().select(names)


def _kept(
    lake: DataFolder, file: FileScan, snapshot: Snapshot, rows: pa.Table, span: FileSpan
) -> np.ndarray[Any, np.dtype[np.int64]] | None:
    """Those of the rows at these positions that are part of the snapshot, counted from the first; None for all of them."""
    if file.is_whole:
        return None
    mask = np.ones(file.record_count, dtype=bool)
    if file.deletes is not None:
        mask[read_positions(lake, file.deletes, snapshot, limit=file.record_count)] = False
    if file.positions:
        mask[np.asarray(file.positions)] = False
    mask = mask[span.first : span.until]
    if file.until is not None:
        added = find_column(rows, SNAPSHOT_ID)
        if added is None:
            raise _foreign(file.path, "it holds several snapshots but does not say which rows are whose")
        mask &= added.to_numpy() <= file.until
    return np.flatnonzero(mask)


def read_positions(lake: DataFolder, deletes: DeleteList, snapshot: Snapshot, *, limit: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The positions that a delete file deletes at the snapshot."""
    positions, at = read_delete_file(lake, deletes, snapshot, limit=limit)
    if at is not None:
        # Also where the catalogue does not say so: DuckDB's flush writes deletes of several snapshots and leaves `partial_max` empty.
        return positions[at <= snapshot.id]
    if deletes.until is not None:
        raise _foreign(deletes.path, "it holds several snapshots but does not say which deletes are whose")
    return positions


def read_delete_file(
    lake: DataFolder, deletes: DeleteList, snapshot: Snapshot, *, limit: int
) -> tuple[np.ndarray[Any, np.dtype[np.int64]], np.ndarray[Any, np.dtype[np.int64]] | None]:
    """All positions of a delete file, and the snapshots that deleted them where the file stores them."""
    if deletes.format == "puffin":
        return _read_deletion_vector(lake, deletes, snapshot, limit=limit)
    with _opened(lake, deletes.path, None, snapshot) as parquet:
        rows = parquet.read()
    positions = rows.column("pos").to_numpy().astype(np.int64) if "pos" in rows.column_names else None
    if positions is None or (len(positions) and (positions.min() < 0 or positions.max() >= limit)):
        raise _foreign(deletes.path, "its positions do not fit the data file")
    at = find_column(rows, SNAPSHOT_ID)
    return positions, None if at is None else at.to_numpy().astype(np.int64)


def _read_deletion_vector(
    lake: DataFolder, deletes: DeleteList, snapshot: Snapshot, *, limit: int
) -> tuple[np.ndarray[Any, np.dtype[np.int64]], np.ndarray[Any, np.dtype[np.int64]] | None]:
    try:
        with lake.storage.open(deletes.path) as file:
            positions, at = read_vectors(file.read())
    except StorageError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            raise lake.explain_missing(deletes.path, snapshot) from error
        raise
    except DamagedVector as error:
        raise StorageError(f'deletion vector "{deletes.path}" can\'t be read', detail=str(error), hint="restore it from a copy") from error
    if len(positions) and positions[-1] >= limit:
        raise _foreign(deletes.path, "its positions do not fit the data file")
    return positions, at


def find_column(rows: pa.Table, field_id: int) -> pa.ChunkedArray | None:
    """The column with a field id, if there is one."""
    index = next((i for i, column in enumerate(rows.schema) if _id(column) == field_id), None)
    return None if index is None else rows.column(index)


def _id(field: pa.Field) -> int | None:
    text = (field.metadata or {}).get(FIELD_ID)
    return int(text) if text is not None else None


# What pyarrow raises for bytes that are no Parquet; which of them depends on the byte.
_UNREADABLE = (pa.ArrowException, OSError, UnicodeDecodeError)


class _opened:  # noqa: N801  used as a statement's verb
    """A Parquet file, opened and checked to be complete and to be the one that the catalogue means."""

    def __init__(self, lake: DataFolder, path: str, size_bytes: int | None, snapshot: Snapshot) -> None:
        self.lake, self.path, self.size_bytes, self.snapshot = lake, path, size_bytes, snapshot
        self.stack: Any = None
        self.file: Any = None

    def __enter__(self) -> pq.ParquetFile:
        try:
            self.stack = self.lake.storage.open_arrow(self.path)
            file: BinaryIO = self.stack.__enter__()
            self.file = file
        except StorageError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                raise self.lake.explain_missing(self.path, self.snapshot) from error
            raise
        try:
            if self.size_bytes is not None and (size := file.seek(0, os.SEEK_END)) != self.size_bytes:
                raise _foreign(self.path, f"it has {size} bytes, the catalogue says {self.size_bytes}")
            file.seek(0)
            parquet = pq.ParquetFile(file, page_checksum_verification=True)
            name = (parquet.metadata.metadata or {}).get(OWN_NAME, b"").decode(errors="replace")
            if name and name != posixpath.basename(self.path):
                raise _foreign(self.path, f'it was written as "{name}"')
            return parquet
        except _UNREADABLE as error:
            self.stack.__exit__(None, None, None)
            _raise_of_store(self.path, error)
            raise StorageError(
                f'file "{self.path}" is not a whole Parquet file', detail=str(error).splitlines()[0], hint="restore it from a copy"
            ) from error
        except BaseException as error:
            self.stack.__exit__(None, None, None)
            _raise_of_store(self.path, error)
            raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stack.__exit__(None, None, None)
        _raise_of_store(self.path, error)
        if isinstance(error, _UNREADABLE):
            raise StorageError(
                f'file "{self.path}" is damaged', detail=str(error).splitlines()[0], hint="restore it from a copy"
            ) from error


def _raise_of_store(path: str, error: BaseException | None) -> None:
    """Raise an error of the disk or the store as what it is; it has a number, which Arrow's own errors of its kind lack."""
    if error is not None and (is_of_store(error) or (isinstance(error, OSError) and error.errno is not None)):
        with explain_storage_errors(path):
            raise error


def _foreign(path: str, detail: str) -> StorageError:
    return StorageError(f'file "{path}" is not the one that was committed', detail=detail, hint="restore it from a copy")


def _with_path_values(rows: pa.Table, file: FileScan, fields: Sequence[Field], in_path: dict[int, str], count: int) -> pa.Table:
    """Rows with the columns whose one value is a part of the file's path, as Hive lays out partitions."""
    parts = dict(part.split("=", 1) for part in file.path.split("/")[:-1] if "=" in part)
    columns, schema = list(rows.columns), list(rows.schema)
    for field in fields:
        if field.id not in in_path:
            continue
        text = parts.get(in_path[field.id])
        if text is None:
            raise _foreign(file.path, f'its path holds no value of column "{field.name}"')
        literal = None if text == _HIVE_NULL else unquote(text)
        columns.append(constant_column(literal, field, count))
        schema.append(arrow_field(field))
    return pa.Table.from_arrays(columns, schema=pa.schema(schema))


def _mapped(schema: pa.Schema, mapping: dict[tuple[int | None, str], tuple[int, int]]) -> pa.Schema:
    """A file's schema with the field ids that a mapping gives its names."""
    # The one part of a list has another name in every writer.
    only = {parent: target for (parent, _), target in mapping.items()}

    def named(field: pa.Field, parent: int | None) -> pa.Field:
        return marked(field, mapping.get((parent, field.name)))

    def marked(field: pa.Field, target: tuple[int, int] | None) -> pa.Field:
        column, field_id = target or (_UNMAPPED, None)
        kind = field.type
        if pa.types.is_struct(kind):
            kind = pa.struct([named(part, column) for part in kind])
        elif pa.types.is_list(kind):
            kind = pa.list_(marked(kind.value_field, only.get(column)))
        elif pa.types.is_map(kind):
            key, value = mapping.get((column, "key")), mapping.get((column, "value"))
            kind = pa.map_(marked(kind.key_field, key), marked(kind.item_field, value))
        metadata = None if field_id is None else {FIELD_ID: str(field_id).encode()}
        return pa.field(field.name, kind, field.nullable, metadata)

    return pa.schema([named(field, None) for field in schema])
