"""Maintenance: new rows of streams are added to the states of all views on them by one job, and become part of them in one commit."""

from __future__ import annotations

import time
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from platform_plugin.errors import CommitConflict, PlatformError, QueryFailed
from platform_plugin.queries.bind import new_name
from platform_plugin.views.packing import pack
from platform_plugin.views.plans import plan_view
from platform_plugin.views.read import part_tables, run_part, static_frames, tail_ranges
from platform_plugin.views.record import Advance, read_records

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from datetime import timedelta

    from pyspark.sql import DataFrame

    from platform_plugin.lake.files import DataFile
    from platform_plugin.lake.scan import Scan
    from platform_plugin.lake.tables import Name, Snapshot, Table
    from platform_plugin.spark.job import ProgressHandler
    from platform_plugin.spark.metrics import JobMetrics
    from platform_plugin.spark.session import Session
    from platform_plugin.spark.workspace import Workspace
    from platform_plugin.views.parts import SplitPlan, State
    from platform_plugin.views.ranges import Range
    from platform_plugin.views.record import ViewRecord

_ATTEMPTS = 5
_ADAPTIVE = "spark.sql.adaptive.enabled"
# From so many additions on they are looked at: they become one when they weigh enough against the rest, or are too many.
_ADDITIONS, _TOO_MANY = 8, 32
_WEIGHT = 0.25
# Rows of an answer that wait in memory before they become a file.
_WAITING_BYTES = 64 * 1024 * 1024


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """New rows of one state: from ranges, and where `replaces` is not empty from the whole state as it was."""

    view: Behind
    state: State
    table: Table
    scan: Scan | None = None

    @property
    def replaces(self) -> tuple[int, ...]:
        """The files that the new rows take the place of."""
        return () if self.scan is None else tuple(file.id for file in self.scan.files)


def find_behind(work: Workspace, snapshot: Snapshot, only: Collection[Name] | None = None) -> tuple[list[Behind], dict[str, PlatformError]]:
    """The views that have rows to take up, and those that can't be maintained at all."""
    lake = work.lake
    with lake.reading() as connection:
        records = read_records(connection)
    found, failed = [], {}
    for view in lake.views(snapshot):
        if view.uuid not in records or (only is not None and view.name not in only):
            continue
        record, name = records[view.uuid], str(view.name)
        try:
            plan = plan_view(work, record, snapshot)
            ranges = {stream: tail for stream, tail in tail_ranges(work, name, record, plan, snapshot).items() if not tail.is_empty}
            if ranges:
                tables = part_tables(work, record, snapshot)
                found.append(Behind(name=name, record=record, plan=plan, tables=tables, ranges=ranges))
        except PlatformError as error:
            failed[name] = error
    return found, failed


def run_maintenance(
    work: Workspace,
    only: Collection[Name] | None = None,
    *,
    timeout: timedelta | None = None,
    progress: ProgressHandler | None = None,
) -> Maintained:
    """Let views take up what has arrived, all that are behind or those that are named; a run that loses a race begins anew."""
    began = time.monotonic()
    for attempt in range(_ATTEMPTS):
        with work.lake.lease(holder="maintenance") as lease:
            behind, failed = find_behind(work, lease.snapshot, only)
            if not behind:
                return Maintained(snapshot=lease.snapshot, failed=failed, seconds=time.monotonic() - began)
            try:
                done = _maintain_together(work, lease.snapshot, behind, timeout=timeout, progress=progress)
            except CommitConflict:
                if attempt == _ATTEMPTS - 1:
                    raise
                continue
            return replace(done, failed=failed | done.failed, seconds=time.monotonic() - began)
    raise AssertionError  # unreachable: the last attempt returns or raises


def _maintain_together(
    work: Workspace, snapshot: Snapshot, behind: Sequence[Behind], *, timeout: timedelta | None, progress: ProgressHandler | None
) -> Maintained:
    try:
        return _maintain(work, snapshot, behind, timeout=timeout, progress=progress)
    except QueryFailed as error:
        if len(behind) == 1:
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
    work: Workspace, snapshot: Snapshot, behind: Sequence[Behind], *, timeout: timedelta | None, progress: ProgressHandler | None
) -> Maintained:
    additions = [addition for view in behind for addition in _plan_additions(work, view, snapshot)]
    rows, cached = _shared_rows(work, behind)
    written: list[list[DataFile]] = []
    try:
        frames = [_added(work, addition, snapshot, rows) for addition in additions]
        written, metrics = run_additions(work, additions, frames, timeout=timeout, progress=progress)
        with work.lake.commit(f"maintain {', '.join(view.name for view in behind)}"[:200], base=snapshot) as commit:
            for addition, files in zip(additions, written, strict=True):
                if addition.replaces:
                    commit.replace(addition.table, addition.replaces, files)
                else:
                    commit.append(addition.table, files)
            for view in behind:
                for tail in view.ranges.values():
                    commit.also(Advance(view.record.uuid, tail.stream, tail.first_row_id, tail.next_row_id))
    except BaseException:
        work.lake.discard(file for files in written for file in files)
        raise
    finally:
        for frame in cached:
            frame.unpersist()
    return Maintained(
        views=tuple(view.name for view in behind),
        rows=sum({id_: tail.row_count for view in behind for id_, tail in _ranges_by_key(view).items()}.values()),
        groups=sum(file.record_count for files in written for file in files),
        compacted=sum(bool(addition.replaces) for addition in additions),
        jobs=metrics.jobs or 0,
        tasks=metrics.tasks,
        snapshot=commit.made,
    )


