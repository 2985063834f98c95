"""How long engines take: pure estimates from sizes and rates, and the rates, which runs of this process have measured.

The constants are the rates of a process that has run nothing. Each run that was large enough moves them by a part of what it took.
"""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING, NamedTuple

from platform_plugin.engine.engine import TaskInput

if TYPE_CHECKING:
    from collections.abc import Iterable

    from platform_plugin.engine.distance import Distance
    from platform_plugin.engine.engine import Bid, Inputs

# Measured by make bench NAME=fanout, on one core: 38 to 76 ns a row for one view, 99 to 113 for 6, 142 to 249 for 64.
ROWS_SECONDS = 25e-9
"""To read a row of some columns."""
PLAN_SECONDS = 20e-9
"""To group it for one plan; plans share groupings, so that four cost twice as much as one."""
JOB_SECONDS = 0.2
"""A job of file tasks without rows."""
MERGE_SECONDS = 0.1
"""One more task in it, which merges what the others gave."""
START_SECONDS = 6.0
"""The start of a server and the first job of its workers."""
CONNECT_SECONDS = 1.0
"""To open a session on a server that runs elsewhere, whose cores are not known before."""
LOCAL_CORES = 1.7
"""How many cores the kernel keeps busy in one process of a machine with two."""
# From one quiet run on two cores: one view and six, over 1, 4 and 20 million rows.
SQL_JOB_SECONDS = 0.36
SQL_PLAN_SECONDS = 0.34
"""A job of Spark's own operators without rows, and each plan in it, which is compiled and shuffled."""
SQL_ROW_SECONDS = 66e-9
"""To read a row and group it for one plan with Spark's operators, on one core."""
# No measurement: object stores give some 100 MB a second to one machine.
FAR_BYTE_SECONDS = 1e-8
"""To bring a byte of a file to a machine that is far from it; all cores of the machine share that."""
UNSEEN_SECONDS = 60.0
"""What is added for files that executors may not see, so that whoever certainly sees them comes first."""

_WEIGHT = 0.3
TELLING = 100_000
"""A run of fewer rows tells nothing about rows."""
# One run on a busy machine must not keep an engine from ever being chosen, and so measured, again.
_LARGEST_STEP = 2.0


class RunSize(NamedTuple):
    """How much a run reads, and for how many plans it groups that."""

    rows: int
    plans: int
    size_bytes: int = 0


class Rates(NamedTuple):
    """The seconds of one core to read a row, and to group it for one plan; of a far byte, and of a job without rows."""

    row: float = ROWS_SECONDS
    plan: float = PLAN_SECONDS
    far_byte: float = FAR_BYTE_SECONDS
    job: float = JOB_SECONDS

    def core_seconds(self, size: RunSize) -> float:
        """The time of one core for all rows and plans.

        >>> Rates(row=1.0, plan=2.0).core_seconds(RunSize(10, 9))
        70.0
        """
        return size.rows * (self.row + math.sqrt(size.plans) * self.plan)

    def travel_seconds(self, size: RunSize, distance: Distance) -> float:
        """The time until all bytes have come to a machine."""
        return {"near": 0.0, "far": size.size_bytes * self.far_byte, "unseen": UNSEEN_SECONDS}[distance]


def measure_size(bids: Iterable[Bid], inputs: Inputs) -> RunSize:
    """The largest input, and the plans of all bids."""
    given = [found for found in inputs.values() if isinstance(found, TaskInput)]
    largest = max(given, key=lambda found: found.row_count, default=TaskInput())
    return RunSize(largest.row_count, sum(len(bid.task.plans) for bid in bids), sum(found.size_bytes for found in given))


def estimate_local(size: RunSize, rates: Rates, distance: Distance) -> float:
    """The seconds that the kernel takes in this process."""
    return rates.core_seconds(size) / LOCAL_CORES + rates.travel_seconds(size, distance)


def estimate_job(size: RunSize, rates: Rates, distance: Distance, *, cores: float, start: float = 0.0) -> float:
    """The seconds that a job of file tasks takes on so many cores; `start` is what comes before the job."""
    return start + rates.job + rates.core_seconds(size) / max(1.0, cores) + rates.travel_seconds(size, distance)


def estimate_sql(size: RunSize, rates: Rates, distance: Distance, *, cores: float, start: float = 0.0) -> float:
    """The seconds that Spark's own operators take. `rates.row` is how many times as long as the constants say runs have taken."""
    seconds = SQL_JOB_SECONDS + size.plans * SQL_PLAN_SECONDS + size.rows * size.plans * SQL_ROW_SECONDS / max(1.0, cores)
    return start + seconds * rates.row / ROWS_SECONDS + rates.travel_seconds(size, distance)


def count_cores(slots: int, busy: int, size: RunSize, *, least_rows: int) -> int:
    """How many tasks of a job run at once: a task needs rows, and a job gets half of the slots of a busy server at least.

    >>> count_cores(8, 0, RunSize(10_000_000, 1), least_rows=500_000), count_cores(8, 7, RunSize(10_000_000, 1), least_rows=500_000)
    (8, 4)
    >>> count_cores(8, 0, RunSize(1_000_000, 1), least_rows=500_000)
    2
    """
    free = max(slots - busy, (slots + 1) // 2, 1)
    return max(1, min(free, size.rows // max(1, least_rows)))


class MeasuredRates:
    """The rates of each engine at each distance of its files, as the runs of this process have moved them."""

    def __init__(self, begin: Rates | None = None) -> None:
        self._begin = begin or Rates()
        self._rates: dict[tuple[str, Distance], Rates] = {}
        self._lock = threading.Lock()

    def of(self, engine: str, distance: Distance) -> Rates:
        """The rates of an engine now."""
        return self._rates.get((engine, distance), self._begin)

    def note(self, engine: str, distance: Distance, size: RunSize, *, ratio: float | None = None, job_seconds: float | None = None) -> None:
        """Move the rates after a run: rows took `ratio` times as long as was estimated, and a job without them so many seconds.

        A run of few rows says nothing about rows.

        >>> rates = MeasuredRates(Rates(row=10.0, job=1.0))
        >>> rates.note("executors", "near", RunSize(1_000_000, 1), ratio=1.5, job_seconds=2.0)
        >>> [round(value, 3) for value in rates.of("executors", "near")[::3]], rates.of("local", "near").row
        ([11.5, 1.3], 10.0)
        """
        with self._lock:
            known = self.of(engine, distance)
            if ratio is not None and size.rows >= TELLING:
                factor = _move(ratio)
                far = known.far_byte * factor if distance == "far" else known.far_byte
                known = known._replace(row=known.row * factor, plan=known.plan * factor, far_byte=far)
            if job_seconds is not None:
                known = known._replace(job=known.job * _move(job_seconds / known.job))
            self._rates[engine, distance] = known

    def clear(self) -> None:
        """Begin again with the constants."""
        with self._lock:
            self._rates.clear()


def _move(ratio: float) -> float:
    return 1 - _WEIGHT + _WEIGHT * min(max(ratio, 1 / _LARGEST_STEP), _LARGEST_STEP)


MEASURED = MeasuredRates()
"""The rates of this process."""
