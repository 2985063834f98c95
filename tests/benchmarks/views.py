"""Continuous views on the AIM telecom queries: maintenance by number of views, reads of changed and unchanged views, recomputation beside.

Sizes come from the environment: CUSTOMERS (100 000), EVENTS a segment (1 000 000), VIEWS (1,2,6,16,64), PAIRS of runs (5), MIXED_SECONDS
(10), TPCH_SCALE (0.05); `BENCH_CHDB` and `BENCH_FLINK` name Pythons that can import chdb and pyflink, and ONLY some of maintain, mixed,
chdb, postgres, streaming, tpch.
Views beyond the sixth ask for other weeks or, with VARIANTS=parameter, with other parameters for the same one.
With SPARK=1 every range is taken up by Spark, as large ones are.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa

from platform_plugin.maintenance.run import run_maintenance
from platform_plugin.platform import Platform
from tests.benchmarks.report import Report, clock, count_server, seconds

CUSTOMERS = int(os.environ.get("CUSTOMERS", "100000"))
EVENTS = int(os.environ.get("EVENTS", "1000000"))
VIEWS = [int(number) for number in os.environ.get("VIEWS", "1,2,6,16,64").split(",")]
VARIANTS = os.environ.get("VARIANTS", "week")
PAIRS = int(os.environ.get("PAIRS", "5"))
ARMS = ("maintain", "mixed", "chdb", "postgres", "streaming", "tpch")

_COLUMNS = "entity_id BIGINT, week INT, duration BIGINT, cost BIGINT, long_distance BOOLEAN"
# Parameters as in the thesis: alpha = beta = 2, gamma = 4, delta = 25, t = 2, cat = 1, v = 2. The week is part of the text, since a view's
# query can't depend on the clock.
AIM = {
    "q1": """
        SELECT avg(total) AS average FROM (
            SELECT entity_id, sum(duration) AS total, count_if(NOT long_distance) AS calls
            FROM {events} WHERE week = {week} GROUP BY entity_id)
        WHERE calls > {alpha}""",
    "q2": """
        SELECT max(highest) AS highest FROM (
            SELECT entity_id, max(cost) AS highest, count(*) AS calls FROM {events} WHERE week = {week} GROUP BY entity_id)
        WHERE calls > {alpha}""",
    "q3": """
        SELECT calls, sum(cost) / sum(duration) AS ratio FROM (
            SELECT entity_id, sum(cost) AS cost, sum(duration) AS duration, count(*) AS calls
            FROM {events} WHERE week = {week} GROUP BY entity_id)
        WHERE calls > {least} GROUP BY calls""",
    "q4": """
        SELECT c.city, avg(e.calls) AS calls, sum(e.total) AS total FROM (
            SELECT entity_id, count(*) AS calls, sum(duration) AS total
            FROM {events} WHERE week = {week} AND NOT long_distance GROUP BY entity_id
        ) e JOIN customers c ON c.id = e.entity_id WHERE e.calls > {gamma} AND e.total > 25 GROUP BY c.city""",
    "q5": """
        SELECT c.region, sum(e.cost) AS cost, sum(e.duration) AS duration FROM {events} e JOIN customers c ON c.id = e.entity_id
        WHERE e.week = {week} AND c.type = {type} AND c.category = {category} GROUP BY c.region""",
    "q7": """
        SELECT sum(e.cost) / sum(e.duration) AS ratio FROM {events} e JOIN customers c ON c.id = e.entity_id
        WHERE e.week = {week} AND c.value_type = {value}""",
}


def customers() -> pa.Table:
    """Who makes the calls."""
    random = np.random.default_rng(1)
    whole = {
        name: random.integers(0, high, CUSTOMERS)
        for name, high in {"city": 100, "region": 10, "type": 4, "category": 3, "value_type": 4}.items()
    }
    return pa.table(
        {"id": pa.array(range(CUSTOMERS), pa.int64()), **{name: pa.array(values, pa.int32()) for name, values in whole.items()}}
    )


def events(number: int, *, rows: int = 0) -> pa.Table:
    """A segment of calls; nearly all are of week 0, so that each view has all groups."""
    random = np.random.default_rng(100 + number)
    count = rows or EVENTS
    return pa.table(
        {
            "entity_id": pa.array(random.integers(0, CUSTOMERS, count), pa.int64()),
            "week": pa.array(np.where(random.random(count) < 0.95, 0, random.integers(1, 12, count)), pa.int32()),
            "duration": pa.array(random.integers(1, 3600, count), pa.int64()),
            "cost": pa.array(random.integers(1, 500, count), pa.int64()),
            "long_distance": pa.array(random.random(count) < 0.3),
        }
    )


def parameters(number: int) -> dict[str, int]:
    """What the n-th view asks for: the first six as in the thesis, those beyond them for other weeks or with other parameters."""
    further = number // len(AIM)
    week, more = (0, further) if VARIANTS == "parameter" else (further, 0)
    choice = {"type": (2 + more) % 4, "category": (1 + more // 4) % 3, "value": (2 + more) % 4}
    return {"week": week, "alpha": 2 + more, "least": more, "gamma": 4 + more, **choice}


def query(number: int) -> str:
    """The query of the n-th view."""
    name = list(AIM)[number % len(AIM)]
    return " ".join(AIM[name].format(events="{events}", **parameters(number)).split())


def prepare(folder: Path | str, count: int) -> Platform:
    """A lake with customers, the stream and so many views on it."""
    platform = Platform.create(f"{folder}/lake{count}")
    platform.execute("CREATE TABLE customers (id BIGINT, city INT, region INT, type INT, category INT, value_type INT)")
    lake = platform.lake
    table = lake.table("customers")
    with lake.commit("load") as commit:
        commit.append(table, [lake.write(table, customers())])
    platform.execute(f"CREATE STREAM events ({_COLUMNS})")
    for number in range(count):
        platform.execute(f"CREATE CONTINUOUS VIEW v{number} AS {query(number).format(events='events')}")
    return platform


def append(platform: Platform, rows: pa.Table) -> float:
    """Append a segment; the seconds it took."""
    lake = platform.lake
    table = lake.table("events")
    began = clock()
    with lake.commit("events") as commit:
        commit.append(table, [lake.write(table, rows)])
    return clock() - began


def rounded(result: Any) -> list[tuple[Any, ...]]:
    """Rows as a bag, fractions to nine digits."""
    return sorted((tuple(round(float(cell), 9) if isinstance(cell, float) else cell for cell in row) for row in result), key=repr)


def maintain(report: Report, folder: str) -> Platform:
    """How long a run takes by the number of views, and what the next view costs."""
    last: Platform | None = None
    first = 0.0
    for count in VIEWS:
        if last is not None:
            last.close()
        last = platform = prepare(folder, count)
        taken, appended, done = [], [], None
        for number in range(PAIRS + 2):
            appended.append(append(platform, events(number)))
            began = clock()
            done = run_maintenance(platform.work)
            taken.append(clock() - began)
        assert done is not None
        assert not done.failed
        typical = median(taken[2:])
        first = first or typical
        check(platform, min(count, 12))
        report.add(
            what="maintenance",
            views=count,
            seconds=typical,
            events_per_second=EVENTS / typical,
            with_append_per_second=EVENTS / (typical + median(appended[2:])),
            jobs=done.jobs,
            groups=done.groups,
            against_one_view=typical / first,
        )
    assert last is not None
    return last


def check(platform: Platform, count: int) -> None:
    """Every view is what its query gives over all rows of the stream, which nothing has left."""
    for number in range(count):
        maintained = rounded(platform.execute(f"SELECT * FROM v{number}"))
        recomputed = rounded(platform.execute(query(number).format(events="events")))
        assert maintained == recomputed, number


def reads(report: Report, platform: Platform) -> None:
    """A read of a changed and of an unchanged view, against recomputing it and against an empty Spark job."""
    count_server()
    job = seconds(lambda: list(platform.execute("SELECT count(*) FROM range(1)")))
    report.add(what="empty Spark job through Platform", milliseconds=1000 * job)
    for number in (0, 3):
        append(platform, events(50 + number, rows=10_000))
        list(platform.execute(f"SELECT * FROM v{number}"))
        taken = []
        for place in range(7):
            append(platform, events(60 + place, rows=1_000))
            began = clock()
            list(platform.execute(f"SELECT * FROM v{number}"))
            taken.append(clock() - began)
        changed = median(taken)
        # The same with an expression, which is Spark's to answer.
        through = seconds(lambda: list(platform.execute(f"SELECT * FROM (SELECT * FROM v{number})")))  # noqa: B023  it is called here
        recomputed = seconds(lambda: list(platform.execute(query(number).format(events="events"))), times=3)  # noqa: B023
        report.add(
            what=f"read of changed view q{number + 1}",
            milliseconds=1000 * changed,
            jobs_worth=changed / job,
            through_spark_milliseconds=1000 * through,
            recomputed_milliseconds=1000 * recomputed,
            faster=recomputed / changed,
        )
        platform.execute(f"REFRESH VIEW v{number}")
        statement = f"SELECT * FROM v{number}"
        list(platform.execute(statement))
        began, times = clock(), 5_000
        for _ in range(times):
            platform.execute(statement)
        rate = times / (clock() - began)
        assert platform.execute(statement).metrics is None
        report.add(what=f"reads of unchanged view q{number + 1}", per_second=rate)


def duckdb_arm(report: Report, platform: Platform) -> None:
    """The sceptic's arm: DuckDB recomputes on the same Parquet files."""
    try:
        import duckdb
    except ImportError:
        return
    lake = platform.lake
    snapshot = lake.snapshot()
    with duckdb.connect(config={"threads": 2}) as engine:
        for name in ("events", "customers"):
            files = [lake.storage.absolute(file.path) for file in lake.scan(lake.table(name), snapshot).files]
            engine.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet({files!r})")
        for number in (0, 3):
            text = query(number).format(events="events").replace("count_if(NOT long_distance)", "count(*) FILTER (NOT long_distance)")
            report.add(what=f"DuckDB recomputes q{number + 1}", milliseconds=1000 * seconds(lambda: engine.execute(text).fetchall()))  # noqa: B023


