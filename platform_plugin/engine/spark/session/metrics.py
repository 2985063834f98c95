"""`JobMetrics`: the cost of the Spark jobs under one tag, from the server's status store."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class JobMetrics:
    """The cost of one query's jobs; None stands for a number that the server can't be asked for."""

    jobs: int | None = None
    stages: int = 0
    tasks: int = 0
    failed_tasks: int = 0
    rows_read: int | None = None
    bytes_read: int = 0
    rows_written: int | None = None
    bytes_written: int | None = None
    shuffle_bytes: int | None = None
    spilled_bytes: int | None = None
    task_seconds: float | None = None
    task_skew: float | None = None
    """The longest task over the median task, in the stage that worked longest; 1 is even."""
    seconds: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def parse_metrics(answer: Mapping[str, Any], *, seconds: float) -> JobMetrics:
    """Return the metrics in a server's answer, with the time that the caller measured.

    >>> parse_metrics({"jobs": 2, "tasks": 5}, seconds=0.5).jobs
    2
    """
    known = {name: answer[name] for name in JobMetrics.__dataclass_fields__ if name in answer}
    return JobMetrics(**{**known, "seconds": seconds})


def read_metrics(gateway: Any, context: Any, tag: str) -> dict[str, Any]:
    """Return the cost of the jobs under `tag`; `context` is the JVM's SparkContext, reached through the py4j `gateway`.

    Job events travel over a queue, so that a query's cost may be known only some milliseconds after its answer.
    """
    context.listenerBus().waitUntilEmpty(2000)
    store = context.statusStore()
    jobs = list(context.statusTracker().getJobIdsForTag(tag))
    stages = [store.lastStageAttempt(number) for number in _stage_ids(store, jobs)]
    worked = [stage for stage in stages if stage.numCompleteTasks() + stage.numFailedTasks() + stage.numActiveTasks() > 0]
    longest = max(worked, key=lambda stage: int(stage.executorRunTime()), default=None)
    return {
        "jobs": len(jobs),
        "stages": len(worked),
        "tasks": sum(stage.numCompleteTasks() + stage.numActiveTasks() for stage in worked),
        "failed_tasks": sum(stage.numFailedTasks() for stage in worked),
        "rows_read": sum(stage.inputRecords() for stage in worked),
        "bytes_read": sum(stage.inputBytes() for stage in worked),
        "rows_written": sum(stage.outputRecords() for stage in worked),
        "bytes_written": sum(stage.outputBytes() for stage in worked),
        "shuffle_bytes": sum(stage.shuffleWriteBytes() for stage in worked),
        "spilled_bytes": sum(stage.diskBytesSpilled() for stage in worked),
        "task_seconds": sum(stage.executorRunTime() for stage in worked) / 1000,
        "task_skew": None if longest is None else _skew(gateway, store, longest),
    }


def read_tasks(context: Any, tag: str, *, most: int = 64) -> list[dict[str, Any]]:
    """The tasks of the stage that worked longest under `tag`, the longest first: they show which task a job waits for."""
    context.listenerBus().waitUntilEmpty(2000)
    store = context.statusStore()
    stages = [store.lastStageAttempt(number) for number in _stage_ids(store, list(context.statusTracker().getJobIdsForTag(tag)))]
    longest = max((stage for stage in stages if stage.numCompleteTasks()), key=lambda stage: int(stage.executorRunTime()), default=None)
    if longest is None:
        return []
    listed = store.taskList(longest.stageId(), longest.attemptId(), most)
    found = []
    for place in range(listed.size()):
        task = listed.apply(place)
        metrics = task.taskMetrics()
        if metrics.isDefined():
            known = metrics.get()
            found.append(
                {
                    "task": int(task.index()),
                    "stage": int(longest.stageId()),
                    "executor": str(task.executorId()),
                    "seconds": int(known.executorRunTime()) / 1000,
                    "rows_read": int(known.inputMetrics().recordsRead() + known.shuffleReadMetrics().recordsRead()),
                    "bytes_read": int(known.inputMetrics().bytesRead()),
                }
            )
    return sorted(found, key=lambda task: (-task["seconds"], task["task"]))


def _stage_ids(store: Any, jobs: list[int]) -> list[int]:
    found: set[int] = set()
    for job in jobs:
        ids = store.job(job).stageIds()
        found.update(int(ids.apply(place)) for place in range(ids.size()))
    return sorted(found)


def _skew(gateway: Any, store: Any, stage: Any) -> float | None:
    if stage.numCompleteTasks() < 2:
        return 1.0 if stage.numCompleteTasks() else None
    quantiles = gateway.new_array(gateway.jvm.double, 2)
    quantiles[0], quantiles[1] = 0.5, 1.0
    summary = store.taskSummary(stage.stageId(), stage.attemptId(), quantiles)
    if summary.isEmpty():
        return None
    times = summary.get().executorRunTime()
    return round(max(float(times.apply(1)), 1.0) / max(float(times.apply(0)), 1.0), 2)
