"""`run_write`: writes a DataFrame as files of a table, for a commit to append."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as t
from pyspark.sql.connect import functions as f

from platform_plugin.algebra.types.data_types import Primitive, holds_interval
from platform_plugin.engine.spark.frames.assignment import checked_column, truncate_times
from platform_plugin.engine.spark.frames.file_access import find_file_access
from platform_plugin.engine.spark.frames.scan import ROWID
from platform_plugin.engine.spark.frames.schema import NOT_WRITTEN_BY_SPARK, default_value_sql, to_spark_schema
from platform_plugin.engine.spark.frames.task_write import write_by_tasks
from platform_plugin.engine.spark.tasks.writing import gather_batches
from platform_plugin.errors import InvalidValue
from platform_plugin.lake.catalogue.identifiers import new_uuid
from platform_plugin.lake.files.file_division import TOO_LARGE, rows_for
from platform_plugin.lake.files.files import ROW_ID, ROW_ID_FIELD, fit_rows
from platform_plugin.lake.read.before_images import ImageRows, write_images
from platform_plugin.lake.read.changes import nullable_fields

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from datetime import timedelta

    from pyspark.sql import DataFrame

    from platform_plugin.algebra.types.data_types import Field
    from platform_plugin.engine.spark.session.job import ProgressHandler
    from platform_plugin.engine.spark.session.metrics import JobMetrics
    from platform_plugin.engine.spark.session.session import Session
    from platform_plugin.lake.catalogue.tables import Table
    from platform_plugin.lake.commit.before_images import BeforeImages
    from platform_plugin.lake.files.files import DataFile
    from platform_plugin.lake.lake import Lake
    from platform_plugin.lake.read.before_images import ImageDates


def run_write(
    session: Session,
    lake: Lake,
    table: Table,
    frame: DataFrame,
    *,
    timeout: timedelta | None = None,
    progress: ProgressHandler | None = None,
) -> tuple[list[DataFile], JobMetrics]:
    """Write a DataFrame that has the table's columns; each task writes files of the table. On an error all of them are removed."""
    if not is_written_by_spark(table):
        return _write_by_driver(session, lake, table, frame, timeout=timeout, progress=progress)
    return _write_in_tasks(session, lake, table, frame, to_spark_schema(table.fields), timeout=timeout, progress=progress)


def is_written_by_spark(table: Table) -> bool:
    """Whether Spark's tasks can write files of a table: a few types pass through the client."""
    return not any(_beyond_spark(field) for field in table.fields)


def _write_in_tasks(
    session: Session,
    lake: Lake,
    table: Table,
    frame: DataFrame,
    schema: t.StructType,
    *,
    timeout: timedelta | None,
    progress: ProgressHandler | None,
) -> tuple[list[DataFile], JobMetrics]:
    """Each task writes files with the columns of a schema; files much larger than the table's target are divided."""
    if find_file_access(session, lake.storage).by_tasks:
        return write_by_tasks(session, lake, table, frame, timeout=timeout, progress=progress)
    folders = [f"{table.path}{new_uuid()}" for _ in range(2)]
    try:
        with session.job(timeout=timeout, progress=progress) as job:
            files = write_folder(lake, table, frame, folders[0])
            target = table.file_options.target_bytes
            large = [] if target is None else [file for file in files if file.size_bytes > target * TOO_LARGE]
            if target is not None and large:
                rows = min(rows_for(target, size_bytes=file.size_bytes, rows=file.record_count) for file in large)
                whole = session.spark.read.schema(schema).parquet(*(lake.storage.uri(file.path) for file in large))
                parts = whole.select(*[with_field_ids(part) for part in whole.schema.fields])
                divided = write_folder(lake, table, parts, folders[1], rows_per_file=rows)
                lake.storage.delete(file.path for file in large)
                files = [file for file in files if file not in large] + divided
    except BaseException:
        lake.storage.delete(path for folder in folders for path, _ in list(lake.storage.listing(folder)))
        raise
    lake.storage.delete(file.path for file in files if not file.record_count)
    return [file for file in files if file.record_count], job.metrics()


# Spark's `lz4` is a framing that only Hadoop reads.
_SPARK_CODECS = {"none": "uncompressed", "lz4": "lz4_raw"}
_MOST_ROWS = 2**31 - 1


