"""`read_relation`: a scan of the lake as a DataFrame, with exactly its files, columns by field id, and deletes applied.

Nothing is listed or inferred: the files, their schema and what is deleted from them come from the catalogue. Every file name is unique in a
lake, so positions are told apart by file name and row index.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

import numpy as np
import pyarrow as pa
from pyspark.sql import types as t
from pyspark.sql.connect import functions as f
from pyspark.sql.connect.dataframe import DataFrame as ConnectFrame
from pyspark.sql.connect.plan import SQL, SubqueryAlias
from pyspark.sql.pandas.types import from_arrow_schema

from platform_plugin.algebra.predicates.conditions import ALWAYS
from platform_plugin.algebra.types.blob_text import parse_blob
from platform_plugin.algebra.types.data_types import Field, Primitive, holds_interval, stored_field
from platform_plugin.engine.spark.frames.file_access import find_file_access
from platform_plugin.engine.spark.frames.intervals import read_interval_column
from platform_plugin.engine.spark.frames.schema import has_spark_type, to_spark_schema
from platform_plugin.engine.spark.frames.task_scan import PLACED, read_by_tasks, read_deletions_by_tasks
from platform_plugin.engine.spark.session.literals import to_literal
from platform_plugin.errors import StorageError, UnsupportedType
from platform_plugin.lake.files.files import ROW_ID, SNAPSHOT_ID
from platform_plugin.lake.read.inlined import read_inlined
from platform_plugin.lake.read.read import read_file, read_positions
from platform_plugin.lake.values.intervals import store_intervals

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import DataFrame

    from platform_plugin.algebra.predicates.conditions import Condition
    from platform_plugin.engine.spark.session.session import Session
    from platform_plugin.lake.catalogue.tables import Snapshot
    from platform_plugin.lake.lake import Lake
    from platform_plugin.lake.read.scan import FileScan, TableScan

# Hidden columns, selected by name where a statement has to find rows again. No column of a user's can have such a name.
FILE, POSITION, ROWID, PLACE = HIDDEN = PLACED

_IN_URLS = re.compile(r"[A-Za-z0-9_.!~*'(),;:$&+=@-]+")


def read_relation(
    session: Session,
    lake: Lake,
    scan: TableScan,
    *,
    columns: Sequence[str] | None = None,
    hidden: bool = False,
    where: Condition = ALWAYS,
) -> DataFrame:
    """A DataFrame of the scan's rows; those of them that are not within a condition may be left out.

    `columns` are those that a query needs, so that a column that Spark can't hold affects only queries that use it. With `hidden` there are
    also the file, the position in it, the row id, and the place: the row's number among all rows of the scan's files, one file after the
    other. Rows in the catalogue have no file and no place.
    """
    fields = _chosen(scan.table.fields, columns)
    places = _first_places(scan) if hidden else None
    ours = [file for file in scan.files if file.mapping_id is None]
    if ours and find_file_access(session, lake.storage).by_tasks:
        tested = [field for field in scan.table.fields if field.name in where.columns]
        rows = read_by_tasks(session, lake, scan.snapshot, fields, ours, places=places, where=where, tested=tested)
        parts = [finish_rows(rows, fields, hidden=hidden)]
    else:
        parts = _read_by_spark(session, lake, scan, ours, fields, places=places)
    foreign = [file for file in scan.files if file.mapping_id is not None]
    _refuse_large(scan, foreign, session.limits.foreign_file_bytes)
    local = _local_rows(lake, scan, fields, foreign, places)
    if local is not None or not parts:
        parts.append(_of_arrow(session, fields, local, hidden=hidden))
    frame = parts[0]
    for part in parts[1:]:
        frame = frame.unionAll(part)
    return frame


def _read_by_spark(
    session: Session, lake: Lake, scan: TableScan, files: Sequence[FileScan], fields: Sequence[Field], *, places: Mapping[int, int] | None
) -> list[DataFrame]:
    whole = [file for file in files if file.is_whole]
    groups = [read_files(session, lake, fields, whole, snapshot=scan.snapshot, places=places)] if whole else []
    partly = _by_unique_names([file for file in files if not file.is_whole])
    groups += [_surviving(session, lake, scan, group, fields, places=places) for group in partly]
    return [finish_rows(rows, fields, hidden=places is not None) for rows in groups]


def query_relations(
    session: Session, text: str, frames: Mapping[str, DataFrame], arguments: Mapping[str, Any] | Sequence[Any] = ()
) -> DataFrame:
    """A query over DataFrames by name, as one plan: no temporary view is made on the server, and nothing is sent before it runs."""
    views = [SubqueryAlias(cast("ConnectFrame", frame)._plan, name) for name, frame in frames.items()]  # noqa: SLF001  it has no public name
    named = {name: to_literal(value, name) for name, value in arguments.items()} if isinstance(arguments, dict) else {}
    placed = [] if isinstance(arguments, dict) else [to_literal(value, str(place)) for place, value in enumerate(arguments, start=1)]
    return ConnectFrame(SQL(text, placed or None, named or None, views), session.spark)


def _chosen(fields: Sequence[Field], columns: Sequence[str] | None) -> tuple[Field, ...]:
    if columns is None:
        return tuple(fields)
    wanted = {name.lower() for name in columns}
    # A query that needs no column at all, such as count(*), still needs one to count.
    found = tuple(field for field in fields if field.name.lower() in wanted)
    return found or tuple(sorted(fields, key=lambda field: not has_spark_type(field.type))[:1])


def _by_unique_names(files: Sequence[FileScan]) -> list[list[FileScan]]:
    """Groups in which no two files have the same name; nearly always one."""
    seen: Counter[str] = Counter()
    groups: list[list[FileScan]] = []
    for file in files:
        name = file_name(file.path)
        if seen[name] == len(groups):
            groups.append([])
        groups[seen[name]].append(file)
        seen[name] += 1
    return groups


def _first_places(scan: TableScan) -> dict[int, int]:
    """The places of the first rows of files, by the files' ids."""
    counts = [file.record_count for file in scan.files]
    return dict(zip((file.id for file in scan.files), accumulate(counts, initial=0), strict=False))


