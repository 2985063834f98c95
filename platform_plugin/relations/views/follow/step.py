"""`ViewMaintenance`: how continuous views consume rows: one scan of each range, one Spark job at most, and one step for all of them."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from platform_plugin.engine.measured_run import describe_sql
from platform_plugin.engine.rates import MEASURED, RunSize
from platform_plugin.engine.refusal import Refusal
from platform_plugin.lake.catalogue.tables import Name
from platform_plugin.lake.cursors.move import EndCursors, MoveCursors
from platform_plugin.relations.answers import Answer, StateTarget, prepare_answers, put_answers, run_answers
from platform_plugin.relations.follow.maintained import DueRelation, Maintenance, RangeKey, StepFigures
from platform_plugin.relations.follow.shared_rows import SharedFrame, SharedRows
from platform_plugin.relations.views.follow.advance import plan_moves
from platform_plugin.relations.views.follow.compaction import choose_for_tasks, compact_locally, compaction, find_additions
from platform_plugin.relations.views.follow.passes import find_columns, find_sharing, own_columns, range_queries
from platform_plugin.relations.views.follow.pending import KIND, PendingView, find_pending_views
from platform_plugin.relations.views.follow.poison import place_failure
from platform_plugin.relations.views.follow.strategy import DEFERRED, hidden_columns, rows_parts, strategy_of
from platform_plugin.relations.views.follow.take import RangePlan, assign_range, estimate_on_spark, foresee_engine, names_of, run_plans
from platform_plugin.relations.views.gates import find_gated_results
from platform_plugin.relations.views.read.view import split_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame

    from platform_plugin.engine.figures import EngineRun
    from platform_plugin.engine.spark.session.metrics import JobMetrics
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.errors import PlatformError
    from platform_plugin.lake.catalogue.tables import Snapshot
    from platform_plugin.lake.commit.commit import Commit
    from platform_plugin.lake.files.files import DataFile
    from platform_plugin.relations.follow.maintained import JointScan, Maintained, RunControl, Selection, Step
    from platform_plugin.relations.follow.ranges import Range

    Written = list[tuple[StateTarget, list[DataFile]]]

_JOINT = Refusal(why="Spark's operators look at the same rows for a sample", for_good=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewStep:
    """What some views made of the rows that waited for them: files of their states, and the moves of their cursors."""

    views: Sequence[PendingView]
    written: Written
    figures: StepFigures

    @property
    def files(self) -> Sequence[DataFile]:
        """All files that were written."""
        return [file for _, files in self.written for file in files]

    def put(self, commit: Commit) -> None:
        """Add the files to their states, and move the cursors; a conflict if another run has consumed any of the rows."""
        put_answers(commit, self.written)
        commit.take_ungated(Name.of(split_name(name)) for view in self.views for name in (view.name, *view.twins))
        commit.also(MoveCursors([move for view in self.views for move in plan_moves(view.name, view.record, view.plan, view.ranges)]))
        commit.also(EndCursors(sorted({cursor for view in self.views for cursor in view.idle_cursors})))


class ViewMaintenance(Maintenance[PendingView]):
    """Continuous views of all strategies. Those that read a range share its scan, what they group alike, and what they look up."""

    kind = KIND

    def find(self, work: Workspace, snapshot: Snapshot, selection: Selection) -> tuple[list[PendingView], dict[str, PlatformError]]:
        """The views with rows to consume."""
        return find_pending_views(work, snapshot, selection)

    def conditions(self, work: Workspace, snapshot: Snapshot, pending: PendingView) -> list[Maintained]:
        """The results of the view, and of those that share its states, that have a gate."""
        return find_gated_results(work, snapshot, pending)

    def locate(self, work: Workspace, snapshot: Snapshot, pending: PendingView, error: PlatformError) -> PlatformError:
        """The error with the smallest range of rows that fails by itself."""
        return place_failure(work, snapshot, pending, error)

    def due(self, work: Workspace, snapshot: Snapshot, pending: PendingView, control: RunControl) -> DueRelation:
        """The states that would grow, and the engine that would group the rows."""
        parts = (
            rows_parts(pending.plan).values() if strategy_of(pending.record) == DEFERRED else {part.state for part in pending.plan.streams}
        )
        foreseen = foresee_engine(work, snapshot, pending, work.run_engines(control.engine))
        return DueRelation(
            name=pending.name,
            kind=KIND,
            inputs=pending.inputs,
            writes=tuple(str(pending.tables[part].name) for part in sorted(parts)),
            engine=foreseen.engine,
            beside=pending.twins,
            why=foreseen.why,
            estimated_seconds=foreseen.seconds,
        )

    def step(
        self, work: Workspace, snapshot: Snapshot, pending: Sequence[PendingView], control: RunControl, joint: Sequence[JointScan]
    ) -> tuple[list[Step], dict[str, PlatformError]]:
        """Group what waits with Arrow where that is certain and little, the rest in one Spark job; merge what has become too much."""
        by_range: defaultdict[RangeKey, list[PendingView]] = defaultdict(list)
        for view in pending:
            for stream, tail in view.ranges.items():
                by_range[stream, tail.first_row_id, tail.next_row_id].append(view)
        rows = {stream: SharedRows(work.lake) for stream, _, _ in by_range}
        cached: list[DataFrame] = []
        written: Written = []
        metrics: JobMetrics | None = None
        runs: list[EngineRun] = []
        engines = work.run_engines(control.engine, timeout=control.timeout, progress=control.progress)
        try:
            plans: dict[RangeKey, RangePlan] = {}
            looking = {key: [scan for scan in joint if scan.key == key and scan.looks_at_rows] for key in by_range}
            # The widest range of a stream first, so that the others find its rows.
            for key, views in sorted(by_range.items()):
                # Where Spark's operators look at the rows anyway, they do so for the views, too.
                plans[key] = (
                    RangePlan({}, [], [(view, _JOINT) for view in views])
                    if looking[key]
                    else assign_range(work, snapshot, rows[key[0]], views, engines, stream=key[0])
                )
            merges, made = compact_locally(work, find_additions(work, snapshot, pending))
            written += made
            early = _left(plans, looking)
            answers = _ask_spark(work, snapshot, early, cached)
            by_tasks, by_operators = choose_for_tasks(work, merges, pending)
            answers += [compaction(work, rewrite) for rewrite in by_operators]
            answered = {key: len(plan.left) for key, plan in plans.items()}
            foreseen, began = _measure_left(work, early, _reasons(plans)), time.monotonic()
            # Where tasks write what Spark SQL computes, all of the run is one job.
            shared = prepare_answers(work, answers) if answers else None
            taken = run_plans(
                work,
                list(plans.values()),
                engines.executors,
                rewrites=by_tasks,
                answers=shared,
                scans=joint,
            )
            written += taken.written
            runs += taken.runs
            rows.clear()  # before Spark takes its time
            late = _left(plans, looking, answered)
            if shared is not None:
                is_alone = not taken.runs and all(scan.job_part is None for scan in joint)
                runs += foreseen.finish(engines.executors.jobs[-1].metrics, time.monotonic() - began, is_alone=is_alone)
                answers, foreseen = [], _measure_left(work, late, _reasons(plans))
            elif late:
                foreseen = _measure_left(work, _left(plans, looking), _reasons(plans))
            answers += _ask_spark(work, snapshot, late, cached)
            answers += [compaction(work, rewrite) for rewrite in taken.left]
            if answers:
                began = time.monotonic()
                found, metrics = run_answers(work, answers, timeout=control.timeout, progress=control.progress)
                written += found
                runs += foreseen.finish(metrics, time.monotonic() - began)
            reasons = _reasons(plans)
        except BaseException:
            work.lake.discard(file for _, files in written for file in files)
            raise
        finally:
            for frame in cached:
                frame.unpersist()
        names = tuple(dict.fromkeys(name for view in pending for name in (view.name, *view.twins)))
        jobs = [*(job.metrics for job in engines.executors.jobs), *(() if metrics is None else (metrics,))]
        figures = StepFigures(
            names=names,
            ranges=frozenset(by_range),
            groups=sum(file.record_count for target, files in written if not target.replaces for file in files),
            compacted=sum(bool(target.replaces) for target, _ in written),
            jobs=sum(each.jobs or 0 for each in jobs),
            tasks=sum(each.tasks for each in jobs),
            on_spark={name: reasons[view.name] for view in pending if view.name in reasons for name in (view.name, *view.twins)},
            engine_runs=tuple(runs),
        )
        return [ViewStep(views=pending, written=written, figures=figures)], {}


class _SparkWork(NamedTuple):
    """What is left to Spark's own operators of a run."""

    work: Workspace
    names: list[str]
    why: str
    size: RunSize
    seconds: float

    def finish(self, metrics: JobMetrics, seconds: float, *, is_alone: bool = True) -> list[EngineRun]:
        """Its figures; what was merged alone is no run of a range. A job in which there was something else tells nothing of rates."""
        if not self.names:
            return []
        distance = self.work.distances.executors
        if is_alone:
            MEASURED.note("spark_sql", distance, self.size, ratio=seconds / max(self.seconds, 1e-9))
        run = describe_sql(self.names, self.why, self.size, metrics, seconds=seconds, estimates={"spark_sql": self.seconds})
        return [run]


