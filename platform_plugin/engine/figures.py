"""`EngineRun`: what one engine did with one input: how it was chosen, what that was estimated to take, and what it took."""

from __future__ import annotations

import statistics
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from platform_plugin.lake.values.engine_notes import NOTED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineRun:
    """The run of an engine for some relations over one input.

    `estimates` are the seconds of all engines that might have run it. Those of another engine than the chosen one stay estimates.
    """

    engine: str
    relations: tuple[str, ...]
    why: str
    rows: int = 0
    seconds: float = 0.0
    estimates: Mapping[str, float] = field(default_factory=dict)
    cpu_seconds: float | None = None
    """The time of all cores, where it is known."""
    jobs: int = 0
    tasks: int = 0
    executors: Mapping[str, int] = field(default_factory=dict)
    """How many tasks each executor ran; none where Spark alone knows."""
    skew: float | None = None
    """The longest task over the median task; 1 is even."""
    client_bytes: int = 0
    """What came to the client from executors: of file tasks footers and figures."""

    @property
    def estimated_seconds(self) -> float | None:
        """What the chosen engine was estimated to take."""
        return self.estimates.get(self.engine)

    @property
    def core_rows_per_second(self) -> float | None:
        """Rows a second and core."""
        return None if not self.cpu_seconds else self.rows / self.cpu_seconds

    def document(self) -> dict[str, Any]:
        """Its figures as JSON, without what is not known."""
        found = {
            "engine": self.engine,
            "relations": list(self.relations),
            "why": self.why,
            "rows": self.rows,
            "seconds": round(self.seconds, 4),
            "estimated_seconds": None if self.estimated_seconds is None else round(self.estimated_seconds, 4),
            "estimates": {name: round(seconds, 4) for name, seconds in self.estimates.items()} or None,
            "core_rows_per_second": None if self.core_rows_per_second is None else round(self.core_rows_per_second),
            "jobs": self.jobs,
            "tasks": self.tasks,
            "executors": dict(self.executors) or None,
            "skew": self.skew,
            "client_bytes": self.client_bytes,
        }
        return {name: value for name, value in found.items() if value is not None}


_MOST_NOTED = 100


def note_runs(runs: Iterable[EngineRun]) -> dict[str, Any]:
    """The figures of runs as a note of their commit, from which `platform status` has them; of many relations not all names."""
    noted = []
    for run in runs:
        document = run.document()
        names = document.pop("relations")
        document.pop("executors", None)
        noted.append({"relations": names[:_MOST_NOTED], "count": len(names), **document, "executors": len(run.executors)})
    return {NOTED: noted} if noted else {}


def rough_time(seconds: float) -> str:
    """An estimated time, with no more digits than it deserves.

    >>> [rough_time(seconds) for seconds in (2e-7, 0.0456, 6.23, 6230.0)]
    ['1 ms', '46 ms', '6.2 s', '6,230 s']
    """
    if seconds < 1:
        return f"{max(1, round(seconds * 1000))} ms"
    return f"{seconds:.1f} s" if seconds < 100 else f"{seconds:,.0f} s"


def measure_skew(seconds: Sequence[float]) -> float | None:
    """The longest of some tasks over the median one; None of no task.

    >>> measure_skew([1.0, 2.0, 6.0]), measure_skew([])
    (3.0, None)
    """
    return round(max(seconds) / max(statistics.median(seconds), 1e-6), 2) if seconds else None


def total_figures(runs: Iterable[EngineRun]) -> dict[str, int | float]:
    """The figures of several runs together, as numbers that plot; what no run knows is left out.

    >>> run = EngineRun(engine="executors", relations=("v",), why="", rows=10, seconds=2.0, executors={"a/1": 3}, tasks=3)
    >>> [total_figures([run, run])[name] for name in ("executors", "tasks_per_executor", "rows_by_executors")]
    [1, 6.0, 20]
    """
    runs = list(runs)
    if not runs:
        return {}
    executors: Counter[str] = Counter()
    for run in runs:
        executors.update(run.executors)
    known = [run for run in runs if run.cpu_seconds]
    estimated = [run.estimated_seconds for run in runs if run.estimated_seconds is not None]
    skews = [run.skew for run in runs if run.skew is not None]
    found: dict[str, int | float | None] = {
        "engine_seconds": round(sum(run.seconds for run in runs), 3),
        "engine_estimated_seconds": round(sum(estimated), 3) if estimated else None,
        "rows_by_local": sum(run.rows for run in runs if run.engine == "local"),
        "rows_by_executors": sum(run.rows for run in runs if run.engine == "executors"),
        "rows_by_spark_sql": sum(run.rows for run in runs if run.engine == "spark_sql"),
        "core_rows_per_second": round(sum(run.rows for run in known) / sum(run.cpu_seconds or 0.0 for run in known)) if known else None,
        "client_bytes": sum(run.client_bytes for run in runs),
        "executors": len(executors),
        "tasks_per_executor": round(executors.total() / len(executors), 2) if executors else None,
        "most_tasks_of_an_executor": max(executors.values(), default=None),
        "skew": max(skews, default=None),
    }
    return {name: value for name, value in found.items() if value is not None}