def write_folder(lake: Lake, table: Table, frame: DataFrame, folder: str, *, rows_per_file: int = 0) -> list[DataFile]:
    """Let Spark write into a folder of its own, one file for each task or each so many rows of it."""
    options = table.file_options
    writer = frame.write.mode("append").option("compression", _SPARK_CODECS.get(options.compression, options.compression))
    if options.row_group_rows is not None:
        writer = writer.option("parquet.block.row.count.limit", min(options.row_group_rows, _MOST_ROWS))
    if rows_per_file:
        writer = writer.option("maxRecordsPerFile", rows_per_file)
    writer.parquet(lake.storage.uri(folder))
    paths = [path for path, info in lake.storage.listing(folder) if path.endswith(".parquet") and info["type"] == "file"]
    return lake.describe_files(table, sorted(paths)) if paths else []


OLD = "\x1fold_"
"""What the name of a column begins with that has the values before an update."""


def shape_frame(
    frame: DataFrame, fields: Sequence[Field], given: Sequence[str], *, changed: Collection[str] | None = None, parsed: bool = False
) -> DataFrame:
    """A query's columns, in the order of `given`, as the columns of a table: values by the assignment rule, defaults filled in.

    For an update, `changed` names its columns: the others are written as they are read, and with them the row ids, and the values that the
    columns had, where these are `given`. Records that were
    `parsed` for these columns have NULL in place of values that do not fit, and times are truncated to the column's precision.
    """
    if len(given) != len(frame.columns):
        raise InvalidValue(f"{len(given)} columns are to be filled, the query gives {len(frame.columns)}", hint="name the columns it fills")
    names, now = {name.lower(): position for position, name in enumerate(given)}, datetime.now(UTC)
    if len(names) < len(given):
        twice = next(name for position, name in enumerate(given) if names[name.lower()] != position)
        raise InvalidValue(f'column "{twice}" is given twice', hint="give each column one value")
    placed = frame.toDF(*[f"_{position}" for position in range(len(given))])
    schema = _texts(fields) if any(map(_beyond_spark, fields)) else to_spark_schema(fields)
    columns: list[Any] = []
    touched = None if changed is None else {name.lower() for name in changed}
    for field in fields:
        position = names.get(field.name.lower())
        if position is None:
            value = f.expr(default_value_sql(field, now))
        elif touched is not None and field.name.lower() not in touched:
            value = f.col(f"_{position}")
        elif parsed:
            value = truncate_times(f.col(f"_{position}"), field)
        else:
            value = checked_column(f.col(f"_{position}"), frame.schema.fields[position].dataType, field)
        columns.append(value.alias(field.name))
    if changed is not None:
        columns.append(f.col(f"_{names[ROWID]}").alias("_ducklake_internal_row_id"))
        schema = schema.add(t.StructField("_ducklake_internal_row_id", t.LongType(), metadata={"parquet.field.id": ROW_ID}))
        for field, part in zip(fields, list(schema.fields), strict=False):
            position = names.get((OLD + field.name).lower())
            if position is not None:
                columns.append(f.col(f"_{position}").alias(OLD + field.name))
                schema = schema.add(t.StructField(OLD + field.name, part.dataType))
    # `to` casts as INSERT does and refuses what would lose something, but leaves ids off columns that need no cast.
    cast = placed.select(*columns).to(schema)
    return cast.select(*[with_field_ids(part) for part in schema.fields])


def with_field_ids(part: t.StructField) -> Any:
    """A column by its name, with the field id that it has in files."""
    column = f.col("`" + part.name.replace("`", "``") + "`")
    nested = isinstance(part.dataType, t.StructType | t.ArrayType | t.MapType)
    kept = {key: value for key, value in (part.metadata or {}).items() if key == "parquet.field.id"}
    return (column.cast(part.dataType) if nested else column).alias(part.name, metadata=kept)


def _beyond_spark(field: Field) -> bool:
    return holds_interval(field) or any(
        isinstance(part.type, Primitive) and part.type.name in NOT_WRITTEN_BY_SPARK for part in field.walk()
    )