def file_name(path: str) -> str:
    """The name by which Spark tells the file of a row."""
    return path.rsplit("/", 1)[-1]


def read_files(
    session: Session,
    lake: Lake,
    fields: Sequence[Field],
    files: Sequence[FileScan],
    *,
    snapshot: Snapshot,
    places: Mapping[int, int] | None,
    dated: bool = False,
) -> DataFrame:
    """The rows of files as they lie there, without looking into folders or at anything but these files."""
    if find_file_access(session, lake.storage).by_tasks:
        untouched = [file._replace(until=None, deletes=None, positions=()) for file in files]
        return read_by_tasks(session, lake, snapshot, fields, untouched, places=places, dated=dated)
    hidden = places is not None
    stored = to_spark_schema(list(map(stored_field, fields))).fields
    schema = t.StructType([_filled(part, field) for part, field in zip(stored, fields, strict=True)])
    if dated:
        schema = schema.add(t.StructField("_added", t.LongType(), metadata={"parquet.field.id": SNAPSHOT_ID}))
    if hidden:
        schema = schema.add(t.StructField("_own_rowid", t.LongType(), metadata={"parquet.field.id": ROW_ID}))
    reader = session.spark.read.schema(schema).option("recursiveFileLookup", "true").option("__globPaths__", "false")
    frame: DataFrame = reader.parquet(*(lake.storage.uri(file.path) for file in files))
    if hidden or dated or any(not file.is_whole for file in files):
        name = _name_in_rows(file.path for file in files)
        frame = frame.select("*", name.alias(FILE), f.col("_metadata.row_index").alias(POSITION))
    for wanted in filter(_is_of_bytes, fields):
        frame = frame.withColumn(wanted.name, _with_byte_default(wanted))
    return frame if places is None else _numbered(session, frame, files, places)


def _is_of_bytes(field: Field) -> bool:
    return field.initial_default is not None and field.type in (Primitive("blob"), Primitive("uuid"))


