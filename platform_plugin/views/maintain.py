"""Maintenance: new rows of streams are added to the states of all views on them by one job, and become part of them in one commit."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from platform_plugin.errors import CommitConflict, PlatformError, QueryFailed, ServerError
from platform_plugin.lake.scan import read_file_sizes
from platform_plugin.queries.bind import new_name
from platform_plugin.samples.joining import find_guests
from platform_plugin.views.answers import Answer, Target, put_answers, run_answers
from platform_plugin.views.passes import Taking, answers_of_range
from platform_plugin.views.plans import plan_view
from platform_plugin.views.progress import Advance, Advances, read_all_progress
from platform_plugin.views.read import part_tables, static_frames, tail_ranges
from platform_plugin.views.record import read_records
from platform_plugin.views.settled import check_settled
from platform_plugin.views.strategy import DEFERRED, rows_parts, rows_wanted, strategy_of
from platform_plugin.views.take import take_locally

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import timedelta

    from pyspark.sql import DataFrame

    from platform_plugin.lake.files import DataFile
    from platform_plugin.lake.scan import Scan
    from platform_plugin.lake.tables import Name, Snapshot, Table
    from platform_plugin.samples.joining import Guest
    from platform_plugin.samples.maintain import Change
    from platform_plugin.spark.job import ProgressHandler
    from platform_plugin.spark.metrics import JobMetrics
    from platform_plugin.spark.workspace import Workspace
    from platform_plugin.views.parts import SplitPlan, State
    from platform_plugin.views.ranges import Range
    from platform_plugin.views.record import ViewRecord

_ATTEMPTS = 5
# From so many additions on they are looked at: they become one when they weigh enough against the rest, or are too many.
_ADDITIONS, _TOO_MANY = 8, 32
_WEIGHT = 0.25
# Stored rows are put together in files of at least this.
_SMALL_FILE = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintained:
    """What a run did. `jobs` are Spark's, for all views together; `failed` says why a view was left behind."""

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
    """The samples that took up the same rows in the same commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Behind:
    """A view with rows that it has not taken up."""

    name: str
    record: ViewRecord
    plan: SplitPlan
    tables: dict[str, Table]
    ranges: dict[str, Range]

    @property
    def row_count(self) -> int:
        """The rows that wait for it."""
        return sum(found.row_count for found in self.ranges.values())

    def taking(self, work: Workspace, snapshot: Snapshot) -> Taking:
        """The view as a run takes it up."""
        return Taking(
            name=self.name,
            uuid=self.record.uuid,
            plan=self.plan,
            tables=self.tables,
            ranges=self.ranges,
            statics=static_frames(work, self.plan, self.tables, snapshot),
            is_deferred=strategy_of(self.record) == DEFERRED,
        )


Key = tuple[str, int, int]


def find_behind(
    work: Workspace, snapshot: Snapshot, only: Collection[Name] | None = None, *, flush: bool = False
) -> tuple[list[Behind], dict[str, PlatformError]]:
    """The views that have rows to take up, and those that can't be maintained at all; with `flush` a part of a batch is enough."""
    lake = work.lake
    with lake.reading() as connection:
        records = read_records(connection)
        progress = read_all_progress(connection, snapshot.id)
    found, failed = [], {}
    known: dict[tuple[str, int], Range] = {}
    for view in lake.views(snapshot):
        if view.uuid not in records or (only is not None and view.name not in only):
            continue
        record, name = records[view.uuid], str(view.name)
        try:
            plan = plan_view(work, record, snapshot)
            check_settled(work, name, record, plan, snapshot)
            tails = tail_ranges(work, name, plan, snapshot, progress.get(str(record.uuid), {}), known=known)
            ranges = {stream: tail for stream, tail in tails.items() if not tail.is_empty}
            waiting = max((tail.row_count for tail in ranges.values()), default=0)
            if ranges and (flush or waiting >= rows_wanted(record)):
                tables = part_tables(work, record, snapshot)
                found.append(Behind(name=name, record=record, plan=plan, tables=tables, ranges=ranges))
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
    timeout: timedelta | None = None,
    progress: ProgressHandler | None = None,
) -> Maintained:
    """Let views take up what has arrived, all that are behind or those that are named; a run that loses a race begins anew."""
    began = time.monotonic()
    for attempt in range(_ATTEMPTS):
        with work.lake.lease(holder="maintenance") as lease:
            behind, failed = find_behind(work, lease.snapshot, only, flush=flush)
            if not behind:
                return Maintained(snapshot=lease.snapshot, failed=failed, seconds=time.monotonic() - began)
            try:
                guests = find_guests(work, lease.snapshot, ranges_of(behind)) if only is None else []
                done = _maintain_together(work, lease.snapshot, behind, guests=guests, timeout=timeout, progress=progress)
            except CommitConflict:
                if attempt == _ATTEMPTS - 1:
                    raise
                continue
            return replace(done, failed=failed | done.failed, seconds=time.monotonic() - began)
    raise AssertionError  # unreachable: the last attempt returns or raises


def ranges_of(behind: Sequence[Behind]) -> set[Key]:
    """The ranges of streams that views take up."""
    return {(stream, tail.first_row_id, tail.next_row_id) for view in behind for stream, tail in view.ranges.items()}


