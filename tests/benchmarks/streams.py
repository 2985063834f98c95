"""B1, streams: ingest, also with a reader and 4 of 16 columns, expiry, visibility, and TPC-H with `lineitem` as a stream.

`BENCH_SCALE` is TPC-H's scale factor, 1 by default, and `BENCH_PAIRS` how often each arm runs. `BENCH_CHDB` and `BENCH_FLINK` name Pythons
that can import chdb and pyflink; without them those arms are left out.
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import tempfile
import textwrap
import threading
from math import exp, log
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from platform_plugin.engine.spark.server.attach import start, stop
from platform_plugin.engine.spark.server.runtime import RUNTIME_VARIABLE
from platform_plugin.engine.spark.server.settings import ServerSettings
from platform_plugin.lake.catalogue.relations import Declaration, declare_relation
from platform_plugin.platform import Platform
from tests.benchmarks.report import Report, clock, count_server
from tests.relations.streams import tpch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SCALE = float(os.environ.get("BENCH_SCALE", "1"))
CHUNKS = (10_000, 100_000, 1_000_000)
PAIRS = int(os.environ.get("BENCH_PAIRS", "5"))
NARROW = ("l_shipdate", "l_discount", "l_quantity", "l_extendedprice")
RETENTION_ROWS = 1_000_000
_EXPIRY_TURNS = 15
_MOST_CHUNKS = 100  # of one size: Spark's own streaming takes a second and more for each


def run() -> None:
    """Measure on a server and a lake of this benchmark's own."""
    report = Report("streams")
    with tempfile.TemporaryDirectory() as folder:
        runtime = Path(folder) / "runtime"
        runtime.mkdir(mode=0o700)
        os.environ[RUNTIME_VARIABLE] = str(runtime)
        data = tpch.generate(Path(folder) / "tpch", SCALE)
        try:
            start(ServerSettings(cores=2, driver_memory_mib=4096))
            count_server()
            with Platform.create(Path(folder) / "lake") as platform:
                job = _measure_job(report, platform)
                _measure_ingest(report, platform, data, Path(folder))
                _measure_visibility(report, platform, data, job)
                _measure_expiry(report, platform, data)
                _measure_tpch(report, platform, data)
        finally:
            stop()
        _measure_flink(report, data, Path(folder))
    report.finish()


def _timed(work: Callable[[], object]) -> float:
    begin = clock()
    work()
    return clock() - begin


def _measure_job(report: Report, platform: Platform) -> float:
    """F_job: what a Spark job costs that does nothing."""
    taken = [_timed(lambda: platform.work.session.arrow("SELECT 1").read_all()) for _ in range(30)]
    job = statistics.median(taken[10:])
    report.add(what="empty Spark job", value=job * 1000, unit="ms")
    return job


def _chunk(rows: pa.Table, size: int, folder: Path) -> list[Path]:
    folder.mkdir()
    paths = []
    for place, begin in enumerate(range(0, rows.num_rows, size)):
        paths.append(folder / f"{place:06}.parquet")
        pq.write_table(rows.slice(begin, size), paths[-1])
    return paths


