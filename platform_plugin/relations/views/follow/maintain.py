"""`run_maintenance`: one run consumes new rows of streams for all views over them, in one job and one commit."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from platform_plugin.engine.refusal import Refusal
from platform_plugin.errors import CatalogueError, CommitConflict, PlatformError, QueryInterrupted, ServerError, StorageError
from platform_plugin.lake.catalogue.stalls import end_stalls, note_stall, read_stalled_names
from platform_plugin.lake.catalogue.tables import Name
from platform_plugin.lake.commit.gates import GateRefusal
from platform_plugin.relations import hooks
from platform_plugin.relations.answers import Answer, StateTarget, put_answers, run_answers
from platform_plugin.relations.views.follow.advance import Advance, Advances
from platform_plugin.relations.views.follow.compaction import compact_locally, compaction, find_additions
from platform_plugin.relations.views.follow.passes import ViewTask, range_queries
from platform_plugin.relations.views.follow.poison import note_failure, split_poisoned
from platform_plugin.relations.views.follow.progress import read_all_progress
from platform_plugin.relations.views.follow.shared_states import find_sharing
from platform_plugin.relations.views.follow.strategy import DEFERRED, rows_wanted, strategy_of
from platform_plugin.relations.views.follow.take import take_locally
from platform_plugin.relations.views.gates import pass_gates
from platform_plugin.relations.views.plans import find_plan
from platform_plugin.relations.views.read.static_tables import check_static_tables
from platform_plugin.relations.views.read.view import part_tables, split_name, static_frames, tail_ranges
from platform_plugin.relations.views.record import read_records

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import timedelta
    from uuid import UUID

    from pyspark.sql import DataFrame

    from platform_plugin.engine.spark.session.job import ProgressHandler
    from platform_plugin.engine.spark.session.metrics import JobMetrics
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot, Table
    from platform_plugin.lake.files.files import DataFile
    from platform_plugin.operators.group.parts import SplitPlan
    from platform_plugin.relations.follow.ranges import Range
    from platform_plugin.relations.hooks import JointScan, JointWrite, RangeKey
    from platform_plugin.relations.views.record import ViewRecord

_ATTEMPTS = 5
_JOINT = Refusal(why="a sample has Spark look at the same rows", for_good=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceOutcome:
    """What a run did. `jobs` counts Spark's jobs for all views; `failed` has the errors of views that consumed nothing."""

    views: tuple[str, ...] = ()
    rows: int = 0
    groups: int = 0
    compacted: int = 0
    jobs: int = 0
    tasks: int = 0
    seconds: float = 0.0
    snapshot: Snapshot
    failed: dict[str, PlatformError] = field(default_factory=dict)
    samples: tuple[str, ...] = ()
    """The samples that consumed the same rows in the same commit."""
    on_spark: dict[str, str] = field(default_factory=dict)
    """The views whose new rows Spark grouped, and why that was not done in this process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingView:
    """A view with unconsumed rows, and the views that share its states and so move with it."""

    name: str
    record: ViewRecord
    plan: SplitPlan
    tables: dict[str, Table]
    ranges: dict[str, Range]
    twins: tuple[str, ...] = ()

    @property
    def row_count(self) -> int:
        """The number of unconsumed rows."""
        return sum(found.row_count for found in self.ranges.values())

    def taking(self, work: Workspace, snapshot: Snapshot) -> ViewTask:
        """The task of a run for this view."""
        return ViewTask(
            name=self.name,
            uuid=self.record.uuid,
            plan=self.plan,
            tables=self.tables,
            ranges=self.ranges,
            statics=static_frames(work, self.plan, self.tables, snapshot),
            is_deferred=strategy_of(self.record) == DEFERRED,
        )


def find_pending_views(
    work: Workspace, snapshot: Snapshot, only: Collection[Name] | None = None, *, flush: bool = False
) -> tuple[list[PendingView], dict[str, PlatformError]]:
    """The views with rows to consume, and those that can't be maintained; with `flush` a partial batch is enough."""
    lake = work.lake
    with lake.reading() as connection:
        records = read_records(connection)
        progress = read_all_progress(connection, snapshot.id) if records else {}
    views = [view for view in lake.views(snapshot) if view.uuid in records]
    sharing = find_sharing({view.uuid: records[view.uuid] for view in views})
    twins: defaultdict[frozenset[UUID], list[str]] = defaultdict(list)
    for view in views:
        twins[sharing[view.uuid]].append(str(view.name))
    found, failed = [], {}
    known: dict[tuple[str, int], Range] = {}
    taken: set[frozenset[UUID]] = set()
    for view in views:
        states = sharing[view.uuid]
        if (only is not None and view.name not in only) or states in taken:
            continue
        record, name = records[view.uuid], str(view.name)
        try:
            plan = find_plan(work, record, snapshot)
            check_static_tables(work, name, record, plan, snapshot)
            tails = tail_ranges(work, name, plan, snapshot, progress.get(str(record.uuid), {}), known=known)
            ranges = {stream: tail for stream, tail in tails.items() if not tail.is_empty}
            waiting = max((tail.row_count for tail in ranges.values()), default=0)
            if ranges and (flush or waiting >= rows_wanted(record)):
                tables = part_tables(work, record, snapshot)
                others = tuple(twin for twin in twins[states] if twin != name) if states else ()
                found.append(PendingView(name=name, record=record, plan=plan, tables=tables, ranges=ranges, twins=others))
                taken |= {states} if states else set()
        except ServerError:
            raise  # not the view's fault, and another server will do
        except PlatformError as error:
            failed[name] = error
    return found, failed


