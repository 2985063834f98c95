"""REFRESH VIEW, SAMPLE and STREAM: maintenance of one relation now; EXPLAIN of them, which says what it would do."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pyarrow as pa

from platform_plugin.engine.option import ENGINE, check_engine
from platform_plugin.errors import InvalidValue
from platform_plugin.lake.catalogue.relations import read_declaration
from platform_plugin.lake.catalogue.tables import View
from platform_plugin.language.statements.refresh import RefreshSample, RefreshStream, RefreshView
from platform_plugin.language.text.counting import count_text
from platform_plugin.maintenance.due import describe_due
from platform_plugin.maintenance.run import RESULT, find_due, run_maintenance
from platform_plugin.relations.bind.names import lake_name, place_errors
from platform_plugin.relations.follow.maintained import Selection
from platform_plugin.relations.missing import name_missing_relations
from platform_plugin.relations.result import Result
from platform_plugin.relations.samples.follow import draw_and_store
from platform_plugin.relations.samples.record import KIND as SAMPLE
from platform_plugin.relations.samples.record import find_sample
from platform_plugin.relations.streams.feed_step import FEED
from platform_plugin.relations.streams.feeds.declaration import TableFeed, read_declared_feed
from platform_plugin.relations.target import statement_result
from platform_plugin.relations.views.figures import NEARLY_UNGROUPED, has_group_per_row
from platform_plugin.relations.views.follow.pending import KIND as VIEW
from platform_plugin.relations.views.record import read_records

if TYPE_CHECKING:
    from datetime import timedelta

    from platform_plugin.engine.option import EngineName
    from platform_plugin.engine.spark.session.job import ProgressHandler
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot, Table
    from platform_plugin.language.statements.explain import Explain
    from platform_plugin.relations.arguments import Arguments
    from platform_plugin.relations.samples.record import SampleRecord


def run_refresh_view(
    work: Workspace, statement: RefreshView, *, timeout: timedelta | None = None, progress: ProgressHandler | None = None
) -> Result:
    """Let one view consume what has arrived now, and store its result."""
    view = _find_view(work, statement, work.lake.snapshot())
    done = run_maintenance(
        work, [view.name], kinds=(VIEW, RESULT), flush=True, again=True, timeout=timeout, progress=progress, engine=_engine(statement)
    )
    if done.failed:
        raise next(iter(done.failed.values()))
    message = f"view {view.name} consumed {count_text(done.rows, 'row')} in {count_text(done.groups, 'group')}"
    if has_group_per_row(done.groups, done.rows):
        message += f": {NEARLY_UNGROUPED}"
    return statement_result(done.snapshot, message, rows=done.rows)


def run_refresh_sample(
    work: Workspace, statement: RefreshSample, *, timeout: timedelta | None = None, progress: ProgressHandler | None = None
) -> Result:
    """Let a sample of a stream consume what has arrived; draw any other one again and store it for later reads."""
    sample = _find_sample(work, statement, work.lake.snapshot())
    if sample.definition.source == "stream":
        done = run_maintenance(
            work, [sample.table.name], kinds=(SAMPLE,), again=True, timeout=timeout, progress=progress, engine=_engine(statement)
        )
        if done.failed:
            raise next(iter(done.failed.values()))
        return statement_result(done.snapshot, f"sample {sample.name} consumed {count_text(done.rows, 'row')}", rows=done.rows)
    with work.asking(_engine(statement)):
        made, rows = draw_and_store(work, sample, timeout=timeout, progress=progress)
    return statement_result(made, f"sample {sample.name} holds {count_text(rows, 'row')}", rows=rows)


def run_refresh_stream(
    work: Workspace, statement: RefreshStream, *, timeout: timedelta | None = None, progress: ProgressHandler | None = None
) -> Result:
    """Let a stream consume the next batch of the table that it follows."""
    stream = _find_follower(work, statement, work.lake.snapshot())
    done = run_maintenance(work, [stream.name], kinds=(FEED,), again=True, timeout=timeout, progress=progress, engine=_engine(statement))
    if done.failed:
        raise next(iter(done.failed.values()))
    return statement_result(done.snapshot, f"stream {stream.name} consumed {count_text(done.fed, 'row')}", rows=done.fed)


def explain_refresh(work: Workspace, explain: Explain, _arguments: Arguments) -> Result:
    """What a REFRESH would do now; nothing is done."""
    snapshot = work.lake.snapshot()
    if isinstance(explain.statement, RefreshSample):
        sample = _find_sample(work, explain.statement, snapshot)
        if sample.definition.source != "stream":
            lines = [f"sample {sample.name} is drawn again, unless the stored one is of what it is drawn from as that is now"]
            return Result(pa.table({"plan": lines}), snapshot=snapshot)
        name, kinds = sample.table.name, frozenset({SAMPLE})
    elif isinstance(explain.statement, RefreshStream):
        name, kinds = _find_follower(work, explain.statement, snapshot).name, frozenset({FEED})
    else:
        name, kinds = _find_view(work, cast("RefreshView", explain.statement), snapshot).name, frozenset({VIEW, RESULT})
    selection = Selection(names=frozenset({name}), kinds=kinds, flush=True, again=True)
    due, failed = find_due(work, selection, engine=_engine(cast("RefreshView", explain.statement)))
    lines = describe_due(due, failed) or [f"nothing waits for {name}"]
    return Result(pa.table({"plan": lines}), snapshot=snapshot)


def _engine(statement: RefreshView | RefreshSample | RefreshStream) -> EngineName | None:
    """The engine that a REFRESH asks for."""
    return next((check_engine(str(option.value)) for option in statement.options if option.name == ENGINE), None)


def _find_view(work: Workspace, statement: RefreshView, snapshot: Snapshot) -> View:
    name = lake_name(statement.name)
    with place_errors(statement.name.span), name_missing_relations(work.lake, name, snapshot, "view"), work.lake.reading() as connection:
        view = work.lake.find_relation(connection, name, snapshot)
        if not isinstance(view, View) or view.uuid not in read_records(connection, only=view.uuid):
            raise InvalidValue(f'"{view.name}" is not a continuous view', hint="only what is maintained can be refreshed")
    return view


def _find_follower(work: Workspace, statement: RefreshStream, snapshot: Snapshot) -> Table:
    with place_errors(statement.name.span):
        with name_missing_relations(work.lake, lake_name(statement.name), snapshot, "stream"):
            table = work.lake.table(lake_name(statement.name), snapshot)
        with work.lake.reading() as connection:
            declaration = read_declaration(connection, table.uuid)
        feed = read_declared_feed(declaration) if declaration.kind == "stream" else None
        if feed is None:
            raise InvalidValue(
                f'"{table.name}" is not a stream with a feed', hint="CREATE STREAM … FROM TABLE declares one that is refreshed"
            )
        if not isinstance(feed, TableFeed):
            raise InvalidValue(
                f'stream "{table.name}" does not follow a table', hint=f"`platform ingest {table.name}` reads its files or its topic"
            )
    return table


def _find_sample(work: Workspace, statement: RefreshSample, snapshot: Snapshot) -> SampleRecord:
    with place_errors(statement.name.span), name_missing_relations(work.lake, lake_name(statement.name), snapshot, "sample"):
        table = work.lake.table(lake_name(statement.name), snapshot)
    sample = find_sample(work.lake, table, snapshot)
    if sample is None:
        with place_errors(statement.name.span):
            raise InvalidValue(f'"{lake_name(statement.name)}" is not a sample', hint="SHOW SAMPLES lists them")
    return sample
