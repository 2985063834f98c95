"""What a benchmark prints: rows of figures, the machine's load and the processor time beside them, and the same as JSON.

On a busy machine `BENCH_CLOCK=processor` measures everything in processor seconds, which other processes hardly change: those of the
benchmark, of the processes that it waited for, and of the Spark server. With `BENCH_CLOCK=client` the server is left out, so that its
compiler and garbage collector do not disturb what the client takes. "A second" is then one of the processor.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

FOLDER = Path("build/benchmarks")
CLOCK = os.environ.get("BENCH_CLOCK", "wall")
CLOCK_OF_PYTHON = "time.perf_counter" if CLOCK == "wall" else "time.process_time"
"""The same clock for the code of another process that imports nothing of this one."""
_server: list[int] = []


def clock() -> float:
    """Seconds of the clock by which benchmarks measure."""
    return time.perf_counter() if CLOCK == "wall" else processor_seconds(server=CLOCK == "processor")


def processor_seconds(*, server: bool = True) -> float:
    """The processor time of this process, of the processes that it waited for, and of the server that `count_server` was told of."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    # Linux makes the number of a process's clock of its own number, as `clock_getcpuclockid` does.
    others = sum(time.clock_gettime((~pid << 3) | 2) for pid in _server) if server else 0.0
    return time.process_time() + ended.ru_utime + ended.ru_stime + others


def count_server() -> None:
    """From now on the processor time of the user's running Spark server counts."""
    from platform_plugin.engine.spark.server.attach import status

    details = status().details
    _server[:] = [int(details[name]) for name in ("pid", "jvm_pid") if details.get(name)]


@dataclass
class Report:
    """Figures of one benchmark, in the order they were measured."""

    name: str
    rows: list[dict[str, Any]] = field(default_factory=list)
    _worked: float = field(default_factory=processor_seconds)

    def add(self, **figures: Any) -> None:
        """Note one row and show it at once, with the processor seconds since the row before, preparations included."""
        worked = processor_seconds()
        row = figures | {"cpu": worked - self._worked, "load": round(os.getloadavg()[0], 1)}
        self._worked = worked
        self.rows.append(row)
        print("  ".join(f"{key}={shown(value)}" for key, value in row.items()), flush=True)

    def finish(self) -> None:
        """Print the table as Markdown and write it as JSON."""
        columns = list(dict.fromkeys(key for row in self.rows for key in row))
        print(f"\n| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
        for row in self.rows:
            print(f"| {' | '.join(shown(row.get(column, '')) for column in columns)} |")
        FOLDER.mkdir(parents=True, exist_ok=True)
        path = FOLDER / f"{self.name}.json"
        machine = {"cores": os.cpu_count(), "clock": CLOCK, "python": platform.python_version(), "at": time.strftime("%Y-%m-%d %H:%M:%S")}
        path.write_text(json.dumps({"name": self.name, "machine": machine, "rows": self.rows}, indent=1, default=str))
        print(f"\nwritten to {path}")


def shown(value: Any) -> str:
    """A figure with three significant digits, anything else as it is."""
    return f"{value:.3g}" if isinstance(value, float) and abs(value) < 1000 else f"{value:.0f}" if isinstance(value, float) else str(value)


def seconds(work: Callable[[], object], *, times: int = 5, warm_ups: int = 1) -> float:
    """The median time of some work, after warm-ups."""
    for _ in range(warm_ups):
        work()
    taken = []
    for _ in range(times):
        start = clock()
        work()
        taken.append(clock() - start)
    return median(taken)


def pairs(ours: Callable[[], object], other: Callable[[], object], *, times: int) -> tuple[float, float]:
    """The median of the paired ratios of the other's time to ours, and our median seconds; a first pair warms up."""
    ratios, taken = [], []
    for turn in range(times + 1):
        took = {}
        for arm in (ours, other) if turn % 2 else (other, ours):
            begin = clock()
            arm()
            took[arm] = clock() - begin
        if turn:
            ratios.append(took[other] / took[ours])
            taken.append(took[ours])
    return median(ratios), median(taken)
