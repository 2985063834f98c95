"""Draws of samples against others' ways: of stored rows, of generated ones, and of a table that has grown."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from platform_plugin.relations.samples.draw.source_draw import draw_anew
from platform_plugin.relations.samples.record import find_sample
from tests.benchmarks.report import clock, pairs, seconds

if TYPE_CHECKING:
    from collections.abc import Callable

    from platform_plugin.platform import Platform
    from tests.benchmarks.report import Report

SCALE = float(os.environ.get("BENCH_SCALE", "0.2"))
PAIRS = int(os.environ.get("BENCH_PAIRS", "3"))
ROWS = int(os.environ.get("BENCH_ROWS", "100000000"))
SIZES = [int(size) for size in os.environ.get("BENCH_SIZES", "1,100,1000,10000,100000").split(",")]


def measure_draws(report: Report, platform: Platform) -> None:
    """n rows of a table, all columns, until they are in the client's memory as Arrow."""
    lake, session = platform.lake, platform.work.session
    files = [lake.storage.absolute(file.path) for file in lake.scan(lake.table("lineitem"), lake.snapshot()).files]
    frame = session.spark.read.parquet(*files)
    total = lake.scan(lake.table("lineitem"), lake.snapshot()).record_count
    columns = ", ".join(f"max({name})" for name in frame.columns)
    scan = seconds(lambda: session.arrow(f"SELECT {columns} FROM parquet.`{Path(files[0]).parent}`").read_all(), times=PAIRS)
    report.add(what="bare Spark scan of all columns", milliseconds=scan * 1000, rows=total)
    for size in SIZES:
        platform.execute(f"CREATE SAMPLE kept_{size} ON lineitem SIZE {size}")
        arms: dict[str, Callable[[], Any]] = {
            "ours, drawn anew": lambda: _drawn_anew(platform, size),  # noqa: B023
            "orderBy(rand()).limit(n)": lambda: frame.selectExpr("*", "rand() AS _r").orderBy("_r").limit(size).toArrow(),  # noqa: B023
            "count, sample, collect (as takeSample)": lambda: _take_sample(frame, size),  # noqa: B023
        }
        duck = _duck_arm(files, size)
        if duck is not None:
            arms["DuckDB reservoir, 2 threads"] = duck
        taken: dict[str, list[float]] = {name: [] for name in arms}
        for turn in range(PAIRS + 1):
            for name, arm in arms.items() if turn % 2 else reversed(arms.items()):
                begin = clock()
                found = arm()
                if turn:
                    taken[name].append(clock() - begin)
                assert found == min(size, total) if isinstance(found, int) else found.num_rows == min(size, total)
        ours = taken["ours, drawn anew"]
        for name, times in taken.items():
            ratio = statistics.median(other / own for own, other in zip(ours, times, strict=True))
            report.add(what="draw of stored rows", n=size, arm=name, milliseconds=statistics.median(times) * 1000, ours=ratio)
        platform.execute(f"REFRESH SAMPLE kept_{size}")
        read = seconds(lambda: platform.execute(f"SELECT * FROM kept_{size}").arrow(), times=9)  # noqa: B023
        report.add(what="read of the stored sample", n=size, milliseconds=read * 1000)
        platform.execute(f"DROP SAMPLE kept_{size}")  # or queries would be answered from it


_TAKE_SAMPLE = """
import sys, time
from pyspark.sql import SparkSession
spark = (
    SparkSession.builder.master("local[2]").config("spark.driver.memory", "4g").config("spark.sql.shuffle.partitions", "2")
    .config("spark.ui.enabled", "false").getOrCreate()
)
rows = spark.read.parquet(*sys.argv[1:])
rows.limit(1000).rdd.takeSample(False, 1)
print("ready", flush=True)
for line in sys.stdin:
    begin = time.perf_counter()
    found = rows.rdd.takeSample(False, int(line))
    print(len(found), time.perf_counter() - begin, flush=True)
"""


