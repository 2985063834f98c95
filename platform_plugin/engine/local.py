"""`LocalEngine`: the Arrow kernel in this process."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from platform_plugin.algebra.plan.nodes import Aggregate, scans
from platform_plugin.algebra.plan.traversal import columns_in
from platform_plugin.cache import Cache
from platform_plugin.engine.arrow.group_keys import is_grouped
from platform_plugin.engine.arrow.groupings import Groupings
from platform_plugin.engine.arrow.plans import ArrowTables, run_plan, run_query
from platform_plugin.engine.arrow.prepared import bind_values, prepare_selection
from platform_plugin.engine.engine import Bid, TaskInput, TaskResult
from platform_plugin.engine.refusal import Refusal, RefusedByEngine, accept
from platform_plugin.errors import PlatformError
from platform_plugin.lake.values.types import arrow_schema

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping, Sequence
    from concurrent.futures import Executor, Future

    from platform_plugin.algebra.plan.nodes import Query
    from platform_plugin.algebra.types.data_types import Field
    from platform_plugin.engine.arrow.prepared import PreparedSelection
    from platform_plugin.engine.engine import Inputs, Task, TaskPlan, Values
    from platform_plugin.engine.limits import Limits
    from platform_plugin.lake.files.files import DataFile
    from platform_plugin.lake.lake import Lake

__all__ = ["LocalEngine", "compute", "is_grouped"]

# Groups are made, and files of them written, by so many at a time.
_THREADS = min(4, os.cpu_count() or 1)

# The refusals that are about plans, whatever the rows are.
_REFUSALS: Cache[Hashable, Refusal] = Cache("plans that Arrow refuses")
_GROUPINGS: Cache[Hashable, Groupings] = Cache("groupings by Arrow", weigh=lambda _: 250_000)


@dataclass(frozen=True, slots=True)
class LocalEngine:
    """The kernel in this process, for inputs within the limits of a workspace."""

    lake: Lake
    limits: Limits
    name: str = "local"

    def bid(self, task: Task, inputs: Inputs) -> Bid | Refusal:
        """The offer for a task; none for one that was refused for good before, and for too many rows or bytes."""
        refusal = (_REFUSALS.get(task.key) if task.key is not None else None) or self._refuse_sizes(inputs)
        if refusal is not None:
            return refusal
        return Bid(engine=self.name, task=task, why="its rows are few", program=_prepare(task, inputs))

    def run(self, bids: Sequence[Bid], inputs: Inputs, values: Values = ()) -> list[TaskResult | Refusal]:
        """The results of tasks; their files are written while others are still computed."""
        if len(bids) == 1 and bids[0].program is not None:
            selection: PreparedSelection = bids[0].program
            rows = selection.run(inputs, values)
            if rows is not None:
                return [TaskResult(rows=(rows,))]
        tasks = [bid.task for bid in bids]
        relations = _read_inputs(tasks, inputs)
        with ThreadPoolExecutor(max_workers=_THREADS) as pool:
            run = _LocalRun(self.lake, tasks, relations, values, pool)
            try:
                begun = [run.begin(task) for task in tasks]
                return [one if isinstance(one, Refusal) else one.finish() for one in begun]
            except BaseException:
                pool.shutdown(cancel_futures=True)
                self.lake.discard(run.written())
                raise

    def _refuse_sizes(self, inputs: Inputs) -> Refusal | None:
        limits = self.limits
        sizes = [found for found in inputs.values() if isinstance(found, TaskInput)]
        for found in sizes:
            if found.role == "range" and (
                not found.is_whole or found.row_count > limits.client_range_rows or found.size_bytes > limits.client_range_bytes
            ):
                return Refusal(why="many rows, or rows that were changed", for_good=False)
            if found.role == "tail" and (not found.is_whole or found.row_count > limits.client_tail_rows):
                return Refusal(why="many rows, or rows that were changed", for_good=False)
            if found.role == "table" and (found.size_bytes > limits.small_table_bytes or found.file_count > limits.small_table_files):
                return Refusal(why="a large table that is looked up", for_good=False)
        # With a limit of 0 nothing is read with states or added to them.
        states = [found.size_bytes if found.role == "state" else 0 for found in sizes if found.role in ("state", "tail")]
        if states and sum(states) >= limits.client_state_bytes:
            return Refusal(why="a large state", for_good=False)
        return None


class _Needs(NamedTuple):
    """The relations that a plan reads, and the names of all columns that it mentions."""

    relations: tuple[str, ...]
    columns: frozenset[str]


_NEEDS: Cache[Hashable, tuple[_Needs, ...]] = Cache("needs of tasks", weigh=lambda _: 2_000)


def _find_needs(task: Task) -> tuple[_Needs, ...]:
    """What each plan of a task needs."""

    def find() -> tuple[_Needs, ...]:
        return tuple(
            _Needs(
                tuple(dict.fromkeys(".".join(scan.relation) for scan in scans(plan.query))),
                frozenset(column.name for column in columns_in(plan.query)),
            )
            for plan in task.plans
        )

    return find() if task.key is None else _NEEDS.find(task.key, find)


class _LocalRelations(NamedTuple):
    """The relations that the tasks of a run read: their rows, or why there are none."""

    tables: dict[str, pa.Table]
    missing: dict[str, Refusal]

    def find_missing(self, needs: _Needs) -> Refusal | None:
        """Why a plan can't be run, if one of its relations can't be read."""
        return next((self.missing[name] for name in needs.relations if name in self.missing), None) if self.missing else None


class _LocalRun:
    """The tasks of one run over the same relations."""

    def __init__(self, lake: Lake, tasks: Sequence[Task], relations: _LocalRelations, values: Values, pool: Executor) -> None:
        self._lake, self._relations, self._values, self._pool = lake, relations, values, pool
        self._tables = ArrowTables(tables=relations.tables)
        self._files: list[Future[list[DataFile]]] = []
        # Threads cost more than the few rows of one task whose result stays here.
        is_large = len(tasks) > 1 or any(plan.target is not None for task in tasks for plan in task.plans)
        plans = [pair for task in tasks for pair in self._plans(task)] if is_large and not values else []
        shared = [plan.query for plan, needs in plans if self._is_shared(plan, needs)]
        self._places = {id(query): place for place, query in enumerate(shared)} if len(shared) > 1 else {}
        self._running = self._find_groupings(tasks, shared).begin(self._tables, pool) if self._places else None

    @staticmethod
    def _plans(task: Task) -> Iterator[tuple[TaskPlan, _Needs]]:
        return zip(task.plans, _find_needs(task), strict=True)

    def _is_shared(self, plan: TaskPlan, needs: _Needs) -> bool:
        query = plan.query
        return isinstance(query, Aggregate) and query.sets is None and self._relations.find_missing(needs) is None

    def _find_groupings(self, tasks: Sequence[Task], shared: Sequence[Any]) -> Groupings:
        """What the plans share, which is the same for tasks that are known by the same keys."""
        if any(task.key is None for task in tasks):
            return Groupings(shared)
        key = tuple((task.key, tuple(id(plan.query) in self._places for plan in task.plans)) for task in tasks)
        return _GROUPINGS.find(key, lambda: Groupings(shared))

    def begin(self, task: Task) -> _PendingFiles | Refusal:
        """Compute the rows of a task, and begin to write the files that they become."""
        try:
            made = [self._rows_of(plan, needs) for plan, needs in self._plans(task)]
        except RefusedByEngine as refused:
            return remember(task, refused.refusal)
        pending = _PendingFiles()
        for plan, rows in zip(task.plans, made, strict=True):
            if plan.target is None:
                pending.rows.append(rows)
            else:
                pending.files.append(self._pool.submit(plan.target.write, self._lake, rows) if rows.num_rows else None)
        self._files += [file for file in pending.files if file is not None]
        return pending

    def _rows_of(self, plan: TaskPlan, needs: _Needs) -> pa.Table:
        missing = self._relations.find_missing(needs)
        if missing is not None:
            accept(missing)
        place = self._places.get(id(plan.query))
        if place is None or self._running is None:
            rows = run_query(bind_values(plan.query, self._values), self._tables)
        else:
            rows = self._running.rows_of(place)
        return rows if plan.fields is None else check_fields(rows, plan.fields)

    def written(self) -> Iterator[DataFile]:
        """The files that are there when the run is given up."""
        done = (files for files in self._files if not files.cancelled() and files.exception() is None)
        return (file for files in done for file in files.result())


@dataclass(slots=True)
class _PendingFiles:
    rows: list[pa.Table] = field(default_factory=list)
    files: list[Future[list[DataFile]] | None] = field(default_factory=list)

    def finish(self) -> TaskResult:
        """The result, once its files are there."""
        return TaskResult(rows=tuple(self.rows), files=tuple(() if files is None else tuple(files.result()) for files in self.files))


def _prepare(task: Task, inputs: Inputs) -> PreparedSelection | None:
    """What is run at once where a task is one selection of rows in this process."""
    if len(task.plans) != 1 or (plan := task.plans[0]).fields is not None or plan.target is not None:
        return None
    return prepare_selection(plan.query, {name: rows.schema for name, rows in inputs.items() if isinstance(rows, pa.Table)})


def _read_inputs(tasks: Sequence[Task], inputs: Inputs) -> _LocalRelations:
    """The rows of the relations that the tasks read, and why a table that is looked up can't be."""
    needs = [found for task in tasks for found in _find_needs(task)]
    columns = frozenset[str]().union(*(found.columns for found in needs))
    tables: dict[str, pa.Table] = {}
    missing: dict[str, Refusal] = {}
    for name in dict.fromkeys(name for found in needs for name in found.relations):
        relation = inputs.get(name)
        if isinstance(relation, TaskInput) and relation.read is not None:
            try:
                tables[name] = relation.read(columns)
            except PlatformError:
                if relation.role != "table":
                    raise
                missing[name] = Refusal(why="a table that can't be read", for_good=False)  # told by Spark, if it stays so
        elif isinstance(relation, pa.Table):
            tables[name] = relation
    return _LocalRelations(tables, missing)


def remember(task: Task, refusal: Refusal) -> Refusal:
    """Note that a task is refused for good."""
    if refusal.for_good and task.key is not None:
        _REFUSALS.put(task.key, refusal)
    return refusal


def compute(query: Query, tables: Mapping[str, pa.Table], fields: tuple[Field, ...] | None = None) -> pa.Table:
    """The rows of one plan over tables in this process, a step of work that goes on with them; raises `RefusedByEngine`."""
    rows = run_plan(query, tables)
    return rows if fields is None else check_fields(rows, fields)


def check_fields(rows: pa.Table, fields: tuple[Field, ...]) -> pa.Table:
    """The rows with the columns and types of `fields`; other columns or types are refused."""
    schema = arrow_schema(fields)
    if rows.column_names != schema.names or rows.schema.types != schema.types:
        raise RefusedByEngine("other columns than Spark gives")
    return pa.Table.from_arrays(rows.columns, schema=schema)
