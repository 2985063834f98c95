"""REBUILD VIEW: computes a view again from what its streams and their histories hold, and replaces the old one.

The engines of maintenance compute it: the kernel in this process or on executors, or Spark SQL.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from platform_plugin.engine.measured_run import describe_sql
from platform_plugin.engine.rates import RunSize
from platform_plugin.errors import CommitConflict, InvalidValue, PlatformError
from platform_plugin.lake.catalogue.tables import View
from platform_plugin.lake.ring.history import read_history
from platform_plugin.relations.answers import run_answers
from platform_plugin.relations.bind.names import lake_name, place_errors
from platform_plugin.relations.follow.ranges import oldest_row_id, read_range_with_history
from platform_plugin.relations.follow.shared_rows import SharedRows
from platform_plugin.relations.target import statement_result
from platform_plugin.relations.views.build import FilledStates, NewView, make_view
from platform_plugin.relations.views.follow.passes import ViewTask, range_queries
from platform_plugin.relations.views.follow.pending import PendingView
from platform_plugin.relations.views.follow.take import assign_range, run_plans
from platform_plugin.relations.views.plans import prepare_plan
from platform_plugin.relations.views.read.view import split_name, static_frames
from platform_plugin.relations.views.record import CREATED, FROM, PINNED_TABLES, RESULT_PART, read_records

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

    from pyspark.sql import DataFrame

    from platform_plugin.engine.figures import EngineRun
    from platform_plugin.engine.spark.session.job import ProgressHandler
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot, Table
    from platform_plugin.lake.files.files import DataFile
    from platform_plugin.language import statements as s
    from platform_plugin.relations.answers import StateTarget
    from platform_plugin.relations.follow.ranges import Range
    from platform_plugin.relations.result import Result
    from platform_plugin.relations.views.build import BegunView
    from platform_plugin.relations.views.follow.take import RangePlan
    from platform_plugin.relations.views.record import ViewRecord

_ATTEMPTS = 3
_OF_ITS_MAKING = {RESULT_PART, CREATED, FROM, PINNED_TABLES, "same"}
# What arrives while a rebuild runs is taken up before it ends, so that little is left that could leave the ring until then.
_ROUNDS = 4
_NEW_TABLES = "it looks up rows that Spark computes"


def run_rebuild(
    work: Workspace, statement: s.RebuildView, *, timeout: timedelta | None = None, progress: ProgressHandler | None = None
) -> Result:
    """Rebuild one view; readers get the old one until the new one replaces it in one commit."""
    for attempt in range(_ATTEMPTS):
        with work.lake.lease(holder="rebuild") as lease, place_errors(statement.name.span):
            view, record = _find(work, statement, lease.snapshot)
            filling = _Filling(work, str(view.name), record, lease.snapshot, timeout=timeout, progress=progress)
            # The text means what its names stand for now.
            plan, meaning = prepare_plan(work, record.query, lease.snapshot, columns=record.columns)
            options = {name: value for name, value in record.options.items() if name not in _OF_ITS_MAKING}
            begins = {stream: _begin(work, view, record, stream, lease.snapshot) for stream in plan.stream_names}
            new = NewView(
                name=view.name,
                query=record.query,
                columns=record.columns,
                comment=view.comment,
                options=options,
                plan=plan,
                meaning=meaning,
                begins=begins,
            )
            try:
                made = make_view(work, new, lease.snapshot, old=view, fill=filling.run)
            except CommitConflict:
                if attempt == _ATTEMPTS - 1:
                    raise
                continue
            return statement_result(made, f"view {view.name} was rebuilt from {filling.rows} rows", rows=filling.rows)
    raise AssertionError  # unreachable: the last attempt returns or raises


def _find(work: Workspace, statement: s.RebuildView, snapshot: Snapshot) -> tuple[View, ViewRecord]:
    with work.lake.reading() as connection:
        view = work.lake.find_relation(connection, lake_name(statement.name), snapshot)
        record = read_records(connection, only=view.uuid).get(view.uuid)
    if not isinstance(view, View) or record is None:
        raise InvalidValue(f'"{view.name}" is not a continuous view', hint="only what is maintained can be rebuilt")
    return view, record


def _begin(work: Workspace, view: View, record: ViewRecord, stream: str, snapshot: Snapshot) -> int:
    """The row from which on a view covers a stream: as when it was made or, with start = 'earliest', the oldest there is."""
    table = work.lake.table(split_name(stream), snapshot)
    oldest = oldest_row_id(work.lake, table, _history(work, table, snapshot), snapshot)
    if record.options.get("start") == "earliest":
        return oldest
    known: Mapping[str, int] = record.options.get(FROM, {})
    if str(table.uuid) not in known:
        raise InvalidValue(
            f'stream "{table.name}" is not the one that view "{view.name}" was made over', hint="write CREATE OR REPLACE VIEW"
        )
    begin = known[str(table.uuid)]
    if oldest > begin:
        raise InvalidValue(
            f'view "{view.name}" can\'t be rebuilt: rows {begin} to {oldest - 1} of stream "{table.name}" are gone',
            hint=f"keep what leaves from now on: CREATE TABLE … AS HISTORY OF {table.name}; or start over with CREATE OR REPLACE VIEW",
        )
    return begin


def _history(work: Workspace, stream: Table, snapshot: Snapshot) -> Table | None:
    with work.lake.reading() as connection:
        return read_history(connection, stream, snapshot.id)


class _Filling:
    """Adds all rows from its beginning on to the states of a new view."""

    def __init__(
        self,
        work: Workspace,
        name: str,
        record: ViewRecord,
        snapshot: Snapshot,
        *,
        timeout: timedelta | None,
        progress: ProgressHandler | None,
    ) -> None:
        self.rows = 0
        self._runs: list[EngineRun] = []
        self._record = record
        self._work = work
        self._name = name
        self._snapshot = snapshot
        self._timeout = timeout
        self._progress = progress

    def run(self, begun: BegunView) -> FilledStates:
        """Consume the rows at the snapshot, then those that have come meanwhile, until few come."""
        work = self._work
        reached = dict(begun.begins)
        written: list[tuple[StateTarget, list[DataFile]]] = []
        snapshot = self._snapshot
        self.rows, self._runs = 0, []
        try:
            for _ in range(_ROUNDS):
                with work.lake.lease(snapshot, holder="rebuild") as lease:
                    ranges = self._ranges(begun, reached, lease.snapshot)
                    if not ranges:
                        break
                    written += self._consume(begun, ranges, lease.snapshot)
                    reached |= {stream: taken.next_row_id for stream, taken in ranges.items()}
                    self.rows += sum(taken.row_count for taken in ranges.values())
                snapshot = work.lake.snapshot()
        except PlatformError:
            work.lake.discard(file for _, files in written for file in files)
            raise
        return FilledStates(written, reached, self._runs)

    def _consume(self, begun: BegunView, ranges: dict[str, Range], snapshot: Snapshot) -> list[tuple[StateTarget, list[DataFile]]]:
        """The files that ranges add to the states: by an engine that takes them, or else by Spark SQL."""
        work = self._work
        # The text may mean something else than when the old view was made: nothing that is known of that is of use.
        record = replace(self._record, uuid=begun.uuid, options=begun.new.options)
        view = PendingView(name=self._name, record=record, plan=begun.new.plan, tables=dict(begun.tables), ranges=ranges)
        engines = work.run_engines(timeout=self._timeout, progress=self._progress)
        rows = {begun.tables[part].uuid: found for part, found in begun.static_rows.items()}
        looked_up = [begun.tables[static] for part in begun.new.plan.streams for static in part.statics]
        plans: dict[str, RangePlan] = {}
        if all(table.id is not None or table.uuid in rows for table in looked_up):
            for stream in ranges:
                plans[stream] = assign_range(work, snapshot, SharedRows(work.lake), [view], engines, stream=stream, statics=rows)
        taken = run_plans(work, list(plans.values()), engines.executors)
        self._runs += taken.runs
        left = [stream for stream in ranges if stream not in plans or plans[stream].left]
        if not left:
            return taken.written
        why = "; ".join(dict.fromkeys(refusal.why for plan in plans.values() for _, refusal in plan.left)) or _NEW_TABLES
        try:
            return taken.written + self._ask_spark(begun, {stream: ranges[stream] for stream in left}, ranges, snapshot, why)
        except BaseException:
            work.lake.discard(file for _, files in taken.written for file in files)
            raise

    def _ask_spark(
        self, begun: BegunView, left: Mapping[str, Range], ranges: Mapping[str, Range], snapshot: Snapshot, why: str
    ) -> list[tuple[StateTarget, list[DataFile]]]:
        work, began = self._work, time.monotonic()
        cached: list[DataFrame] = []
        task = ViewTask(
            name=self._name,
            uuid=begun.uuid,
            plan=begun.new.plan,
            tables=begun.tables,
            ranges=ranges,
            statics=begun.statics or self._static_frames(begun, snapshot),
            is_deferred=begun.is_deferred,
        )
        try:
            answers = [answer for stream in left for answer in range_queries(work, snapshot, stream, [task], cached)]
            found, metrics = run_answers(work, answers, timeout=self._timeout, progress=self._progress)
        finally:
            for frame in cached:
                frame.unpersist()
        size = RunSize(sum(each.row_count for each in left.values()), len(begun.new.plan.streams))
        seconds = time.monotonic() - began
        self._runs.append(describe_sql([self._name], why, size, metrics, seconds=seconds, estimates={}))
        return found

    def _static_frames(self, begun: BegunView, snapshot: Snapshot) -> dict[str, DataFrame]:
        """The rows that are looked up, for Spark: those that this process has computed, and stored ones."""
        from platform_plugin.engine.spark.frames.scan import arrow_relation

        work, plan, rows = self._work, begun.new.plan, begun.static_rows
        stored = replace(plan, statics=tuple(part for part in plan.statics if part.name not in rows))
        sent = {name: arrow_relation(work.session, begun.tables[name].fields, found) for name, found in rows.items()}
        return {**static_frames(work, stored, begun.tables, snapshot), **sent}

    def _ranges(self, begun: BegunView, reached: Mapping[str, int], snapshot: Snapshot) -> dict[str, Range]:
        found = {}
        for stream, table in begun.streams.items():
            history = _history(self._work, table, snapshot)
            covered = read_range_with_history(self._work.lake, table, history, snapshot, reached[stream], view=self._name)
            if not covered.is_empty:
                found[stream] = covered
        return found