def _measure_left(
    work: Workspace, left: Mapping[RangeKey, tuple[list[PendingView], list[JointScan]]], reasons: Mapping[str, str]
) -> _SparkWork:
    """How much is left to Spark, why, and what that is estimated to take."""
    every = [view for views, _ in left.values() for view in views]
    rows = sum(end - first for _, first, end in left)
    size = RunSize(rows, sum(len(view.plan.streams) for view in every))
    why = "; ".join(dict.fromkeys(reasons[view.name] for view in every))
    return _SparkWork(work, names_of(every), why, size, estimate_on_spark(work, size))


def _reasons(plans: Mapping[RangeKey, RangePlan]) -> dict[str, str]:
    """Why views are left to Spark SQL."""
    return {view.name: refusal.why for plan in plans.values() for view, refusal in plan.left}


def _by_stream(by_range: Mapping[RangeKey, Sequence[PendingView]]) -> dict[str, list[Range]]:
    """The ranges that views consume of each stream."""
    found: dict[str, list[Range]] = {}
    for (stream, _, _), views in by_range.items():
        found.setdefault(stream, []).append(views[0].ranges[stream])
    return found


def _left(
    plans: Mapping[RangeKey, RangePlan], looking: Mapping[RangeKey, list[JointScan]], answered: Mapping[RangeKey, int] | None = None
) -> dict[RangeKey, tuple[list[PendingView], list[JointScan]]]:
    """The views that are left to Spark SQL, by range, with the relations that look at the same rows; the first may be answered."""
    left = {key: [view for view, _ in plan.left[answered[key] if answered else 0 :]] for key, plan in plans.items()}
    return {key: (views, [] if answered else looking[key]) for key, views in left.items() if views}


