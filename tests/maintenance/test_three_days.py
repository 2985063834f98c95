"""A lake that lives for long: what a tick, a plan and a commit cost, and the size of the catalogue, do not depend on its age.

Days are simulated by numbers of commits: after each twentieth of a day all due relations are maintained, files are merged, relations
come and go, and what is older than a tenth of a day expires. Times are those of the processor, in units of what a fixed piece of work
takes at the same moment: what else runs on the machine slows both.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass, field
from datetime import timedelta
from statistics import fmean, median
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
import sqlalchemy as sa

from platform_plugin.lake.ring import folding
from platform_plugin.maintenance.run import find_due, run_maintenance
from platform_plugin.orchestration.sensors.waiting import read_waiting
from platform_plugin.platform import Platform
from platform_plugin.relations.follow.maintained import Selection
from platform_plugin.relations.streams.append import Grouping
from tests.lake.changing import end_rows
from tests.yardstick import Yardstick

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# `COMMITS=1000 VIEWS=20` is a rehearsal of a minute.
COMMITS, VIEWS, SAMPLES = (int(os.environ.get(name, count)) for name, count in (("COMMITS", 10_000), ("VIEWS", 200), ("SAMPLES", 50)))
DAYS, ROUNDS = 3, 20
ROWS = pa.table({"uid": pa.array([1, 2], pa.int32()), "score": pa.array([3, 4], pa.int32())})
STREAMS = ("clicks", "logs")
AT_ONCE = Grouping(linger=timedelta(0))
# Arrivals of rows that stay for good need some bytes for each commit, and a row for each `LOGGED_AT_ONCE` of them.
LOGS = "platform_arrival_log"
LOGGED_BYTES = 16


@dataclass
class Figures:
    """What was measured, each figure once in a round."""

    counts: dict[str, list[int]] = field(default_factory=dict)
    seconds: dict[str, list[float]] = field(default_factory=dict)
    units: dict[str, list[float]] = field(default_factory=dict)

    def last_day(self, values: Sequence[float]) -> np.ndarray:
        return np.array(values[-ROUNDS:], dtype=float)

    def growth(self, values: Sequence[float]) -> float:
        """By how much a figure grows in the last day: the median of the slopes between all pairs, which a few odd rounds don't turn."""
        day = self.last_day(values)
        first, second = np.triu_indices(len(day), 1)
        return float(np.median((day[second] - day[first]) / (second - first))) * len(day)


def found(folder) -> Platform:
    platform = Platform.create(folder / "lake")
    platform.execute(f"CREATE STREAM clicks (uid INT, score INT) WITH (retention_rows = {min(500, COMMITS // 5)})")
    platform.execute("CREATE TABLE clicks_all AS HISTORY OF clicks")
    platform.execute("CREATE STREAM logs (uid INT, score INT)")
    platform.execute("CREATE TABLE users (id BIGINT, rate BIGINT)")
    platform.execute("INSERT INTO users VALUES " + ", ".join(f"({number}, 0)" for number in range(100)))
    views = [
        f"CREATE VIEW view_{number} AS SELECT uid, count(*) AS n, sum(score + {number}) AS s FROM {STREAMS[number % 2]} GROUP BY uid;"
        for number in range(VIEWS)
    ]
    for _ in platform.execute_script("\n".join(views), one_commit=True):
        pass
    for number in range(SAMPLES):
        window = ", window = '100 rows'" if number % 4 < 2 else ""
        platform.execute(f"CREATE SAMPLE sample_{number} ON {STREAMS[number % 2]} SIZE 10 WITH (seed = {number}{window})")
    return platform


