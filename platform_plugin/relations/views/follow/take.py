"""`assign_range` and `run_plans`: runs over ranges for the views for which engines other than Spark SQL bid."""

from __future__ import annotations

import time
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from platform_plugin.algebra.plan.filters import add_filters
from platform_plugin.algebra.plan.nodes import Aggregate
from platform_plugin.cache import Cache
from platform_plugin.engine.choose import OfferedTask, choose_engines
from platform_plugin.engine.engine import Bid, Task, TaskInput, TaskPlan
from platform_plugin.engine.executors import BidsOfInput
from platform_plugin.engine.measured_run import measure_job, run_chosen
from platform_plugin.engine.option import ENGINE
from platform_plugin.engine.rates import MEASURED, count_cores, estimate_sql, measure_size
from platform_plugin.engine.refusal import Refusal
from platform_plugin.errors import PlatformError
from platform_plugin.operators.group.sharing import ViewParts, prepare_part
from platform_plugin.relations.answers import StateTarget
from platform_plugin.relations.follow.shared_rows import SharedRows
from platform_plugin.relations.lookups import table_input
from platform_plugin.relations.views.follow.compaction import accept_compactions, compaction_parts
from platform_plugin.relations.views.follow.strategy import DEFERRED, hidden_columns, strategy_of
from platform_plugin.relations.views.stores import store_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from uuid import UUID

    import pyarrow as pa

    from platform_plugin.engine.choose import EstimatedChoice, RunEngines
    from platform_plugin.engine.engine import TaskResult
    from platform_plugin.engine.executors import ExecutorEngine
    from platform_plugin.engine.figures import EngineRun
    from platform_plugin.engine.rates import RunSize
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot, Table
    from platform_plugin.lake.files.files import DataFile
    from platform_plugin.operators.group.parts import StreamPart
    from platform_plugin.relations.answers import AnswerRun
    from platform_plugin.relations.follow.maintained import JointScan
    from platform_plugin.relations.views.follow.pending import PendingView
    from platform_plugin.state.rewriting import Rewrite

    Written = list[tuple[StateTarget, list[DataFile]]]

_DEFERRED = Refusal(why="rows are stored as they are, for reads to group", operator="deferred")

# The parts of a view over a stream as they compare with those of other views.
_QUERIES: Cache[tuple[Any, ...], tuple[Aggregate, ...]] = Cache("stream parts of views", weigh=lambda _: 20_000)


class TakenRanges(NamedTuple):
    """The files that ranges add to states and those that merges wrote, the merges that the kernel refused, and what engines did."""

    written: Written
    left: list[Rewrite]
    runs: list[EngineRun]


class ViewBids(NamedTuple):
    """The engine that is chosen for views over one range, with its bids by their names, and the relations that their tasks read."""

    choice: EstimatedChoice
    inputs: dict[str, TaskInput | pa.Table]


class RangePlan(NamedTuple):
    """Who computes what a range adds to views: engines, or for some Spark SQL, with the reasons."""

    views: dict[str, PendingView]
    bids: list[ViewBids]
    left: list[tuple[PendingView, Refusal]]

    def names(self, own: ViewBids) -> list[str]:
        """The views that an engine is chosen for, and those that share what these store."""
        return names_of([self.views[name] for name in own.choice.bids])

    def accept(self, own: ViewBids, results: Iterable[TaskResult | Refusal]) -> Written:
        """The files of an engine's results by their targets; what it refuses now is left to Spark SQL."""
        written: Written = []
        for (name, bid), result in zip(own.choice.bids.items(), results, strict=True):
            if isinstance(result, Refusal):
                self.left.append((self.views[name], result))
                continue
            made = zip(bid.task.plans, result.files, strict=True)
            written += [(plan.target, list(files)) for plan, files in made if isinstance(plan.target, StateTarget)]
        return written


