"""CREATE TABLE: creates a table, empty without Spark, or with the rows of a query."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from platform_plugin.algebra.types.data_types import Field, holds_interval
from platform_plugin.errors import ObjectExists, PlatformError, UnknownObject, UnsupportedType
from platform_plugin.lake.catalogue.relations import Declaration, declare_relation
from platform_plugin.lake.files.file_options import NAMES as FILE_OPTIONS
from platform_plugin.language import statements as s
from platform_plugin.language.text.places import locate_offset
from platform_plugin.relations.bind.names import lake_name, place_errors
from platform_plugin.relations.bind.query import bind_query
from platform_plugin.relations.declarations import DefinitionOutcome
from platform_plugin.relations.drop import drop_replaced
from platform_plugin.relations.faults import place_spark_errors, suggest_columns
from platform_plugin.relations.options import file_options
from platform_plugin.relations.tables.history import run_create_history
from platform_plugin.relations.target import find_existing, statement_result

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from platform_plugin.engine.spark.session.job import ProgressHandler
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Name, Table
    from platform_plugin.lake.files.files import DataFile
    from platform_plugin.relations.arguments import Arguments
    from platform_plugin.relations.result import Result


def run_create_table(
    work: Workspace,
    statement: s.CreateTable,
    arguments: Arguments,
    *,
    timeout: timedelta | None = None,
    progress: ProgressHandler | None = None,
) -> Result:
    """Create a history table, empty or filled by a query; table and rows become visible together."""
    name = lake_name(statement.name)
    base = work.lake.snapshot()
    old = find_existing(work.lake, name, base)
    if old is not None and statement.if_not_exists:
        return statement_result(base, f"table {name} exists already")
    declaration = Declaration(kind="table", options=_options(statement))
    if statement.query is not None:
        return _create_from_query(work, statement, name, declaration, arguments, timeout=timeout, progress=progress)
    with place_errors(statement.name.span), work.lake.commit(f"create table {name}", base=base) as commit:
        drop_replaced(work, commit, old if statement.or_replace else None)
        table = commit.create_table(name, _columns(statement), comment=statement.comment, file_options=file_options(statement.options))
        declare_relation(commit, table, declaration)
    return statement_result(commit.made, f"table {name} created")


def _options(statement: s.CreateTable) -> dict[str, Any]:
    """What is noted with the table; how its files are written stands where every client of the lake looks for it."""
    options: dict[str, Any] = {option.name: option.value for option in statement.options if option.name not in FILE_OPTIONS}
    return options | ({"primary_key": list(statement.primary_key)} if statement.primary_key else {})


def _columns(statement: s.CreateTable) -> tuple[Field, ...]:
    keys = {key.lower() for key in statement.primary_key}
    known = {column.name.lower() for column in statement.columns}
    for key in statement.primary_key:
        if key.lower() not in known:
            raise UnknownObject(f'key column "{key}" is not a column of the table', hint="name one of its columns in PRIMARY KEY")
    return tuple(replace(column, nullable=False) if column.name.lower() in keys else column for column in statement.columns)


def _create_from_query(
    work: Workspace,
    statement: s.CreateTable,
    name: Name,
    declaration: Declaration,
    arguments: Arguments,
    *,
    timeout: timedelta | None,
    progress: ProgressHandler | None,
) -> Result:
    from platform_plugin.engine.spark.frames.schema import from_spark_type
    from platform_plugin.engine.spark.frames.write import run_write, shape_frame

    lake = work.lake
    if statement.query is None:
        message = "a table without a query is created empty"
        raise ValueError(message)
    with lake.lease(holder="create table") as lease:
        old = find_existing(work.lake, name, lease.snapshot)
        if old is not None and not statement.or_replace:
            raise locate_offset(statement.name.span).attach(
                ObjectExists(f'table "{name}" exists already', hint="choose another name, or write CREATE OR REPLACE")
            )
        bound = bind_query(work, statement.query, lease.snapshot, arguments)
        with place_spark_errors(bound.rendered), suggest_columns(bound.tables), work.session.job(timeout=timeout):
            schema = bound.frame.schema
        with place_errors(statement.query):
            fields = tuple(Field(name=part.name, type=from_spark_type(part.dataType, column=part.name)) for part in schema.fields)
            _refuse_intervals(fields)
        files: list[DataFile] = []
        try:
            with place_errors(statement.name.span), lake.commit(f"create table {name}", base=lease.snapshot) as commit:
                drop_replaced(work, commit, old)
                table = commit.create_table(name, fields, comment=statement.comment, file_options=file_options(statement.options))
                declare_relation(commit, table, declaration)
                with place_spark_errors(bound.rendered):
                    frame = shape_frame(bound.frame, table.fields, [field.name for field in fields])
                    files, metrics = run_write(work.session, lake, table, frame, timeout=timeout, progress=progress)
                commit.append(table, files)
        except PlatformError:
            lake.discard(files)
            raise
    rows = sum(file.record_count for file in files)
    return statement_result(commit.made, f"table {name} created with {rows} rows", rows=rows, metrics=metrics)


def _refuse_intervals(fields: Sequence[Field]) -> None:
    for field in fields:
        if holds_interval(field):
            hint = "cast it in the query, to STRING for example; a continuous view can have intervals among its results"
            raise UnsupportedType(f'column "{field.name}" has the type {field.type}, which a table can\'t hold', hint=hint)


def define_table(
    work: Workspace, statement: s.Statement, old: Table | None, *, progress: ProgressHandler | None
) -> DefinitionOutcome | None:
    """Create the table that a file declares; a table of a query is computed again."""
    match statement:
        case s.CreateTable(query=query) if query is not None:
            result = run_create_table(work, replace(statement, or_replace=True, if_not_exists=False), (), progress=progress)
            return DefinitionOutcome("created" if old is None else "rebuilt", result.metrics)
        case s.CreateTable() if old is None:
            run_create_table(work, statement, ())
            return DefinitionOutcome("created")
        case s.CreateHistory() if old is None:
            run_create_history(work, statement)
            return DefinitionOutcome("created")
    return None