def _filled(part: t.StructField, field: Field) -> t.StructField:
    """A column as Spark's reader takes it: it fills all types into rows of older files but bytes, which go as text never decoded."""
    if not _is_of_bytes(field):
        return part
    metadata = {key: value for key, value in part.metadata.items() if key != "EXISTS_DEFAULT"}
    if field.type == Primitive("blob"):
        default = parse_blob(str(field.initial_default)).hex()
        return t.StructField(part.name, t.StringType(), metadata=metadata | {"EXISTS_DEFAULT": f"CAST(X'{default}' AS STRING)"})
    if field.nullable:
        raise UnsupportedType(
            f'column "{field.name}" of type UUID has a default for older rows, which Spark can\'t tell from NULL',
            hint="leave the column out of the query, or read it through Arrow",
        )
    return t.StructField(part.name, part.dataType, metadata=metadata)


def _with_byte_default(field: Field) -> Any:
    if field.type == Primitive("blob"):
        return quoted_column(field.name).cast("binary")
    return f.coalesce(quoted_column(field.name), f.expr(f"X'{UUID(str(field.initial_default)).hex}'"))


def _name_in_rows(paths: Iterable[str]) -> Any:
    """The name of the file that a row is of. Spark gives it as part of a URL, in which blanks and such have other names."""
    name = f.col("_metadata.file_name")
    if all(_IN_URLS.fullmatch(file_name(path)) for path in paths):
        return name
    return f.url_decode(f.replace(name, f.lit("+"), f.lit("%2B")))


def _numbered(session: Session, frame: DataFrame, files: Sequence[FileScan], places: Mapping[int, int]) -> DataFrame:
    """Rows of files with their row ids and places: numbers of files' first rows, which the plan knows, and the position."""
    names = [file_name(file.path) for file in files]
    sums = [zlib.crc32(name.encode()) for name in names]
    starts, firsts = [file.row_id_start for file in files], [places[file.id] for file in files]
    if len(files) <= session.limits.plan_files and len(set(sums)) == len(sums):
        start, first = _by_checksum(sums, starts), _by_checksum(sums, firsts)
    else:
        known = pa.table({"_start_file": names, "_start": pa.array(starts, pa.int64()), "_first": pa.array(firsts, pa.int64())})
        begun = f.broadcast(arrow_frame(session, known))
        frame = frame.join(begun, frame[FILE] == begun["_start_file"], "inner")
        start, first = f.col("_start"), f.col("_first")
    return frame.withColumns({ROWID: f.coalesce(f.col("_own_rowid"), start + f.col(POSITION)), PLACE: first + f.col(POSITION)})


def _by_checksum(sums: Sequence[int], values: Sequence[int | None]) -> Any:
    """A number of each file, looked up by the checksum of its name: that takes a few nanoseconds a row, where a join takes thirty."""
    numbers = [0 if value is None else value for value in values]
    if len(numbers) == 1:
        return f.lit(numbers[0]).cast("bigint")
    known = ", ".join(f"{found}L, {number}L" for found, number in zip(sums, numbers, strict=True))
    # What can't be NULL is dealt with faster, and no row can be of another file.
    wrong = "CAST(raise_error('a file that was not asked for') AS BIGINT)"
    return f.expr(f"coalesce(element_at(map({known}), crc32(CAST(`{FILE}` AS BINARY))), {wrong}, 0L)")


def _surviving(
    session: Session, lake: Lake, scan: TableScan, files: Sequence[FileScan], fields: Sequence[Field], *, places: Mapping[int, int] | None
) -> DataFrame:
    """The rows of files that are part of the snapshot: added before it, and not deleted by then."""
    dated = [file for file in files if file.until is not None]
    frames: list[DataFrame] = []
    for group, is_dated in ((dated, True), ([file for file in files if file.until is None], False)):
        if group:
            frame = read_files(session, lake, fields, group, snapshot=scan.snapshot, places=places, dated=is_dated)
            if is_dated:
                frame = frame.where(f.col("_added") <= scan.snapshot.id).drop("_added")
            frames.append(frame)
    frame = frames[0] if len(frames) == 1 else frames[0].unionByName(frames[1])
    if not any(file.deletes is not None or file.positions for file in files):
        return frame
    gone = f.broadcast(find_deleted(session, lake, scan, files))
    return frame.join(gone, (frame[FILE] == gone["_gone_file"]) & (frame[POSITION] == gone["_gone_position"]), "left_anti")


