"""`estimate_run`: about how long maintenance takes for what waits, from the catalogue alone, before a run is asked for."""

from __future__ import annotations

import os
import statistics
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from platform_plugin.engine.distance import find_distances
from platform_plugin.engine.rates import CONNECT_SECONDS, TELLING, Rates, RunSize, count_cores, estimate_job, estimate_local, estimate_sql
from platform_plugin.engine.spark.server.runtime import are_executors_here
from platform_plugin.lake.values.engine_notes import parse_engine_notes
from platform_plugin.orchestration.sensors.firing import ESTIMATE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from platform_plugin.engine.distance import FileDistances
    from platform_plugin.lake.lake import Lake
    from platform_plugin.orchestration.sensors.waiting import WaitingView

_LARGEST_FACTOR = 8.0
# The newest commits, whose notes say how well runs were estimated.
_COMMITS = 50
# What a task of a job reads at least, by the default of its limit.
_TASK_SIZE = 500_000
# To look for what is due, and to commit.
_COMMIT_SECONDS = 0.05


def read_factors(runs: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """How many times as long as estimated the newest runs of each engine took, by the notes of their commits.

    Runs of few rows, whose time is that of everything else, do not count.

    >>> run = {"engine": "local", "rows": 1_000_000, "estimated_seconds": 1.0}
    >>> read_factors([run | {"seconds": 3.0}, run | {"seconds": 900.0}, run | {"rows": 10, "seconds": 7.0}])
    {'local': 5.5}
    """
    ratios: defaultdict[str, list[float]] = defaultdict(list)
    for run in runs:
        seconds, estimated, rows = (float(run.get(name) or 0) for name in ("seconds", "estimated_seconds", "rows"))
        if estimated > 0 and rows >= TELLING:
            ratios[str(run.get("engine"))].append(min(max(seconds / estimated, 1 / _LARGEST_FACTOR), _LARGEST_FACTOR))
    return {engine: statistics.median(found) for engine, found in ratios.items()}


def estimate_run(
    waiting: Sequence[WaitingView], distances: FileDistances, *, cores: int, factors: Mapping[str, float], on_spark: Iterable[str] = ()
) -> float:
    """The seconds of a run for all these relations: each stream is read once, by the engine that takes least, as it seems from here.

    `on_spark` are those that Spark SQL maintained the last time.
    """
    spark = frozenset(on_spark)
    sizes: defaultdict[tuple[frozenset[str], bool], list[int]] = defaultdict(list)
    for view in waiting:
        sizes[view.streams, str(view.view) in spark].append(view.rows)
    total = _COMMIT_SECONDS
    for (_, is_sql), rows in sizes.items():
        size = RunSize(max(rows), len(rows))
        slots = count_cores(cores, 0, size, least_rows=_TASK_SIZE)
        local = estimate_local(size, Rates(), distances.client) * factors.get("local", 1.0)
        job = estimate_job(size, Rates(), distances.executors, cores=slots, start=CONNECT_SECONDS) * factors.get("executors", 1.0)
        sql = estimate_sql(size, Rates(), distances.executors, cores=slots, start=CONNECT_SECONDS) * factors.get("spark_sql", 1.0)
        total += sql if is_sql else min(local, job)
    return total


def estimate_tags(lake: Lake, waiting: Sequence[WaitingView]) -> dict[str, str]:
    """The tag of a run request with its estimate."""
    runs = [run for commit in reversed(lake.commits(limit=_COMMITS)) for run in parse_engine_notes(commit.notes)]
    newest: dict[str, str] = {}
    for run in runs:
        for name in run.get("relations", ()):
            newest.setdefault(name, str(run.get("engine")))
    seconds = estimate_run(
        waiting,
        find_distances(lake.storage.root, lake.location.spark, executors_here=are_executors_here()),
        cores=os.cpu_count() or 1,
        factors=read_factors(runs),
        on_spark=[name for name, engine in newest.items() if engine == "spark_sql"],
    )
    return {ESTIMATE: f"{seconds:.3f}"}
