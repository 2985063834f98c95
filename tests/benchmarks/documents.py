"""The experiments of the documents: sessions while one inserts, narrow streams, strategies in small chunks, state, reads elsewhere, cores.

`BENCH_SCALE` is TPC-H's scale factor (0.1), READERS how many sessions read at once (0,1,4), AGGREGATES by how many the state grows
(1,2,4,8,16), and ONLY some of sessions, narrow, chunks, waiting, state, reads, cores. The AIM views with ten million customers are
`CUSTOMERS=10000000 VIEWS=6 ONLY=maintain make bench NAME=views`; `samples` has the rows of samples in shuffles, `fanout` views by workers.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from platform_plugin.engine.spark.server.attach import start, stop
from platform_plugin.engine.spark.server.runtime import RUNTIME_VARIABLE
from platform_plugin.engine.spark.server.settings import ServerSettings
from platform_plugin.errors import PlatformError
from platform_plugin.maintenance.run import run_maintenance
from platform_plugin.orchestration.sensors.waiting import read_waiting
from platform_plugin.platform import Platform
from tests.benchmarks import views as aim
from tests.benchmarks.report import CLOCK_OF_PYTHON, Report, clock, count_server
from tests.benchmarks.views import rounded
from tests.benchmarks.views_tpch import bytes_stored, create_tables, create_views, pieces
from tests.relations.streams import tpch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SCALE = float(os.environ.get("BENCH_SCALE", "0.1"))
READERS = [int(number) for number in os.environ.get("READERS", "0,1,4").split(",")]
AGGREGATES = [int(number) for number in os.environ.get("AGGREGATES", "1,2,4,8,16").split(",")]
NUMBERS = tuple(number for number in tpch.QUERIES if number not in (5, 8))
NARROW = ("l_shipdate", "l_discount", "l_quantity", "l_extendedprice")
CREATE_NARROW = f"CREATE STREAM narrow ({NARROW[0]} DATE, {', '.join(f'{name} DECIMAL(15,2)' for name in NARROW[1:])})"
_CHUNK_ROWS, _SMALL_CHUNK, _SMALL_CHUNKS = 10_000, 1_000, 40
_IDLE = "1 hour"  # never waited for: the producer ends the stream


def run() -> None:
    """Measure on a server and lakes of this benchmark's own."""
    report = Report("documents")
    parts: dict[str, Callable[[Report, Path], None]] = {
        "sessions": sessions,
        "narrow": narrow,
        "chunks": chunks,
        "waiting": waiting,
        "state": state,
        "reads": reads,
        "cores": cores,
    }
    chosen = os.environ.get("ONLY", ",".join(parts)).split(",")
    with tempfile.TemporaryDirectory() as folder:
        runtime = Path(folder) / "runtime"
        runtime.mkdir(mode=0o700)
        os.environ[RUNTIME_VARIABLE] = str(runtime)
        tpch.generate(Path(folder) / "tpch", SCALE)
        for name, measure in parts.items():
            if name in chosen:
                begin_server(2)
                own = Path(folder) / name
                own.mkdir()
                try:
                    measure(report, own)
                finally:
                    stop()
    report.finish()


def begin_server(count: int) -> None:
    """A server of so many cores."""
    start(ServerSettings(cores=count, driver_memory_mib=4096))
    count_server()


def timed(work: Callable[[], object]) -> float:
    """The seconds of some work."""
    began = clock()
    work()
    return clock() - began


def over_session(query: str, stream: str = "lineitem") -> str:
    """A query of TPC-H over a session."""
    return query.replace("lineitem", f"SESSION({stream}, '{_IDLE}') AS lineitem", 1)


class Insertion:
    """A producer that appends rows in chunks and ends the stream with the last one, when sessions have begun."""

    def __init__(self, platform: Platform, rows: pa.Table, readers: int, *, stream: str = "lineitem") -> None:
        self._platform, self._rows, self._stream = platform, rows, stream
        self._begun = threading.Semaphore(0)
        self._readers = readers
        self.seconds = 0.0
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    def begin(self, _: object = None) -> None:
        """A session has begun."""
        self._begun.release()

    def _work(self) -> None:
        for _ in range(self._readers):
            self._begun.acquire(timeout=120)
        with self._platform.stream(self._stream) as stream:
            began = time.perf_counter()
            for place in range(0, self._rows.num_rows, _CHUNK_ROWS):
                stream.append(self._rows.slice(place, _CHUNK_ROWS), last=place + _CHUNK_ROWS >= self._rows.num_rows)
            stream.flush()
            self.seconds = time.perf_counter() - began

    def join(self) -> float:
        """The rows a second, once all are there."""
        self._thread.join()
        return self._rows.num_rows / self.seconds


