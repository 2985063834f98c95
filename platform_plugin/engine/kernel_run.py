"""`KernelRun`: tasks that the Arrow kernel runs over relations in memory, in the client's process or an executor's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from platform_plugin.algebra.plan.nodes import Aggregate, scans
from platform_plugin.algebra.plan.traversal import columns_in
from platform_plugin.cache import Cache
from platform_plugin.engine.arrow.group_keys import is_grouped
from platform_plugin.engine.arrow.groupings import Groupings
from platform_plugin.engine.arrow.plans import ArrowTables, run_plan, run_query
from platform_plugin.engine.arrow.prepared import bind_values
from platform_plugin.engine.refusal import Refusal, RefusedByEngine, accept
from platform_plugin.lake.values.types import arrow_schema

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping, Sequence
    from concurrent.futures import Executor

    from platform_plugin.algebra.plan.nodes import Query
    from platform_plugin.algebra.types.data_types import Field
    from platform_plugin.engine.engine import Task, TaskPlan, Values

__all__ = ["KernelRelations", "KernelRun", "check_fields", "compute", "find_needs", "find_refusal", "is_grouped", "remember"]

# The refusals that are about plans, whatever the rows are.
_REFUSALS: Cache[Hashable, Refusal] = Cache("plans that Arrow refuses")
_GROUPINGS: Cache[Hashable, Groupings] = Cache("groupings by Arrow", weigh=lambda _: 250_000)


class PlanNeeds(NamedTuple):
    """The relations that a plan reads, and the names of all columns that it mentions."""

    relations: tuple[str, ...]
    columns: frozenset[str]


_NEEDS: Cache[Hashable, tuple[PlanNeeds, ...]] = Cache("needs of tasks", weigh=lambda _: 2_000)


def find_needs(task: Task) -> tuple[PlanNeeds, ...]:
    """What each plan of a task needs."""

    def find() -> tuple[PlanNeeds, ...]:
        return tuple(
            PlanNeeds(
                tuple(dict.fromkeys(".".join(scan.relation) for scan in scans(plan.query))),
                frozenset(column.name for column in columns_in(plan.query)),
            )
            for plan in task.plans
        )

    return find() if task.key is None else _NEEDS.find(task.key, find)


class KernelRelations(NamedTuple):
    """The relations that the tasks of a run read: their rows, or why there are none."""

    tables: dict[str, pa.Table]
    missing: dict[str, Refusal]

    def find_missing(self, needs: PlanNeeds) -> Refusal | None:
        """Why a plan can't be run, if one of its relations can't be read."""
        return next((self.missing[name] for name in needs.relations if name in self.missing), None) if self.missing else None


class KernelRun:
    """The tasks of one run over the same relations, in this process; what they group alike is grouped once."""

    def __init__(self, tasks: Sequence[Task], relations: KernelRelations, values: Values, pool: Executor) -> None:
        self._relations, self._values = relations, values
        self._tables = ArrowTables(tables=relations.tables)
        # Threads cost more than the few rows of one task whose result stays here.
        is_large = len(tasks) > 1 or any(plan.target is not None for task in tasks for plan in task.plans)
        plans = [pair for task in tasks for pair in _plans(task)] if is_large and not values else []
        shared = [plan.query for plan, needs in plans if self._is_shared(plan, needs)]
        self._places = {id(query): place for place, query in enumerate(shared)} if len(shared) > 1 else {}
        self._running = self._find_groupings(tasks, shared).begin(self._tables, pool) if self._places else None

    def _is_shared(self, plan: TaskPlan, needs: PlanNeeds) -> bool:
        query = plan.query
        return isinstance(query, Aggregate) and query.sets is None and self._relations.find_missing(needs) is None

    def _find_groupings(self, tasks: Sequence[Task], shared: Sequence[Any]) -> Groupings:
        """What the plans share, which is the same for tasks that are known by the same keys."""
        if any(task.key is None for task in tasks):
            return Groupings(shared)
        key = tuple((task.key, tuple(id(plan.query) in self._places for plan in task.plans)) for task in tasks)
        return _GROUPINGS.find(key, lambda: Groupings(shared))

    def compute(self, task: Task) -> list[pa.Table] | Refusal:
        """The rows of each plan of a task."""
        try:
            return [self._rows_of(plan, needs) for plan, needs in _plans(task)]
        except RefusedByEngine as refused:
            return remember(task, refused.refusal)

    def _rows_of(self, plan: TaskPlan, needs: PlanNeeds) -> pa.Table:
        missing = self._relations.find_missing(needs)
        if missing is not None:
            accept(missing)
        place = self._places.get(id(plan.query))
        if place is None or self._running is None:
            rows = run_query(bind_values(plan.query, self._values), self._tables)
        else:
            rows = self._running.rows_of(place)
        return rows if plan.fields is None else check_fields(rows, plan.fields)


def _plans(task: Task) -> Iterator[tuple[TaskPlan, PlanNeeds]]:
    return zip(task.plans, find_needs(task), strict=True)


def find_refusal(task: Task) -> Refusal | None:
    """Why the kernel refuses a task, as far as it has done so before."""
    return _REFUSALS.get(task.key) if task.key is not None else None


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