def _texts(fields: Sequence[Field]) -> t.StructType:
    """The schema in which rows come to the driver when it writes them: UUIDs as text."""
    plain = to_spark_schema(fields).fields
    return t.StructType(
        [
            t.StructField(s.name, t.StringType() if field.type == Primitive("uuid") else s.dataType)
            for s, field in zip(plain, fields, strict=True)
        ]
    )


def _write_by_driver(
    session: Session, lake: Lake, table: Table, frame: DataFrame, *, timeout: timedelta | None, progress: ProgressHandler | None
) -> tuple[list[DataFile], JobMetrics]:
    """Types that Spark does not write pass through this process, batch by batch."""
    with session.arrow(frame, timeout=timeout, progress=progress) as stream:
        uuids = {field.name for field in table.fields if field.type == Primitive("uuid")}
        first = pa.schema([pa.field(part.name, pa.uuid()) if part.name in uuids else part for part in stream.schema])

        def batches() -> Iterator[pa.RecordBatch]:
            for batch in stream:
                columns = [
                    _parsed(column) if name in uuids else column for name, column in zip(batch.schema.names, batch.columns, strict=True)
                ]
                yield pa.RecordBatch.from_arrays(columns, schema=first)

        files = lake.write_files(table, pa.RecordBatchReader.from_batches(first, batches()))
    lake.storage.delete(file.path for file in files if not file.record_count)
    return [file for file in files if file.record_count], stream.metrics()


def _parsed(column: pa.Array) -> pa.Array:
    try:
        values = [None if text is None else UUID(text).bytes for text in column.to_pylist()]
    except ValueError as error:
        wrong = pc.filter(column, column.is_valid())[0].as_py()
        raise InvalidValue(f'"{wrong}" is not a UUID', hint="write it as 8-4-4-4-12 hexadecimal digits") from error
    return pa.array(values, pa.binary(16)).cast(pa.uuid())


def run_update_write(
    session: Session,
    lake: Lake,
    table: Table,
    frame: DataFrame,
    *,
    changed: Collection[str],
    row_count: int,
    images: ImageDates | None = None,
    timeout: timedelta | None = None,
    progress: ProgressHandler | None = None,
) -> tuple[list[DataFile], list[BeforeImages] | None]:
    """Write changed rows as files that store their row ids, and with `images` also what they were, else None.

    The frame has the table's columns, the row id, and then the old values of the changed columns. More than `before_image_rows` rows are
    written by Spark's tasks.
    """
    names = [field.name for field in table.fields]
    touched = {name.lower() for name in changed}
    old = {name: OLD + name for name in names if name.lower() in touched}
    with session.job(timeout=timeout):
        columns = shape_frame(frame, table.fields, [*names, ROWID, *old.values()], changed=changed)
        if images is None:
            columns = columns.drop(*old.values())
    if images is None and row_count > session.limits.before_image_rows and is_written_by_spark(table):
        number = t.StructField(ROW_ID_FIELD.name, t.LongType(), metadata={"parquet.field.id": ROW_ID})
        schema = to_spark_schema(table.fields).add(number)
        return _write_in_tasks(session, lake, table, columns, schema, timeout=timeout, progress=progress)[0], None
    files: list[DataFile] = []
    kept: list[BeforeImages] = []
    try:
        with session.arrow(columns, timeout=timeout, progress=progress) as stream:
            for part in gather_batches(stream, session.limits.write_memory_bytes):
                row_ids = part.column("_ducklake_internal_row_id")
                files += lake.write_files(table, _of_table(part, table, {name: name for name in names}), row_ids=row_ids)
                if images is not None and part.num_rows:
                    before = fit_rows(_of_table(part, table, {name: old.get(name, name) for name in names}), nullable_fields(table))
                    numbers = row_ids.to_numpy()
                    kept.append(write_images(lake, table, ImageRows(rows=before, row_ids=numbers, added=images.find(numbers))))
    except BaseException:
        lake.discard([*files, *kept])
        raise
    return files, None if images is None else kept


def _of_table(part: pa.Table, table: Table, sources: Mapping[str, str]) -> pa.Table:
    """The columns of a table from those of a result, in which UUIDs are texts."""
    rows = {name: part.column(source) for name, source in sources.items()}
    for field in table.fields:
        if field.type == Primitive("uuid"):
            rows[field.name] = pa.chunked_array([_parsed(chunk) for chunk in rows[field.name].chunks], pa.uuid())
    return pa.table(rows)
