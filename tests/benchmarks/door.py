"""Through the door: SQL by Platform and SQLAlchemy against a bare Spark Connect session, COPY against a bare Spark write."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from platform_plugin.engine.spark.server.attach import attach, start, status, stop
from platform_plugin.engine.spark.server.runtime import RUNTIME_VARIABLE
from platform_plugin.engine.spark.server.settings import ServerSettings
from platform_plugin.platform import Platform
from tests.benchmarks.report import CLOCK_OF_PYTHON, Report, clock, count_server

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

SETTINGS = ServerSettings(cores=2, driver_memory_mib=4096)
ROWS = 1_000_000
COPIED = 6_000_000
PAIRS = 15


def run() -> None:
    """Measure on a server and a lake of this benchmark's own."""
    report = Report("door")
    with tempfile.TemporaryDirectory() as folder:
        runtime = Path(folder) / "runtime"
        runtime.mkdir(mode=0o700)
        os.environ[RUNTIME_VARIABLE] = str(runtime)
        try:
            begin = clock()
            start(SETTINGS)
            count_server()
            with attach(SETTINGS) as session:
                session.arrow("SELECT 1").read_all()
            report.add(what="cold start to first answer", value=clock() - begin, unit="s")
            _measure_second_process(report)
            url = f"platform+local://{folder}/lake"
            with Platform.create(url) as platform:
                _measure_queries(report, platform, url)
                _measure_inserts(report, platform)
                _measure_copy(report, platform, Path(folder))
                _measure_memory(report)
        finally:
            stop()
    report.finish()


def _measure_second_process(report: Report) -> None:
    code = (
        f"import time; t = {CLOCK_OF_PYTHON}()\n"
        "from platform_plugin.engine.spark.server.attach import attach\n"
        "with attach() as s:\n    s.arrow('SELECT 1').read_all()\n"
        f"print({CLOCK_OF_PYTHON}() - t)"
    )
    times = [float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout) for _ in range(5)]
    report.add(what="second process: import, attach, answer", value=median(times), unit="s")


def _measure_queries(report: Report, platform: Platform, url: str) -> None:
    platform.execute(f"CREATE TABLE big AS SELECT id, id % 1000 AS k, id / 7 AS v, concat('name ', id % 100) AS s FROM range({ROWS})")
    platform.execute("CREATE TABLE small AS SELECT id, concat('row ', id) AS s FROM range(100)")
    session = platform.work.session
    engine = sa.create_engine(url)
    folders = {name: _uris(platform, name) for name in ("big", "small")}
    for name, uris in folders.items():
        session.spark.read.parquet(*uris).createOrReplaceTempView(f"bare_{name}")
    queries = {
        "SELECT 1": "SELECT 1 AS one",
        "a table of 100 rows": "SELECT * FROM small",
        "a point filter on 1 M rows": "SELECT * FROM big WHERE id = 777777",
        "an aggregate over 1 M rows": "SELECT k, count(*) AS c, sum(v) AS v FROM big GROUP BY k",
    }
    with engine.connect() as connection:
        for what, query in queries.items():
            bare = query.replace("FROM big", "FROM bare_big").replace("FROM small", "FROM bare_small")
            arms: dict[str, Callable[[], list[tuple[Any, ...]]]] = {
                "bare Connect": lambda bare=bare: _rows(session.spark.sql(bare).toArrow()),
                "Platform": lambda query=query: _rows(platform.execute(query).arrow()),
                "SQLAlchemy": lambda query=query: [tuple(row) for row in connection.execute(sa.text(query))],
            }
            _compare(report, what, arms)
    engine.dispose()


def _uris(platform: Platform, name: str) -> list[str]:
    lake = platform.lake
    scan = lake.scan(lake.table(name), lake.snapshot())
    return [lake.storage.uri(file.path) for file in scan.files]


def _rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*[column.to_pylist() for column in table.columns], strict=True))


