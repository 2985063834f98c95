"""What a benchmark prints: rows of figures, the machine's load beside them, and the same as JSON."""

from __future__ import annotations

import json
import os
import platform
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

FOLDER = Path("build/benchmarks")


@dataclass
class Report:
    """Figures of one benchmark, in the order they were measured."""

    name: str
    rows: list[dict[str, Any]] = field(default_factory=list)

    def add(self, **figures: Any) -> None:
        """Note one row and show it at once."""
        row = figures | {"load": round(os.getloadavg()[0], 1)}
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
        machine = {"cores": os.cpu_count(), "python": platform.python_version(), "at": time.strftime("%Y-%m-%d %H:%M:%S")}
        path.write_text(json.dumps({"name": self.name, "machine": machine, "rows": self.rows}, indent=1, default=str))
        print(f"\nwritten to {path}")


def shown(value: Any) -> str:
    """A figure with three significant digits, anything else as it is."""
    return f"{value:.3g}" if isinstance(value, float) and abs(value) < 1000 else f"{value:.0f}" if isinstance(value, float) else str(value)


def seconds(work: Callable[[], object], *, times: int = 5, warm_ups: int = 1) -> float:
    """The median wall time of some work, after warm-ups."""
    for _ in range(warm_ups):
        work()
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return median(taken)


def pairs(ours: Callable[[], object], other: Callable[[], object], *, times: int) -> tuple[float, float]:
    """The median of the paired ratios of the other's wall time to ours, and our median seconds; a first pair warms up."""
    ratios, taken = [], []
    for turn in range(times + 1):
        clock = {}
        for arm in (ours, other) if turn % 2 else (other, ours):
            begin = time.perf_counter()
            arm()
            clock[arm] = time.perf_counter() - begin
        if turn:
            ratios.append(clock[other] / clock[ours])
            taken.append(clock[ours])
    return median(ratios), median(taken)
