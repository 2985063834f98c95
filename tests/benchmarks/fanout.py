"""Maintenance by engine: the AIM views over 1, 10 and 50 million calls, in the process, as file tasks on executors, and by Spark SQL.

Sizes come from the environment: MILLIONS of calls (1,10,50), VIEWS (1,6,64), CUSTOMERS (100 000), ENGINES (local,executors,spark_sql),
SERVERS (2 cores, 1 core, 1 worker, 2 workers: of one core each), ROUNDS (2; the last one counts). Spark SQL is left out above
SPARK_SQL_MILLIONS (10). All engines take up the same files, and what their views show is compared. The processor seconds are those of the
client, the server and its workers.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from platform_plugin.engine.spark.server.attach import stop
from platform_plugin.engine.spark.server.runtime import open_runtime
from platform_plugin.engine.spark.server.settings import ServerSettings
from platform_plugin.maintenance.run import run_maintenance
from platform_plugin.platform import Platform
from tests.benchmarks import views as aim
from tests.benchmarks.report import Report

MILLIONS = [float(number) for number in os.environ.get("MILLIONS", "1,10,50").split(",")]
VIEWS = [int(number) for number in os.environ.get("VIEWS", "1,6,64").split(",")]
ENGINES = os.environ.get("ENGINES", "local,executors,spark_sql").split(",")
SERVERS = os.environ.get("SERVERS", "2 cores,1 core,1 worker,2 workers").split(",")
ROUNDS = int(os.environ.get("ROUNDS", "2"))
SPARK_SQL_MILLIONS = float(os.environ.get("SPARK_SQL_MILLIONS", "10"))
_SEGMENT = 1_000_000
_TICK = os.sysconf("SC_CLK_TCK")


def settings_of(server: str) -> ServerSettings:
    """A server whose executors have so many cores, in its own process or in workers of a cluster on this machine."""
    number, kind = server.split()
    if kind.startswith("core"):
        return ServerSettings(cores=int(number), driver_memory_mib=4096, idle_seconds=0)
    return ServerSettings(master=f"local-cluster[{number},1,3072]", driver_memory_mib=2048, idle_seconds=0)


def processor_seconds(root: int | None) -> float:
    """The processor time of this process, and of a server with all processes below it."""
    parents, times = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(fields[1])
            times[int(entry.name)] = sum(map(int, fields[11:15])) / _TICK
    below = {root} if root in times else set()
    while more := {pid for pid, parent in parents.items() if parent in below and pid not in below}:
        below |= more
    return time.process_time() + sum(times[pid] for pid in below)


def prepare(place: Path, millions: float) -> Path:
    """A lake with the customers and the stream of calls."""
    folder = place / f"{millions:g}"
    with Platform.create(folder) as platform:
        platform.execute("CREATE TABLE customers (id BIGINT, city INT, region INT, type INT, category INT, value_type INT)")
        lake = platform.lake
        table = lake.table("customers")
        with lake.commit("load") as commit:
            commit.append(table, [lake.write(table, aim.customers())])
        platform.execute("CREATE STREAM events (entity_id BIGINT, week INT, duration BIGINT, cost BIGINT, long_distance BOOLEAN)")
        left, number = int(millions * 1e6), 0
        while left > 0:
            aim.append(platform, aim.events(number, rows=min(left, _SEGMENT)))
            left, number = left - _SEGMENT, number + 1
    return folder


class Case(NamedTuple):
    """One line of the table."""

    folder: Path
    server: str
    millions: float
    views: int
    engine: str


def maintain(report: Report, case: Case, known: dict[Any, Any]) -> None:
    """One engine's run over all calls for so many views, as often as asked for; the last run counts."""
    folder, server, millions, views, engine = case
    figures: dict[str, Any] = {}
    with Platform.open(folder, settings=settings_of(server)) as platform:
        platform.work.engine = engine  # type: ignore[assignment]
        root = None
        if engine != "local":
            _ = platform.work.session
            details = open_runtime().read_state()
            root = int(details["pid"])
        for _turn in range(ROUNDS):
            for number in range(views):
                query = aim.query(number).format(events="events")
                platform.execute(f"CREATE CONTINUOUS VIEW v{number} WITH (start = 'earliest') AS {query}")
            worked, began = processor_seconds(root), time.perf_counter()
            done = run_maintenance(platform.work)
            seconds, worked = time.perf_counter() - began, processor_seconds(root) - worked
            assert not done.failed, done.failed
            assert engine == "spark_sql" or not done.on_spark, done.on_spark
            shown = [aim.rounded(platform.execute(f"SELECT * FROM v{number}")) for number in range(min(views, 6))]
            for number in range(views):
                platform.execute(f"DROP VIEW v{number}")
            figures = {"seconds": seconds, "cpu_seconds": worked, "jobs": done.jobs, "tasks": done.tasks}
    rows = millions * 1e6
    same = known.setdefault((millions, views, "shown"), shown)
    assert same == shown, "engines differ"
    base = known.setdefault((millions, views, "local"), figures)
    report.add(
        millions=millions,
        views=views,
        engine=engine,
        server="" if engine == "local" else server,
        **figures,
        rows_per_second=rows / figures["seconds"],
        faster_than_first=base["seconds"] / figures["seconds"],
        cpu_of_first=figures["cpu_seconds"] / base["cpu_seconds"],
    )


def recompute(report: Report, folder: Path, millions: float) -> None:
    """DuckDB computes two of the queries from all calls."""
    import duckdb

    with Platform.open(folder) as platform, duckdb.connect(config={"threads": 2}) as engine:
        lake = platform.lake
        snapshot = lake.snapshot()
        for name in ("events", "customers"):
            files = [lake.storage.absolute(file.path) for file in lake.scan(lake.table(name), snapshot).files]
            engine.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet({files!r})")
        for number in (0, 3):
            text = aim.query(number).format(events="events").replace("count_if(NOT long_distance)", "count(*) FILTER (NOT long_distance)")
            began = time.perf_counter()
            engine.execute(text).fetchall()
            report.add(millions=millions, views=1, engine=f"DuckDB recomputes q{number + 1}", seconds=time.perf_counter() - began)


def run() -> None:
    """Everything; one server after the other."""
    report = Report("fanout")
    known: dict[Any, Any] = {}
    with tempfile.TemporaryDirectory() as place:
        folders = {millions: prepare(Path(place), millions) for millions in MILLIONS}
        if "local" in ENGINES:
            for millions, folder in folders.items():
                for views in VIEWS:
                    maintain(report, Case(folder, SERVERS[0], millions, views, "local"), known)
        for place_of_server, server in enumerate(SERVERS):
            os.environ["PLATFORM_RUNTIME_DIR"] = f"{place}/run{place_of_server}"
            try:
                for millions, folder in folders.items():
                    for views in VIEWS:
                        if "executors" in ENGINES:
                            maintain(report, Case(folder, server, millions, views, "executors"), known)
                        if "spark_sql" in ENGINES and place_of_server == 0 and millions <= SPARK_SQL_MILLIONS:
                            maintain(report, Case(folder, server, millions, views, "spark_sql"), known)
            finally:
                stop()
        for millions, folder in folders.items():
            recompute(report, folder, millions)
    report.finish()
