"""B3, samples: the local phase, draws of stored rows against Spark's and DuckDB's ways, upkeep as a share of ingest, merges, answers.

`BENCH_SCALE` is TPC-H's scale factor, 0.2 by default (1.2 million rows of `lineitem`), and `BENCH_COPIES` how many times these rows are
loaded, which takes less memory than a larger scale; `BENCH_PAIRS` how often each arm runs;
`BENCH_ROWS` how many generated rows go by, 100 million by default; `BENCH_SIZES` the sizes of samples that are drawn; `BENCH_UPKEEP` how
many rows are appended how often; `BENCH_DATASKETCHES` a Python that can import datasketches. ONLY names some of memory, upkeep, draws,
take_sample, generated, spark, conditions, answers, standing. Memory and upkeep need no Spark, and take_sample takes minutes at scale 5.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from platform_plugin.engine.spark.server.attach import start, stop
from platform_plugin.engine.spark.server.runtime import RUNTIME_VARIABLE
from platform_plugin.engine.spark.server.settings import ServerSettings
from platform_plugin.lake.catalogue.relations import Declaration, declare_relation
from platform_plugin.maintenance.run import run_maintenance
from platform_plugin.platform import Platform
from platform_plugin.relations.samples.definition import SampleDefinition
from platform_plugin.relations.samples.draw.pieces import read_pieces
from platform_plugin.relations.samples.draw.source_draw import draw_anew
from platform_plugin.relations.samples.draw.viewed import counting_frame, drawing_frame, plan_bounds, read_strata
from platform_plugin.relations.samples.record import definitions, find_sample
from platform_plugin.relations.samples.reservoir.counting import count_in_spark, picking_frame
from platform_plugin.relations.samples.reservoir.growing import find_pending, read_current_sample
from platform_plugin.relations.samples.reservoir.local import PartDraw, RelationPart, find_local
from platform_plugin.relations.samples.reservoir.merge import draw_picks
from platform_plugin.relations.samples.reservoir.picking import PickRows
from platform_plugin.relations.samples.reservoir.reservoir import Reservoir
from platform_plugin.relations.samples.reservoir.shares import draw_shares
from platform_plugin.relations.samples.tasks.executor_draw import PlannedDraw, draw_on_executors, prepare_draw
from tests.benchmarks import samples_draws
from tests.benchmarks.report import Report, clock, count_server, pairs, seconds
from tests.benchmarks.samples_draws import PAIRS, ROWS, SCALE, SIZES
from tests.relations.streams import tpch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from platform_plugin.engine.executors import TaskJob
    from platform_plugin.relations.samples.keys.lowest import LowestRows

COPIES = int(os.environ.get("BENCH_COPIES", "1"))
PARTS = ("memory", "upkeep", "draws", "take_sample", "generated", "spark", "conditions", "answers", "standing")
UPKEEP = [tuple(map(int, each.split("x"))) for each in os.environ.get("BENCH_UPKEEP", "12000x120,100000x60,300000x40").split(",")]


def run() -> None:
    """Measure; what needs Spark on a server of this benchmark's own."""
    report = Report("samples")
    parts = os.environ.get("ONLY", ",".join(PARTS)).split(",")
    if "memory" in parts:
        _measure_merges(report)
        _measure_local_phase(report)
    with tempfile.TemporaryDirectory() as folder:
        runtime = Path(folder) / "runtime"
        runtime.mkdir(mode=0o700)
        os.environ[RUNTIME_VARIABLE] = str(runtime)
        rows = tpch.read(tpch.generate(Path(folder) / "tpch", SCALE), "lineitem")
        with Platform.create(Path(folder) / "lake") as platform:
            if "upkeep" in parts:
                _measure_upkeep(report, Path(folder), rows)
            if not set(parts) & set(_ON_SPARK):
                report.finish()
                return
            try:
                start(ServerSettings(cores=2, driver_memory_mib=4096))
                count_server()
                _load(platform, rows)
                for part, measure in _ON_SPARK.items():
                    if part in parts:
                        measure(report, platform)
            finally:
                platform.work.forget_session()
                stop()
    report.finish()


