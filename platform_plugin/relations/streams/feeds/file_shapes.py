"""`read_shapes`: the columns in each file's header or footer, checked before a job reads its rows."""

from __future__ import annotations

import csv
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from platform_plugin.algebra.types.data_types import Field
from platform_plugin.errors import InvalidValue, UnsupportedType
from platform_plugin.lake.files.sources import EVERYWHERE, Sources
from platform_plugin.lake.files.storage import explain_storage_errors
from platform_plugin.lake.values.types import from_arrow
from platform_plugin.relations.streams.feeds.file_listing import open_system, path_in, read_listing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fsspec import AbstractFileSystem

    from platform_plugin.relations.streams.feeds.declaration import FilesFeed
    from platform_plugin.relations.streams.feeds.sources import SourceFile

_THREADS = 8
_LONGEST_HEADER = 1 << 20
_BLOCK = 1 << 16
_TAIL = 1 << 16  # footers of most files, in one request


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The columns of a file, in its order, with the file's own types if it has types, else the stream's."""

    columns: tuple[Field, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedFile:
    """A file that can't be read, with the reason."""

    file: SourceFile
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Shapes:
    """The files by shape, each group for one read; the empty ones; and the unreadable ones."""

    groups: tuple[tuple[Shape, tuple[SourceFile, ...]], ...]
    empty: tuple[SourceFile, ...] = ()
    refused: tuple[RefusedFile, ...] = ()


def read_shapes(feed: FilesFeed, files: Sequence[SourceFile], fields: Sequence[Field]) -> Shapes:
    """The shapes of files, read in parallel from their headers or footers; files without a header have the stream's shape."""
    if not files:
        return Shapes(groups=())
    with ThreadPoolExecutor(max_workers=_THREADS) as pool:
        system, _ = open_system(files[0].uri)
        found = list(pool.map(lambda file: _explained_shape(system, feed, file, fields), files))
    groups: dict[Shape, list[SourceFile]] = {}
    for file, shape in zip(files, found, strict=True):
        if isinstance(shape, Shape):
            groups.setdefault(shape, []).append(file)
    return Shapes(
        groups=tuple((shape, tuple(group)) for shape, group in groups.items()),
        empty=tuple(file for file, shape in zip(files, found, strict=True) if shape is None),
        refused=tuple(RefusedFile(file=file, reason=shape) for file, shape in zip(files, found, strict=True) if isinstance(shape, str)),
    )


def read_columns(feed: FilesFeed, sources: Sources = EVERYWHERE) -> tuple[Field, ...]:
    """The columns of a stream whose statement has none: those of the newest Parquet file."""
    files = sorted(read_listing(feed.glob, sources), key=lambda file: (file.modified or 0.0, file.uri))
    if not files:
        raise InvalidValue(
            f'no file matches "{feed.glob}", so its columns are not known', hint="name the columns, or put a file there first"
        )
    system, _ = open_system(files[-1].uri)
    try:
        with explain_storage_errors(files[-1].uri):
            footer = _read_footer(system, files[-1])
    except _NotParquet as error:
        raise InvalidValue(f'file "{files[-1].uri}" is not a whole Parquet file', detail=str(error), hint="name the columns") from error
    return tuple(Field(name=part.name, type=part.type) for part in from_arrow(_readable(footer)))


def plan_csv_shape(header: Sequence[str], fields: Sequence[Field]) -> Shape | str:
    """The stream's columns in the order of a header, or the problem with the header.

    >>> from platform_plugin.algebra.types.data_types import Primitive
    >>> a, b = Field(name="a", type=Primitive("int32")), Field(name="b", type=Primitive("int32"))
    >>> [column.name for column in plan_csv_shape(["B", " a"], [a, b]).columns]
    ['b', 'a']
    >>> plan_csv_shape(["a", "c"], [a, b])
    'its header names a column "c" that the stream does not have'
    """
    return _matched([name.strip() for name in header], fields, "its header names")


def plan_parquet_shape(columns: Sequence[Field], fields: Sequence[Field]) -> Shape | str:
    """The file's own columns, or the problem with them."""
    matched = _matched([column.name for column in columns], fields, "it has")
    if isinstance(matched, str):
        return matched
    for column, field in zip(columns, matched.columns, strict=True):
        if (column.children or field.children) and type(column.type) is not type(field.type):
            return f'its column "{column.name}" is {column.type}, which does not read as {field.type}'
    # Whether a column holds NULL counts only where it must not, so that files do not differ for its sake.
    parts = zip(columns, matched.columns, strict=True)
    return Shape(
        columns=tuple(Field(name=column.name, type=column.type, nullable=column.nullable or field.nullable) for column, field in parts)
    )


def _matched(names: Sequence[str], fields: Sequence[Field], said: str) -> Shape | str:
    known = {field.name.lower(): field for field in fields}
    given = [name.lower() for name in names]
    unknown = next((name for name in names if name.lower() not in known), None)
    if unknown is not None:
        return f'{said} a column "{unknown}" that the stream does not have'
    twice = next((name for name in names if given.count(name.lower()) > 1), None)
    if twice is not None:
        return f'{said} the column "{twice}" twice'
    for field in fields:
        if field.name.lower() not in given and not field.nullable and field.default is None:
            return f'it has no column "{field.name}", which must not be NULL'
    return Shape(columns=tuple(known[name] for name in given))


