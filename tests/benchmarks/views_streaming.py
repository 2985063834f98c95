"""The AIM views on stream processors, checked by DuckDB: Structured Streaming in update mode, and Flink SQL with mini-batches."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from statistics import median
from typing import TYPE_CHECKING, Any

import pyarrow.csv as pc
import pyarrow.parquet as pq

from tests.benchmarks import views as aim

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.benchmarks.report import Report

# A streaming query can't group twice in update mode, so Structured Streaming keeps the lower groups, and the rest is asked of its sink.
_PARTS = {
    "q1": ("entity_id", "sum(duration) AS a, count_if(NOT long_distance) AS b", "", "SELECT avg(a) FROM {v} WHERE b > {alpha}"),
    "q2": ("entity_id", "max(cost) AS a, count(*) AS b", "", "SELECT max(a) FROM {v} WHERE b > {alpha}"),
    "q3": (
        "entity_id",
        "sum(cost) AS a, sum(duration) AS b, count(*) AS c",
        "",
        "SELECT c, sum(a) / sum(b) FROM {v} WHERE c > {least} GROUP BY c",
    ),
    "q4": (
        "entity_id",
        "count(*) AS a, sum(duration) AS b",
        "AND NOT long_distance",
        "SELECT city, avg(a), sum(b) FROM {v} JOIN customers ON id = entity_id WHERE a > {gamma} AND b > 25 GROUP BY city",
    ),
    "q5": ("region", "sum(cost) AS a, sum(duration) AS b", "AND type = {type} AND category = {category}", "SELECT region, a, b FROM {v}"),
    "q7": ("1", "sum(cost) AS a, sum(duration) AS b", "AND value_type = {value}", "SELECT a / b FROM {v}"),
}

_SPARK = """
    import json, os, shutil, sys, time
    from pyspark.sql import SparkSession
    work = json.load(open(sys.argv[1]))
    spark = (SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", "2").config("spark.ui.enabled", "false")
        .config("spark.sql.streaming.stateStore.providerClass",
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider").getOrCreate())
    spark.sparkContext.setLogLevel("ERROR")
    folder = work["folder"]
    os.makedirs(folder + "/in")
    customers = spark.read.parquet(work["customers"]).cache()
    customers.createOrReplaceTempView("customers")
    schema = spark.read.parquet(work["segments"][0]).schema
    spark.readStream.schema(schema).parquet(folder + "/in").createOrReplaceTempView("events")
    def into(name):
        def write(batch, number):
            batch.selectExpr("*", f"{number} AS batch_number").write.mode("append").parquet(f"{folder}/sink_{name}")
        return write
    taken = []
    for place, path in enumerate(work["segments"]):
        shutil.copy(path, folder + f"/in/{place}.parquet")
        began = time.perf_counter()
        running = [spark.sql(text).writeStream.outputMode("update").foreachBatch(into(name)).trigger(availableNow=True)
            .option("checkpointLocation", f"{folder}/checkpoint_{name}").start() for name, text in work["below"].items()]
        for query in running:
            query.awaitTermination()
        taken.append(time.perf_counter() - began)
    reads = {}
    for name, text in work["above"].items():
        rows = spark.read.parquet(f"{folder}/sink_{name}")
        values = [column for column in rows.columns if column not in ("k", "batch_number")]
        newest = ", ".join(f"max_by({column}, batch_number) AS {column}" for column in values)
        began = time.perf_counter()
        rows.createOrReplaceTempView("updates")
        spark.sql(f"SELECT k AS {work['keys'][name]}, {newest} FROM updates GROUP BY k").createOrReplaceTempView("v")
        answer = spark.sql(text).collect()
        reads[name] = [time.perf_counter() - began, [list(row) for row in answer]]
    print(json.dumps({"taken": taken, "reads": reads}, default=float))
"""

_FLINK = """
    import json, sys, time
    from pyflink.table import EnvironmentSettings, TableEnvironment
    work = json.load(open(sys.argv[1]))
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for name, value in {"parallelism.default": "2", "table.exec.mini-batch.enabled": "true",
            "table.exec.mini-batch.allow-latency": "1 s", "table.exec.mini-batch.size": "50000"}.items():
        tables.get_config().set(name, value)
    csv = "WITH ('connector' = 'filesystem', 'format' = 'csv', 'path' = '{}')"
    events = "entity_id BIGINT, week INT, duration BIGINT, cost BIGINT, long_distance BOOLEAN"
    tables.execute_sql("CREATE TABLE customers (id BIGINT, city INT, region INT, type INT, category INT, value_type INT) "
        + csv.format(work["customers"]))
    for name in ("one", "few", "all"):
        tables.execute_sql(f"CREATE TABLE {name}_events ({events}) " + csv.format(work[name]))
    def insert(which):
        together = tables.create_statement_set()
        for name, text in work["queries"].items():
            query = tables.sql_query(text.replace("{events}", which + "_events"))
            columns = ", ".join(f"`{c}` {t}" for c, t in work["types"][name])
            tables.execute_sql(f"CREATE TABLE IF NOT EXISTS drop_{name} ({columns}) WITH ('connector' = 'blackhole')")
            together.add_insert(f"drop_{name}", query)
        began = time.perf_counter()
        together.execute().wait()
        return time.perf_counter() - began
    answers = {}
    for name, text in work["queries"].items():
        state = {}
        with tables.execute_sql(text.replace("{events}", "few_events")).collect() as changes:
            for row in changes:
                key = tuple(row)
                state[key] = state.get(key, 0) + (1 if row.get_row_kind().name in ("INSERT", "UPDATE_AFTER") else -1)
        answers[name] = [list(key) for key, count in state.items() for _ in range(count)]
    print(json.dumps({"one": min(insert("one") for _ in range(3)), "all": min(insert("all") for _ in range(2)), "answers": answers}))
"""


def expected(segments: Sequence[Path], customers: Path, number: int) -> list[tuple[Any, ...]]:
    """What the n-th query gives over the rows of some files, as DuckDB says."""
    import duckdb

    with duckdb.connect(config={"threads": 2}) as engine:
        engine.execute(f"CREATE VIEW events AS SELECT * FROM read_parquet({[str(path) for path in segments]!r})")
        engine.execute(f"CREATE VIEW customers AS SELECT * FROM read_parquet('{customers}')")
        text = aim.query(number).format(events="events").replace("count_if(NOT long_distance)", "count(*) FILTER (NOT long_distance)")
        return rounded(engine.execute(text).fetchall())


def rounded(rows: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """Rows as a bag of numbers to nine digits, whatever types engines give them."""
    return sorted(tuple(float(f"{float(cell):.9g}") if cell is not None else None for cell in row) for row in rows)


def structured_streaming_arm(report: Report, folder: Path, paths: Sequence[Path]) -> None:
    """The lower groups of the first six views as queries in update mode, each with its state and a sink of updates."""
    below, above, keys = {}, {}, {}
    for number, (name, (key, calls, condition, ask)) in enumerate(_PARTS.items()):
        given = aim.parameters(number)
        join = "JOIN customers ON id = entity_id" if name in ("q5", "q7") else ""
        where = f"week = {given['week']} {condition.format(**given)}"
        below[name] = f"SELECT {key} AS k, {calls} FROM events {join} WHERE {where} GROUP BY {key if key != '1' else '1'}"
        above[name], keys[name] = ask.format(v="v", **given), key if key != "1" else "one"
    place = folder / "streaming"
    place.mkdir()
    work = {"folder": str(place), "customers": str(folder / "customers.parquet"), "segments": [str(path) for path in paths]}
    done = _run(sys.executable, _SPARK, place, {**work, "below": below, "above": above, "keys": keys})
    if done is None:
        return
    for number, name in enumerate(_PARTS):
        assert rounded(done["reads"][name][1]) == expected(paths, folder / "customers.parquet", number), name
    typical = median(done["taken"][1:])
    rows = pq.read_metadata(paths[0]).num_rows
    report.add(what="Structured Streaming, update mode", views=6, rows=rows, seconds=typical, events_per_second=rows / typical)
    for name in ("q1", "q4"):
        report.add(what=f"Structured Streaming: read of changed view {name}", views=6, milliseconds=1000 * done["reads"][name][0])


def flink_arm(report: Report, folder: Path, paths: Sequence[Path]) -> None:
    """The six views as Flink's continuous queries over CSV into sinks that drop changes; `BENCH_FLINK` names a Python with pyflink."""
    python = os.environ.get("BENCH_FLINK")
    if not python:
        return
    place = folder / "flink"
    place.mkdir()
    segment = pq.read_table(paths[0])
    files = {
        "one": segment.slice(0, 1),
        "few": segment.slice(0, 20_000),
        "all": segment,
        "customers": pq.read_table(folder / "customers.parquet"),
    }
    for name, rows in files.items():
        pc.write_csv(rows, place / f"{name}.csv", pc.WriteOptions(include_header=False))
    pq.write_table(files["few"], place / "few.parquet")
    types = {
        "q1": [["average", "DOUBLE"]],
        "q2": [["highest", "BIGINT"]],
        "q3": [["calls", "BIGINT"], ["ratio", "DOUBLE"]],
        "q4": [["city", "INT"], ["calls", "DOUBLE"], ["total", "BIGINT"]],
        "q5": [["region", "INT"], ["cost", "BIGINT"], ["duration", "BIGINT"]],
        "q7": [["ratio", "DOUBLE"]],
    }
    work = {**{name: str(place / f"{name}.csv") for name in files}, "types": types}
    queries = {name: _flink_text(aim.query(number)) for number, name in enumerate(_PARTS)}
    done = _run(python, _FLINK, place, {**work, "queries": queries})
    if done is None:
        return
    for number, name in enumerate(_PARTS):
        assert rounded(done["answers"][name]) == expected([place / "few.parquet"], folder / "customers.parquet", number), name
    taken = done["all"] - done["one"]
    report.add(what="Flink SQL, mini-batch", views=6, rows=segment.num_rows, seconds=taken, events_per_second=segment.num_rows / taken)


def _flink_text(text: str) -> str:
    """Flink divides whole numbers as such, and takes no alias without AS after a sub-query in FROM."""
    for old, new in {
        "count_if(NOT long_distance)": "count(*) FILTER (WHERE NOT long_distance)",
        "avg(total)": "avg(CAST(total AS DOUBLE))",
        "avg(e.calls)": "avg(CAST(e.calls AS DOUBLE))",
        "sum(cost) / sum(duration)": "CAST(sum(cost) AS DOUBLE) / sum(duration)",
        "sum(e.cost) / sum(e.duration)": "CAST(sum(e.cost) AS DOUBLE) / sum(e.duration)",
    }.items():
        text = text.replace(old, new)
    return text


def _run(python: str, code: str, place: Path, work: dict[str, Any]) -> dict[str, Any] | None:
    (place / "work.json").write_text(json.dumps(work))
    command = [python, "-c", textwrap.dedent(code), str(place / "work.json")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False)
    if done.returncode:
        print(f"failed: {done.stderr[-2000:]}", file=sys.stderr)
        return None
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