def ask_sessions(platform: Platform, query: str, rows: pa.Table, readers: int, stream: str = "lineitem") -> tuple[float, float, list[Any]]:
    """Seconds until all readers have their answers, rows inserted a second, and the answers."""
    insertion = Insertion(platform, rows, readers, stream=stream)
    answers: list[Any] = []

    def read() -> None:
        told = threading.Event()

        def begin(_: object) -> None:
            if not told.is_set():
                told.set()
                insertion.begin()

        answers.append(rounded(platform.execute(query, progress=begin)))

    began = time.perf_counter()
    threads = [threading.Thread(target=read) for _ in range(readers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rate = insertion.join()
    return time.perf_counter() - began, rate, answers


def sessions(report: Report, folder: Path) -> None:
    """Twelve queries of TPC-H as sessions over the rows that one producer inserts, beside Structured Streaming over the same chunks."""
    with Platform.create(folder / "lake") as platform:
        rows = create_tables(platform, folder.parent / "tpch")
        paths = write_chunks(rows, folder / "chunks")
        by_reader: dict[int, list[float]] = {readers: [] for readers in READERS}
        rates: dict[int, list[float]] = {readers: [] for readers in READERS}
        streaming: list[float] = []
        for number in NUMBERS:
            taken: dict[str, Any] = {}
            for readers in READERS:
                renew(platform, rows)
                seconds, rate, answers = ask_sessions(platform, over_session(tpch.QUERIES[number]), rows, readers)
                rates[readers].append(rate)
                if readers:
                    by_reader[readers].append(seconds)
                    expected = rounded(platform.execute(tpch.QUERIES[number]))
                    assert all(answer == expected for answer in answers), number
                    taken[f"seconds_{readers}"] = seconds
            other = structured_streaming(platform, number, paths, folder, rounded(platform.execute(tpch.QUERIES[number])))
            if isinstance(other, float):
                streaming.append(other)
            report.add(what=f"session of TPC-H Q{number}", structured_streaming=other, **taken)
    for readers in READERS:
        times = by_reader[readers]
        per_hour = 3600 * readers * len(times) / sum(times) if times else 0.0
        report.add(what=f"{readers} sessions at once", queries_an_hour=per_hour, inserted_rows_a_second=median(rates[readers]))
    if streaming:
        report.add(what=f"Structured Streaming, {len(streaming)} queries", queries_an_hour=3600 * len(streaming) / sum(streaming))


def renew(platform: Platform, rows: pa.Table) -> None:
    """An empty `lineitem`."""
    from platform_plugin.lake.values.types import from_arrow
    from platform_plugin.language.text.writing import column_text

    platform.execute("DROP STREAM lineitem")
    platform.execute(f"CREATE STREAM lineitem ({', '.join(column_text(field) for field in from_arrow(rows.schema))})")


def write_chunks(rows: pa.Table, folder: Path) -> list[Path]:
    """The rows as files, each a chunk."""
    folder.mkdir()
    paths = []
    for place in range(0, rows.num_rows, _CHUNK_ROWS):
        paths.append(folder / f"{place:09}.parquet")
        pq.write_table(rows.slice(place, _CHUNK_ROWS), paths[-1])
    return paths


def structured_streaming(platform: Platform, number: int, paths: list[Path], folder: Path, expected: Any) -> float | str:
    """Spark's own streaming: ten files a trigger, all groups into a table in memory, and the last of them as the answer."""
    from pyspark.errors import PySparkException

    spark = platform.work.session.spark
    for name in tpch.TABLES:
        spark.read.parquet(str(folder.parent / "tpch" / f"{name}.parquet")).createOrReplaceTempView(f"plain_{name}")
    schema = spark.read.parquet(str(paths[0])).schema
    source = spark.readStream.schema(schema).option("maxFilesPerTrigger", 10).parquet(str(paths[0].parent))
    source.createOrReplaceTempView("plain_lineitem")
    from tests.benchmarks.streams import _over_plain

    began = time.perf_counter()
    with tempfile.TemporaryDirectory(dir=folder) as checkpoint:
        try:
            answer = spark.sql(_over_plain(tpch.QUERIES[number]))
            sink = answer.writeStream.format("memory").queryName(f"q{number}").outputMode("complete")
            sink.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()
            found = rounded([tuple(row) for row in spark.table(f"q{number}").collect()])
        except PySparkException as error:
            return f"refused: {(error.getCondition() or str(error))[:60]}"
    return time.perf_counter() - began if found == expected else "another answer"


def narrow(report: Report, folder: Path) -> None:
    """Q6 as a session over a stream of its four columns, and over one of all sixteen."""
    with Platform.create(folder / "lake") as platform:
        rows = create_tables(platform, folder.parent / "tpch")
        few = rows.select(list(NARROW))
        platform.execute(CREATE_NARROW)
        expected = None
        taken: dict[str, list[tuple[float, float]]] = {"wide": [], "narrow": []}
        for _ in range(3):
            for name, own in (("wide", rows), ("narrow", few)):
                stream = "lineitem" if name == "wide" else "narrow"
                if name == "wide":
                    renew(platform, rows)
                else:
                    platform.execute("DROP STREAM narrow")
                    platform.execute(CREATE_NARROW)
                seconds, rate, (answer,) = ask_sessions(platform, over_session(tpch.QUERIES[6], stream), own, 1, stream)
                expected = expected or answer
                assert answer == expected
                taken[name].append((seconds, rate))
        for name, figures in taken.items():
            report.add(
                what=f"session of Q6, {name} stream",
                seconds=median(s for s, _ in figures),
                inserted_rows_a_second=median(r for _, r in figures),
            )


def chunks(report: Report, folder: Path) -> None:
    """Split, eager and batch maintenance of five queries of TPC-H, with chunks of 1 000 rows."""
    for way in ("split", "eager", "batch", "deferred"):
        with Platform.create(folder / way) as platform:
            rows = create_tables(platform, folder.parent / "tpch").slice(0, _SMALL_CHUNK * _SMALL_CHUNKS)
            names = create_views(platform, (way,))
            began = clock()
            with platform.stream("lineitem") as stream:
                for piece in pieces(rows, _SMALL_CHUNKS):
                    stream.append(piece, wait=True)
                    if way != "eager":
                        assert not run_maintenance(platform.work, flush=True).failed
            seconds = clock() - began
            for name in names:
                expected = rounded(platform.execute(tpch.QUERIES[int(name[1:].partition("_")[0])]))
                assert rounded(platform.execute(f"SELECT * FROM {name}")) == expected, name
            report.add(what=f"chunks of {_SMALL_CHUNK} rows, {way}", rows_a_second=rows.num_rows / seconds, seconds=seconds)


def waiting(report: Report, folder: Path) -> None:
    """How many rows wait for the views while a producer appends as fast as it can and maintenance goes on beside."""
    with aim.prepare(folder, 6) as platform:
        done = threading.Event()
        segments = [aim.events(number, rows=100_000) for number in range(20)]

        def maintain() -> None:
            while not done.is_set():
                assert not run_maintenance(platform.work, flush=True).failed

        run_maintenance(platform.work)
        thread = threading.Thread(target=maintain)
        thread.start()
        lags, appended = [], 0
        began = time.perf_counter()
        try:
            with platform.stream("events") as stream:
                for number in range(100):
                    stream.append(segments[number % len(segments)], wait=True)
                    appended += 100_000
                    lags.append(read_lag(platform))
            seconds = time.perf_counter() - began
        finally:
            done.set()
            thread.join()
        report.add(
            what="six AIM views under full load",
            appended_rows_a_second=appended / seconds,
            waiting_rows_median=median(lags),
            waiting_rows_most=max(lags),
            waiting_seconds_median=median(lags) * seconds / appended,
        )


def read_lag(platform: Platform) -> int:
    """The rows of `events` that the slowest view has not consumed."""
    return max(view.rows for view in read_waiting(platform.lake, platform.lake.snapshot()))


def state(report: Report, folder: Path) -> None:
    """The bytes of a view's state against those of its rows, by the number of its aggregates."""
    values = ("l_quantity", "l_extendedprice", "l_discount", "l_tax")
    calls = [
        f"{name}({value}) AS a{place}" for place, (name, value) in enumerate((n, v) for n in ("sum", "min", "max", "avg") for v in values)
    ]
    with Platform.create(folder / "lake") as platform:
        rows = create_tables(platform, folder.parent / "tpch")
        for count in AGGREGATES:
            platform.execute(f"CREATE VIEW v{count} AS SELECT l_suppkey, {', '.join(calls[:count])} FROM lineitem GROUP BY l_suppkey")
        with platform.stream("lineitem") as stream:
            for piece in pieces(rows, 4):
                stream.append(piece, wait=True)
                assert not run_maintenance(platform.work, flush=True).failed
        whole = platform.lake.scan(platform.lake.table("lineitem"), platform.lake.snapshot()).size_bytes
        for count in AGGREGATES:
            stored = bytes_stored(platform, f"v{count}")
            groups = len(list(platform.execute(f"SELECT l_suppkey FROM v{count}")))
            report.add(what=f"state of {count} aggregates", groups=groups, bytes=stored, of_the_rows=stored / whole)


def reads(report: Report, folder: Path) -> None:
    """Reads of an unchanged view from another process, through SQLAlchemy."""
    with aim.prepare(folder, 6) as platform:
        aim.append(platform, aim.events(0, rows=100_000))
        run_maintenance(platform.work, flush=True)
    code = f"""
        import sys, time
        import sqlalchemy as sa
        engine = sa.create_engine(sys.argv[1])
        queries = [sa.text(f"SELECT * FROM v{{number}}") for number in range(6)]
        with engine.connect() as connection:
            for query in queries * 3:
                connection.execute(query).all()
            began, count = {CLOCK_OF_PYTHON}(), 0
            while count < 3000:
                for query in queries:
                    connection.execute(query).all()
                    count += 1
            print(count / ({CLOCK_OF_PYTHON}() - began))
    """
    command = [sys.executable, "-c", textwrap.dedent(code), f"platform+local://{folder / 'lake6'}"]
    rates = [float(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1]) for _ in range(3)]
    report.add(what="reads of an unchanged view by another process, SQLAlchemy", reads_a_second=median(rates))


def cores(report: Report, folder: Path) -> None:
    """One core against two, for each kind of work that Spark does; ingest from Python keeps to its own process."""
    taken: dict[str, dict[int, float]] = {}
    for count in (1, 2):
        stop()
        begin_server(count)
        with Platform.create(folder / f"lake{count}", engine="executors") as platform:
            rows = create_tables(platform, folder.parent / "tpch")
            pq.write_table(rows, folder / f"copied{count}.parquet")
            with platform.stream("lineitem") as stream:
                for piece in pieces(rows, 8):
                    stream.append(piece, wait=True)
            platform.execute("END STREAM lineitem")
            for what, work in work_of(platform, folder / f"copied{count}.parquet"):
                work()
                taken.setdefault(what, {})[count] = min(timed(work) for _ in range(3))
    for what, seconds in taken.items():
        report.add(what=f"{what}, one core and two", one=seconds[1], two=seconds[2], times=seconds[1] / seconds[2])


def work_of(platform: Platform, copied: Path) -> Iterator[tuple[str, Callable[[], object]]]:
    """The kinds of work, each repeatable."""
    columns = ", ".join(f"{name} {kind}" for name, kind in COPIED.items())

    def copy() -> None:
        platform.execute(f"CREATE OR REPLACE TABLE copied ({columns})")
        platform.execute(f"COPY copied FROM '{copied}'")

    def maintain() -> None:
        platform.execute("DROP VIEW IF EXISTS sums")
        platform.execute(f"CREATE VIEW sums WITH (start = 'earliest') AS {tpch.QUERIES[1].partition('ORDER BY')[0]}")
        try:
            assert not run_maintenance(platform.work, flush=True).failed
        except PlatformError as error:
            raise AssertionError(error) from error

    def sample() -> None:
        platform.execute("DROP SAMPLE IF EXISTS drawn")
        platform.execute("CREATE SAMPLE drawn ON lineitem SIZE 1000 WHERE l_quantity < 25")

    yield "queries of TPC-H", lambda: [list(platform.execute(tpch.QUERIES[number])) for number in (1, 3, 6, 12, 14)]
    yield "COPY", copy
    yield "maintenance of a view", maintain
    yield (
        "a session from the oldest row",
        lambda: list(platform.execute(tpch.QUERIES[1].replace("lineitem", "SESSION(lineitem, '1 hour', 'earliest') AS lineitem", 1))),
    )
    yield "a sample with a condition", sample


COPIED = {
    **dict.fromkeys(("l_orderkey", "l_partkey", "l_suppkey"), "BIGINT"),
    "l_linenumber": "INT",
    **dict.fromkeys(("l_quantity", "l_extendedprice", "l_discount", "l_tax"), "DECIMAL(15,2)"),
    **dict.fromkeys(("l_returnflag", "l_linestatus"), "STRING"),
    **dict.fromkeys(("l_shipdate", "l_commitdate", "l_receiptdate"), "DATE"),
    **dict.fromkeys(("l_shipinstruct", "l_shipmode", "l_comment"), "STRING"),
}
