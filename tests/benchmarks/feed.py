"""The change feed: net changes of scattered updates and deletes, by before-images and without, beside reading as many rows."""

from __future__ import annotations

import os
import shutil
import tempfile
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from platform_plugin.lake.lake import Lake
from platform_plugin.lake.read.deletes import write_replacing_deletes
from tests.benchmarks.report import Report, clock
from tests.lake.changing import rewrite_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from platform_plugin.lake.catalogue.tables import Snapshot, Table

# lineitem at scale factor 5 has 30 million rows.
LINES = int(os.environ.get("BENCH_LINES", "30000000"))
ROWS_OF_FILE = 6_000_000
SHARE = 1_000
SMALL, DELETED = 1_200_000, 1_200
REPEATS = 5


def run() -> None:
    report = Report("feed")
    folder = tempfile.mkdtemp(prefix="bench-feed-")
    try:
        with Lake.create(f"{folder}/deletes") as lake:
            _measure_deletes(report, lake)
        with Lake.create(f"{folder}/lines") as lake:
            _measure_updates(report, lake)
    finally:
        shutil.rmtree(folder)
    report.finish()


def lines(first: int, count: int) -> pa.Table:
    """Rows with as many columns, and of such types, as TPC-H's lineitem has."""
    chance = np.random.default_rng(first)
    numbers = np.arange(first, first + count)
    words = pa.array([f"carefully final deposit {number}" for number in range(5_000)])
    dates = [pa.array(chance.integers(8_000, 10_500, count).astype("int32")).cast(pa.date32()) for _ in range(3)]
    few = [pa.array(options).take(pa.array(chance.integers(0, len(options), count))) for options in (["A", "N", "R"], ["F", "O"])]
    ways = [
        pa.array(each).take(pa.array(chance.integers(0, len(each), count))) for each in (["IN PERSON", "NONE"], ["AIR", "MAIL", "RAIL"])
    ]
    money = [pa.array(chance.integers(1, 10_000_000, count)).cast(pa.decimal128(19, 0)).cast(pa.decimal128(21, 2)) for _ in range(4)]
    return pa.table(
        [
            pa.array(numbers),
            *(pa.array(chance.integers(0, 1_000_000, count)) for _ in range(2)),
            pa.array((numbers % 7).astype("int32")),
            *money,
            *few,
            *dates,
            *ways,
            words.take(pa.array(chance.integers(0, 5_000, count))),
        ],
        names=["id", *(f"c{place}" for place in range(1, 16))],
    )


def _end(lake: Lake, table: Table, every: int, *, images: bool, again: bool) -> Snapshot:
    """Delete every so-manieth row, or write it anew."""
    scan = lake.scan(table, lake.snapshot())
    places = {file.id: list(range(every // 2, file.record_count, every)) for file in scan.files}
    kept = lake.write_before_images(scan, places) if images else []
    deletes = write_replacing_deletes(lake, scan, places)
    with lake.commit("end", base=scan.snapshot) as commit:
        commit.delete(table, deletes)
        commit.keep_before_images(table, kept)
        if again:
            commit.append(table, [rewrite_rows(lake, scan, places, {"c3": -1})])
    return commit.made


def _best(work: Callable[[], object]) -> float:
    taken = []
    for _ in range(REPEATS):
        start = clock()
        work()
        taken.append(clock() - start)
    return sorted(taken)[REPEATS // 2] * 1000


def _measure_deletes(report: Report, lake: Lake) -> None:
    for images in (True, False):
        name = f"t{int(images)}"
        with lake.commit("load") as commit:
            table = commit.create_table(name, lake.columns_of(lines(0, 1)))
            commit.append(table, [lake.write(table, lines(0, SMALL))])
        before = lake.snapshot()
        _end(lake, lake.table(name), SMALL // DELETED, images=images, again=False)

        def feed(name: str = name, before: Snapshot = before) -> None:
            went, _ = lake.net_changes(name, after=before).read(lake)
            assert len(went.row_ids) == DELETED

        report.add(what=f"feed of {DELETED} deletes", rows=SMALL, before_images=images, value=_best(feed), unit="ms")


def _measure_updates(report: Report, lake: Lake) -> None:
    with lake.commit("load") as commit:
        table = commit.create_table("lines", lake.columns_of(lines(0, 1)))
        for first in range(0, LINES, ROWS_OF_FILE):
            commit.append(table, [lake.write(table, lines(first, min(ROWS_OF_FILE, LINES - first)))])
    before, changed = lake.snapshot(), LINES // SHARE
    _end(lake, lake.table("lines"), SHARE, images=True, again=True)
    with lake.commit("as many") as commit:
        same = commit.create_table("same", lake.columns_of(lines(0, 1)))
        commit.append(same, [lake.write(same, lines(0, 2 * changed))])

    def feed() -> None:
        went, came = lake.net_changes("lines", after=before).read(lake)
        assert len(went.row_ids) == len(came.row_ids) == changed

    def read() -> None:
        assert lake.read("same").num_rows == 2 * changed

    taken, plain = _best(feed), _best(read)
    report.add(what="feed of 0.1 % updates", rows=LINES, changes=2 * changed, value=taken, unit="ms")
    report.add(what="read as many rows", rows=2 * changed, value=plain, unit="ms")
    report.add(what="feed beside reading", rows=LINES, value=taken / plain, unit="times")
