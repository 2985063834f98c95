"""`read_local`: the rows of a continuous view in this process, where its states and unconsumed rows are small."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from platform_plugin.engine.choose import choose_engine
from platform_plugin.engine.engine import Task, TaskInput, TaskPlan
from platform_plugin.engine.kernel_run import remember
from platform_plugin.engine.refusal import RefusedByEngine, accept
from platform_plugin.errors import PlatformError
from platform_plugin.lake.catalogue.tables import Name, View
from platform_plugin.relations.follow.ranges import range_input
from platform_plugin.relations.kinds import find_kind
from platform_plugin.relations.lookups import table_input
from platform_plugin.relations.views.follow.strategy import DEFERRED, hidden_columns, strategy_of
from platform_plugin.relations.views.plans import find_plan
from platform_plugin.relations.views.read.view import part_tables, split_name, view_ranges
from platform_plugin.relations.views.record import RESULT_PART, read_records
from platform_plugin.relations.views.stores import store_of
from platform_plugin.state.merged import read_merged

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    import pyarrow as pa

    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot, Table
    from platform_plugin.lake.read.scan import TableScan
    from platform_plugin.operators.group.parts import SplitPlan, State, StreamPart
    from platform_plugin.relations.views.record import ViewRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalResult:
    """A view's rows at a snapshot, and the table that has their columns."""

    table: Table
    rows: pa.Table


def read_local(work: Workspace, view: View, snapshot: Snapshot) -> LocalResult | None:
    """A view's rows at a snapshot, or None where they are left to Spark."""
    with work.lake.reading() as connection:
        record = read_records(connection, only=view.uuid).get(view.uuid)
    if record is None or strategy_of(record) == DEFERRED:
        return None
    try:
        plan = find_plan(work, record, snapshot)
        return None if plan.volatile else _Read(work, record, plan, snapshot).run(view)
    except RefusedByEngine:
        return None
    except PlatformError:
        return None  # told by the way that every other query goes


class _Read:
    """A read of a view: partial aggregates of its tails, which its states are merged with, and the upper query over them."""

    def __init__(self, work: Workspace, record: ViewRecord, plan: SplitPlan, snapshot: Snapshot) -> None:
        self._work, self._plan, self._snapshot = work, plan, snapshot
        self._key: tuple[Hashable, ...] = (work.lake.uuid, record.uuid, snapshot.schema_version)
        self._record = record
        self._tables = part_tables(work, record, snapshot)

    def run(self, view: View) -> LocalResult:
        """The rows; raises `RefusedByEngine`."""
        work, plan, result = self._work, self._plan, self._tables[RESULT_PART]
        scans = {state.name: work.lake.scan(self._tables[state.name], self._snapshot) for state in plan.states}
        states = {name: TaskInput(role="state", size_bytes=scan.size_bytes, scan=scan) for name, scan in scans.items()}
        statics = self._statics()
        upper = Task.of(plan.upper, result.fields, key=("upper", *self._key))
        others = {**statics, **self._upper_inputs()}
        engine, bid = accept(choose_engine(upper, {**states, **others}, work.engines))
        added = self._add_tails(view, {**states, **statics})
        try:
            merged = {state.name: self._merge(state, scans[state.name], added[state.name]) for state in plan.states}
        except RefusedByEngine as refused:
            remember(upper, refused.refusal)
            raise
        (answer,) = engine.run([bid], {**others, **merged})
        return LocalResult(table=result, rows=accept(answer).rows[0])

    def _add_tails(self, view: View, inputs: Mapping[str, TaskInput]) -> dict[str, list[pa.Table]]:
        """What the rows that no run has consumed add to each state; a state that another view maintains may be further than the others."""
        work, plan = self._work, self._plan
        ranges = view_ranges(work, str(view.name), self._record, plan, self._snapshot)
        groups: defaultdict[tuple[str, int], list[StreamPart]] = defaultdict(list)
        for part in plan.streams:
            if not ranges[part.name].is_empty:
                groups[part.stream, ranges[part.name].first_row_id].append(part)
        chosen = []
        for (stream, _), parts in groups.items():
            plans = tuple(TaskPlan(query=part.query, fields=self._tables[part.state].fields) for part in parts)
            task = Task(plans=plans, key=("tail", *self._key, tuple(part.name for part in parts)))
            tail = range_input(work.lake, ranges[parts[0].name], "tail", hidden=hidden_columns(plan, stream))
            own = {**inputs, stream: tail}
            chosen.append((parts, own, accept(choose_engine(task, own, work.engines))))
        added: dict[str, list[pa.Table]] = {state.name: [] for state in plan.states}
        for parts, own, (engine, bid) in chosen:
            for part, rows in zip(parts, accept(engine.run([bid], own)[0]).rows, strict=True):
                added[part.state].append(rows)
        return added

    def _merge(self, state: State, scan: TableScan, added: Sequence[pa.Table]) -> pa.Table:
        store = store_of(state, self._tables[state.name])
        rows = read_merged(self._work.lake, store, scan)
        # A state without keys is one row even if nothing has come.
        return store.merge_into(rows, added) if added or not state.keys else rows

    def _statics(self) -> dict[str, TaskInput]:
        return {
            static.name: table_input(self._work, self._tables[static.name], self._snapshot)
            for static in self._plan.statics
            if static.feeds is None
        }

    def _upper_inputs(self) -> dict[str, pa.Table]:
        work = self._work
        found: dict[str, pa.Table] = {}
        for name in self._plan.upper_tables:
            with work.lake.reading() as connection:
                relation = work.lake.find_relation(connection, Name.of(split_name(name)), self._snapshot)
            if isinstance(relation, View):
                raise RefusedByEngine("a view in the upper query")
            # A sample is more than what it has stored.
            small = find_kind(work.lake, relation, self._snapshot).find_small(work, relation, self._snapshot)
            if small is None or small.rows is None:
                raise RefusedByEngine("a large relation in the upper query", for_good=False)
            found[name] = small.rows
        return found