def assign_range(
    work: Workspace,
    snapshot: Snapshot,
    rows: SharedRows,
    views: Sequence[PendingView],
    engines: RunEngines,
    *,
    stream: str,
    statics: Mapping[UUID, pa.Table] = MappingProxyType({}),
) -> RangePlan:
    """The engines for views that consume a range, for as many views at once as one engine computes.

    `statics` are the rows of results of static parts that no commit has yet, by their tables.
    """
    relations = _RangeTasks(work, snapshot, rows, stream, views, statics=statics)
    plan = RangePlan({view.name: view for view in views}, [], [])
    tasks: dict[str, OfferedTask] = {}
    for view in views:
        if strategy_of(view.record) == DEFERRED:
            plan.left.append((view, _DEFERRED))
        else:
            task, inputs = relations.task_of(view)
            tasks[view.name] = OfferedTask(task, inputs, engines.offer(view.record.options.get(ENGINE)))
    choice = choose_engines(tasks)
    plan.left.extend((plan.views[name], refusal) for name, refusal in choice.refused.items())
    for chosen in choice.choices:
        bids = dict(chosen.bids)
        if chosen.engine is engines.executors:
            for name in chosen.bids:
                refusal = engines.executors.rehearse(tasks[name].task, tasks[name].inputs)
                if refusal is not None:
                    plan.left.append((plan.views[name], refusal))
                    del bids[name]
        if bids:
            plan.bids.append(ViewBids(chosen._replace(bids=bids), relations.inputs_of([plan.views[name] for name in bids])))
    return plan


def run_plans(
    work: Workspace,
    plans: Sequence[RangePlan],
    executors: ExecutorEngine,
    *,
    rewrites: Sequence[Rewrite] = (),
    answers: AnswerRun | None = None,
    scans: Sequence[JointScan] = (),
) -> TakenRanges:
    """Compute all ranges: in this process one by one, on executors as one job, with merges of states and Spark SQL's part of the run.

    Of other relations that read the same ranges, `scans` with tasks are parts of the job, too.
    """
    written: Written = []
    left: list[Rewrite] = []
    runs: list[EngineRun] = []
    sent: list[tuple[RangePlan, ViewBids]] = []
    try:
        for plan in plans:
            for own in plan.bids:
                if own.choice.engine is executors:
                    sent.append((plan, own))
                else:
                    results, run = run_chosen(own.choice, own.inputs, work.distances, relations=plan.names(own))
                    runs.append(run)
                    written += plan.accept(own, results.values())
        joint = [(scan, part) for scan in scans if (part := scan.job_part) is not None]
        if sent or rewrites or joint or answers is not None:
            began = time.monotonic()
            batches = [BidsOfInput(list(own.choice.bids.values()), own.inputs) for _, own in sent]
            others = [*(part for _, part in joint), *compaction_parts(work, rewrites)]
            done = executors.run_together(batches, others, () if answers is None else [answers.rows])
            for (scan, _), found in zip(joint, done.others, strict=False):
                scan.accept(found)
            for (plan, own), of_range in zip(sent, done.results, strict=True):
                written += plan.accept(own, of_range)
            left, made = accept_compactions(rewrites, done.others[len(joint) :])
            written += made
            if answers is not None:
                written += answers.accept(done.rows[0])
            if sent:
                names = list(dict.fromkeys(name for plan, own in sent for name in plan.names(own)))
                choices = [(own.choice, own.inputs) for _, own in sent]
                seconds = time.monotonic() - began
                is_alone = not rewrites and not joint and answers is None
                runs.append(measure_job(choices, executors.jobs[-1], work.distances, relations=names, seconds=seconds, is_alone=is_alone))
    except BaseException:
        work.lake.discard(file for _, files in written for file in files)
        raise
    finally:
        for scan in scans:
            scan.release(work)
    return TakenRanges(written, left, runs)


class ForeseenEngine(NamedTuple):
    """The engine that would group what waits for a view, the reason, and the seconds that it would take."""

    engine: str
    why: str
    seconds: float | None = None


def foresee_engine(work: Workspace, snapshot: Snapshot, view: PendingView, engines: RunEngines) -> ForeseenEngine:
    """The engine that would group what waits for a view alone, as far as that is known before rows are read."""
    if strategy_of(view.record) == DEFERRED:
        return ForeseenEngine("spark_sql", _DEFERRED.why)
    found: list[ForeseenEngine] = []
    for stream in view.ranges:
        task, inputs = _RangeTasks(work, snapshot, SharedRows(work.lake), stream, [view]).task_of(view)
        choice = choose_engines({view.name: OfferedTask(task, inputs, engines.offer(view.record.options.get(ENGINE)))})
        found += [ForeseenEngine(each.engine.name, each.why, each.seconds[each.engine.name]) for each in choice.choices]
        refusals = list(choice.refused.values())
        if not refusals and all(isinstance(each, TaskInput) and each.reader is not None for each in inputs.values()):
            refusals += filter(None, [engines.executors.rehearse(task, inputs)])
        for refusal in refusals:
            size = measure_size([Bid(engine="spark_sql", task=task, why="")], inputs)
            return ForeseenEngine("spark_sql", refusal.why, estimate_on_spark(work, size))
    slowest = max(found, key=lambda each: each.seconds or 0.0)
    return slowest._replace(seconds=sum(each.seconds or 0.0 for each in found))