def live(platform: Platform, round_: int) -> None:
    """What happens between the appends of a twentieth of a day."""
    lake = platform.lake
    assert run_maintenance(platform.work).failed == {}
    for number in range(round_ % 10, VIEWS, 100):
        platform.execute(f"REFRESH VIEW view_{number}")
    end_rows(lake, lake.table("users"), [round_ % 100], images=True, new={"rate": round_})
    for table in (*STREAMS, "clicks_all", "users"):
        lake.merge(table)
    # Relations that come and go.
    platform.execute(f"CREATE VIEW fleeting AS SELECT score, count(*) AS n FROM logs WHERE uid > {round_} GROUP BY score")
    platform.execute("CREATE SAMPLE passing ON clicks SIZE 5 WITH (seed = 1)")
    platform.execute("CREATE STREAM brief (i INT)")
    platform.execute("INSERT INTO brief VALUES (1)")
    assert run_maintenance(platform.work).failed == {}
    for relation in ("VIEW fleeting", "SAMPLE passing", "STREAM brief"):
        platform.execute(f"DROP {relation}")
    kept = lake.commits(limit=COMMITS // 10)[0]
    lake.expire(kept.time)
    lake.vacuum(grace=timedelta(0))


def fastest(work: Callable[[], object], times: int = 5) -> float:
    taken = []
    for _ in range(times):
        began = time.process_time()
        work()
        taken.append(time.process_time() - began)
    return min(taken)


def measure(platform: Platform, figures: Figures, yardstick: Yardstick) -> None:
    lake = platform.lake
    with lake.engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
        pages, free, size = (
            connection.exec_driver_sql(f"PRAGMA {what}").scalar() for what in ("page_count", "freelist_count", "page_size")
        )
        counts = {
            name: connection.execute(sa.text(f'SELECT count(*) FROM "{name}"')).scalar()
            for name in sa.inspect(connection).get_table_names()
        }
    counts["bytes"] = (pages - free) * size
    rounds = max(map(len, figures.counts.values()), default=0)
    for name in {*counts, *figures.counts}:
        figures.counts.setdefault(name, [0] * rounds).append(counts.get(name, 0))
    snapshot = lake.snapshot()
    seconds = {
        "idle tick": fastest(lambda: read_waiting(lake, lake.snapshot())),
        "idle run": fastest(lambda: find_due(platform.work, Selection())),
        "plan of a scan": fastest(lambda: lake.scan(lake.table("clicks_all", snapshot), lake.snapshot())),
        "plan of a refresh": fastest(lambda: list(platform.execute("EXPLAIN REFRESH VIEW view_1"))),
        "read of a view": fastest(lambda: list(platform.execute("SELECT * FROM view_1"))),
    }
    unit = fastest(yardstick)
    for name, taken in seconds.items():
        figures.seconds.setdefault(name, []).append(taken)
        figures.units.setdefault(name, []).append(taken / unit)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(7200)
def test_after_three_days_nothing_grows(tmp_path, spark_server, monkeypatch):
    # A rehearsal has fewer segments in its days.
    monkeypatch.setattr(folding, "LOGGED_AT_ONCE", min(folding.LOGGED_AT_ONCE, max(COMMITS // 20, 4)))
    figures, yardstick = Figures(), Yardstick()
    with found(tmp_path) as platform:
        number = 0
        for round_ in range(DAYS * ROUNDS):
            beats = [yardstick.seconds()]
            began = time.process_time()
            opened = [platform.stream(name, grouping=AT_ONCE) for name in STREAMS]
            for turn in range(COMMITS // ROUNDS):
                opened[number % 2].append(ROWS).result()
                number += 1
                if turn % 20 == 19:
                    beats.append(yardstick.seconds())
            for stream in opened:
                stream.close()
            taken = (time.process_time() - began - sum(beats[1:])) / (COMMITS // ROUNDS)
            figures.seconds.setdefault("commit", []).append(taken)
            figures.units.setdefault("commit", []).append(taken / fmean(beats))
            beats = [yardstick.seconds() for _ in range(5)]
            began = time.process_time()
            live(platform, round_)
            taken = time.process_time() - began
            beats += [yardstick.seconds() for _ in range(5)]
            figures.seconds.setdefault("round", []).append(taken)
            figures.units.setdefault("round", []).append(taken / fmean(beats))
            measure(platform, figures, yardstick)
            if round_ % 5 == 4:
                print(
                    round_ + 1,
                    {name: round(1000 * values[-1], 1) for name, values in figures.seconds.items()},
                    figures.counts["bytes"][-1],
                    flush=True,
                )
        for view in ("view_0", "view_1"):
            assert sorted(tuple(row) for row in platform.execute(f"SELECT uid, n FROM {view}")) == [(1, number / 2), (2, number / 2)]
    grown = {
        name: (round(figures.growth(values)), median(figures.last_day(values)))
        for name, values in figures.counts.items()
        if figures.growth(values) > max(20, 0.1 * median(figures.last_day(values)))
    }
    grown.pop(LOGS, None)
    # A row for so many commits, of the stream and of the history.
    assert figures.growth(figures.counts[LOGS]) <= 1.2 * COMMITS / folding.LOGGED_AT_ONCE + 2
    if "bytes" in grown and grown["bytes"][0] <= LOGGED_BYTES * COMMITS:
        del grown["bytes"]
    slower = {
        name: (figures.growth(values), median(figures.last_day(values)))
        for name, values in figures.units.items()
        if figures.growth(values) > 0.25 * median(figures.last_day(values))
    }
    print({name: (round(figures.growth(values), 1), values[-1]) for name, values in figures.counts.items() if values[-1]})
    for what in (figures.seconds, figures.units):
        print({name: (figures.growth(values), median(figures.last_day(values))) for name, values in what.items()})
    print(json.dumps([figures.seconds, figures.units, figures.counts["bytes"]]))
    assert (grown, slower) == ({}, {})
