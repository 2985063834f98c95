"""A process that reads a stream again and again while others write it, and counts the answers that are not a whole snapshot.

Every row holds its own number, so a right answer is a run of numbers without a gap. A reader without leases reads each snapshot ten times,
while its files leave: the rows of the first time, or an error. It reads so often at least, and until so many rows have come.
Usage: url stream reads leased|bare rows
"""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext

import numpy as np

from platform_plugin.errors import SnapshotExpired
from platform_plugin.lake.lake import Lake
from platform_plugin.lake.read.read import read_rows

AGAIN = 10


def is_whole(numbers: np.ndarray) -> bool:
    """Whether numbers are consecutive, and as many as any snapshot may have held."""
    return len(numbers) == 0 or bool((np.diff(numbers) == 1).all())


def read_again_and_again(url: str, stream: str, reads: int, *, leased: bool, rows_to_come: int) -> dict[str, int]:
    told = {"reads": 0, "wrong": 0, "overrun": 0, "rows": 0, "first": 0, "last": 0}
    with Lake.open(url) as lake:
        newest = -1
        while told["reads"] < reads or told["last"] - told["first"] <= rows_to_come:
            with lake.lease() if leased else nullcontext() as lease:
                snapshot = lease.snapshot if lease else lake.snapshot()
                try:
                    scan = lake.scan(lake.table(stream), snapshot)
                except SnapshotExpired:
                    told["reads"] += 1
                    told["overrun"] += 1
                    continue
                seen = None
                for _ in range(1 if leased else AGAIN):
                    told["reads"] += 1
                    try:
                        rows = read_rows(lake, scan).column("n").to_numpy()
                    except SnapshotExpired:
                        told["overrun"] += 1
                        continue
                    last = int(rows[-1]) if len(rows) else newest
                    # Snapshots only grow: no answer is older than the one before.
                    told["wrong"] += not is_whole(rows) or last < newest or (seen is not None and not np.array_equal(rows, seen))
                    seen, newest = rows, last
                    told["rows"] += len(rows)
                    told["first"] = told["first"] or last
                    told["last"] = last
    return told


if __name__ == "__main__":
    url, stream, reads, how, rows_to_come = sys.argv[1:]
    print(json.dumps(read_again_and_again(url, stream, int(reads), leased=how == "leased", rows_to_come=int(rows_to_come))))
