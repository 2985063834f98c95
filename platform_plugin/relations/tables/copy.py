"""COPY: Spark reads files of other programs and writes their rows to a table, in one job and one commit."""

from __future__ import annotations

import csv
import re
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from pyspark.sql import types as t
from pyspark.sql.connect import functions as f

from platform_plugin.engine.spark.frames.file_access import find_place_access
from platform_plugin.engine.spark.frames.schema import to_spark_type
from platform_plugin.engine.spark.frames.source_frames import list_files, read_parquet_by_tasks, read_parquet_schema, read_text_by_tasks
from platform_plugin.engine.spark.frames.stores import to_spark_url
from platform_plugin.engine.spark.frames.text_options import text_options
from platform_plugin.engine.spark.frames.write import run_write, shape_frame
from platform_plugin.engine.spark.tasks.source_files import FILE_COLUMN, INDEX_COLUMN, VALUE_COLUMN
from platform_plugin.errors import InvalidValue, PlatformError, QueryFailed, StorageError
from platform_plugin.lake.files.sources import make_absolute, split_place
from platform_plugin.language.text.file_formats import format_of, uncompressed_name
from platform_plugin.language.text.values import Parameter
from platform_plugin.relations.arguments import Arguments, argument
from platform_plugin.relations.bind.names import place_errors
from platform_plugin.relations.target import append_files, find_repeat, find_target, named_fields, refuse_append, refuse_partitioned

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from pyspark.sql import DataFrame

    from platform_plugin.algebra.types.data_types import Field
    from platform_plugin.engine.spark.session.job import ProgressHandler
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.language.statements.copy import Copy
    from platform_plugin.relations.result import Result


def run_copy(
    work: Workspace,
    statement: Copy,
    arguments: Arguments,
    *,
    timeout: timedelta | None = None,
    progress: ProgressHandler | None = None,
    batch_id: str | None = None,
) -> Result:
    """Append the rows of files. A row that can't be read fails the statement, unless `ignore_errors` is set."""
    table = find_target(work.lake, statement.name)
    refuse_append(work.lake, table, statement.name)
    refuse_partitioned(table, statement.name)
    with place_errors(statement.name.span):
        fields = named_fields(table, statement.columns)
    repeat = find_repeat(work.lake, table, batch_id)
    if repeat is not None:
        return repeat
    path = str(argument(statement.path, arguments) if isinstance(statement.path, Parameter) else statement.path)
    with place_errors(statement.span):
        source = work.lake.sources.confined(make_absolute(path))
        place = to_spark_url(source)
    kind = statement.format or format_of(path)
    if kind is None:
        raise InvalidValue(f'the format of "{path}" is not clear', hint="add (FORMAT csv), (FORMAT json) or (FORMAT parquet)")
    options = {option.name: option.value for option in statement.options}
    with place_errors(statement.span):
        access = find_place_access(work.session, source, scheme=split_place(source).scheme)
        read = CopySource(kind, place, options, list_files(source) if access.by_tasks else None)
        try:
            with work.session.job(timeout=timeout):
                frame, given = _read(work, read, fields)
                columns = shape_frame(frame, table.fields, given)
            files, metrics = run_write(work.session, work.lake, table, columns, timeout=timeout, progress=progress)
        except QueryFailed as error:
            bad = _first_bad_row(work, read, fields)
            header = kind == "csv" and bad is not None and _is_header(bad.line, options, fields)
            raise _explained(error, path, bad, header=header) from error
    return append_files(work, table, files, message=f"copy into {table.name}", metrics=metrics, batch_id=batch_id)


class CopySource(NamedTuple):
    """What a statement reads; `by_tasks` are the files where Spark can't read them."""

    kind: str
    path: str
    options: dict[str, Any]
    by_tasks: list[str] | None


def _read(work: Workspace, source: CopySource, fields: Sequence[Field]) -> tuple[DataFrame, list[str]]:
    """The rows of files, and the columns that they are for."""
    names = [field.name for field in fields]
    if source.kind == "parquet":
        # By name, with the types that the files have; the cast to the table's own refuses what would lose something.
        by_spark = source.by_tasks is None
        frame = work.session.spark.read.parquet(source.path) if by_spark else _read_parquet(work, source.by_tasks or ())
        wanted = {name.lower(): name for name in names}
        unknown = [name for name in frame.columns if name.lower() not in wanted]
        if unknown:
            raise InvalidValue(f'column "{unknown[0]}" of the files is not in the table', hint=f"it takes {', '.join(names)}")
        return frame, frame.columns
    # A header that names other columns, or these in another order, is an error rather than shifted values.
    reader = (
        _configured(work, source.options, fields)
        .option("enforceSchema", "false")
        .option("mode", "DROPMALFORMED" if source.options.get("ignore_errors") else "FAILFAST")
    )
    return _rows(work, reader, source, names), names


def _read_parquet(work: Workspace, files: Sequence[str]) -> DataFrame:
    return read_parquet_by_tasks(work.session, files, read_parquet_schema(files[0])).drop(FILE_COLUMN, INDEX_COLUMN)