def _ranges_by_key(view: Behind) -> dict[tuple[object, int, int], Range]:
    return {(tail.stream.uuid, tail.first_row_id, tail.next_row_id): tail for tail in view.ranges.values()}


def _plan_additions(work: Workspace, view: Behind, snapshot: Snapshot) -> list[Addition]:
    """The states that new rows go to, and whether they are compacted while at it."""
    found = []
    for state in view.plan.states:
        if any(part.state == state.name and part.stream in view.ranges for part in view.plan.streams):
            table = view.tables[state.name]
            scan = work.lake.scan(table, snapshot)
            found.append(Addition(view=view, state=state, table=table, scan=scan if is_due_for_compaction(scan) else None))
    return found


def is_due_for_compaction(scan: Scan) -> bool:
    """Whether a state's additions should become one: they bound what a read costs, and each rewrite costs the whole state."""
    sizes = sorted(file.size_bytes for file in scan.files)
    return len(sizes) >= _TOO_MANY or (len(sizes) >= _ADDITIONS and sum(sizes[:-1]) >= _WEIGHT * sizes[-1])


def _shared_rows(work: Workspace, behind: Sequence[Behind]) -> tuple[dict[tuple[object, int, int], DataFrame], list[DataFrame]]:
    """The rows of ranges that several parts read, decoded once and kept until the run has ended."""
    from platform_plugin.views.ranges import rows_of

    readers: defaultdict[tuple[object, int, int], list[tuple[Range, bool]]] = defaultdict(list)
    for view in behind:
        for part in view.plan.streams:
            tail = view.ranges.get(part.stream)
            if tail is not None:
                readers[tail.stream.uuid, tail.first_row_id, tail.next_row_id].append((tail, part.row_id))
    shared: dict[tuple[object, int, int], DataFrame] = {}
    for key, users in readers.items():
        if len(users) > 1:
            tail = users[0][0]
            shared[key] = rows_of(work.session, work.lake, tail, row_ids=any(row_id for _, row_id in users)).persist()
    return shared, list(shared.values())


def _added(work: Workspace, addition: Addition, snapshot: Snapshot, shared: dict[tuple[object, int, int], DataFrame]) -> DataFrame:
    """The new rows of a state, in its table's columns."""
    from platform_plugin.spark.relation import query_relations, read_relation
    from platform_plugin.spark.write import shaped

    view = addition.view
    statics = static_frames(work, view.plan, view.tables, snapshot)
    names = [column.name for column in addition.state.columns]
    frames = []
    for part in view.plan.streams:
        tail = view.ranges.get(part.stream)
        if part.state == addition.state.name and tail is not None:
            rows = shared.get((tail.stream.uuid, tail.first_row_id, tail.next_row_id))
            frames.append(run_part(work, part, tail, statics, rows=rows))
    if addition.scan is not None:
        frames.append(read_relation(work.session, work.lake, addition.scan))
    whole = frames[0]
    for frame in frames[1:]:
        whole = whole.unionAll(frame)
    if len(frames) > 1:
        name = new_name()
        whole = query_relations(work.session, addition.state.merge_sql(name), {name: whole})
    return shaped(whole, addition.table.fields, names)


@contextmanager
def planned_as_one(session: Session) -> Iterator[None]:
    """Let Spark run a query as one job: with adaptive execution each shuffle of each view would be a job of its own."""
    session.spark.conf.set(_ADAPTIVE, "false")
    try:
        yield
    finally:
        session.spark.conf.unset(_ADAPTIVE)


def run_additions(
    work: Workspace,
    additions: Sequence[Addition],
    frames: Sequence[DataFrame],
    *,
    timeout: timedelta | None,
    progress: ProgressHandler | None,
) -> tuple[list[list[DataFile]], JobMetrics]:
    """Run all frames as one query and write each one's rows as files of its table; if that fails, nothing is left."""
    from platform_plugin.spark.schema import to_spark_schema

    lake = work.lake
    names = [[column.name for column in addition.table.fields] for addition in additions]
    packed = pack(frames, [to_spark_schema(addition.table.fields) for addition in additions])
    waiting: list[list[pa.Table]] = [[] for _ in additions]
    files: list[list[DataFile]] = [[] for _ in additions]

    def write(number: int) -> None:
        if waiting[number]:
            files[number].append(lake.write(additions[number].table, pa.concat_tables(waiting[number])))
            waiting[number] = []

    try:
        with planned_as_one(work.session), work.session.arrow(packed.frame, timeout=timeout, progress=progress) as stream:
            for batch in stream:
                for number, rows in packed.unpack(batch, names):
                    waiting[number].append(rows)
                    if sum(part.nbytes for part in waiting[number]) >= _WAITING_BYTES:
                        write(number)
            for number in range(len(additions)):
                write(number)
            metrics = stream.metrics()
    except BaseException:
        lake.discard(file for found in files for file in found)
        raise
    return files, metrics