def run() -> None:
    """Everything, on one server."""
    from tests.benchmarks import views_mixed, views_peers, views_streaming, views_tpch

    report = Report("views")
    if os.environ.get("SPARK"):
        os.environ["PLATFORM_ENGINE"] = "spark_sql"
    arms = os.environ.get("ONLY", ",".join(ARMS)).split(",")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        if "maintain" in arms:
            with maintain(report, place) as platform:
                reads(report, platform)
                duckdb_arm(report, platform)
        if "mixed" in arms:
            for rate in (10_000, 50_000):
                (folder / f"mixed{rate}").mkdir()
                with prepare(folder / f"mixed{rate}", 6) as platform:
                    views_mixed.mixed(report, platform, rate=rate, seconds=float(os.environ.get("MIXED_SECONDS", "10")))
        if "chdb" in arms:
            (folder / "chdb").mkdir()
            views_peers.chdb_arm(report, folder / "chdb", VIEWS)
        if "postgres" in arms:
            views_peers.postgres_arm(report, rows=100_000)
        if "streaming" in arms:
            (folder / "streams").mkdir()
            paths = views_peers.written(folder / "streams")
            views_streaming.structured_streaming_arm(report, folder / "streams", paths)
            views_streaming.flink_arm(report, folder / "streams", paths)
        if "tpch" in arms:
            (folder / "tpch").mkdir()
            views_tpch.strategies(report, folder / "tpch", scale=float(os.environ.get("TPCH_SCALE", "0.05")))
    report.finish()