def run_maintenance(
    work: Workspace,
    only: Collection[Name] | None = None,
    *,
    flush: bool = False,
    again: bool = False,
    timeout: timedelta | None = None,
    progress: ProgressHandler | None = None,
) -> MaintenanceOutcome:
    """Let all pending views, or those that are named, consume what has arrived; a run that loses a race starts again.

    A view that has failed on the same rows before is tried at growing intervals, unless `again` is set. One whose result does not pass its
    gate consumes nothing.
    """
    done = _run(work, only, flush=flush, again=again, timeout=timeout, progress=progress)
    _note_stalls(work, only, done)
    return done


def _note_stalls(work: Workspace, only: Collection[Name] | None, done: MaintenanceOutcome) -> None:
    """A refusal of a gate is noted by whoever holds the view to it."""
    stopped = {name: error for name, error in done.failed.items() if not isinstance(error, GateRefusal)}
    if not stopped and not read_stalled_names(work.lake, "maintenance"):
        return
    views = [view.name for view in work.lake.views() if only is None or view.name in only or str(view.name) in done.failed]
    end_stalls(work.lake, [name for name in views if str(name) not in stopped], cause="maintenance")
    for name in views:
        if str(name) in stopped:
            note_stall(work.lake, name, cause="maintenance", error=stopped[str(name)])


def _run(
    work: Workspace,
    only: Collection[Name] | None,
    *,
    flush: bool,
    again: bool,
    timeout: timedelta | None,
    progress: ProgressHandler | None,
) -> MaintenanceOutcome:
    began = time.monotonic()
    for attempt in range(_ATTEMPTS):
        with work.lake.lease(holder="maintenance") as lease:
            behind, failed = find_pending_views(work, lease.snapshot, only, flush=flush)
            twins = {view.name: view.twins for view in behind}
            if not again:
                behind, held = split_poisoned(work, behind)
                failed |= held
            behind, refused = pass_gates(work, behind, lease.snapshot, timeout=timeout, progress=progress)
            failed |= refused
            if not behind:
                return MaintenanceOutcome(snapshot=lease.snapshot, failed=_with_twins(failed, twins), seconds=time.monotonic() - began)
            try:
                guests = hooks.joint_scans(work, lease.snapshot, ranges_of(behind)) if only is None else []
                done = _maintain_together(work, lease.snapshot, behind, guests=guests, timeout=timeout, progress=progress)
            except CommitConflict:
                if attempt == _ATTEMPTS - 1:
                    raise
                continue
            return replace(done, failed=_with_twins(failed | done.failed, twins), seconds=time.monotonic() - began)
    raise AssertionError  # unreachable: the last attempt returns or raises


def _with_twins(failed: dict[str, PlatformError], twins: Mapping[str, tuple[str, ...]]) -> dict[str, PlatformError]:
    """Add the errors of views to those that share their states, which can't consume either."""
    return failed | {twin: error for name, error in failed.items() for twin in twins.get(name, ())}


def ranges_of(behind: Sequence[PendingView]) -> set[RangeKey]:
    """The ranges of streams that views consume."""
    return {(stream, tail.first_row_id, tail.next_row_id) for view in behind for stream, tail in view.ranges.items()}