def estimate_on_spark(work: Workspace, size: RunSize) -> float:
    """The seconds that Spark's own operators take."""
    slots, busy, start = work.find_task_slots()
    distance = work.distances.executors
    cores = count_cores(slots, busy, size, least_rows=work.limits.task_least_rows)
    return estimate_sql(size, MEASURED.of("spark_sql", distance), distance, cores=cores, start=start)


def names_of(views: Sequence[PendingView]) -> list[str]:
    """Views, and those that share what they store."""
    return list(dict.fromkeys(name for view in views for name in (view.name, *view.twins)))


def _task_key(work: Workspace, snapshot: Snapshot, stream: str, view: PendingView) -> tuple[Any, ...]:
    # A run may be of some parts only, where states are shared.
    parts = tuple(part.name for part in view.plan.streams if part.stream == stream)
    return ("range", work.lake.uuid, view.record.uuid, snapshot.schema_version, stream, parts)


class _RangeTasks:
    """A range of a stream that some views consume, and the results of static parts that they look up."""

    def __init__(
        self,
        work: Workspace,
        snapshot: Snapshot,
        rows: SharedRows,
        stream: str,
        views: Sequence[PendingView],
        *,
        statics: Mapping[UUID, pa.Table] = MappingProxyType({}),
    ) -> None:
        self._work, self._snapshot, self._stream, self._rows = work, snapshot, stream, rows
        self._range = views[0].ranges[stream]
        self._statics: dict[str, TaskInput | pa.Table] = {_static_name(uuid): table for uuid, table in statics.items()}

    def task_of(self, view: PendingView) -> tuple[Task, dict[str, TaskInput | pa.Table]]:
        """The task of a view, and what it reads."""
        parts = self._parts(view)
        key = _task_key(self._work, self._snapshot, self._stream, view)
        queries = _QUERIES.find(key, lambda: tuple(_comparable_query(view, part) for part in parts))
        targets = [_target(view, part) for part in parts]
        plans = tuple(
            TaskPlan(query=query, fields=target.table.fields, target=target) for query, target in zip(queries, targets, strict=True)
        )
        return Task(plans=plans, key=key), self.inputs_of([view])

    def inputs_of(self, views: Sequence[PendingView]) -> dict[str, TaskInput | pa.Table]:
        """The relations that the tasks of these views read."""
        hidden: frozenset[str] = frozenset().union(*(hidden_columns(view.plan, self._stream) for view in views))
        found: dict[str, TaskInput | pa.Table] = {self._stream: self._rows.input(self._range, "range", hidden=hidden)}
        for view in views:
            for part in self._parts(view):
                found |= {_result_name(view.tables[static]): self._static(view.tables[static]) for static in part.statics}
        return found

    def _parts(self, view: PendingView) -> list[StreamPart]:
        return [part for part in view.plan.streams if part.stream == self._stream]

    def _static(self, table: Table) -> TaskInput | pa.Table:
        name = _result_name(table)
        if name not in self._statics:
            try:
                self._statics[name] = table_input(self._work, table, self._snapshot)
            except PlatformError as error:
                self._statics[name] = _unreadable(error)
        return self._statics[name]


def _target(view: PendingView, part: StreamPart) -> StateTarget:
    """The state that a stream part adds to."""
    table = view.tables[part.state]
    return StateTarget(table=table, store=store_of(view.plan.state(part.state), table))


def _unreadable(error: PlatformError) -> TaskInput:
    def read(columns: Collection[str]) -> pa.Table:
        del columns
        raise error

    return TaskInput(role="table", read=read)


def _result_name(table: Table) -> str:
    """A name for the result of a static part, the same for all views that look it up."""
    return _static_name(table.uuid)


def _static_name(uuid: UUID) -> str:
    return f"static_{uuid.hex}"


def _comparable_query(view: PendingView, part: StreamPart) -> Aggregate:
    statics = {static.name: _result_name(view.tables[static.name]) for static in view.plan.statics if static.feeds is None}
    found = prepare_part(ViewParts(view=view.name, plan=view.plan, statics=statics), part)
    return Aggregate(source=add_filters(found.base, found.conditions), keys=found.keys, calls=found.calls)
