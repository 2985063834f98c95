"""`read_files`: the records of a batch of files as one DataFrame, with those that do not fit marked."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote

from pyspark.sql import types as t
from pyspark.sql.connect import functions as f

from platform_plugin.algebra.types.data_types import Field, Primitive
from platform_plugin.engine.spark.frames.file_access import find_place_access
from platform_plugin.engine.spark.frames.schema import default_value_sql, to_spark_type
from platform_plugin.engine.spark.frames.source_frames import read_parquet_by_tasks, read_text_by_tasks
from platform_plugin.engine.spark.frames.text_options import text_options
from platform_plugin.engine.spark.tasks.source_files import FILE_COLUMN, INDEX_COLUMN, VALUE_COLUMN
from platform_plugin.lake.files.sources import split_place
from platform_plugin.relations.streams.feeds.declaration import FilesFeed, has_csv_lines, has_json_lines
from platform_plugin.relations.streams.feeds.screening import (
    BROKEN,
    CORRUPT,
    PARTITION,
    POSITION,
    RAW,
    SOURCE,
    VALUE,
    WHY,
    column,
    parse_reason,
    parse_records,
    reader_options,
    record_schema,
    record_type,
    screen_records,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from platform_plugin.engine.spark.session.session import Session
    from platform_plugin.relations.streams.feeds.file_shapes import Shape
    from platform_plugin.relations.streams.feeds.sources import SourceFile

_HADOOP = {"s3": "s3a", "local": "file"}
# Spark looks at more files than this by a job of its own, which for files of this machine takes longer than looking.
_LISTED_BY_JOB, _LISTED_BY_DRIVER = 32, 100_000
# Signs that no text has in this order, which therefore divide no line and are no value.
_NO_TEXT = "\x1f\x1e\x1f\x1e"
_UUID_PARTS = "(.{8})(.{4})(.{4})(.{4})(.{12})"


def read_files(
    session: Session,
    feed: FilesFeed,
    groups: Sequence[tuple[Shape, tuple[SourceFile, ...]]],
    fields: Sequence[Field],
    *,
    as_written: bool = False,
) -> DataFrame:
    """The records of all files with the columns of the stream, and the columns for screening beside them.

    With `as_written` each record of a CSV file has its text in the file beside it, which takes longer to read.
    """
    if sum(len(files) for _, files in groups) > _LISTED_BY_JOB and all("://" not in file.uri for _, files in groups for file in files):
        session.spark.conf.set("spark.sql.sources.parallelPartitionDiscovery.threshold", _LISTED_BY_DRIVER)
    frame: DataFrame | None = None
    for shape, files in groups:
        paths = [spark_path(file.uri) for file in files]
        if find_place_access(session, files[0].uri, scheme=split_place(files[0].uri).scheme).by_tasks:
            part = _read_by_tasks(session, feed, [file.uri for file in files], shape, fields)
        elif feed.format == "parquet":
            part = _parquet(session, paths, shape, fields)
        elif as_written and has_csv_lines(feed):
            part = _csv_lines(session, feed, paths, shape, fields)
        else:
            part = _lines(session, feed, paths, fields) if has_json_lines(feed) else _records(session, feed, paths, shape, fields)
        frame = part if frame is None else frame.unionAll(part)
    if frame is None:
        message = "there is nothing to read"
        raise ValueError(message)
    return screen_records(frame, fields, feed.format)


def may_be_malformed(feed: FilesFeed, groups: Sequence[tuple[Shape, tuple[SourceFile, ...]]], fields: Sequence[Field]) -> bool:
    """Whether a record of the files may not fit. Values of Parquet files have types, and those of the column's type always fit."""
    known = {field.name.lower(): field for field in fields}
    parts = [(part, known[part.name.lower()]) for shape, _ in groups for part in shape.columns]
    return feed.format != "parquet" or any(part.type != field.type or (part.nullable and not field.nullable) for part, field in parts)