def _configured(work: Workspace, options: dict[str, Any], fields: Sequence[Field], *extra: t.StructField) -> Any:
    schema = t.StructType([*(t.StructField(field.name, to_spark_type(field.type, column=field.name)) for field in fields), *extra])
    return work.session.spark.read.schema(schema).options(**text_options(options))


def _rows(work: Workspace, reader: Any, source: CopySource, names: Sequence[str]) -> DataFrame:
    is_json, options = source.kind == "json", source.options
    read: Any = source.path
    if not is_json and uncompressed_name(source.path).endswith(".tsv") and "delimiter" not in options:
        reader, options = reader.option("sep", "\t"), options | {"delimiter": "\t"}
    if source.by_tasks is not None:
        records = read_text_by_tasks(work.session, source.by_tasks, options, is_json=is_json, names=names)
        # What tasks hand over are records, of which none is a header.
        read, reader = records.select(f.col(VALUE_COLUMN).cast("string")), reader.option("header", "false").option("multiLine", "false")
    return cast("DataFrame", reader.json(read) if is_json else reader.csv(read))


_BAD = "_malformed"
# What Spark says of rows that do not fit, and of places that it does not get to.
_MISFITS = ("MALFORMED_RECORD", "CSV header", "CSVHeader", "FAILED_READ_FILE.PARQUET_COLUMN_DATA_TYPE_MISMATCH")
_UNREACHABLE = (
    "UNSUPPORTED_FILE_SYSTEM",
    "UnsupportedFileSystemException",
    "FileSystem not found",
    "ConnectException",
    "UnknownHostException",
    "NoRouteToHostException",
    "SocketTimeoutException",
    "AccessControlException",
    "AccessDeniedException",
    "Permission denied",
)


class _BadRow(NamedTuple):
    file: str
    line: str


def _first_bad_row(work: Workspace, source: CopySource, fields: Sequence[Field]) -> _BadRow | None:
    """The first row that does not fit, as it stands in the file; Spark's own error does not show it."""
    if source.kind == "parquet":
        return None
    reader = (
        _configured(work, source.options, fields, t.StructField(_BAD, t.StringType()))
        .option("mode", "PERMISSIVE")
        .option("columnNameOfCorruptRecord", _BAD)
    )
    try:
        frame = _rows(work, reader, source, [field.name for field in fields])
        # Records that tasks hand over are told as those of the whole place.
        name = f.col("_metadata.file_path") if source.by_tasks is None else f.lit(source.path)
        # All columns: Spark refuses to parse for the sake of this one alone.
        bad = frame.select("*", name.alias("_in")).where(f.col(_BAD).isNotNull()).limit(1)
        found = work.session.arrow(bad).read_all().to_pylist()
    except PlatformError:
        return None
    return _BadRow(file=str(found[0]["_in"]), line=str(found[0][_BAD])) if found else None


def _explained(error: QueryFailed, path: str, bad: _BadRow | None, *, header: bool) -> PlatformError:
    said, cause = error.detail or "", _deepest_cause(error)
    if "PATH_NOT_FOUND" in said or "does not exist" in said:
        return StorageError(f'no file matches "{path}"', hint="check the path; a path without a scheme is one of this machine")
    why = f"{said.split('. ')[0]}: {cause}" if cause and cause not in said else said
    if bad is not None or any(clue in f"{said} {cause}" for clue in _MISFITS):
        return InvalidValue(
            f'files at "{path}" do not fit the table',
            detail=cause or said if bad is None else f"{bad.file}: {bad.line}",
            hint="its first line names the columns: add (HEADER)"
            if header
            else "correct them, or add ignore_errors true to leave bad rows out",
        )
    if any(clue in f"{said} {cause}" for clue in _UNREACHABLE):
        hint = "check the address; it is Spark's server that reads it, with its own file systems, network and rights"
        return StorageError(f'"{path}" can\'t be reached', detail=why, hint=hint)
    if "FAILED_READ_FILE" in said:
        return StorageError(
            f'files at "{path}" can\'t be read', detail=why, hint="check that they are whole and of the format that is named"
        )
    return error


def _deepest_cause(error: QueryFailed) -> str:
    """What went wrong in the task; Spark's own message only names the file."""
    causes = re.findall(r"^Caused by: (?:[\w.$]+: )?(.*?)(?=\n\tat |\n\t\.\.\. |\Z)", str(error.__cause__), re.DOTALL | re.MULTILINE)
    return " ".join(causes[-1].split()) if causes else ""


def _is_header(line: str, options: dict[str, Any], fields: Sequence[Field]) -> bool:
    """Whether a line of a CSV file that was taken for a row names the columns instead."""
    if options.get("header"):
        return False
    values = next(csv.reader([line], delimiter=str(options.get("delimiter") or ("\t" if "\t" in line else ","))), [])
    names = {field.name.lower() for field in fields}
    return bool(values) and {value.strip().lower() for value in values} <= names
