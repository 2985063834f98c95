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

# `COMMITS=1000` is a rehearsal.
COMMITS, VIEWS = int(os.environ.get("COMMITS", "10000")), 50
ROWS = pa.table({"uid": pa.array(range(10), pa.int32()), "score": pa.array(range(10), pa.int32())})


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_commit_costs_the_same_after_ten_thousand_with_views_behind(tmp_path):
    """In processor time of this process, so that its neighbours don't count."""
    with Platform.create(tmp_path / "lake") as platform:
        platform.execute("CREATE STREAM posts (uid INT, score INT)")
        for number in range(VIEWS):
            platform.execute(f"CREATE VIEW view_{number} AS SELECT uid, sum(score + {number}) AS s FROM posts GROUP BY uid")
        taken = []
        with platform.stream("posts", grouping=Grouping(linger=timedelta(0))) as stream:
            for _ in range(COMMITS):
                began = time.process_time()
                stream.append(ROWS).result()
                taken.append(time.process_time() - began)
        assert len(platform.lake.commits()) >= COMMITS
    tenths = [median(taken[place * COMMITS // 10 : (place + 1) * COMMITS // 10]) for place in range(10)]
    print("milliseconds a commit, by tenths:", [round(1000 * each, 2) for each in tenths])
    assert median(tenths[-3:]) <= 1.2 * median(tenths[1:4])