def spark_path(uri: str) -> str:
    r"""The path by which Spark reads exactly this file, with signs escaped that would make it a pattern.

    >>> spark_path("/data/a[1].csv"), spark_path("s3://bucket/b.csv")
    ('file:///data/a\\[1\\].csv', 's3a://bucket/b.csv')
    """
    scheme, found, rest = uri.partition("://")
    scheme, rest = (scheme, rest) if found else ("file", uri)
    return f"{_HADOOP.get(scheme, scheme)}://" + re.sub(r"([\[\]{}*?\\])", r"\\\1", rest)


def source_key(name: str) -> str:
    """The file's URI for Spark's name of it, `_metadata.file_path`.

    >>> source_key("file:/data/a%20b.csv"), source_key("s3a://bucket/b%2525.csv")
    ('/data/a b.csv', 's3://bucket/b%25.csv')
    """
    scheme, _, rest = unquote(name).partition(":")
    return "/" + rest.lstrip("/") if scheme == "file" else f"{'s3' if scheme == 's3a' else scheme}:{rest}"


def _read_by_tasks(session: Session, feed: FilesFeed, uris: Sequence[str], shape: Shape, fields: Sequence[Field]) -> DataFrame:
    """The same where tasks in Python read the files: all records of text come as they are written."""
    if feed.format == "parquet":
        rows = read_parquet_by_tasks(session, uris, _parquet_schema(shape))
        return _fit_columns(rows, shape, fields, source=column(FILE_COLUMN), position=column(INDEX_COLUMN))
    is_json = feed.format == "json"
    records = read_text_by_tasks(session, uris, feed.reader, is_json=is_json).select(
        column(VALUE_COLUMN).alias(VALUE),
        column(FILE_COLUMN).alias(SOURCE),
        f.lit(None).cast("int").alias(PARTITION),
        f.lit(None).cast("bigint").alias(POSITION),
    )
    if is_json:
        return parse_records(records, fields, "json", feed.reader, refuses_extra_fields=feed.extra_fields == "quarantine")
    return _parse_csv(records, feed, shape, fields)


def _lines(session: Session, feed: FilesFeed, paths: Sequence[str], fields: Sequence[Field]) -> DataFrame:
    """A JSON object a line. The line itself is at hand, so that bytes which are not UTF-8 are found and nothing is told inexactly."""
    reader: Any = session.spark.read
    if "compression" in feed.reader:
        reader = reader.option("compression", feed.reader["compression"])
    lines = cast("DataFrame", reader.text(list(paths)))
    records = lines.where(f.trim(column("value")) != "").select(
        column("value").cast("binary").alias(VALUE),
        f.col("_metadata.file_path").alias(SOURCE),
        f.lit(None).cast("int").alias(PARTITION),
        f.lit(None).cast("bigint").alias(POSITION),
    )
    return parse_records(records, fields, "json", feed.reader, refuses_extra_fields=feed.extra_fields == "quarantine")


def _csv_lines(session: Session, feed: FilesFeed, paths: Sequence[str], shape: Shape, fields: Sequence[Field]) -> DataFrame:
    """A CSV record a line. Spark's reader finds the lines and leaves the header out, told that a line is one value without quotes."""
    reader: Any = session.spark.read.schema(t.StructType([t.StructField("value", t.StringType())]))
    lines = text_options({name: value for name, value in feed.reader.items() if name in ("header", "encoding", "compression")})
    for name, value in {**lines, "sep": _NO_TEXT, "quote": "", "nullValue": _NO_TEXT}.items():
        reader = reader.option(name, value)
    records = cast("DataFrame", reader.csv(list(paths))).select(
        column("value").cast("binary").alias(VALUE),
        f.col("_metadata.file_path").alias(SOURCE),
        f.lit(None).cast("int").alias(PARTITION),
        f.lit(None).cast("bigint").alias(POSITION),
    )
    return _parse_csv(records, feed, shape, fields)


def _parse_csv(records: DataFrame, feed: FilesFeed, shape: Shape, fields: Sequence[Field]) -> DataFrame:
    values = {name: value for name, value in feed.reader.items() if name not in ("header", "encoding", "compression")}
    parsed = parse_records(records, shape.columns, "csv", values)
    return parsed.select(*_fill_columns(shape, fields), *[column(name) for name in (SOURCE, PARTITION, POSITION, RAW, BROKEN, WHY)])


