"""The AIM views on other engines: ClickHouse's insert-triggered views by chdb, and PostgreSQL with eager views written by hand."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import textwrap
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import sqlalchemy as sa

from tests.benchmarks import views as aim
from tests.benchmarks import views_streaming
from tests.postgres import PostgresServer, find_binaries

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.benchmarks.report import Report

SEGMENTS = 5

# What each kind of view keeps for a group, and how it is asked. The rest are parameters.
_CLICKHOUSE = {
    "q1": (
        "entity_id UInt64, total SimpleAggregateFunction(sum, Int64), calls SimpleAggregateFunction(sum, UInt64)",
        "entity_id",
        "SELECT entity_id, sum(duration) AS total, countIf(NOT long_distance) AS calls FROM events WHERE week = {week} GROUP BY entity_id",
        "SELECT avg(t) FROM (SELECT sum(total) AS t, sum(calls) AS c FROM {v} GROUP BY entity_id) WHERE c > {alpha}",
    ),
    "q2": (
        "entity_id UInt64, highest SimpleAggregateFunction(max, Int64), calls SimpleAggregateFunction(sum, UInt64)",
        "entity_id",
        "SELECT entity_id, max(cost) AS highest, count() AS calls FROM events WHERE week = {week} GROUP BY entity_id",
        "SELECT max(h) FROM (SELECT max(highest) AS h, sum(calls) AS c FROM {v} GROUP BY entity_id) WHERE c > {alpha}",
    ),
    "q3": (
        """entity_id UInt64, cost SimpleAggregateFunction(sum, Int64), duration SimpleAggregateFunction(sum, Int64),
        calls SimpleAggregateFunction(sum, UInt64)""",
        "entity_id",
        """SELECT entity_id, sum(cost) AS cost, sum(duration) AS duration, count() AS calls
        FROM events WHERE week = {week} GROUP BY entity_id""",
        """SELECT n, sum(c) / sum(d)
        FROM (SELECT sum(calls) AS n, sum(cost) AS c, sum(duration) AS d FROM {v} GROUP BY entity_id) WHERE n > {least} GROUP BY n""",
    ),
    "q4": (
        "entity_id UInt64, calls SimpleAggregateFunction(sum, UInt64), total SimpleAggregateFunction(sum, Int64)",
        "entity_id",
        """SELECT entity_id, count() AS calls, sum(duration) AS total
        FROM events WHERE week = {week} AND NOT long_distance GROUP BY entity_id""",
        """SELECT city, avg(n), sum(t) FROM (SELECT entity_id, sum(calls) AS n, sum(total) AS t FROM {v} GROUP BY entity_id) e
        JOIN customers c ON c.id = e.entity_id WHERE n > {gamma} AND t > 25 GROUP BY city""",
    ),
    "q5": (
        "region Int32, cost SimpleAggregateFunction(sum, Int64), duration SimpleAggregateFunction(sum, Int64)",
        "region",
        """SELECT region, sum(cost) AS cost, sum(duration) AS duration FROM events e JOIN chosen5_{type}_{category} c ON c.id = e.entity_id
        WHERE week = {week} GROUP BY region""",
        "SELECT region, sum(cost), sum(duration) FROM {v} GROUP BY region",
    ),
    "q7": (
        "one UInt8, cost SimpleAggregateFunction(sum, Int64), duration SimpleAggregateFunction(sum, Int64)",
        "one",
        """SELECT 1 AS one, sum(cost) AS cost, sum(duration) AS duration FROM events e JOIN chosen7_{value} c ON c.id = e.entity_id
        WHERE week = {week} GROUP BY one""",
        "SELECT sum(cost) / sum(duration) FROM {v}",
    ),
}

_CHDB = """
    import json, sys, time
    from chdb.session import Session
    work = json.load(open(sys.argv[1]))
    session = Session(work["folder"] + "/chdb")
    session.query("SET max_threads = 2")
    for statement in work["setup"]:
        session.query(statement)
    taken = []
    for path in work["segments"]:
        began = time.perf_counter()
        session.query(f"INSERT INTO events SELECT * FROM file('{path}', Parquet) SETTINGS max_threads = 2")
        taken.append(time.perf_counter() - began)
    reads = {}
    for name, text in work["reads"].items():
        times = []
        for _ in range(5):
            began = time.perf_counter()
            answer = session.query(text, "JSONCompactEachRow")
            times.append(time.perf_counter() - began)
        rows = [json.loads(line) for line in str(answer).splitlines() if line.strip()]
        reads[name] = [sorted(times)[2], rows]
    print(json.dumps({"taken": taken, "reads": reads}))
