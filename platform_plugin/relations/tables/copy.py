"""COPY: Spark reads files of other programs and writes their rows to a table, in one job and one commit."""

from __future__ import annotations

import csv
import re
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from pyspark.sql import types as t
from pyspark.sql.connect import functions as f

from platform_plugin.engine.spark.frames.schema import to_spark_type
from platform_plugin.engine.spark.frames.stores import check_store, to_spark_url
from platform_plugin.engine.spark.frames.text_options import text_options
from platform_plugin.engine.spark.frames.write import run_write, shape_frame
from platform_plugin.errors import InvalidValue, PlatformError, QueryFailed, StorageError
from platform_plugin.lake.files.sources import make_absolute
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
        place = to_spark_url(work.lake.sources.confined(make_absolute(path)))
    kind = statement.format or format_of(path)
    if kind is None:
        raise InvalidValue(f'the format of "{path}" is not clear', hint="add (FORMAT csv), (FORMAT json) or (FORMAT parquet)")
    options = {option.name: option.value for option in statement.options}
    with place_errors(statement.span):
        check_store(work.session, place)
        try:
            with work.session.job(timeout=timeout):
                frame, given = _read(work, kind, place, options, fields)
                columns = shape_frame(frame, table.fields, given)
            files, metrics = run_write(work.session, work.lake, table, columns, timeout=timeout, progress=progress)
        except QueryFailed as error:
            bad = _first_bad_row(work, kind, place, options, fields)
            header = kind == "csv" and bad is not None and _is_header(bad.line, options, fields)
            raise _explained(error, path, bad, header=header) from error
    return append_files(work, table, files, message=f"copy into {table.name}", metrics=metrics, batch_id=batch_id)


def _read(work: Workspace, kind: str, path: str, options: dict[str, Any], fields: Sequence[Field]) -> tuple[DataFrame, list[str]]:
    names = [field.name for field in fields]
    if kind == "parquet":
        # By name, with the types that the files have; the cast to the table's own refuses what would lose something.
        frame = work.session.spark.read.parquet(path)
        wanted = {name.lower(): name for name in names}
        unknown = [name for name in frame.columns if name.lower() not in wanted]
        if unknown:
            raise InvalidValue(f'column "{unknown[0]}" of the files is not in the table', hint=f"it takes {', '.join(names)}")
        return frame, frame.columns
    # A header that names other columns, or these in another order, is an error rather than shifted values.
    reader = (
        _configured(work, options, fields)
        .option("enforceSchema", "false")
        .option("mode", "DROPMALFORMED" if options.get("ignore_errors") else "FAILFAST")
    )
    return _rows(reader, kind, path, options), names


def _configured(work: Workspace, options: dict[str, Any], fields: Sequence[Field], *extra: t.StructField) -> Any:
    schema = t.StructType([*(t.StructField(field.name, to_spark_type(field.type, column=field.name)) for field in fields), *extra])
    return work.session.spark.read.schema(schema).options(**text_options(options))


def _rows(reader: Any, kind: str, path: str, options: dict[str, Any]) -> DataFrame:
    if kind == "json":
        return cast("DataFrame", reader.json(path))
    if uncompressed_name(path).endswith(".tsv") and "delimiter" not in options:
        reader = reader.option("sep", "\t")
    return cast("DataFrame", reader.csv(path))


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


def _first_bad_row(work: Workspace, kind: str, path: str, options: dict[str, Any], fields: Sequence[Field]) -> _BadRow | None:
    """The first row that does not fit, as it stands in the file; Spark's own error does not show it."""
    if kind == "parquet":
        return None
    reader = (
        _configured(work, options, fields, t.StructField(_BAD, t.StringType()))
        .option("mode", "PERMISSIVE")
        .option("columnNameOfCorruptRecord", _BAD)
    )
    try:
        frame = _rows(reader, kind, path, options)
        # All columns: Spark refuses to parse for the sake of this one alone.
        bad = frame.select("*", f.col("_metadata.file_path").alias("_in")).where(f.col(_BAD).isNotNull()).limit(1)
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
