"""`run_select` and `run_explain`: a query over the lake at one snapshot, under a lease while it is read."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, cast

import pyarrow as pa

from platform_plugin.engine.spark.frames.file_access import find_file_access
from platform_plugin.errors import CatalogueReadOnly, InvalidValue
from platform_plugin.language.query.approximate import wants_sample
from platform_plugin.language.query.query import analyse_query
from platform_plugin.language.statements.registry import find_statement_kind, load
from platform_plugin.language.text.places import locate_offset
from platform_plugin.relations.bind.query import bind_query
from platform_plugin.relations.faults import place_spark_errors, suggest_columns
from platform_plugin.relations.result import Result
from platform_plugin.relations.streams.overrun import raise_overrun, raise_overruns
from platform_plugin.select.lookup import answer_lookup
from platform_plugin.select.rules import describe_plan

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from pyspark.sql import DataFrame
    from pyspark.sql.connect.dataframe import DataFrame as ConnectFrame

    from platform_plugin.engine.spark.session.job import ProgressHandler
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot
    from platform_plugin.language.statements.explain import Explain
    from platform_plugin.language.statements.select import Select
    from platform_plugin.language.text.places import Span
    from platform_plugin.relations.arguments import Arguments


def run_select(
    work: Workspace,
    statement: Select,
    arguments: Arguments,
    *,
    timeout: timedelta | None = None,
    progress: ProgressHandler | None = None,
    tags: tuple[str, ...] = (),
) -> Result:
    """Run a query and return its result: complete if it fits into memory, else as soon as its first rows are there."""
    query = statement.query
    if "session" in query.text.lower():
        from platform_plugin.relations.streams.follow.session import reads_session, run_session

        if reads_session(query):
            return run_session(work, query, arguments, timeout=timeout, progress=progress, tags=tags)
    if wants_sample(query):
        from platform_plugin.relations.samples.estimate.approximate import run_approximation

        return run_approximation(work, query, arguments, timeout=timeout, progress=progress)
    answer = answer_lookup(work, query, arguments)
    if answer is not None:
        return answer
    snapshot, release = _held(work)
    try:
        bound = bind_query(work, query, snapshot, arguments, leaves_limit=True)
        with raise_overruns(work.lake, bound.tables, snapshot), place_spark_errors(bound.rendered), suggest_columns(bound.tables):
            stream = work.session.arrow(
                bound.frame, *tags, timeout=timeout, progress=progress, limit=bound.limit, is_small=bound.is_small or bound.limit == 0
            )
        if stream.is_complete:
            release()
            return Result(stream, snapshot=snapshot)
        on_error = partial(raise_overrun, work.lake, bound.tables, snapshot)
        return Result(stream, snapshot=snapshot, on_close=release, on_error=on_error)
    except BaseException:
        release()
        raise


def _held(work: Workspace) -> tuple[Snapshot, Callable[[], None]]:
    """The newest snapshot under a lease; where the catalogue can only be read, without one, as nobody can hold any there."""
    try:
        lease = work.lake.lease(holder="query")
    except CatalogueReadOnly:
        # Any other failure is told: without a lease nothing would keep the files, and the reader would not know.
        return work.lake.snapshot(), lambda: None
    return lease.snapshot, lease.release


def run_explain(work: Workspace, statement: Explain, arguments: Arguments) -> Result:
    """How a statement would run, by the function in its registry entry."""
    explain = find_statement_kind(statement.statement).explain
    if explain is None:
        raise locate_offset(statement.span).attach(
            InvalidValue("only a query or CREATE VIEW can be explained", hint="run it: its result says what it did, or EXPLAIN its query")
        )
    result: Result = load(explain)(work, statement, arguments)
    return result


def explain_select(work: Workspace, statement: Explain, arguments: Arguments) -> Result:
    """How Spark would run a query, and which files of the lake it would read."""
    query = cast("Select", statement.statement).query
    with work.lake.lease(holder="explain") as lease:
        if wants_sample(query):
            from platform_plugin.relations.samples.estimate.approximate import explain_approximation

            return Result(pa.table({"plan": explain_approximation(work, query, lease.snapshot)}), snapshot=lease.snapshot)
        session = _explain_session(work, query, arguments, lease.snapshot)
        if session is not None:
            said, frame = session
            with work.session.job():
                said = [*said, *_physical(frame, statement.mode)]
            return Result(pa.table({"plan": said}), snapshot=lease.snapshot)
        bound = bind_query(work, query, lease.snapshot, arguments)
        with place_spark_errors(bound.rendered), work.session.job():
            plan = _physical(bound.frame, statement.mode)
        read = f"reads {bound.files_planned} files, {bound.bytes_planned} bytes, at snapshot {lease.snapshot.id}"
        lines = describe_plan(work, analyse_query(query), bound, is_verbose=statement.mode == "verbose")
        access = find_file_access(work.session, work.lake.storage)
        by = [f"files are read by tasks in Python: {access.why}"] if access.by_tasks and bound.files_planned else []
        return Result(pa.table({"plan": [read, *by, *bound.notes, *lines, *plan]}), snapshot=lease.snapshot)


def _explain_session(work: Workspace, query: Span, arguments: Arguments, snapshot: Snapshot) -> tuple[list[str], DataFrame] | None:
    if "session" in query.text.lower():
        from platform_plugin.relations.streams.follow.session import explain_session, reads_session

        if reads_session(query):
            return explain_session(work, query, arguments, snapshot)
    return None


def _physical(frame: DataFrame, mode: str | None) -> list[str]:
    text = cast("ConnectFrame", frame)._explain_string(extended=None, mode="simple" if mode == "verbose" else mode)  # noqa: SLF001  explain() itself prints
    return str(text).splitlines()