def find_deleted(session: Session, lake: Lake, scan: TableScan, files: Sequence[FileScan]) -> DataFrame:
    """The deleted positions of files."""
    listed = sum(file.deletes.delete_count for file in files if file.deletes is not None)
    known: list[tuple[str, Any]] = [(file_name(file.path), np.asarray(file.positions, dtype=np.int64)) for file in files if file.positions]
    most = session.limits.plan_positions
    # Spark has no reader for deletion vectors, which are small for what they delete.
    by_spark = [file for file in files if file.deletes is not None and listed > most and file.deletes.format == "parquet"]
    left = {file.id for file in by_spark}
    known += [
        (file_name(file.path), read_positions(lake, file.deletes, scan.snapshot, limit=file.record_count))
        for file in files
        if file.deletes is not None and file.id not in left
    ]
    if not by_spark:
        return _positions_frame(session, known)
    by_tasks = find_file_access(session, lake.storage).by_tasks
    read = partial(read_deletions_by_tasks, session, lake, scan.snapshot) if by_tasks else partial(_read_delete_files, session, lake, scan)
    frame = read(by_spark)
    return frame.unionAll(_positions_frame(session, known)) if known else frame


def _positions_frame(session: Session, known: Sequence[tuple[str, Any]]) -> DataFrame:
    names = np.repeat([name for name, _ in known], [len(positions) for _, positions in known])
    table = pa.table(
        {"_gone_file": pa.array(names.tolist(), pa.string()), "_gone_position": pa.array(np.concatenate([p for _, p in known]), pa.int64())}
    )
    return arrow_frame(session, table)


def _read_delete_files(session: Session, lake: Lake, scan: TableScan, files: Sequence[FileScan]) -> DataFrame:
    listed = [(file, file.deletes) for file in files if file.deletes is not None]
    schema = t.StructType([t.StructField("pos", t.LongType()), t.StructField("_ducklake_internal_snapshot_id", t.LongType())])
    read = session.spark.read.schema(schema).option("recursiveFileLookup", "true").option("__globPaths__", "false")
    frame: DataFrame = read.parquet(*(lake.storage.uri(deletes.path) for _, deletes in listed))
    frame = frame.select("*", _name_in_rows(deletes.path for _, deletes in listed).alias("_list"))
    # A position without a date counts from the delete file's own snapshot on, which the scan has checked.
    frame = frame.where(f.coalesce(f.col("_ducklake_internal_snapshot_id"), f.lit(0)) <= scan.snapshot.id)
    names = {"_of": [file_name(deletes.path) for _, deletes in listed], "_gone_file": [file_name(file.path) for file, _ in listed]}
    owners = f.broadcast(arrow_frame(session, pa.table(names)))
    return frame.join(owners, frame["_list"] == owners["_of"]).select("_gone_file", f.col("pos").alias("_gone_position"))


def finish_rows(frame: DataFrame, fields: Sequence[Field], *, hidden: bool = False, also: Sequence[str] = ()) -> DataFrame:
    """The columns of the table in their order, in the form in which SQL sees them, and then hidden ones."""
    return frame.select(*map(_shown, fields), *(HIDDEN if hidden else also))


def _shown(field: Field) -> Any:
    if field.type == Primitive("uuid"):
        return _uuid_text(field).alias(field.name)
    column = quoted_column(field.name)
    return read_interval_column(column, field).alias(field.name) if holds_interval(field) else column


def quoted_column(name: str) -> Any:
    """A column by its name, whatever is in it."""
    return f.col("`" + name.replace("`", "``") + "`")


def _uuid_text(field: Field) -> Any:
    digits = f.lower(f.hex(quoted_column(field.name)))
    return f.regexp_replace(digits, "^(.{8})(.{4})(.{4})(.{4})(.{12})$", "$1-$2-$3-$4-$5")