def measure_take_sample(report: Report, platform: Platform) -> None:
    """PySpark's own RDD.takeSample of the same files, in a classic session of a process of its own: it is not to be had over Connect."""
    lake = platform.lake
    files = [lake.storage.absolute(file.path) for file in lake.scan(lake.table("lineitem"), lake.snapshot()).files]
    settings = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    process = subprocess.Popen(
        [sys.executable, "-c", _TAKE_SAMPLE, *files],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=settings,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "ready\n"
        for size in SIZES:
            platform.execute(f"CREATE SAMPLE kept_{size} ON lineitem SIZE {size}")
            ours = [seconds(lambda: _drawn_anew(platform, size), times=3)]  # noqa: B023
            process.stdin.write(f"{size}\n")
            process.stdin.flush()
            found, theirs = process.stdout.readline().split()
            assert int(found) == size
            ours.append(seconds(lambda: _drawn_anew(platform, size), times=3))  # noqa: B023
            platform.execute(f"DROP SAMPLE kept_{size}")
            report.add(
                what="RDD.takeSample, once, between draws of ours",
                n=size,
                seconds=float(theirs),
                ours_milliseconds=statistics.mean(ours) * 1000,
                ours=float(theirs) / statistics.mean(ours),
            )
    finally:
        process.stdin.close()
        process.wait(60)


def measure_generated(report: Report, platform: Platform) -> None:
    """Draws from a view of generated rows, which cost nothing to make, against their bare sum and count and Spark's own ways."""
    work, session, lake = platform.work, platform.work.session, platform.lake
    platform.execute(f"CREATE VIEW generated AS SELECT id FROM range({ROWS})")
    frame = session.spark.range(ROWS)
    for size in SIZES:
        platform.execute(f"CREATE SAMPLE of_generated ON generated SIZE {size}")
        snapshot = lake.snapshot()
        sample = find_sample(lake, lake.table("of_generated"), snapshot)
        assert sample is not None
        arms: dict[str, Callable[[], object]] = {
            "bare sum and count": lambda: session.arrow(f"SELECT sum(id), count(*) FROM range({ROWS})").read_all(),
            "orderBy(rand()).limit(n)": lambda: frame.selectExpr("id", "rand() AS _r").orderBy("_r").limit(size).toArrow(),  # noqa: B023
            "count, sample, collect (as takeSample)": lambda: _take_sample(frame, size),  # noqa: B023
        }
        for name, arm in arms.items():
            ratio, ours = pairs(lambda: draw_anew(work, sample, snapshot), arm, times=PAIRS)  # noqa: B023
            report.add(
                what=f"draw from a view of {ROWS} generated rows, against {name}",
                n=size,
                milliseconds=ours * 1000,
                rows_per_second=ROWS / ours,
                faster=ratio,
            )
        platform.execute("DROP SAMPLE of_generated")


_number = iter(range(1_000_000))


def _drawn_anew(platform: Platform, size: int) -> int:
    """What the first REFRESH of a sample of a table does, but for its commit, each time with another seed."""
    snapshot = platform.lake.snapshot()
    sample = find_sample(platform.lake, platform.lake.table(f"kept_{size}", snapshot), snapshot)
    assert sample is not None
    other = replace(sample, definition=replace(sample.definition, seed=next(_number)))
    return int(draw_anew(platform.work, other, snapshot).rows.num_rows)


def _take_sample(frame: Any, size: int) -> pa.Table:
    """What RDD.takeSample does, with DataFrames: count, sample a little more than is wanted, collect, cut."""
    total = frame.count()
    share = min(1.0, (size + 5 * size**0.5 + 10) / total)
    while True:
        found = frame.sample(share).toArrow()
        if found.num_rows >= min(size, total):
            return found.take(pa.array(np.random.default_rng(1).choice(found.num_rows, min(size, total), replace=False)))


def _duck_arm(files: list[str], size: int) -> Callable[[], Any] | None:
    try:
        import duckdb
    except ImportError:
        return None
    engine = duckdb.connect(config={"threads": 2})
    text = f"SELECT * FROM read_parquet({files!r}) USING SAMPLE reservoir({size} ROWS)"
    return lambda: engine.execute(text).fetch_arrow_table()


def measure_standing(report: Report, platform: Platform) -> None:
    """Samples of a table that are kept current: a hundredth of the rows is appended, and REFRESH lets them join."""
    lake, session = platform.lake, platform.work.session
    table = lake.table("lineitem")
    rows = lake.read("lineitem").slice(0, int(6_000_000 * SCALE) // 100)
    for size in SIZES:
        platform.execute(f"CREATE SAMPLE standing_{size} ON lineitem SIZE {size}")
        begin = clock()
        platform.execute(f"REFRESH SAMPLE standing_{size}")
        report.add(what="the first REFRESH of a sample of a table", n=size, milliseconds=(clock() - begin) * 1000)
    taken: dict[int, list[tuple[float, float]]] = {size: [] for size in SIZES}
    for turn in range(PAIRS + 1):
        with lake.commit("append") as commit:
            commit.append(table, [lake.write(table, rows)])
        files = [lake.storage.absolute(file.path) for file in lake.scan(table, lake.snapshot()).files]
        frame = session.spark.read.parquet(*files)
        for size in SIZES:
            times = {}
            arms = {"ours": lambda: platform.execute(f"REFRESH SAMPLE standing_{size}"), "theirs": lambda: _take_sample(frame, size)}  # noqa: B023
            for name, arm in arms.items() if turn % 2 else reversed(arms.items()):
                begin = clock()
                arm()
                times[name] = clock() - begin
            if turn:
                taken[size].append((times["ours"], times["theirs"]))
    for size, clocks in taken.items():
        assert platform.sample(f"standing_{size}").cardinality == lake.scan(table, lake.snapshot()).record_count
        report.add(
            what="REFRESH of a sample of a table after a hundredth more rows",
            n=size,
            milliseconds=statistics.median(ours for ours, _ in clocks) * 1000,
            count_sample_collect=statistics.median(theirs / ours for ours, theirs in clocks),
        )