def _ask_spark(
    work: Workspace, snapshot: Snapshot, left: Mapping[RangeKey, tuple[list[PendingView], list[JointScan]]], cached: list[DataFrame]
) -> list[Answer]:
    """The queries over ranges that Spark groups; those that end alike are decoded once."""
    answers: list[Answer] = []
    for stream, ranges in _by_stream({key: views for key, (views, _) in left.items()}).items():
        of_stream = [(views, guests) for (name, _, _), (views, guests) in left.items() if name == stream]
        tasks = [[view.task(work, snapshot) for view in views] for views, _ in of_stream]
        hidden = {column for views, _ in of_stream for view in views for column in hidden_columns(view.plan, stream)}
        grouped = [[task for task in own if not task.is_deferred] for own in tasks]
        is_narrow = len(ranges) > 1 and not any(guests for _, guests in of_stream)
        used = [find_columns(find_sharing(work, snapshot, stream, own)[1]) for own in grouped if own] if is_narrow else []
        wide = SharedFrame(work, ranges, hidden, own_columns(ranges[0], frozenset().union(*used)) if used else None)
        for (_, guests), own in zip(of_stream, tasks, strict=True):
            answers += range_queries(work, snapshot, stream, own, cached, wide=wide, guests=guests)
    return answers


VIEWS = ViewMaintenance()