def _explained_shape(system: AbstractFileSystem, feed: FilesFeed, file: SourceFile, fields: Sequence[Field]) -> Shape | str | None:
    with explain_storage_errors(file.uri):
        return _shape(system, feed, file, fields)


def _shape(system: AbstractFileSystem, feed: FilesFeed, file: SourceFile, fields: Sequence[Field]) -> Shape | str | None:
    """The shape of one file, None for one without a row, or why it is refused."""
    if not file.size_bytes:
        return "it is empty, which no Parquet file is" if feed.format == "parquet" else None
    if feed.format == "parquet":
        try:
            footer = _read_footer(system, file)
            full = _without_null(footer)
            columns = [replace(column, nullable=column.name not in full) for column in from_arrow(_readable(footer))]
            return None if footer.num_rows == 0 else plan_parquet_shape(columns, fields)
        except FileNotFoundError:
            return Shape(columns=tuple(fields))  # what became of it shows when it is looked at again after the job
        except UnsupportedType as error:
            return error.message
        except _NotParquet as error:
            return f"it is not a whole Parquet file: {error}"
    if feed.format == "csv" and feed.reader.get("header"):
        header = _read_header(system, feed, file)
        return header if header is None or isinstance(header, str) else plan_csv_shape(header, fields)
    return Shape(columns=tuple(fields))


def _read_header(system: AbstractFileSystem, feed: FilesFeed, file: SourceFile) -> list[str] | str | None:
    encoding = str(feed.reader.get("encoding", "utf-8-sig"))
    try:
        with system.open(path_in(system, file.uri), "rb", compression="infer") as opened:
            line = _first_line(opened)
        text = line.decode(encoding).rstrip("\r\n")
    except FileNotFoundError:
        return []
    except (OSError, EOFError, ValueError, LookupError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # the store does not answer, which says nothing of the file
        return f"its header can't be read: {error}"
    if not text.strip():
        return None
    quote, escape = str(feed.reader.get("quote", '"')), str(feed.reader.get("escape", "\\"))
    try:
        return next(
            csv.reader([text], delimiter=str(feed.reader.get("delimiter", ",")), quotechar=quote or None, escapechar=escape or None)
        )
    except (csv.Error, TypeError) as error:
        return f"its header can't be read: {error}"


def _first_line(opened: Any) -> bytes:
    """The first line with anything in it, or as much of it as a header may be long; empty where there is none.

    Files of object stores know no bound for `readline`, so blocks are read: one request each, and the first is almost always enough.
    """
    head = b""
    while len(head) < _LONGEST_HEADER:
        block = opened.read(_BLOCK)
        head = (head + block).lstrip()
        if not block or b"\n" in head:
            break
    return head.partition(b"\n")[0][:_LONGEST_HEADER]


class _NotParquet(Exception):
    """The bytes of a file are no Parquet file; failures to read the bytes are other errors."""


def _read_footer(system: AbstractFileSystem, file: SourceFile) -> Any:
    path = path_in(system, file.uri)
    tail = system.tail(path, _TAIL)
    length = int.from_bytes(tail[-8:-4], "little")
    if len(tail) < 12 or tail[-4:] != b"PAR1" or length + 8 > file.size_bytes:
        raise _NotParquet("it does not end in a footer")
    if length + 8 > len(tail):
        tail = system.tail(path, length + 8)
    try:
        return pq.read_metadata(pa.BufferReader(tail))
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise _NotParquet(str(error).splitlines()[0]) from error


def _without_null(footer: Any) -> set[str]:
    """The columns in which, by the counts in the footer, no value is missing."""
    full = {footer.schema.column(place).path for place in range(len(footer.schema))}
    for group in range(footer.num_row_groups):
        for place in range(len(footer.schema)):
            chunk = footer.row_group(group).column(place)
            if not (chunk.is_stats_set and chunk.statistics.has_null_count and chunk.statistics.null_count == 0):
                full.discard(chunk.path_in_schema)
    return full


def _readable(footer: Any) -> pa.Schema:
    """The file's schema in types that Spark's reader gives out: the oldest form of a timestamp counts as one with a zone."""
    schema = footer.schema.to_arrow_schema()
    oldest = {
        footer.schema.column(place).path for place in range(len(footer.schema)) if footer.schema.column(place).physical_type == "INT96"
    }
    for place, field in enumerate(schema):
        if field.name in oldest:
            schema = schema.set(place, field.with_type(pa.timestamp("us", tz="UTC")))
        elif pa.types.is_timestamp(field.type) and field.type.unit == "ns":
            raise UnsupportedType(f'its column "{field.name}" holds nanoseconds, which Spark can\'t read', hint="write microseconds")
    return schema