def _measure_ingest(report: Report, platform: Platform, data: Path, folder: Path) -> None:
    """All arms start from the same Parquet files, one a chunk, and end when the last chunk can be read."""
    rows = tpch.read(data, "lineitem")
    for width, columns in (("16 columns", rows.column_names), ("4 columns", list(NARROW))):
        for size in CHUNKS if width == "16 columns" else CHUNKS[1:2]:
            chosen = rows.select(columns).slice(0, size * _MOST_CHUNKS)
            paths = _chunk(chosen, size, folder / f"chunks-{len(columns)}-{size}")
            arms: dict[str, Callable[[], float]] = {
                "ours": lambda paths=paths, chosen=chosen: _ours(platform, paths, chosen),  # type: ignore[misc]
                "bare Spark write": lambda paths=paths: _bare_write(platform, paths[0].parent, folder),  # type: ignore[misc]
                "Spark file stream": lambda paths=paths: _file_stream(platform, paths[0].parent, folder),  # type: ignore[misc]
            }
            if size == CHUNKS[1] and width == "16 columns":
                arms["ours, Q6 all the time"] = lambda paths=paths, chosen=chosen: _ours(platform, paths, chosen, reads=report)  # type: ignore[misc]
            if os.environ.get("BENCH_CHDB"):
                arms["chdb MergeTree, TTL"] = lambda paths=paths, columns=columns: _chdb(paths, columns, folder)  # type: ignore[misc]
            taken: dict[str, list[float]] = {name: [] for name in arms}
            for turn in range(1 + max(2, PAIRS if size != CHUNKS[0] else 2)):
                for name, arm in arms.items() if turn % 2 == 0 else reversed(arms.items()):
                    seconds = arm()
                    if turn:
                        taken[name].append(seconds)
            for name, times in taken.items():
                report.add(
                    what=f"ingest, {width}, chunks of {size}",
                    arm=name,
                    value=chosen.num_rows / statistics.median(times),
                    unit="rows/s",
                    seconds=statistics.median(times),
                    ours=statistics.median(b / a for a, b in zip(taken["ours"], times, strict=True)),
                    worst=min(b / a for a, b in zip(taken["ours"], times, strict=True)),
                )


def _create(platform: Platform, name: str, rows: pa.Table, **options: Any) -> None:
    if any(table.name.relation == name for table in platform.lake.tables()):
        platform.execute(f"DROP STREAM {name}")
    with platform.lake.commit("create") as commit:
        declare_relation(commit, commit.create_table(name, platform.lake.columns_of(rows)), Declaration(kind="stream", options=options))


def _ours(platform: Platform, paths: Sequence[Path], rows: pa.Table, *, reads: Report | None = None) -> float:
    _create(platform, "ingested", rows, retention_rows=RETENTION_ROWS)
    done, reader = threading.Event(), threading.Thread(target=lambda: None)
    if reads is not None:
        query = tpch.QUERIES[6].replace("lineitem", "ingested")
        count: list[int] = []

        def read() -> None:
            while not done.is_set():
                list(platform.execute(query))
                count.append(1)

        reader = threading.Thread(target=read)
    reader.start()
    begin = clock()
    with platform.stream("ingested") as stream:
        for path in paths:
            stream.append(pq.read_table(path))
    seconds = clock() - begin
    done.set()
    reader.join()
    return seconds


def _bare_write(platform: Platform, chunks: Path, folder: Path) -> float:
    spark = platform.work.session.spark
    return _timed(lambda: spark.read.parquet(str(chunks)).write.mode("overwrite").parquet(str(folder / "written")))


def _file_stream(platform: Platform, chunks: Path, folder: Path) -> float:
    """Spark's own streaming, a trigger for each file, so that each chunk becomes visible by itself as in ours."""
    spark = platform.work.session.spark
    with tempfile.TemporaryDirectory(dir=folder) as work:

        def stream() -> None:
            source = spark.readStream.schema(spark.read.parquet(str(chunks)).schema).option("maxFilesPerTrigger", 1).parquet(str(chunks))
            sink = source.writeStream.format("parquet").option("checkpointLocation", f"{work}/checkpoint")
            sink.trigger(availableNow=True).start(f"{work}/rows").awaitTermination()

        return _timed(stream)


def _chdb(paths: Sequence[Path], columns: Sequence[str], folder: Path) -> float:
    """The ClickHouse engine in a process of its own: a MergeTree that forgets by time, an INSERT for each file."""
    code = f"""
        import sys, time
        from chdb.session import Session
        db = Session(sys.argv[1])
        db.query("CREATE DATABASE IF NOT EXISTS b; USE b")
        db.query("SET max_threads = 2, max_insert_threads = 2")
        files = sys.argv[2:]
        names = ", ".join({list(columns)!r})
        db.query(f"CREATE TABLE b.s ENGINE = MergeTree ORDER BY tuple() TTL arrived + INTERVAL 60 SECOND AS "
                 f"SELECT {{names}}, now() AS arrived FROM file('{{files[0]}}') LIMIT 0")
        begin = time.perf_counter()
        for file in files:
            db.query(f"INSERT INTO b.s SELECT {{names}}, now() FROM file('{{file}}')")
        print(time.perf_counter() - begin)
    """
    with tempfile.TemporaryDirectory(dir=folder) as work:
        command = [os.environ["BENCH_CHDB"], "-c", textwrap.dedent(code), work, *map(str, paths)]
        return float(subprocess.run(command, check=True, capture_output=True, text=True, timeout=900).stdout.split()[-1])


