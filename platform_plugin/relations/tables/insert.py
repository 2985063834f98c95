"""INSERT: literal rows are written by this process, rows of a query by Spark; either is one commit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from platform_plugin.errors import InvalidValue
from platform_plugin.lake.files.files import fit_rows
from platform_plugin.language.text.counting import count_text
from platform_plugin.language.text.places import locate_offset
from platform_plugin.relations.bind.names import place_errors
from platform_plugin.relations.bind.query import bind_query
from platform_plugin.relations.faults import place_spark_errors
from platform_plugin.relations.tables.rows import literal_rows
from platform_plugin.relations.target import append_files, find_repeat, find_target, named_fields, refuse_append, refuse_partitioned

if TYPE_CHECKING:
    from datetime import timedelta

    from platform_plugin.engine.spark.session.job import ProgressHandler
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Table
    from platform_plugin.language.statements.insert import Insert
    from platform_plugin.relations.arguments import Arguments
    from platform_plugin.relations.result import Result


def run_insert(
    work: Workspace,
    statement: Insert,
    arguments: Arguments,
    *,
    timeout: timedelta | None = None,
    progress: ProgressHandler | None = None,
    batch_id: str | None = None,
) -> Result:
    """Append rows to a history table or stream."""
    table = find_target(work.lake, statement.name)
    refuse_append(work.lake, table, statement.name)
    refuse_partitioned(table, statement.name)
    repeat = find_repeat(work.lake, table, batch_id)
    if repeat is not None:
        return repeat
    if statement.rows is not None and not statement.by_name:
        return _insert_literals(work, table, statement, arguments, batch_id)
    from platform_plugin.engine.spark.frames.write import run_write, shape_frame

    with place_errors(statement.name.span):
        named = [field.name for field in named_fields(table, statement.columns)]
    with work.lake.lease(holder="insert") as lease:
        bound = bind_query(work, statement.query, lease.snapshot, arguments)
        with place_spark_errors(bound.rendered), work.session.job(timeout=timeout):
            given = bound.frame.columns if statement.by_name else named
            with place_errors(statement.query):
                named_fields(table, given)
                frame = shape_frame(bound.frame, table.fields, given)
        with place_spark_errors(bound.rendered):
            files, metrics = run_write(work.session, work.lake, table, frame, timeout=timeout, progress=progress)
    return append_files(work, table, files, message=f"insert into {table.name}", metrics=metrics, batch_id=batch_id)


def _insert_literals(work: Workspace, table: Table, statement: Insert, arguments: Arguments, batch_id: str | None) -> Result:
    rows = statement.rows or ()
    with place_errors(statement.name.span):
        fields = named_fields(table, statement.columns)
    for row in rows:
        if len(row) != len(fields):
            error = InvalidValue(
                f"a row has {count_text(len(row), 'value')} for {count_text(len(fields), 'column')}",
                hint=f"the columns are {', '.join(field.name for field in fields)}",
            )
            raise locate_offset(statement.query).attach(error)
    with place_errors(statement.query):
        held = fit_rows(literal_rows(rows, fields, arguments, statement.query), table.fields)
        files = work.lake.write_files(table, held)
    return append_files(work, table, files, message=f"insert into {table.name}", batch_id=batch_id, held=held)
