"""A process that works on the samples of a lake beside others. Usage: url seed append|insert|maintain times"""

from __future__ import annotations

import sys
import time

import numpy as np
import pyarrow as pa

from platform_plugin.maintenance.run import run_maintenance
from platform_plugin.platform import Platform
from platform_plugin.relations.samples import waiting


def work(platform: Platform, random: np.random.Generator, what: str, times: int) -> None:
    """Append or insert rows of random numbers and one of five kinds so many times, or maintain."""
    stream = platform.stream("posts")
    for _ in range(times):
        if what == "maintain":
            done = run_maintenance(platform.work, kinds=["sample"])
            assert not done.failed, done.failed
            time.sleep(0.05)
        elif what == "append":
            count = int(random.choice([1, 7, 300, 3000]))
            kinds = [str(kind) for kind in random.integers(0, 5, count)]
            stream.append(pa.table({"id": random.integers(0, 1 << 40, count), "kind": kinds}), wait=True)
        else:
            values = [f"({number}, '{number % 5}')" for number in random.integers(0, 1 << 40, int(random.choice([1, 5, 50])))]
            platform.execute(f"INSERT INTO posts VALUES {', '.join(values)}")


if __name__ == "__main__":
    waiting._MOST_PICKS = 20  # merge often
    with Platform.open(sys.argv[1]) as opened:
        work(opened, np.random.default_rng(int(sys.argv[2])), sys.argv[3], int(sys.argv[4]))