def _measure_merges(report: Report) -> None:
    """Shares by each method, and a whole merge: what is drawn of reservoirs of a thousand rows, and the rows taken."""
    random = np.random.default_rng(1)
    for size in (10, 100, 750, 1000, 10_000):
        for parts in (2, 64, 1024):
            counts = random.integers(100_000, 10_000_000, parts)
            counts = counts * 900_000_000 // counts.sum()
            for method in ("categorical", "chain", "positions"):
                taken = seconds(lambda: draw_shares(counts, size, random, method=method), times=9)  # noqa: B023
                report.add(what="shares", method=method, n=size, p=parts, microseconds=taken * 1e6)
    for parts in (2, 16, 128, 1024):
        held, counts = np.full(parts, 1000), np.full(parts, 1_000_000)
        stored = pa.table({"id": pa.array(np.arange(parts * 1000)), "value": pa.array(np.arange(parts * 1000) / 3)})
        report.add(
            what="merge of reservoirs of 1000, n = 1000",
            p=parts,
            microseconds=seconds(lambda: draw_picks(held, counts, 1000, random), times=25) * 1e6,  # noqa: B023
            with_rows=seconds(lambda: stored.take(pa.array(draw_picks(held, counts, 1000, random))), times=25) * 1e6,  # noqa: B023
        )
    _measure_sketches(report)


_SKETCHES = """
import json, time
from datasketches import var_opt_sketch, var_opt_union
for parts in (2, 16, 128, 1024):
    sketches = [var_opt_sketch(1000) for _ in range(parts)]
    for number, sketch in enumerate(sketches):
        for item in range(3000):
            sketch.update(number * 3000 + item)
    taken = []
    for _ in range(5):
        begin = time.perf_counter()
        union = var_opt_union(1000)
        for sketch in sketches:
            union.update(sketch)
        found = union.get_result()
        taken.append(time.perf_counter() - begin)
    assert found.num_samples == 1000, found
    print(json.dumps({"p": parts, "microseconds": sorted(taken)[2] * 1e6}))
"""


def _measure_sketches(report: Report) -> None:
    """The union of as many samples of a thousand that DataSketches makes. To add a row is a call of Python there, and no fair measure."""
    python = os.environ.get("BENCH_DATASKETCHES")
    if not python:
        return
    for line in subprocess.run([python, "-c", _SKETCHES], check=True, capture_output=True, text=True, timeout=600).stdout.splitlines():
        report.add(what="DataSketches: union of VarOpt samples of 1000", **json.loads(line))