def _measure_visibility(report: Report, platform: Platform, data: Path, job: float) -> None:
    """From the call of `append` until a reader of the lake sees the rows."""
    rows = tpch.read(data, "lineitem").slice(0, 10_000)
    for size in (10, 10_000):
        _create(platform, "seen", rows, retention_rows=RETENTION_ROWS)
        taken = []
        with platform.stream("seen") as stream:
            for _ in range(220):
                begin = clock()
                stream.append(rows.slice(0, size), wait=True)
                taken.append(clock() - begin)
        found = sorted(taken[20:])
        report.add(
            what=f"append of {size} rows until visible",
            value=statistics.median(found) * 1000,
            unit="ms",
            p99=found[-2] * 1000,
            jobs=found[-2] / job,
        )


def _measure_expiry(report: Report, platform: Platform, data: Path) -> None:
    """What it costs that rows leave: the ring against a DELETE of as many rows, for segments of two sizes.

    Each turn compares a commit that lets the segment go with one that lets a single row go: what is left is what expiry adds.
    """
    rows = tpch.read(data, "lineitem")
    for size in (100_000, min(1_000_000, rows.num_rows // 3)):
        part, one = rows.slice(0, size), rows.slice(0, 1)
        costs = []
        for turn in range(1 + _EXPIRY_TURNS):
            _create(platform, "leaving", rows, retention_rows=1)
            with platform.stream("leaving") as stream:
                stream.append(part, wait=True)
                begin = clock()
                stream.append(one, wait=True)
                left = clock()
                stream.append(one, wait=True)
                plain = clock() - left
            if turn:
                costs.append((left - begin, plain))
        table = "deleted"
        with platform.lake.commit("load") as commit:
            made = commit.create_table(table, platform.lake.columns_of(rows))
            commit.append(made, [platform.lake.write(made, part)])
        half = f"DELETE FROM {table} WHERE l_orderkey % 2 = 0"
        deleted = 0
        begin = clock()
        deleted = platform.execute(half).row_count or 1
        delete = clock() - begin
        platform.execute(f"DROP TABLE {table}")
        expiry = statistics.median(cost for cost, _ in costs)
        adds = statistics.median(cost - plain for cost, plain in costs)
        report.add(
            what=f"expiry of {size} rows",
            value=expiry / size * 1e9,
            unit="ns/row",
            commit=expiry * 1000,
            without=statistics.median(plain for _, plain in costs) * 1000,
            adds=adds * 1000,
            delete_ns=delete / deleted * 1e9,
            ratio=(delete / deleted) / (expiry / size),
        )


def _measure_tpch(report: Report, platform: Platform, data: Path) -> None:
    """The queries with `lineitem` as a stream, against the same text over plain Parquet files in the same Spark."""
    spark = platform.work.session.spark
    for name in tpch.TABLES:
        rows = tpch.read(data, name)
        spark.read.parquet(str(data / f"{name}.parquet")).createOrReplaceTempView(f"plain_{name}")
        if name == "lineitem":
            _create(platform, name, rows)
            with platform.stream(name) as stream:
                for begin in range(0, rows.num_rows, 1_000_000):
                    stream.append(rows.slice(begin, 1_000_000))
        else:
            with platform.lake.commit("load") as commit:
                table = commit.create_table(name, platform.lake.columns_of(rows))
                commit.append(table, [platform.lake.write(table, rows)])
    ratios = []
    total = {"ours": 0.0, "plain": 0.0}
    for number, query in tpch.QUERIES.items():
        plain = _over_plain(query)

        def ours(query: str = query) -> list[Any]:
            return [tuple(row) for row in platform.execute(query)]

        def theirs(plain: str = plain) -> list[Any]:
            rows = platform.work.session.arrow(plain).read_all()
            return [tuple(row.values()) for row in rows.to_pylist()]

        if not _equal(ours(), theirs()):
            report.add(what=f"TPC-H Q{number}", arm="results differ", value=0.0, unit="")
            continue
        ours(), theirs()
        pairs = [(_timed(ours), _timed(theirs)) for _ in range(PAIRS)]
        left, right = statistics.median(a for a, _ in pairs), statistics.median(b for _, b in pairs)
        total["ours"] += left
        total["plain"] += right
        ratios.append(left / right)
        report.add(what=f"TPC-H Q{number}", arm="stream / plain Parquet", value=left, unit="s", plain=right, ratio=left / right)
    report.add(
        what=f"TPC-H, {len(ratios)} queries",
        arm="stream / plain Parquet",
        value=total["ours"],
        unit="s",
        plain=total["plain"],
        ratio=total["ours"] / total["plain"],
        geometric=exp(sum(map(log, ratios)) / len(ratios)),
    )


def _over_plain(query: str) -> str:
    """The query over the views of plain Parquet files, by the names that it uses."""

    def item(text: str) -> str:
        name, _, alias = text.strip().partition(" ")
        return f"plain_{name} {alias or name}" if name in tpch.TABLES else text

    return re.sub(r"(?<=FROM )[\w, ]+", lambda found: ", ".join(map(item, found[0].split(","))) + " ", query)


def _equal(left: Sequence[Any], right: Sequence[Any]) -> bool:
    from math import isclose

    def near(a: Any, b: Any) -> bool:
        return isclose(a, b, rel_tol=1e-9) if isinstance(a, float) else bool(a == b)

    pairs = zip(sorted(left, key=repr), sorted(right, key=repr), strict=True)
    return len(left) == len(right) and all(all(map(near, a, b)) for a, b in pairs)


def _measure_flink(report: Report, data: Path, folder: Path) -> None:
    """Flink SQL on a mini cluster of its own: the rows as CSV, every column parsed, into its sink that drops them."""
    python = os.environ.get("BENCH_FLINK")
    if not python:
        print("BENCH_FLINK is not set: Flink is left out", file=sys.stderr)
        return
    subprocess.run([tpch.find_generator() or "", "csv", "-s", str(SCALE), "--tables=lineitem", f"--output-dir={folder}/csv"], check=True)
    lines = Path(f"{folder}/csv/lineitem.csv")
    bare = lines.with_name("bare.csv")  # Flink's reader knows no header
    with lines.open() as source, bare.open("w") as target:
        next(source)
        target.writelines(source)
    kinds = ["BIGINT"] * 3 + ["INT"] + ["DECIMAL(15, 2)"] * 4 + ["STRING"] * 2 + ["DATE"] * 3 + ["STRING"] * 3
    columns = ", ".join(f"{name} {kind}" for name, kind in zip(tpch.read(data, "lineitem").column_names, kinds, strict=True))
    code = f"""
        import time
        from pyflink.table import EnvironmentSettings, TableEnvironment
        tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
        tables.get_config().set("parallelism.default", "2")
        tables.execute_sql("CREATE TABLE lineitem ({columns}) WITH ('connector' = 'filesystem', 'path' = '{bare}', 'format' = 'csv')")
        tables.execute_sql("CREATE TABLE dropped ({columns}) WITH ('connector' = 'blackhole')")
        taken = []
        for _ in range(4):
            begin = time.perf_counter()
            tables.execute_sql("INSERT INTO dropped SELECT * FROM lineitem").wait()
            taken.append(time.perf_counter() - begin)
        print(sorted(taken[1:])[1])
    """
    done = subprocess.run([python, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=1800, check=False)
    if done.returncode:
        print(f"Flink failed: {done.stderr[-2000:]}", file=sys.stderr)
        return
    seconds = float(done.stdout.split()[-1])
    rows = pq.read_metadata(data / "lineitem.parquet").num_rows
    report.add(what="ingest, 16 columns of CSV", arm="Flink into nothing", value=rows / seconds, unit="rows/s", seconds=seconds)
