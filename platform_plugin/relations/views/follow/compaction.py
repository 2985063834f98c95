"""Compaction: merges the rows that runs have added to a state into one for each group, so that reads stay cheap."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from platform_plugin.engine.choose import choose_engine
from platform_plugin.engine.engine import Task, TaskInput, TaskPlan
from platform_plugin.engine.refusal import RefusedByEngine, accept
from platform_plugin.lake.read.read import read_rows
from platform_plugin.lake.read.scan import read_file_sizes
from platform_plugin.operators.group.parts import ROWS
from platform_plugin.relations.answers import Answer, StateTarget
from platform_plugin.relations.bind.names import new_name
from platform_plugin.relations.views.follow.strategy import DEFERRED, rows_parts, strategy_of
from platform_plugin.relations.views.read.merge import read_merged

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot, Table
    from platform_plugin.lake.files.files import DataFile
    from platform_plugin.lake.read.scan import TableScan
    from platform_plugin.operators.group.parts import State
    from platform_plugin.relations.views.follow.pending import PendingView

# From so many additions on they are looked at: they become one when they weigh enough against the rest, or are too many.
_ADDITIONS, _TOO_MANY = 8, 32
_WEIGHT = 0.25
# Stored rows are put together in files of at least this.
_SMALL_FILE = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Additions:
    """Files of a view's part to merge: new partial aggregates of a state, or rows of a deferred view if there is no state."""

    scan: TableScan
    state: State | None

    @property
    def target(self) -> StateTarget:
        """The table of the merged rows, and the files that they replace."""
        return StateTarget(table=self.scan.table, replaces=tuple(file.id for file in self.scan.files))


def find_additions(work: Workspace, snapshot: Snapshot, views: Sequence[PendingView]) -> list[Additions]:
    """The new partial aggregates of these views that are due; those of the present run are left for the next."""
    parts = [part for view in views for part in _parts(view)]
    with work.lake.reading() as connection:
        sizes = read_file_sizes(connection, [table for table, _ in parts], snapshot)
    found = []
    for table, state in parts:
        if not is_due(sizes.get(table.uuid, ()), is_state=state is not None):
            continue
        scan = work.lake.scan(table, snapshot)
        if state is None:
            scan = replace(scan, files=tuple(file for file in scan.files if file.size_bytes < _SMALL_FILE), inlined=())
        found.append(Additions(scan=scan, state=state))
    return found


def _parts(view: PendingView) -> Iterator[tuple[Table, State | None]]:
    if strategy_of(view.record) == DEFERRED:
        yield from ((view.tables[part], None) for part in rows_parts(view.plan).values())
    else:
        yield from ((view.tables[state.name], state) for state in view.plan.states)


def is_due(found: Sequence[int], *, is_state: bool) -> bool:
    """Whether partial aggregates of these sizes should be merged; each rewrite of a state costs all of it."""
    if not is_state:
        return sum(size < _SMALL_FILE for size in found) >= _TOO_MANY
    sizes = sorted(found)
    return len(sizes) >= _TOO_MANY or (len(sizes) >= _ADDITIONS and sum(sizes[:-1]) >= _WEIGHT * sizes[-1])


def compact_locally(work: Workspace, found: Sequence[Additions]) -> tuple[list[Additions], list[tuple[StateTarget, list[DataFile]]]]:
    """Merge small partial aggregates with Arrow; returns those that are left to Spark, and the files of the others."""
    left: list[Additions] = []
    written: list[tuple[StateTarget, list[DataFile]]] = []
    try:
        for additions in found:
            try:
                rows = _rows_of(work, additions)
            except RefusedByEngine:
                left.append(additions)
                continue
            written.append((additions.target, [work.lake.write(additions.scan.table, rows)] if rows.num_rows else []))
    except BaseException:
        work.lake.discard(file for _, files in written for file in files)
        raise
    return left, written


def _rows_of(work: Workspace, additions: Additions) -> pa.Table:
    state, scan = additions.state, additions.scan
    task = Task(plans=() if state is None else (TaskPlan(query=state.merge),))
    accept(choose_engine(task, {ROWS: TaskInput(role="state", size_bytes=scan.size_bytes, scan=scan)}, work.engines))
    if state is None:
        return read_rows(work.lake, scan)
    return read_merged(work, state, scan)


def compaction(work: Workspace, additions: Additions) -> Answer:
    """The Spark query that merges partial aggregates."""
    from platform_plugin.engine.spark.frames.scan import query_relations, read_relation

    frame = read_relation(work.session, work.lake, additions.scan)
    if additions.state is not None:
        name = new_name()
        frame = query_relations(work.session, additions.state.merge_sql(name), {name: frame})
    return Answer(frame=frame, targets=(additions.target,), is_small=additions.scan.size_bytes <= work.limits.sent_range_bytes)
