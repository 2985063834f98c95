"""Many views: what the n-th CREATE VIEW costs, a thousand from a file in one commit, and a run of Spark for many small views.

Sizes come from the environment: MARKS (10,100,500: beside so many views ten more are created), VIEWS (1 000 in the file), SMALL (49 views
on STREAMS = 8, to each of which ROUNDS = 4 times 100 rows are appended), and ONLY some of create, file, small. With SENT=0 the rows
of small ranges do not travel with the query, as it was before; PARTITIONS=200 is Spark's default, which foreign servers have.
"""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa

from platform_plugin.maintenance.run import run_maintenance
from platform_plugin.platform import Platform
from tests.benchmarks.report import Report, clock, count_server

MARKS = [int(number) for number in os.environ.get("MARKS", "10,100,500").split(",")]
VIEWS = int(os.environ.get("VIEWS", "1000"))
SMALL = int(os.environ.get("SMALL", "49"))
STREAMS = int(os.environ.get("STREAMS", "8"))
ROUNDS = int(os.environ.get("ROUNDS", "4"))
_ROWS = 100
_PARTITIONS = "spark.sql.shuffle.partitions"

MIXED = (
    "SELECT uid, count(*) AS n, sum(score) AS total FROM {stream} WHERE item > {number} GROUP BY uid",
    "SELECT item, avg(price) AS price, max(score) AS best FROM {stream} WHERE uid > {number} GROUP BY item",
    "SELECT name, sum(price * {number}) AS price, min(ts) AS began FROM {stream} GROUP BY name",
    "SELECT u.region, count(*) AS n FROM {stream} e JOIN users u ON u.uid = e.uid WHERE e.item > {number} GROUP BY u.region",
    # One in five has columns that only Spark can tell.
    "SELECT date_trunc('HOUR', ts) AS hour, upper(name) AS name, sum(score) AS total FROM {stream} WHERE score > {number} GROUP BY 1, 2",
)
# Views that the Arrow kernel refuses.
BY_SPARK = (
    "SELECT hash(name) AS h, count(*) AS n FROM {stream} WHERE item > {number} GROUP BY 1",
    "SELECT pmod(uid, {number} + 2) AS k, count(DISTINCT name) AS n, stddev(price) AS d FROM {stream} GROUP BY 1",
    "SELECT regexp_replace(name, '[0-9]+', 'x{number}') AS name, sum(score) AS t FROM {stream} GROUP BY 1",
    "SELECT item, collect_list(score) AS l, last(price) AS p FROM {stream} WHERE score > {number} GROUP BY item",
    "SELECT dayofweek(ts) AS d, percentile_approx(score, 0.5) AS m FROM {stream} WHERE uid > {number} GROUP BY 1",
    "SELECT approx_count_distinct(name) AS n, date_format(ts, 'yyyy-MM') AS m FROM {stream} WHERE score > {number} GROUP BY 2",
)


def prepare(folder: Path) -> Platform:
    """A lake with streams and a table."""
    platform = Platform.create(folder / "lake")
    for number in range(STREAMS):
        platform.execute(f"CREATE STREAM s{number} (uid INT, item INT, score INT, price DOUBLE, name STRING, ts TIMESTAMP)")
    platform.execute("CREATE TABLE users (uid INT, region STRING)")
    platform.execute("INSERT INTO users VALUES (1, 'EU'), (2, 'US')")
    platform.execute("SELECT 1").close()
    count_server()
    return platform


def query(shapes: tuple[str, ...], number: int) -> str:
    """The query of the n-th view."""
    return shapes[number % len(shapes)].format(stream=f"s{number % STREAMS}", number=number)


def measure_creation(report: Report, platform: Platform) -> None:
    """Ten more views beside so many, each in a commit of its own."""
    made = 0
    for mark in MARKS:
        for _ in range(mark - made):
            platform.execute(f"CREATE VIEW v{made} AS {query(MIXED, made)}")
            made += 1
        began, used = clock(), time.process_time()
        for _ in range(10):
            platform.execute(f"CREATE VIEW v{made} AS {query(MIXED, made)}")
            made += 1
        report.add(
            what=f"CREATE VIEW beside {mark} views",
            milliseconds=100 * (clock() - began),
            client_processor_milliseconds=100 * (time.process_time() - used),
        )


def measure_file(report: Report, platform: Platform, folder: Path) -> None:
    """A script of many views in one commit."""
    path = folder / "views.sql"
    path.write_text("".join(f"CREATE VIEW v{number} AS {query(MIXED, number)};\n" for number in range(VIEWS)))
    before = platform.lake.snapshot().id
    began, used = clock(), time.process_time()
    results = list(platform.execute_script(path.read_text(), one_commit=True))
    report.add(
        what=f"{VIEWS} views from a file in one commit",
        seconds=clock() - began,
        client_processor_seconds=time.process_time() - used,
    )
    assert results[-1].snapshot.id == before + 1
    assert len(platform.lake.views()) == VIEWS


def append(platform: Platform, seed: int) -> None:
    """Rows for each stream."""
    random = np.random.default_rng(seed)
    numbers = (("uid", 50), ("item", 60), ("score", 100))
    for number in range(STREAMS):
        table = platform.lake.table(f"s{number}")
        hours = [datetime(2026, 1, 1, int(hour), tzinfo=UTC) for hour in random.integers(0, 24, _ROWS)]
        rows = pa.table(
            {
                **{name: pa.array(random.integers(0, high, _ROWS), pa.int32()) for name, high in numbers},
                "price": random.random(_ROWS),
                "name": [f"n{value}" for value in random.integers(0, 20, _ROWS)],
                "ts": pa.array(hours, pa.timestamp("us", "UTC")),
            }
        )
        with platform.lake.commit("append") as commit:
            commit.append(table, [platform.lake.write(table, rows)])


def measure_small_views(report: Report, platform: Platform) -> None:
    """Runs for views that Spark has to group, over little."""
    work = platform.work
    if "PARTITIONS" in os.environ:
        work.session.spark.conf.set(_PARTITIONS, os.environ["PARTITIONS"])
    if os.environ.get("SENT") == "0":
        work.limits = replace(work.limits, sent_range_rows=0)
    for number in range(SMALL):
        platform.execute(f"CREATE VIEW w{number} AS {query(BY_SPARK, number)}")
    taken = []
    for number in range(ROUNDS):
        append(platform, number)
        began = clock()
        done = run_maintenance(work)
        taken.append(clock() - began)
        assert not done.failed
        assert len(done.on_spark) == len(done.views) == SMALL
    report.add(
        what=f"a run by Spark: {SMALL} views on {STREAMS} streams, {_ROWS * STREAMS} rows",
        first_seconds=taken[0],
        seconds=median(taken[1:]),
        jobs=done.jobs,
        tasks=done.tasks,
    )


def run() -> None:
    """All of it, each on a lake of its own."""
    report = Report("views_many")
    arms = os.environ.get("ONLY", "create,file,small").split(",")
    with tempfile.TemporaryDirectory() as place:
        for name in arms:
            folder = Path(place) / name
            folder.mkdir()
            with prepare(folder) as platform:
                if name == "create":
                    measure_creation(report, platform)
                elif name == "file":
                    measure_file(report, platform, folder)
                else:
                    measure_small_views(report, platform)
    report.finish()
