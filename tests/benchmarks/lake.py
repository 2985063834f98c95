"""The lake alone: commits a second, planning a file list, merge and vacuum, import time; SQLite and PostgreSQL."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import sqlalchemy as sa

from platform_plugin.algebra.predicates.conditions import ALWAYS, compare, is_null
from platform_plugin.lake.catalogue import catalogue as c
from platform_plugin.lake.lake import Lake
from tests.benchmarks.report import CLOCK_OF_PYTHON, Report, clock, seconds
from tests.postgres import PostgresServer, find_binaries

if TYPE_CHECKING:
    from collections.abc import Iterator

COMMIT_SECONDS = 3.0
ROWS = pa.table({"id": pa.array(range(100), pa.int64()), "name": [f"name {i}" for i in range(100)]})


def run() -> None:
    """Measure everything on both databases."""
    report = Report("lake")
    with tempfile.TemporaryDirectory() as folder:
        for database, url in _urls(Path(folder)):
            for tables in (1, 10, 100):
                for processes in (1, 8):
                    _measure_commits(report, database, url(), tables, processes)
            for files in (10, 1_000, 100_000):
                _measure_planning(report, database, url(), files)
            _measure_care(report, database, url())
    _measure_import(report)
    report.finish()


@contextmanager
def _server() -> Iterator[PostgresServer | None]:
    if find_binaries() is None:
        print("no PostgreSQL is installed: only SQLite is measured")
        yield None
        return
    import os

    server = PostgresServer.create(owner=os.getpid())
    try:
        yield server
    finally:
        server.remove()


def _urls(folder: Path) -> Iterator[tuple[str, object]]:
    count = iter(range(1000))
    yield "sqlite", lambda: f"platform+local://{folder}/lake{next(count)}"
    with _server() as server:
        if server is not None:

            def fresh() -> str:
                number = next(count)
                server.execute(f"CREATE DATABASE bench{number}")
                return server.database(f"bench{number}").lake_url(folder / f"data{number}")

            yield "postgres", fresh


def _measure_commits(report: Report, database: str, url: str, tables: int, processes: int) -> None:
    with Lake.create(url) as lake:
        for number in range(tables):
            with lake.commit("prepare") as commit:
                commit.create_table(f"t{number}", lake.columns_of(ROWS))
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        list(pool.map(_warm, [url] * processes))
        counts = list(pool.map(_commit_for_a_while, [url] * processes, [tables] * processes))
    report.add(
        what="commits a second",
        database=database,
        tables=tables,
        processes=processes,
        value=sum(done / took for done, took, _ in counts),
        p99_ms=max(worst for _, _, worst in counts) * 1000,
    )


def _warm(url: str) -> None:
    Lake.open(url).close()


def _commit_for_a_while(url: str, tables: int) -> tuple[int, float, float]:
    """Append one file that was written before to each table, again and again: the commit is measured, not Parquet."""
    with Lake.open(url) as lake:
        found = [lake.table(f"t{number}") for number in range(tables)]
        files = [lake.write(table, ROWS) for table in found]
        taken = []
        start, end = clock(), time.perf_counter() + COMMIT_SECONDS
        while time.perf_counter() < end:
            before = clock()
            with lake.commit("bench") as commit:
                for table, file in zip(found, files, strict=True):
                    commit.append(table, [file])
            taken.append(clock() - before)
        return len(taken), clock() - start, sorted(taken)[int(len(taken) * 0.99)]


def _measure_planning(report: Report, database: str, url: str, count: int) -> None:
    with Lake.create(url) as lake:
        with lake.commit("prepare") as commit:
            table = commit.create_table("t", lake.columns_of(ROWS))
            file = lake.write(table, ROWS)
            commit.append(table, [file])
        _multiply(lake, count)
        table, snapshot = lake.table("t"), lake.snapshot()
        wanted = compare("id", "=", count * 100 - 50)
        either = wanted | compare("id", "<", 0) & is_null("id") | compare("id", ">", count * 100)
        for name, where in (("all", ALWAYS), ("pruned to 1", wanted), ("pruned to 1 by OR", either)):
            files = len(lake.scan(table, snapshot, where=where).files)
            assert files == (count if name == "all" else 1), files
            taken = seconds(lambda where=where: lake.scan(table, snapshot, where=where))
            report.add(what=f"plan a file list, {name}", database=database, files=count, value=taken * 1000, unit="ms")


def _multiply(lake: Lake, count: int) -> None:
    """Note many files of 100 ids each that were never written: planning reads the catalogue only."""
    with lake.writing() as connection:
        row = connection.execute(sa.select(c.DATA_FILE)).one()._mapping
        stats = [r._mapping for r in connection.execute(sa.select(c.FILE_COLUMN_STATS)).all()]
        for start in range(1, count, 10_000):
            numbers = range(start, min(start + 10_000, count))
            if not numbers:
                continue
            connection.execute(
                sa.insert(c.DATA_FILE), [{**row, "data_file_id": n, "path": f"{n}.parquet", "row_id_start": n * 100} for n in numbers]
            )
            bounds = [
                {**s, "data_file_id": n} | ({"min_value": str(n * 100), "max_value": str(n * 100 + 99)} if s["column_id"] == 1 else {})
                for n in numbers
                for s in stats
            ]
            connection.execute(sa.insert(c.FILE_COLUMN_STATS), bounds)


def _measure_care(report: Report, database: str, url: str) -> None:
    files, rows = 500, 2_000
    block = pa.table(
        {
            "id": pa.array(range(rows), pa.int64()),
            "value": pa.array([i / 7 for i in range(rows)]),
            "name": [f"name {i}" for i in range(rows)],
        }
    )
    with Lake.create(url) as lake:
        with lake.commit("prepare") as commit:
            table = commit.create_table("t", lake.columns_of(block))
        written = [lake.write(table, block) for _ in range(files)]
        for file in written:
            with lake.commit("append") as commit:
                commit.append(table, [file])
        start = clock()
        merged = lake.merge("t")
        taken = clock() - start
        assert merged.rows == files * rows
        report.add(what="merge, rows a second", database=database, files=files, value=files * rows / taken)
        report.add(what="merge, files a second", database=database, files=files, value=files / taken)
        start = clock()
        lake.expire(datetime.now(UTC))
        report.add(what="expire, snapshots a second", database=database, files=files, value=files / (clock() - start))
        start = clock()
        vacuumed = lake.vacuum(grace=timedelta(0))
        assert vacuumed.scheduled == files, vacuumed
        report.add(what="vacuum, files a second", database=database, files=files, value=files / (clock() - start))


def _measure_import(report: Report) -> None:
    code = f"import time; t = {CLOCK_OF_PYTHON}(); import platform_plugin{{}}; print({CLOCK_OF_PYTHON}() - t)"
    for what, suffix in (("import platform_plugin", ""), ("import the lake", ".lake.lake")):
        times = [
            float(subprocess.run([sys.executable, "-c", code.format(suffix)], check=True, capture_output=True, text=True).stdout)
            for _ in range(7)
        ]
        report.add(what=what, value=sorted(times)[3] * 1000, unit="ms")