def _compare(report: Report, what: str, arms: dict[str, Callable[[], list[tuple[Any, ...]]]]) -> None:
    """Equality before the clock, then the arms in turn, forwards and backwards."""
    answers = [sorted(map(str, arm())) for arm in arms.values()]
    assert all(answer == answers[0] for answer in answers), what
    times: dict[str, list[float]] = {name: [] for name in arms}
    for turn in range(PAIRS + 2):
        order = list(arms.items())
        for name, arm in order if turn % 2 else reversed(order):
            begin = clock()
            arm()
            if turn >= 2:
                times[name].append(clock() - begin)
    base = median(times["bare Connect"])
    for name, taken in times.items():
        ordered = sorted(taken)
        report.add(
            what=what,
            arm=name,
            value=median(taken) * 1000,
            unit="ms",
            p95_ms=ordered[int(len(ordered) * 0.95)] * 1000,
            against_bare=median(taken) / base,
        )


def _measure_inserts(report: Report, platform: Platform) -> None:
    platform.execute("CREATE TABLE inserted (id BIGINT, s STRING)")
    platform.execute("INSERT INTO inserted VALUES (0, 'first')")
    begin, end = clock(), time.perf_counter() + 5
    count = 0
    while time.perf_counter() < end:
        platform.execute("INSERT INTO inserted VALUES (:id, 'some text')", {"id": count})
        count += 1
    report.add(what="INSERT of one row of VALUES", value=count / (clock() - begin), unit="statements/s")
    rows = ", ".join(f"({number}, 'some text')" for number in range(1000))
    begin = clock()
    for _ in range(5):
        platform.execute(f"INSERT INTO inserted VALUES {rows}")
    report.add(what="INSERT of 1 000 rows of VALUES", value=5000 / (clock() - begin), unit="rows/s")


def _measure_copy(report: Report, platform: Platform, folder: Path) -> None:
    session = platform.work.session
    schema = "id BIGINT, k BIGINT, v DOUBLE, s STRING"
    source = f"SELECT id, id % 1000 AS k, id / 7 AS v, concat('name ', id % 100) AS s FROM range({COPIED})"
    session.spark.sql(source).repartition(4).write.parquet(f"{folder}/in.parquet")
    session.spark.sql(source).repartition(4).write.csv(f"{folder}/in.csv", header=True)
    for kind in ("parquet", "csv"):
        bare_times, our_times = [], []
        for turn in range(4):
            begin = clock()
            reader = session.spark.read
            frame = (
                reader.parquet(f"{folder}/in.parquet") if kind == "parquet" else reader.schema(schema).csv(f"{folder}/in.csv", header=True)
            )
            frame.write.option("compression", "zstd").parquet(f"{folder}/out-{kind}-{turn}")
            bare_times.append(clock() - begin)
            platform.execute(f"CREATE OR REPLACE TABLE copied ({schema})")
            begin = clock()
            written = platform.execute(f"COPY copied FROM '{folder}/in.{kind}' (FORMAT {kind}{', HEADER true' if kind == 'csv' else ''})")
            our_times.append(clock() - begin)
            assert written.row_count == COPIED
        ratios = [bare / ours for bare, ours in zip(bare_times[1:], our_times[1:], strict=True)]
        report.add(what=f"COPY of 6 M rows of {kind}", arm="bare Spark", value=COPIED / median(bare_times[1:]), unit="rows/s")
        report.add(
            what=f"COPY of 6 M rows of {kind}",
            arm="Platform",
            value=COPIED / median(our_times[1:]),
            unit="rows/s",
            against_bare=median(ratios),
        )


def _measure_memory(report: Report) -> None:
    details = status().details
    processes = {"server JVM": details["jvm_pid"], "server driver": details["pid"], "client": os.getpid()}
    for name, pid in processes.items():
        line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS"))
        report.add(what=f"resident memory, {name}", value=int(line.split()[1]) / 1024, unit="MiB")