def _maintain_together(
    work: Workspace,
    snapshot: Snapshot,
    behind: Sequence[Behind],
    *,
    guests: Sequence[Guest] = (),
    timeout: timedelta | None,
    progress: ProgressHandler | None,
) -> Maintained:
    try:
        return _maintain(work, snapshot, behind, guests=guests, timeout=timeout, progress=progress)
    except QueryFailed as error:
        if len(behind) == 1 and not guests:
            return Maintained(snapshot=snapshot, failed={behind[0].name: error})
    # A row that one view can't digest must not hold up the others.
    parts = [_maintain_together(work, snapshot, [view], timeout=timeout, progress=progress) for view in behind]
    return Maintained(
        views=tuple(name for part in parts for name in part.views),
        rows=sum(part.rows for part in parts),
        groups=sum(part.groups for part in parts),
        compacted=sum(part.compacted for part in parts),
        jobs=sum(part.jobs for part in parts),
        tasks=sum(part.tasks for part in parts),
        snapshot=max((part.snapshot for part in parts), key=lambda made: made.id),
        failed={name: error for part in parts for name, error in part.failed.items()},
    )


def _maintain(
    work: Workspace,
    snapshot: Snapshot,
    behind: Sequence[Behind],
    *,
    guests: Sequence[Guest],
    timeout: timedelta | None,
    progress: ProgressHandler | None,
) -> Maintained:
    by_range: defaultdict[Key, list[Behind]] = defaultdict(list)
    for view in behind:
        for stream, tail in view.ranges.items():
            by_range[stream, tail.first_row_id, tail.next_row_id].append(view)
    answers: list[Answer] = []
    cached: list[DataFrame] = []
    written: list[tuple[Target, list[DataFile]]] = []
    joined: list[Change] = []
    try:
        for key, views in by_range.items():
            looking = [guest for guest in guests if guest.key == key and guest.looks_at_rows]
            # Who has to look at the rows with Spark anyway lets the views look too.
            rest, made = (views, []) if looking else take_locally(work, snapshot, key[0], views)
            written += made
            if rest:
                takings = [view.taking(work, snapshot) for view in rest]
                answers += answers_of_range(work, snapshot, key[0], takings, cached, guests=looking)
        answers += _compactions(work, snapshot, behind)
        metrics: JobMetrics | None = None
        if answers:
            found, metrics = run_answers(work, answers, timeout=timeout, progress=progress)
            written += found
        joined += (guest.change(work) for guest in guests)
        with work.lake.commit(f"maintain {', '.join(view.name for view in behind)}"[:200], base=snapshot) as commit:
            put_answers(commit, written)
            commit.also(Advances(tuple(Advance.over(view.record.uuid, tail) for view in behind for tail in view.ranges.values())))
            for change in joined:
                change.put(commit)
    except PlatformError:
        work.lake.discard([*(file for _, files in written for file in files), *(file for change in joined for file in change.files)])
        raise
    finally:
        for frame in cached:
            frame.unpersist()
    return Maintained(
        views=tuple(view.name for view in behind),
        rows=sum(next_row_id - first_row_id for _, first_row_id, next_row_id in by_range),
        groups=sum(file.record_count for target, files in written if not target.replaces for file in files),
        compacted=sum(bool(target.replaces) for target, _ in written),
        jobs=0 if metrics is None else metrics.jobs or 0,
        tasks=0 if metrics is None else metrics.tasks,
        snapshot=commit.made,
        samples=tuple(change.behind.sample.name for change in joined),
    )


def _compactions(work: Workspace, snapshot: Snapshot, behind: Sequence[Behind]) -> list[Answer]:
    """Queries that make one of a state's many additions, where that is due; what is added in this run is left for the next."""
    kept = [(view, part) for view in behind if strategy_of(view.record) == DEFERRED for part in rows_parts(view.plan).values()]
    states = [(view, state) for view in behind if strategy_of(view.record) != DEFERRED for state in view.plan.states]
    tables = [*(view.tables[part] for view, part in kept), *(view.tables[state.name] for view, state in states)]
    with work.lake.reading() as connection:
        sizes = read_file_sizes(connection, tables, snapshot)
    answers = []
    for view, part in kept:
        table = view.tables[part]
        if sum(size < _SMALL_FILE for size in sizes.get(table.uuid, ())) >= _TOO_MANY:
            answers.append(_put_together(work, work.lake.scan(table, snapshot)))
    for view, state in states:
        table = view.tables[state.name]
        if is_due_for_compaction(sizes.get(table.uuid, ())):
            answers.append(_merged(work, state, work.lake.scan(table, snapshot)))
    return answers


def _put_together(work: Workspace, scan: Scan) -> Answer:
    from platform_plugin.spark.relation import read_relation

    few = tuple(file for file in scan.files if file.size_bytes < _SMALL_FILE)
    frame = read_relation(work.session, work.lake, replace(scan, files=few))
    return Answer(frame=frame, targets=(Target(table=scan.table, replaces=tuple(file.id for file in few)),))


def _merged(work: Workspace, state: State, scan: Scan) -> Answer:
    from platform_plugin.spark.relation import query_relations, read_relation

    name = new_name()
    frame = query_relations(work.session, state.merge_sql(name), {name: read_relation(work.session, work.lake, scan)})
    return Answer(frame=frame, targets=(Target(table=scan.table, replaces=tuple(file.id for file in scan.files)),))


def is_due_for_compaction(found: Collection[int]) -> bool:
    """Whether additions of these sizes should become one: they bound what a read of a state costs, and each rewrite costs all of it."""
    sizes = sorted(found)
    return len(sizes) >= _TOO_MANY or (len(sizes) >= _ADDITIONS and sum(sizes[:-1]) >= _WEIGHT * sizes[-1])
