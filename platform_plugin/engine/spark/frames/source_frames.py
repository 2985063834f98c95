"""Files of other programs as DataFrames that tasks in Python read, where Spark has no file system for them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import types as t
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from platform_plugin.engine.spark.frames.task_scan import frame_of_shares
from platform_plugin.engine.spark.tasks.source_files import FILE_COLUMN, INDEX_COLUMN, VALUE_COLUMN, ParquetProgram, TextProgram
from platform_plugin.errors import StorageError
from platform_plugin.lake.files.sources import split_place
from platform_plugin.lake.files.storage import explain_storage_errors, missing_file_system
from platform_plugin.lake.files.store_options import read_store_options

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame

    from platform_plugin.engine.spark.session.session import Session

_TEXT_SCHEMA = t.StructType([t.StructField(VALUE_COLUMN, t.BinaryType()), t.StructField(FILE_COLUMN, t.StringType())])
_BRACES = re.compile(r"\{([^{}]*)\}")


def list_files(place: str) -> list[str]:
    """The files at a URL, in a folder, or that match a glob, without hidden ones; none is an error."""
    import fsspec

    scheme = split_place(place).scheme
    try:
        system, _ = fsspec.url_to_fs(place)
    except (ImportError, ValueError) as error:
        raise missing_file_system(scheme, error) from error
    with explain_storage_errors(place):
        system.invalidate_cache()
        found: dict[str, Any] = {}
        for path in (system._strip_protocol(part) for part in _expand(place)):  # noqa: SLF001  every file system has it
            listed = system.glob(path, detail=True)
            folders = [name for name, info in listed.items() if info["type"] == "directory"]
            found |= listed
            for folder in folders:
                found |= {info["name"]: info for info in system.ls(folder, detail=True)}
    names = sorted(name for name, info in found.items() if info["type"] == "file" and info.get("size") != 0 and not _is_hidden(name))
    if not names:
        raise StorageError(f'no file matches "{place}"', hint="check the path; a path without a scheme is one of this machine")
    return [str(system.unstrip_protocol(name)) if "://" in place else name for name in names]


def _expand(place: str) -> list[str]:
    """A glob without alternatives in braces.

    >>> _expand("s3://bucket/{a,b}/x.csv")
    ['s3://bucket/a/x.csv', 's3://bucket/b/x.csv']
    """
    found = _BRACES.search(place)
    if found is None:
        return [place]
    return [each for part in found[1].split(",") for each in _expand(place[: found.start()] + part + place[found.end() :])]


def _is_hidden(name: str) -> bool:
    return name.rsplit("/", 1)[-1].startswith((".", "_"))


def read_text_by_tasks(
    session: Session, uris: Sequence[str], options: Mapping[str, Any], *, is_json: bool, names: Sequence[str] | None = None
) -> DataFrame:
    """The records of text files, as bytes in UTF-8, beside the names of their files; `names` are those that headers must give."""
    program = TextProgram(
        store=read_store_options(split_place(uris[0]).scheme),
        is_json=is_json,
        header=bool(options.get("header")),
        names=None if names is None else tuple(names),
        multiline=bool(options.get("multiline")),
        encoding=options.get("encoding"),
        compression=options.get("compression"),
        delimiter=str(options.get("delimiter") or ","),
        quote=str(options.get("quote", '"')),
        escape=str(options.get("escape", "\\")),
    )
    return frame_of_shares(session, program, _divide(session, uris), _TEXT_SCHEMA, size_bytes=session.limits.broadcast_bytes)


def read_parquet_by_tasks(session: Session, uris: Sequence[str], schema: t.StructType) -> DataFrame:
    """Columns of Parquet files by name, and behind these the name of the file and the row's place in it."""
    whole = t.StructType([*schema.fields, t.StructField(FILE_COLUMN, t.StringType()), t.StructField(INDEX_COLUMN, t.LongType())])
    program = ParquetProgram(store=read_store_options(split_place(uris[0]).scheme), schema=to_arrow_schema(whole, timezone="UTC"))
    return frame_of_shares(session, program, _divide(session, uris), whole, size_bytes=session.limits.broadcast_bytes)


def read_parquet_schema(uri: str) -> t.StructType:
    """The columns of a Parquet file, in the types that Spark would read."""
    import fsspec
    import pyarrow.parquet as pq

    with explain_storage_errors(uri), fsspec.open(uri, "rb") as file:
        try:
            own = pq.read_schema(file)
            return from_arrow_schema(pa.schema([(field.name, _plain(field.type)) for field in own]), prefer_timestamp_ntz=True)
        except (pa.ArrowException, PySparkException) as error:
            why = str(error).splitlines()[0]
            raise StorageError(f'file "{uri}" can\'t be read', detail=why, hint="check that it is a whole Parquet file") from error


_PLAIN = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
}


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type that Spark has for an Arrow type."""
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    return _PLAIN.get(kind, kind)


def _divide(session: Session, uris: Sequence[str]) -> list[list[str]]:
    count = min(len(uris), session.read_task_slots() * 2)
    return [list(uris[number::count]) for number in range(count)]
