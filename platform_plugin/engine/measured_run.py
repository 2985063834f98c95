"""`run_chosen`: the run of a chosen engine, with its figures, by which later estimates are better."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from platform_plugin.engine.executors import ExecutorEngine
from platform_plugin.engine.figures import EngineRun, measure_skew
from platform_plugin.engine.rates import MEASURED, estimate_local, measure_size

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from platform_plugin.engine.choose import EstimatedChoice
    from platform_plugin.engine.distance import FileDistances
    from platform_plugin.engine.engine import Inputs, TaskResult
    from platform_plugin.engine.executors import TaskJob
    from platform_plugin.engine.rates import RunSize
    from platform_plugin.engine.refusal import Refusal
    from platform_plugin.engine.spark.session.metrics import JobMetrics


class MeasuredResults(NamedTuple):
    """What an engine gave for each of its tasks, by name, and its figures."""

    results: Mapping[str, TaskResult | Refusal]
    run: EngineRun


def run_chosen(choice: EstimatedChoice, inputs: Inputs, distances: FileDistances, *, relations: Sequence[str]) -> MeasuredResults:
    """Run the tasks that an engine was chosen for, which are for these relations."""
    engine, bids = choice.engine, list(choice.bids.values())
    began, cpu = time.monotonic(), time.process_time()
    results = dict(zip(choice.bids, engine.run(bids, inputs), strict=True))
    seconds, cpu_seconds = time.monotonic() - began, time.process_time() - cpu
    if isinstance(engine, ExecutorEngine):
        return MeasuredResults(results, measure_job([(choice, inputs)], engine.jobs[-1], distances, relations=relations, seconds=seconds))
    size = measure_size(bids, inputs)
    expected = estimate_local(size, MEASURED.of(engine.name, distances.client), distances.client)
    MEASURED.note(engine.name, distances.client, size, ratio=seconds / max(expected, 1e-9))
    run = EngineRun(
        engine=engine.name,
        relations=tuple(relations),
        why=choice.why,
        rows=size.rows,
        seconds=seconds,
        estimates=choice.seconds,
        cpu_seconds=cpu_seconds,
    )
    return MeasuredResults(results, run)


def measure_job(
    choices: Sequence[tuple[EstimatedChoice, Inputs]],
    job: TaskJob,
    distances: FileDistances,
    *,
    relations: Sequence[str],
    seconds: float,
    is_alone: bool = True,
) -> EngineRun:
    """The figures of one job of file tasks over several inputs, which moves the rates of executors.

    `is_alone` says whether the job did nothing else; only then its time beside the tasks is that of a job without rows.
    """
    distance = distances.executors
    rates = MEASURED.of("executors", distance)
    sizes = [measure_size(choice.bids.values(), inputs) for choice, inputs in choices]
    spent = [share.seconds for share in job.shares]
    if spent:
        # Bytes that come from afar are shared by all tasks of a machine.
        travel = sum(rates.travel_seconds(size, distance) for size in sizes) if distance == "far" else 0.0
        expected = sum(rates.core_seconds(size) for size in sizes) + travel
        # What a server took to start is no part of the job.
        fixed = max(job.metrics.seconds - max(spent), 0.001) if is_alone else None
        largest = max(sizes)
        MEASURED.note("executors", distance, largest, ratio=sum(spent) / max(expected, 1e-9), job_seconds=fixed)
    why = "; ".join(dict.fromkeys(choice.why for choice, _ in choices))
    return describe_job(
        job, relations, why, seconds=seconds, estimates=_add_estimates([choice.seconds for choice, _ in choices], rates.job)
    )


def describe_job(job: TaskJob, relations: Sequence[str], why: str, *, seconds: float, estimates: Mapping[str, float]) -> EngineRun:
    """The figures of a job of file tasks, by those of its tasks."""
    executors = Counter(share.executor for share in job.shares)
    return EngineRun(
        engine="executors",
        relations=tuple(relations),
        why=why,
        rows=sum(share.rows for share in job.shares),
        seconds=seconds,
        estimates=estimates,
        cpu_seconds=sum(share.cpu_seconds for share in job.shares),
        jobs=job.metrics.jobs if job.metrics.jobs is not None else 1,
        tasks=len(job.shares),
        executors=dict(sorted(executors.items())),
        skew=measure_skew([share.seconds for share in job.shares]),
        client_bytes=job.client_bytes,
    )


def _add_estimates(estimates: Sequence[Mapping[str, float]], job_seconds: float) -> dict[str, float]:
    """The seconds of each engine for several inputs, which are one job of executors; of engines that were asked for all of them."""
    common = set(estimates[0]).intersection(*estimates)
    shared = {"executors": job_seconds * (len(estimates) - 1)}
    return {name: sum(each[name] for each in estimates) - shared.get(name, 0.0) for name in estimates[0] if name in common}


def describe_sql(
    relations: Sequence[str], why: str, size: RunSize, metrics: JobMetrics, *, seconds: float, estimates: Mapping[str, float]
) -> EngineRun:
    """The figures of Spark's own operators, which know their tasks and not their executors."""
    return EngineRun(
        engine="spark_sql",
        relations=tuple(relations),
        why=why,
        rows=size.rows,
        seconds=seconds,
        estimates=estimates,
        cpu_seconds=metrics.task_seconds,
        jobs=metrics.jobs or 0,
        tasks=metrics.tasks,
        skew=metrics.task_skew,
    )
