"""Limits: what the sizes of `engine/limits.py` cost, one short measurement for each: in this process, and with ONLY=spark by Spark."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from platform_plugin.engine.limits import Limits
from platform_plugin.engine.spark.session.batch_spool import BatchSpool
from platform_plugin.lake.lake import Lake
from platform_plugin.lake.read.before_images import read_at
from platform_plugin.platform import Platform
from platform_plugin.quality.reconcile import find_differences
from tests.benchmarks.feed import lines
from tests.benchmarks.report import Report, count_server, pairs, seconds

if TYPE_CHECKING:
    from collections.abc import Callable

ONLY = os.environ.get("ONLY", "process,spark").split(",")
ROWS = 1_000_000
_MIB = 1 << 20
_DEFAULTS = Limits()


def run() -> None:
    """Measure what is asked for."""
    report = Report("limits")
    with tempfile.TemporaryDirectory(prefix="bench-limits-") as folder:
        if "process" in ONLY:
            with Lake.create(f"{folder}/lake") as lake:
                _measure_changes(report, lake)
                _measure_files(report, lake)
                _measure_rows(report, lake, Path(folder))
            _measure_memory(report)
        if "spark" in ONLY:
            _measure_spark(report, Path(folder))
    report.finish()


def _measure_changes(report: Report, lake: Lake) -> None:
    """`client_change_rows`, `client_change_bytes`, `before_image_rows`."""
    count = _DEFAULTS.client_change_rows
    rows = lines(0, count)
    with lake.commit("create") as commit:
        table = commit.create_table("changes", lake.columns_of(rows))
    before = lake.snapshot()
    with lake.commit("append") as commit:
        commit.append(table, [lake.write(table, rows)])
    scan = lake.scan(lake.table("changes"), lake.snapshot())
    report.add(
        limit="client_change_rows",
        what=f"net changes of {count} rows",
        seconds=seconds(lambda: lake.net_changes("changes", after=before).read(lake)),
    )
    report.add(limit="client_change_bytes", what=f"bytes of files of {count} rows", value=scan.size_bytes)
    places = {file.id: list(range(0, file.record_count, 2)) for file in scan.files}

    def write() -> None:
        lake.discard(lake.write_before_images(scan, places))

    report.add(limit="before_image_rows", what=f"before-images of {count // 2} rows", seconds=seconds(write))


def _measure_files(report: Report, lake: Lake) -> None:
    """`small_table_files`: the same rows in one file and in many."""
    for number in (1, _DEFAULTS.small_table_files):
        name = f"files{number}"
        with lake.commit("load") as commit:
            table = commit.create_table(name, lake.columns_of(lines(0, 1)))
            commit.append(table, [lake.write(table, lines(part * 100, 6_400 // number)) for part in range(number)])
        report.add(limit="small_table_files", what=f"read 6 400 rows in {number} files", seconds=seconds(lambda name=name: lake.read(name)))


def _measure_rows(report: Report, lake: Lake, folder: Path) -> None:
    """`estimate_rows`, `estimate_block_rows`, `histogram_rows`, `foreign_file_bytes`, `hot_bytes`."""
    rows = lines(0, ROWS)
    with lake.commit("load") as commit:
        table = commit.create_table("rows", lake.columns_of(rows))
        commit.append(table, [lake.write(table, rows)])
    snapshot = lake.snapshot()
    scan = lake.scan(lake.table("rows"), snapshot)
    file, fields = scan.files[0], [field for field in scan.table.fields if field.name in ("c1", "c4")]
    drawn = np.sort(np.random.default_rng(1).choice(ROWS, 50_000, replace=False))
    report.add(
        limit="estimate_rows",
        what="2 columns of 50 000 single rows of 1 000 000",
        seconds=seconds(lambda: read_at(lake, file, snapshot, fields, drawn)),
    )
    report.add(
        limit="estimate_block_rows", what="2 columns of 1 000 000 rows", seconds=seconds(lambda: lake.read("rows", columns=["c1", "c4"]))
    )

    def histogram() -> None:
        np.histogram(lake.read("rows", columns=["c1"]).column("c1").to_numpy(), bins=30)

    report.add(limit="histogram_rows", what="a histogram of 1 000 000 values", seconds=seconds(histogram))
    path = folder / "foreign.parquet"
    pq.write_table(rows, path)
    report.add(
        limit="foreign_file_bytes",
        what=f"read a file of {path.stat().st_size / _MIB:.0f} MiB",
        seconds=seconds(lambda: pq.read_table(path)),
    )
    report.add(limit="foreign_file_bytes", what="bytes in memory for each of the file", value=rows.nbytes / path.stat().st_size)
    ours = scan.size_bytes
    report.add(limit="hot_bytes", what="bytes uncompressed for each of a stored file", value=rows.nbytes / ours)


def _measure_memory(report: Report) -> None:
    """`result_memory_bytes`, `write_memory_bytes`, `state_memory_bytes`, `lookup_result_bytes`, `session_merge_rows`, `reconcile_rows`."""
    rows = lines(0, 200_000)
    batches = rows.to_batches(max_chunksize=10_000)

    def spool(memory: int) -> Callable[[], object]:
        def work() -> None:
            spool = BatchSpool(memory=memory)
            spool.expect(rows.schema)
            for batch in batches:
                spool.add(batch)
            for _ in spool.batches():
                pass

        return work

    taken = seconds(spool(0))
    report.add(
        limit="result_memory_bytes",
        what=f"{rows.nbytes / _MIB:.0f} MiB through a temporary file",
        seconds=taken,
        mib_a_second=rows.nbytes / _MIB / taken,
    )
    report.add(limit="write_memory_bytes", what="bytes of a row of 16 columns in memory", value=rows.nbytes / rows.num_rows)
    groups = pa.table({"key": np.arange(100_000), "n": np.arange(100_000), "total": np.arange(100_000) / 2, "_address": np.arange(100_000)})
    report.add(limit="state_memory_bytes", what="bytes of a group with two aggregates in memory", value=groups.nbytes / groups.num_rows)
    report.add(
        limit="lookup_result_bytes",
        what="rows of a view with two aggregates in 4 MiB",
        value=_DEFAULTS.lookup_result_bytes * groups.num_rows / groups.nbytes,
    )
    report.add(
        limit="session_merge_rows",
        what="MiB of so many groups",
        value=_DEFAULTS.session_merge_rows * groups.nbytes / groups.num_rows / _MIB,
    )
    for limit, count in (("reconcile_part_rows", _DEFAULTS.reconcile_part_rows), ("reconcile_rows", _DEFAULTS.reconcile_rows)):
        sides = [[tuple(row.values()) for row in lines(0, count).select(["id", "c4", "c8"]).to_pylist()] for _ in range(2)]
        report.add(
            limit=limit,
            what=f"compare {count} rows of 3 columns",
            seconds=seconds(lambda sides=sides: find_differences(["id", "c4", "c8"], *sides), times=3),
        )


def _measure_spark(report: Report, folder: Path) -> None:
    """What travels with a query, what is asked before it, and how a table is joined."""
    rows = lines(0, ROWS)
    with Platform.create(folder / "spark") as platform:
        lake = platform.lake
        for name, count in (("few", 10_000), ("deleted", ROWS), ("large", ROWS)):
            with lake.commit("load") as commit:
                table = commit.create_table(name, lake.columns_of(rows))
                commit.append(table, [lake.write(table, rows.slice(0, count))])
        platform.execute("SELECT 1").close()
        count_server()
        _measure_sent(report, platform)
    platform_of = lambda **limits: Platform.open(folder / "spark", limits=limits)  # noqa: E731
    _compare(report, platform_of, "small_query_rows", "SELECT id, hash(c15) AS h FROM few", small_query_rows=0)
    with Platform.open(folder / "spark") as platform:
        platform.execute(f"DELETE FROM deleted WHERE id % {ROWS // _DEFAULTS.plan_positions} = 0")
    _compare(report, platform_of, "plan_positions", "SELECT sum(c1) FROM deleted", plan_positions=0)
    joined = "SELECT sum(hash(a.c15, b.c2)) FROM large a JOIN large b ON a.id = b.id"
    _compare(report, platform_of, "broadcast_bytes", joined, broadcast_bytes=0)


def _measure_sent(report: Report, platform: Platform) -> None:
    """`inline_result_bytes`, `sent_range_bytes`: a query over rows that travel with it."""
    from platform_plugin.engine.spark.frames.scan import arrow_frame, query_relations

    session = platform.work.session
    for size in (1 << 10, 1 << 20, 1 << 23):
        rows = pa.table({"a": np.arange(size // 8)})

        def work(rows: pa.Table = rows) -> None:
            session.arrow(query_relations(session, "SELECT sum(a) FROM sent", {"sent": arrow_frame(session, rows)})).read_all()

        report.add(limit="inline_result_bytes", what=f"a query with {size // 1024} KiB of rows", seconds=seconds(work, times=9, warm_ups=3))


def _compare(report: Report, open_platform: Callable[..., Platform], limit: str, query: str, **other: int) -> None:
    """The same query with the default of a limit and with another value."""
    with open_platform() as default, open_platform(**other) as changed:
        arms = [lambda platform=platform: platform.execute(query).arrow().num_rows for platform in (default, changed)]
        assert arms[0]() == arms[1]()
        ratio, taken = pairs(*arms, times=7)
    report.add(limit=limit, what=f"with {other}, times as long", ratio=ratio, seconds=taken)