def _fill_columns(shape: Shape, fields: Sequence[Field]) -> list[Any]:
    """The columns of the stream, those that a file lacks with their defaults."""
    given = {part.name.lower() for part in shape.columns}
    return [column(field.name).alias(field.name) if field.name.lower() in given else _default(field) for field in fields]


def _records(session: Session, feed: FilesFeed, paths: Sequence[str], shape: Shape, fields: Sequence[Field]) -> DataFrame:
    reader: Any = session.spark.read.schema(record_schema(shape.columns))
    for name, value in reader_options(feed.reader).items():
        reader = reader.option(name, value)
    frame = cast("DataFrame", reader.format(feed.format).load(list(paths)))
    raw = column(CORRUPT).cast("binary")
    why = parse_reason(raw, shape.columns, feed.format, feed.reader)
    return frame.select(*_fill_columns(shape, fields), *_screens(raw=raw, broken=column(CORRUPT).isNotNull(), why=why))


def _parquet_schema(shape: Shape) -> t.StructType:
    return t.StructType([t.StructField(part.name, to_spark_type(part.type, column=part.name)) for part in shape.columns])


def _parquet(session: Session, paths: Sequence[str], shape: Shape, fields: Sequence[Field]) -> DataFrame:
    frame = cast("DataFrame", session.spark.read.schema(_parquet_schema(shape)).format("parquet").load(list(paths)))
    return _fit_columns(frame, shape, fields, source=None, position=f.col("_metadata.row_index"))


def _fit_columns(frame: DataFrame, shape: Shape, fields: Sequence[Field], *, source: Any, position: Any) -> DataFrame:
    """The columns of the stream from those of Parquet files; values that do not fit are told."""
    by_name = {part.name.lower(): part for part in shape.columns}
    columns, lost = [], []
    for field in fields:
        part = by_name.get(field.name.lower())
        if part is None:
            columns.append(_default(field))
            continue
        value = _as_text(column(part.name)) if part.type == Primitive("uuid") else column(part.name)
        wanted = record_type(field)
        if part.type != field.type and not field.children:
            cast_value = value.try_cast(wanted)
            lost.append(value.isNotNull() & _loses(value, cast_value, part, wanted))
            value = cast_value
        columns.append(value.alias(field.name))
    bad: Any = f.lit(False)  # noqa: FBT003  Spark's literal
    for condition in lost:
        bad = bad | f.coalesce(condition, f.lit(True))  # noqa: FBT003  Spark's literal
    raw = f.when(bad, f.to_json(f.struct(*[column(part.name) for part in shape.columns])).cast("binary"))
    return frame.select(
        *columns, *_screens(raw=raw, broken=bad, why=f.lit("its values do not fit the columns"), source=source, position=position)
    )


def _loses(value: Any, cast_value: Any, part: Field, wanted: t.DataType) -> Any:
    """Whether a cast gave nothing, or left out a fraction or a time of day; digits beyond a column's are rounded, as in every SQL."""
    given = to_spark_type(part.type, column=part.name)
    is_whole = isinstance(wanted, t.IntegralType) or (isinstance(wanted, t.DecimalType) and wanted.scale == 0)
    fraction = isinstance(given, t.FractionalType) and is_whole
    moment = isinstance(given, t.TimestampType | t.TimestampNTZType) and isinstance(wanted, t.DateType)
    return cast_value.isNull() | (cast_value.try_cast(given) != value) if fraction or moment else cast_value.isNull()


def _as_text(value: Any) -> Any:
    return f.regexp_replace(f.lower(f.hex(value)), _UUID_PARTS, "$1-$2-$3-$4-$5")


def _default(field: Field) -> Any:
    value = f.expr(default_value_sql(field, datetime.now(UTC)))
    return value.cast(record_type(field)).alias(field.name)


def _screens(*, raw: Any, broken: Any, why: Any, source: Any = None, position: Any = None) -> list[Any]:
    return [
        (f.col("_metadata.file_path") if source is None else source).alias(SOURCE),
        f.lit(None).cast("int").alias(PARTITION),
        (f.lit(None).cast("bigint") if position is None else position).alias(POSITION),
        raw.alias(RAW),
        broken.alias(BROKEN),
        why.alias(WHY),
    ]