@dataclass(frozen=True, slots=True, kw_only=True)
class _LocalFiles:
    """Rows that the driver reads, with their files and positions, or without a file for rows in the catalogue."""

    rows: pa.Table
    files: list[str | None]
    positions: list[int | None]
    row_ids: list[int]
    places: list[int | None] = field(default_factory=list)


def _refuse_large(scan: TableScan, foreign: Sequence[FileScan], most: int) -> None:
    size = sum(file.size_bytes for file in foreign)
    if size > most:
        raise StorageError(
            f'table "{scan.table.name}" has {size} bytes in files without field ids',
            hint="rewrite it with the client that added them, or raise the limit foreign_file_bytes",
        )


def _local_rows(
    lake: Lake, scan: TableScan, fields: Sequence[Field], foreign: Sequence[FileScan], firsts: Mapping[int, int] | None
) -> _LocalFiles | None:
    """Rows that are kept in the catalogue, or in files that name their columns in their own way."""
    tables: list[pa.Table] = []
    found = _LocalFiles(rows=pa.table({}), files=[], positions=[], row_ids=[])
    for file in foreign:
        rows, places = read_file(lake, scan.table, file, scan.snapshot)
        positions = places.to_pylist()
        tables.append(rows)
        found.files.extend([file_name(file.path)] * len(positions))
        found.positions.extend(positions)
        found.row_ids.extend((file.row_id_start or 0) + position for position in positions)
        found.places.extend((firsts or {}).get(file.id, 0) + position for position in positions)
    if scan.inlined:
        with lake.reading() as connection:
            for inlined in scan.inlined:
                rows, ids, _ = read_inlined(connection, inlined, scan.table, scan.snapshot)
                tables.append(rows)
                found.files.extend([None] * len(ids))
                found.positions.extend([None] * len(ids))
                found.row_ids.extend(ids)
                found.places.extend([None] * len(ids))
    if not tables:
        return None
    return replace(found, rows=pa.concat_tables(tables).select([field.name for field in fields]))


def _of_arrow(session: Session, fields: Sequence[Field], local: _LocalFiles | None, *, hidden: bool) -> DataFrame:
    stored = to_spark_schema(list(map(stored_field, fields))).fields
    schema = t.StructType([t.StructField(field.name, field.dataType) for field in stored])
    if hidden:
        schema = (
            schema.add(t.StructField(FILE, t.StringType()))
            .add(t.StructField(POSITION, t.LongType()))
            .add(t.StructField(ROWID, t.LongType()))
            .add(t.StructField(PLACE, t.LongType()))
        )
    if local is None:
        frame = session.spark.createDataFrame([], schema)
    else:
        rows = store_intervals(local.rows, fields)
        columns = [column.cast(pa.binary(16)) if isinstance(column.type, pa.UuidType) else column for column in rows.columns]
        if hidden:
            numbers = (pa.array(own, pa.int64()) for own in (local.positions, local.row_ids, local.places))
            columns += [pa.array(local.files, pa.string()), *numbers]
        frame = session.spark.createDataFrame(pa.table(columns, names=schema.names), schema)
    return finish_rows(frame, fields, hidden=hidden)


def frame_of(session: Session, fields: Sequence[Field], rows: pa.Table) -> DataFrame:
    """The client's rows as a DataFrame with the columns of a table, in the types that SQL sees; they are sent with the query."""
    return _of_arrow(session, fields, _LocalFiles(rows=rows, files=[], positions=[], row_ids=[]), hidden=False)


def arrow_relation(session: Session, fields: Sequence[Field], rows: pa.Table) -> DataFrame:
    """A small Arrow table with columns of the lake as a DataFrame; it is sent with the query."""
    return _of_arrow(session, fields, _LocalFiles(rows=rows, files=[], positions=[], row_ids=[]), hidden=False)


def arrow_frame(session: Session, table: pa.Table) -> DataFrame:
    """A small Arrow table as a DataFrame; it is sent with the query."""
    # Spark infers nothing from no rows.
    frame: DataFrame = session.spark.createDataFrame(table, None if table.num_rows else from_arrow_schema(table.schema))
    return frame
