"""What a commit costs, however many came before it and however many views have to consume them still."""

from __future__ import annotations

import os
import time
from datetime import timedelta
from statistics import median

import pyarrow as pa
import pytest

from platform_plugin.platform import Platform
from platform_plugin.relations.streams.append import Grouping
from tests.yardstick import Yardstick

# `COMMITS=1000` is a rehearsal.
COMMITS, VIEWS = int(os.environ.get("COMMITS", "10000")), 50
ROWS = pa.table({"uid": pa.array(range(10), pa.int32()), "score": pa.array(range(10), pa.int32())})


def tenths(values: list[float]) -> list[float]:
    count = len(values)
    return [median(values[place * count // 10 : (place + 1) * count // 10]) for place in range(10)]


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_commit_costs_the_same_after_ten_thousand_with_views_behind(tmp_path):
    """In processor time of this process, in units of what a fixed piece of work takes at the same time: its neighbours slow both."""
    with Platform.create(tmp_path / "lake") as platform:
        platform.execute("CREATE STREAM posts (uid INT, score INT)")
        for number in range(VIEWS):
            platform.execute(f"CREATE VIEW view_{number} AS SELECT uid, sum(score + {number}) AS s FROM posts GROUP BY uid")
        taken, units, yardstick = [], [], Yardstick()
        with platform.stream("posts", grouping=Grouping(linger=timedelta(0))) as stream:
            for number in range(COMMITS):
                began = time.process_time()
                stream.append(ROWS).result()
                taken.append(time.process_time() - began)
                if number % 10 == 0:
                    units.append(yardstick.seconds())
        assert len(platform.lake.commits()) >= COMMITS
    print("milliseconds a commit, by tenths:", [round(1000 * each, 2) for each in tenths(taken)])
    print("milliseconds of a fixed piece of work:", [round(1000 * each, 2) for each in tenths(units)])
    costs = [cost / unit for cost, unit in zip(tenths(taken), tenths(units), strict=True)]
    assert median(costs[-3:]) <= 1.2 * median(costs[1:4])