def _maintain_together(
    work: Workspace,
    snapshot: Snapshot,
    behind: Sequence[PendingView],
    *,
    guests: Sequence[JointScan] = (),
    timeout: timedelta | None,
    progress: ProgressHandler | None,
) -> MaintenanceOutcome:
    try:
        return _maintain(work, snapshot, behind, guests=guests, timeout=timeout, progress=progress)
    except (CommitConflict, CatalogueError, StorageError, ServerError, QueryInterrupted):
        raise  # no view's fault
    except PlatformError as error:
        if len(behind) == 1 and not guests:
            return MaintenanceOutcome(snapshot=snapshot, failed={behind[0].name: note_failure(work, snapshot, behind[0], error)})
    # A row that one view can't digest must not hold up the others: by halves, so that few of many cost few queries.
    middle = (len(behind) + 1) // 2
    halves = [half for half in (behind[:middle], behind[middle:]) if half]
    parts = [_maintain_together(work, snapshot, half, timeout=timeout, progress=progress) for half in halves]
    return MaintenanceOutcome(
        views=tuple(name for part in parts for name in part.views),
        rows=sum(part.rows for part in parts),
        groups=sum(part.groups for part in parts),
        compacted=sum(part.compacted for part in parts),
        jobs=sum(part.jobs for part in parts),
        tasks=sum(part.tasks for part in parts),
        snapshot=max((part.snapshot for part in parts), key=lambda made: made.id),
        failed={name: error for part in parts for name, error in part.failed.items()},
        on_spark={name: why for part in parts for name, why in part.on_spark.items()},
    )


def _maintain(
    work: Workspace,
    snapshot: Snapshot,
    behind: Sequence[PendingView],
    *,
    guests: Sequence[JointScan],
    timeout: timedelta | None,
    progress: ProgressHandler | None,
) -> MaintenanceOutcome:
    by_range: defaultdict[RangeKey, list[PendingView]] = defaultdict(list)
    for view in behind:
        for stream, tail in view.ranges.items():
            by_range[stream, tail.first_row_id, tail.next_row_id].append(view)
    reasons: dict[str, str] = {}
    answers: list[Answer] = []
    cached: list[DataFrame] = []
    written: list[tuple[StateTarget, list[DataFile]]] = []
    joined: list[JointWrite] = []
    try:
        for key, views in by_range.items():
            looking = [guest for guest in guests if guest.key == key and guest.looks_at_rows]
            # Who has to look at the rows with Spark anyway lets the views look too.
            rest, made = ([(view, _JOINT) for view in views], []) if looking else take_locally(work, snapshot, key[0], views)
            written += made
            reasons |= {view.name: refusal.why for view, refusal in rest}
            if rest:
                takings = [view.taking(work, snapshot) for view, _ in rest]
                answers += range_queries(work, snapshot, key[0], takings, cached, guests=looking)
        left, made = compact_locally(work, find_additions(work, snapshot, behind))
        written += made
        answers += [compaction(work, additions) for additions in left]
        metrics: JobMetrics | None = None
        if answers:
            found, metrics = run_answers(work, answers, timeout=timeout, progress=progress)
            written += found
        joined += (guest.change(work) for guest in guests)
        with work.lake.commit(f"maintain {', '.join(view.name for view in behind)}"[:200], base=snapshot) as commit:
            put_answers(commit, written)
            commit.take_ungated(Name.of(split_name(name)) for view in behind for name in (view.name, *view.twins))
            commit.also(Advances(tuple(Advance.over(view.record, tail) for view in behind for tail in view.ranges.values())))
            for change in joined:
                change.put(commit)
    except PlatformError:
        work.lake.discard([*(file for _, files in written for file in files), *(file for change in joined for file in change.files)])
        raise
    finally:
        for frame in cached:
            frame.unpersist()
    return MaintenanceOutcome(
        views=tuple(name for view in behind for name in (view.name, *view.twins)),
        rows=sum(next_row_id - first_row_id for _, first_row_id, next_row_id in by_range),
        groups=sum(file.record_count for target, files in written if not target.replaces for file in files),
        compacted=sum(bool(target.replaces) for target, _ in written),
        jobs=0 if metrics is None else metrics.jobs or 0,
        tasks=0 if metrics is None else metrics.tasks,
        snapshot=commit.made,
        samples=tuple(change.name for change in joined),
        on_spark={name: reasons[view.name] for view in behind if view.name in reasons for name in (view.name, *view.twins)},
    )