def _measure_local_phase(report: Report) -> None:
    """Algorithm L over generated batches of one number, against their bare sum, in one thread."""
    batch = pa.record_batch({"id": pa.array(np.arange(1_000_000))})
    for size in SIZES:

        def sample() -> None:
            reservoir = Reservoir(size, np.random.default_rng(1))  # noqa: B023
            for _ in range(ROWS // batch.num_rows):
                pc.sum(batch.column(0))
                reservoir.add(batch)
            reservoir.rows()

        def scan() -> None:
            for _ in range(ROWS // batch.num_rows):
                pc.sum(batch.column(0))

        ratios, ours = pairs(sample, scan, times=PAIRS)
        report.add(what=f"Algorithm L over {ROWS} generated rows", n=size, rows_per_second=ROWS / ours, of_bare_scan=ratios)


def _measure_upkeep(report: Report, folder: Path, rows: pa.Table) -> None:
    """Appends from memory to a stream without samples and in turn to one with a sample, which is maintained now and then as well."""
    for size, count in UPKEEP:
        for kind, (rest, where) in _KINDS.items():
            # A lake for each, which leaves no gigabytes behind.
            with tempfile.TemporaryDirectory(dir=folder) as place, Platform.create(Path(place) / "lake") as platform:
                _measure_upkeep_of(
                    report, platform, rows, size=size, count=count, kind=kind, rest=rest.format(size * count // 4), where=where
                )


_KINDS = {
    "all rows": ("", None),
    "window of a quarter": ("WITH (window = '{} rows')", None),
    "WHERE, half of the rows pass": ("", "l_quantity < 25"),
    "seven strata": ("STRATIFIED BY (l_shipmode)", None),
}
_FIRST = 20
_RUN_EVERY = 10


@contextmanager
def _picking_clock() -> Iterator[list[float]]:
    """The processor time of all picking so far, which a difference of two appends hides in what the two differ by anyway."""
    spent, before = [0.0], {name: getattr(PickRows, name) for name in ("prepare", "apply", "settle")}

    def timed(work: Callable[..., Any]) -> Callable[..., Any]:
        def measured(*given: Any) -> Any:
            begin = time.process_time()
            try:
                return work(*given)
            finally:
                spent[0] += time.process_time() - begin

        return measured

    for name, work in before.items():
        setattr(PickRows, name, timed(work))
    try:
        yield spent
    finally:
        for name, work in before.items():
            setattr(PickRows, name, work)


def _measure_upkeep_of(
    report: Report, platform: Platform, rows: pa.Table, *, size: int, count: int, kind: str, rest: str, where: str | None
) -> None:
    lake = platform.lake
    names = ["bare", "sampled"]
    for name in names:
        with lake.commit("create") as commit:
            declare_relation(commit, commit.create_table(name, lake.columns_of(rows)), Declaration(kind="stream"))
    platform.execute(f"CREATE SAMPLE drawn ON sampled SIZE 1000 {rest}")
    if where is not None:
        # CREATE SAMPLE would ask Spark whether it is a condition.
        with lake.commit("a condition") as commit:
            table = lake.table("drawn")
            options = definitions(lake, lake.snapshot())[str(table.uuid)].options()
            declare_relation(commit, table, Declaration(kind="sample", options={**options, "where": where}))
            commit.comment(table, "so that the schema has another version")
    streams = [platform.stream(name) for name in names]
    taken: tuple[list[float], list[float]] = [], []
    busy: tuple[list[float], list[float]] = [], []
    runs, run_busy, own = [], 0.0, [0.0]
    with _picking_clock() as picking:
        for batch in range(count):
            start = batch * size % (rows.num_rows - size)
            for arm in (0, 1) if batch % 2 else (1, 0):
                begin, used = clock(), time.process_time()
                streams[arm].append(rows.slice(start, size), wait=True)
                taken[arm].append(clock() - begin)
                busy[arm].append(time.process_time() - used)
            own.append(picking[0])
            if batch % _RUN_EVERY == _RUN_EVERY - 1:
                begin, used = clock(), time.process_time()
                run_maintenance(platform.work, kinds=["sample"])
                runs.append(clock() - begin)
                run_busy += time.process_time() - used
    for stream in streams:
        stream.close()
    begin = clock()
    found = platform.sample("drawn").arrow().num_rows
    report.add(
        what=f"upkeep, n = 1000, {count} appends of {size} rows, a run after each tenth",
        kind=kind,
        append_milliseconds=statistics.median(busy[0][_FIRST:]) * 1000,
        picking_milliseconds=statistics.median(b - a for a, b in zip(busy[0][_FIRST:], busy[1][_FIRST:], strict=True)) * 1000,
        picking_of_ingest=statistics.median(b / a for a, b in zip(busy[0][_FIRST:], busy[1][_FIRST:], strict=True)) - 1,
        own_milliseconds=(own[-1] - own[_FIRST]) / (count - _FIRST) * 1000,
        own_of_ingest=(own[-1] - own[_FIRST]) / sum(busy[0][_FIRST:]),
        picking_of_ingest_first=sum(busy[1][1:_FIRST]) / sum(busy[0][1:_FIRST]) - 1,
        picking_of_ingest_clock=statistics.median(b / a for a, b in zip(taken[0][_FIRST:], taken[1][_FIRST:], strict=True)) - 1,
        runs_of_ingest=run_busy / sum(busy[0]),
        milliseconds_a_run=statistics.median(runs) * 1000,
        read_milliseconds=(clock() - begin) * 1000,
        rows=found,
    )


def _load(platform: Platform, rows: pa.Table) -> None:
    lake = platform.lake
    with lake.commit("load") as commit:
        table = commit.create_table("lineitem", lake.columns_of(rows))
        declare_relation(commit, table, Declaration(kind="table"))
        step = -(-rows.num_rows // 4)
        begins = list(range(0, rows.num_rows, step)) * COPIES
        commit.append(table, [lake.write(table, rows.slice(begin, step)) for begin in begins])


def _measure_in_spark(report: Report, platform: Platform) -> None:
    """Draws of views against their bare scan and Spark's own way, and what reaches the client as tasks and files grow in number."""
    work, session, lake = platform.work, platform.work.session, platform.lake
    platform.execute("CREATE VIEW small_orders AS SELECT * FROM lineitem WHERE l_quantity < 25")
    columns = [field.name for field in lake.table("lineitem").fields]
    folder = Path(lake.storage.absolute(lake.scan(lake.table("lineitem"), lake.snapshot()).files[0].path)).parent
    bare = f"SELECT {', '.join(f'max({name})' for name in columns)} FROM parquet.`{folder}` WHERE l_quantity < 25"
    theirs = f"SELECT *, rand() AS _r FROM parquet.`{folder}` WHERE l_quantity < 25 ORDER BY _r LIMIT 1000"
    for name, rest in (("all", ""), ("seven strata", "STRATIFIED BY (l_shipmode)")):
        platform.execute(f"CREATE SAMPLE of_view ON small_orders SIZE 1000 {rest}")
        snapshot = lake.snapshot()
        sample = find_sample(lake, lake.table("of_view"), snapshot)
        assert sample is not None
        for other, text in (("its bare scan", bare), ("ORDER BY rand() LIMIT n", theirs)):
            ratio, ours = pairs(lambda: draw_anew(work, sample, snapshot), lambda: session.arrow(text).read_all(), times=PAIRS)  # noqa: B023
            report.add(what=f"draw from a view, {name}, n = 1000, against {other}", milliseconds=ours * 1000, faster=ratio)
        platform.execute("DROP SAMPLE of_view")
    definition = SampleDefinition(relation="", source="view", size=1000, seed=1)
    for parts in (2, 8, 32, 64):
        rows = session.spark.range(0, 640_000, 1, parts).selectExpr("id", "id / 3 AS value")
        counted = session.arrow(counting_frame(work, definition, rows)).read_all()
        bounds = plan_bounds(read_strata(definition, counted).values(), 1000)
        found = session.arrow(drawing_frame(work, definition, rows, seed=1, size=1000, bounds=bounds)).read_all()
        report.add(what="a view of so many tasks: rows that reach the client", p=parts, rows=counted.num_rows + found.num_rows)
    for parts in (2, 8, 32, 64):
        name = f"parts_{parts}"
        platform.execute(f"CREATE STREAM {name} (id BIGINT, value DOUBLE)")
        table = lake.table(name)
        with lake.commit("parts") as commit:
            numbers = np.array_split(np.arange(640_000), parts)
            commit.append(table, [lake.write(table, pa.table({"id": own, "value": own / 3})) for own in numbers])
        platform.execute(f"CREATE SAMPLE {name}_s ON {name} SIZE 1000")
        snapshot = lake.snapshot()
        known = find_sample(lake, lake.table(f"{name}_s"), snapshot)
        assert known is not None
        behind = find_pending(platform.work, known, snapshot)
        grown = read_current_sample(platform.work, behind)
        report.add(what="counted rows of so many files: rows that are read, n = 1000", p=parts, rows=grown.fetched, bytes=grown.rows.nbytes)
        chosen = SampleDefinition(relation="", source="stream", size=1000, seed=1, where="id % 2 = 0")
        part = RelationPart(pieces=read_pieces(lake, lake.scan(table, snapshot)), size=1000, seed=1)
        picked = session.arrow(picking_frame(work, chosen, part, None)).read_all()
        report.add(
            what="WHERE over so many files: numbers of rows that reach the client", p=parts, rows=picked.num_rows, bytes=picked.nbytes
        )


def _measure_conditions(report: Report, platform: Platform) -> None:
    """Reservoirs of rows that pass a condition, of strata and by weights, in this process, by tasks and by Spark, against its bare scan."""
    session, lake = platform.work.session, platform.lake
    table, snapshot = lake.table("lineitem"), lake.snapshot()
    pieces = read_pieces(lake, lake.scan(table, snapshot))
    files = Path(lake.storage.absolute(pieces.scan.files[0].path)).parent
    cases = {
        "WHERE l_quantity < 25": (
            SampleDefinition(relation="", source="table", size=1000, seed=1, where="l_quantity < 25"),
            "count(*)",
            "",
        ),
        "WHERE l_quantity < 2": (SampleDefinition(relation="", source="table", size=1000, seed=1, where="l_quantity < 2"), "count(*)", ""),
        "seven strata": (
            SampleDefinition(relation="", source="table", size=1000, seed=1, strata=("l_shipmode",)),
            "l_shipmode, count(*)",
            "GROUP BY ALL",
        ),
        "four strata of two columns": (
            SampleDefinition(relation="", source="table", size=1000, seed=1, strata=("l_returnflag", "l_linestatus")),
            "l_returnflag, l_linestatus, count(*)",
            "GROUP BY ALL",
        ),
        "weights": (SampleDefinition(relation="", source="table", size=1000, seed=1, weight="l_extendedprice"), "sum(l_extendedprice)", ""),
        "weights, WHERE l_quantity < 25": (
            SampleDefinition(relation="", source="table", size=1000, seed=1, weight="l_extendedprice", where="l_quantity < 25"),
            "sum(l_extendedprice)",
            "",
        ),
    }
    for what, (definition, columns, rest) in cases.items():
        where = f"WHERE {definition.where}" if definition.where else ""
        bare = f"SELECT {columns} FROM parquet.`{files}` {where} {rest}"
        part = RelationPart(pieces=pieces, size=definition.cap(1), seed=5)
        drawn: dict[str, Any] = {}
        jobs: list[TaskJob] = []

        def local() -> None:
            platform.work.engine = "local"
            ((_, drawn["Arrow here"]),) = find_local(platform.work, [PartDraw(definition, part)])  # noqa: B023

        def tasks() -> None:
            planned = prepare_draw(platform.work, definition, part)  # noqa: B023
            assert isinstance(planned, PlannedDraw)
            (draw,), job = draw_on_executors(platform.work, [planned])
            drawn["executors"] = draw.drawn  # noqa: B023
            jobs.append(job)  # noqa: B023

        def in_spark() -> None:
            drawn["Spark"] = count_in_spark(platform.work, definition, part)  # noqa: B023

        arms = {"Arrow here": local, "executors": tasks, "Spark": in_spark}
        if definition.is_weighted:
            del arms["Spark"]  # its keys are made by one program
        for name, arm in arms.items():
            ratio, ours = pairs(arm, lambda: session.arrow(bare).read_all(), times=PAIRS)  # noqa: B023
            report.add(what=f"reservoirs, n = 1000, {what}, by {name}", milliseconds=ours * 1000, of_bare_scan=ratio)
        assert len({_lowest(definition, found) for found in drawn.values()}) == 1, "engines choose the same rows"
        job = jobs[-1]
        report.add(
            what=f"what moves, {what}, by executors",
            tasks=len(job.shares),
            rows_to_client=sum(len(held.keys) for held in drawn["executors"].values()),
            shuffle_bytes=job.metrics.shuffle_bytes,
            bytes_to_client=job.client_bytes,
            bytes_of_reservoirs=sum(share.bytes_written for share in job.shares),
            cpu_seconds=sum(share.cpu_seconds for share in job.shares),
        )
        if "Spark" in arms:
            picked = session.arrow(picking_frame(platform.work, definition, part, None)).read_all()
            report.add(what=f"numbers of rows that reach the client of Spark, {what}", rows=picked.num_rows, bytes=picked.nbytes)
    platform.work.engine = "auto"


def _lowest(definition: SampleDefinition, found: Mapping[Any, LowestRows]) -> tuple[Any, ...]:
    """What a sample has of reservoirs."""
    size = definition.cap(max(1, len(found)))
    rows = ((key, held.cardinality, tuple(sorted(held.lowest(size).places.tolist()))) for key, held in found.items())
    return tuple(sorted(rows, key=repr))


def _measure_answers(report: Report, platform: Platform) -> None:
    """Q1, Q6 and Q12 in the forms that have bounds, at 2.6 per cent, against the exact answer."""
    queries = {
        "Q6": "SELECT sum(l_extendedprice * l_discount) AS v FROM lineitem {s} WHERE l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24",
        "Q1": "SELECT l_returnflag, sum(l_quantity) AS v, avg(l_extendedprice) AS a FROM lineitem {s} "
        "WHERE l_linestatus = 'O' GROUP BY l_returnflag",
        "Q12": "SELECT l_shipmode, count(*) AS v FROM lineitem {s} WHERE l_commitdate < l_receiptdate GROUP BY l_shipmode",
    }
    clause = "WITH SAMPLE (error = 0.026, confidence = 0.95)"
    platform.execute("CREATE SAMPLE of_lineitem ON lineitem SIZE 200000")
    for kept in (False, True):
        if kept:
            platform.execute("REFRESH SAMPLE of_lineitem")
        for name, text in queries.items():
            exact = {_key(row): float(row["v"]) for row in platform.execute(text.format(s="")).arrow().to_pylist()}
            found = platform.execute(text.format(s=clause)).arrow().to_pylist()
            inside = sum(row["v_low"] <= exact[_key(row)] <= row["v_high"] for row in found)
            ratio, ours = pairs(
                lambda: platform.execute(text.format(s=clause)).arrow(),  # noqa: B023
                lambda: platform.execute(text.format(s="")).arrow(),  # noqa: B023
                times=PAIRS,
            )
            report.add(
                what=f"{name} from {'a stored sample of 200 000' if kept else 'rows drawn for it'}",
                milliseconds=ours * 1000,
                faster_than_exact=ratio,
                worst_error=max(abs(row["v"] / exact[_key(row)] - 1) for row in found),
                within_bounds=f"{inside} of {len(found)}",
                sample_rows=found[0]["sample_rows"],
            )


def _key(row: dict[str, Any]) -> object:
    return row.get("l_returnflag") or row.get("l_shipmode")


_ON_SPARK = {
    "draws": samples_draws.measure_draws,
    "take_sample": samples_draws.measure_take_sample,
    "generated": samples_draws.measure_generated,
    "spark": _measure_in_spark,
    "conditions": _measure_conditions,
    "answers": _measure_answers,
    "standing": samples_draws.measure_standing,
}