"""


def chdb_arm(report: Report, folder: Path, counts: list[int]) -> None:
    """Aggregating tables filled by materialized views when rows are inserted; `BENCH_CHDB` names a Python that can import chdb."""
    python = os.environ.get("BENCH_CHDB")
    if not python:
        return
    paths = written(folder)
    for count in counts:
        place = folder / f"chdb{count}"
        place.mkdir()
        setup = [
            "CREATE DATABASE IF NOT EXISTS d",
            """CREATE TABLE customers (id Int64, city Int32, region Int32, type Int32, category Int32, value_type Int32)
            ENGINE = MergeTree ORDER BY id""",
            f"INSERT INTO customers SELECT * FROM file('{folder}/customers.parquet', Parquet)",
            "CREATE TABLE events (entity_id Int64, week Int32, duration Int64, cost Int64, long_distance Bool) ENGINE = Null",
        ]
        chosen = "CREATE TABLE IF NOT EXISTS chosen{} ENGINE = Join(ALL, INNER, id) AS SELECT id, region FROM customers WHERE {}"
        reads = {}
        for number in range(count):
            given = aim.parameters(number)
            setup.append(chosen.format("5_{type}_{category}".format(**given), "type = {type} AND category = {category}".format(**given)))
            setup.append(chosen.format("7_{value}".format(**given), "value_type = {value}".format(**given)))
            columns, key, fill, ask = list(_CLICKHOUSE.values())[number % len(_CLICKHOUSE)]
            setup.append(f"CREATE TABLE v{number} ({columns}) ENGINE = AggregatingMergeTree ORDER BY {key}")
            setup.append(f"CREATE MATERIALIZED VIEW m{number} TO v{number} AS {fill.format(**given)}")
            if number < len(_CLICKHOUSE):
                reads[f"q{(*range(1, 6), 7)[number]}"] = ask.format(v=f"v{number}", **given)
        # All in the one database that a new session has.
        work = {"folder": str(place), "setup": setup[1:], "segments": [str(path) for path in paths], "reads": reads}
        (place / "work.json").write_text(json.dumps(work))
        command = [python, "-c", textwrap.dedent(_CHDB), str(place / "work.json")]
        done = json.loads(subprocess.run(command, check=True, capture_output=True, text=True, timeout=1800).stdout.splitlines()[-1])
        for number, (_, rows) in enumerate(done["reads"].values()):
            assert views_streaming.rounded(rows) == views_streaming.expected(paths, folder / "customers.parquet", number), number
        typical = median(done["taken"][1:])
        report.add(what="chdb: insert into views", views=count, seconds=typical, events_per_second=aim.EVENTS / typical)
        for name, (taken, _) in done["reads"].items():
            if name not in ("q1", "q4"):
                continue
            report.add(what=f"chdb: read of changed view {name}", views=count, milliseconds=1000 * taken)


def written(folder: Path) -> list[Path]:
    """The segments and the customers as files; the paths of the segments."""
    pq.write_table(aim.customers(), folder / "customers.parquet")
    paths = [folder / f"events{number}.parquet" for number in range(SEGMENTS)]
    for number, path in enumerate(paths):
        pq.write_table(aim.events(number), path)
    return paths


def postgres_arm(report: Report, *, rows: int) -> None:
    """Six eager views as tables of groups, upserted with every batch in the transaction that adds it."""
    if find_binaries() is None:
        return
    import psycopg

    server = PostgresServer.create(owner=os.getpid())
    try:
        engine = sa.make_url(server.database("postgres").sqlalchemy_url)
        with psycopg.connect(
            host=engine.host or str(engine.query.get("host")), port=engine.port, user=engine.username, dbname="postgres"
        ) as db:
            _prepare_postgres(db)
            taken, segments = [], [aim.events(number, rows=rows) for number in range(4)]
            for segment in segments:
                began = time.perf_counter()
                _insert_postgres(db, segment)
                taken.append(time.perf_counter() - began)
            _check_postgres(db, segments)
            typical = median(taken[1:])
            report.add(what="PostgreSQL: insert into eager views", views=6, rows=rows, seconds=typical, events_per_second=rows / typical)
            began = time.perf_counter()
            db.execute("SELECT avg(total) FROM eager WHERE local_calls > 2").fetchall()
            report.add(what="PostgreSQL: read of changed view q1", views=6, milliseconds=1000 * (time.perf_counter() - began))
    finally:
        server.remove()


# What is asked of the eager tables for each of the six views.
_POSTGRES = (
    "SELECT avg(total) FROM eager WHERE local_calls > 2",
    "SELECT max(highest) FROM eager WHERE calls > 2",
    "SELECT calls, sum(cost) / sum(total) FROM eager WHERE calls > 0 GROUP BY calls",
    """SELECT city, avg(local_calls), sum(local_total) FROM eager JOIN customers ON id = entity_id
    WHERE local_calls > 4 AND local_total > 25 GROUP BY city""",
    "SELECT region, cost, duration FROM eager5",
    "SELECT cost::numeric / duration FROM eager7",
)


def _check_postgres(db: Any, segments: Sequence[Any]) -> None:
    with tempfile.TemporaryDirectory() as place:
        paths = [Path(place) / f"{number}.parquet" for number in range(len(segments))]
        for path, segment in zip(paths, segments, strict=True):
            pq.write_table(segment, path)
        pq.write_table(aim.customers(), Path(place) / "customers.parquet")
        for number, text in enumerate(_POSTGRES):
            found = views_streaming.rounded(db.execute(text).fetchall())
            assert found == views_streaming.expected(paths, Path(place) / "customers.parquet", number), number


def _prepare_postgres(db: Any) -> None:
    db.execute("CREATE TABLE customers (id BIGINT PRIMARY KEY, city INT, region INT, type INT, category INT, value_type INT)")
    with db.cursor().copy("COPY customers FROM STDIN") as copy:
        for row in zip(*(column.to_pylist() for column in aim.customers().columns), strict=True):
            copy.write_row(row)
    db.execute("""CREATE TABLE eager (entity_id BIGINT PRIMARY KEY, total BIGINT, cost BIGINT, highest BIGINT, calls BIGINT,
        local_calls BIGINT, local_total BIGINT)""")
    db.execute("CREATE TABLE eager5 (region INT PRIMARY KEY, cost BIGINT, duration BIGINT)")
    db.execute("CREATE TABLE eager7 (one INT PRIMARY KEY, cost BIGINT, duration BIGINT)")
    db.execute("CREATE TEMP TABLE batch (entity_id BIGINT, week INT, duration BIGINT, cost BIGINT, long_distance BOOLEAN)")
    db.commit()


def _insert_postgres(db: Any, segment: Any) -> None:
    db.execute("TRUNCATE batch")
    with db.cursor().copy("COPY batch FROM STDIN") as copy:
        for row in zip(*(column.to_pylist() for column in segment.columns), strict=True):
            copy.write_row(row)
    db.execute("""INSERT INTO eager AS e SELECT entity_id, sum(duration), sum(cost), max(cost), count(*),
            count(*) FILTER (WHERE NOT long_distance), coalesce(sum(duration) FILTER (WHERE NOT long_distance), 0)
        FROM batch WHERE week = 0 GROUP BY entity_id
        ON CONFLICT (entity_id) DO UPDATE SET total = e.total + excluded.total, cost = e.cost + excluded.cost,
            highest = greatest(e.highest, excluded.highest), calls = e.calls + excluded.calls,
            local_calls = e.local_calls + excluded.local_calls, local_total = e.local_total + excluded.local_total""")
    for table, key, condition in (("eager5", "region", "c.type = 2 AND c.category = 1"), ("eager7", "1", "c.value_type = 2")):
        column = "region" if table == "eager5" else "one"
        db.execute(f"""INSERT INTO {table} AS e SELECT {key}, sum(cost), sum(duration) FROM batch b JOIN customers c ON c.id = b.entity_id
            WHERE week = 0 AND {condition} GROUP BY 1
            ON CONFLICT ({column}) DO UPDATE SET cost = e.cost + excluded.cost, duration = e.duration + excluded.duration""")
    db.commit()
