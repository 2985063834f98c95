"""kill -9 of a process that compacts a store, at every point: the rows are the same at each snapshot, and the next one goes on."""

from __future__ import annotations

import time
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from platform_plugin.lake.lake import Lake
from tests.lake.crashing import Victims
from tests.lake.test_crash import named_files
from tests.state.stores import Arranged, counted

NO_GRACE = timedelta(0)
TEN_MINUTES = 600.0


@pytest.fixture(scope="module")
def victims():
    served = Victims()
    yield served
    served.stop()


def attack(lake_url, victims, duck, *, step, seconds):
    """Kill compactions at every `step`-th point, as far as the time reaches; how often one was killed, and the points of one."""
    deadline = time.monotonic() + seconds
    kills = rounds = 0
    with Lake.create(lake_url) as lake:
        arranged = Arranged(lake)

        def check(lake, rows, snapshot):
            stored = lake.read("arranged", snapshot=snapshot)
            assert counted(stored.select(["uid", "word", "n", "_weight"])) == Counter({row: n for row, n in rows.items() if n})

        def attempt(kill_at):
            nonlocal rounds
            rounds += 1
            for number in range(8):
                # Some come, some of those before go, and groups meet.
                arranged.add({(rounds, f"w{number}", n): 1 for n in range(3)} | {(rounds - 1, f"w{number}", 0): -1})
            before, rows = lake.snapshot(), Counter(arranged.rows)
            told = victims.attempt(lake_url, "compact", kill_at=kill_at)
            with Lake.open(lake_url) as fresh:
                check(fresh, rows, before)
                check(fresh, rows, fresh.snapshot())
            assert told["killed"] or lake.snapshot().id == before.id + 1, "a compaction was due"
            while arranged.compact():
                check(lake, rows, lake.snapshot())
            lake.expire(datetime.now(UTC))
            lake.vacuum(grace=NO_GRACE)
            assert {path for path, _ in lake.storage.listing() if path.endswith(".parquet")} == named_files(lake)
            return told

        points = attempt(None)["points"]
        for point in range(1, points + 1, step):
            if time.monotonic() > deadline:
                break
            kills += attempt(point)["killed"]
        client = duck(lake_url)
        sql = "SELECT uid, word, n, sum(_weight) FROM arranged GROUP BY ALL HAVING sum(_weight) <> 0"
        assert Counter({row[:3]: row[3] for row in client.rows(sql)}) == Counter({row: n for row, n in arranged.rows.items() if n})
    return kills, points


def test_a_compaction_that_is_killed_here_and_there(lake_url, victims, duck):
    kills, _ = attack(lake_url, victims, duck, step=41, seconds=TEN_MINUTES)
    assert kills >= 1


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_compaction_that_is_killed_at_every_point(lake_url, victims, duck):
    kills, points = attack(lake_url, victims, duck, step=1, seconds=TEN_MINUTES)
    print(f"survived {kills} kills at {points} points")
    assert kills > 15
