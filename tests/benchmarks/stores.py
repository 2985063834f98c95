"""A store of many groups: rows added and touched by key, and what compaction writes, beside tables of DuckDB and SQLite with a key."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from platform_plugin.algebra.types.data_types import Field, Primitive
from platform_plugin.engine.limits import Limits
from platform_plugin.engine.workspace import Workspace
from platform_plugin.lake.lake import Lake
from platform_plugin.state.arrangement import WEIGHT, arrangement, arrangement_fields
from platform_plugin.state.cache_folder import CACHE_VARIABLE
from platform_plugin.state.rewriting import find_rewrites
from platform_plugin.state.touch import touch
from tests.benchmarks.report import Report, clock
from tests.independent_reader import DuckProcess

if TYPE_CHECKING:
    from collections.abc import Callable

    from platform_plugin.state.store import Store

GROUPS = int(os.environ.get("BENCH_GROUPS", "10000000"))
DELTAS = int(os.environ.get("BENCH_DELTAS", "4000"))
KEYS = 1_000
TURNS = 20
FIELDS = (Field(name="id", type=Primitive("int64")), Field(name="score", type=Primitive("int32")))


def run() -> None:
    report = Report("stores")
    folder = tempfile.mkdtemp(prefix="bench-stores-")
    os.environ[CACHE_VARIABLE] = f"{folder}/cache"
    try:
        with Lake.create(f"{folder}/lake") as lake:
            with lake.commit("create") as commit:
                commit.create_table("scores", arrangement_fields(FIELDS))
            store = arrangement(lake.table("scores"), ["id"])
            filled = _fill(report, lake, store)
            _measure(report, lake, store, "full")
            added = _add_and_compact(report, lake, store, filled)
            _measure(report, lake, store, f"{DELTAS} deltas later")
            _compare(report, lake, store, added)
        _measure_peers(report, folder)
    finally:
        shutil.rmtree(folder)
    report.finish()


def rows(ids: np.ndarray, weight: int = 1) -> pa.Table:
    """Signed rows, one for each id; a group is a row of an id, and equal rows add up."""
    score = pa.array((ids % 100).astype(np.int32))
    return pa.table([pa.array(ids), score, pa.array(np.full(len(ids), weight))], names=["id", "score", WEIGHT])


def some_keys(seed: int) -> np.ndarray:
    """A thousand ids at random, each once."""
    return np.random.default_rng(seed).choice(GROUPS, KEYS, replace=False)


def _turns(work: Callable[[int], object]) -> float:
    """The median milliseconds of some work that is given other keys in each turn."""
    taken = []
    for turn in range(TURNS):
        start = clock()
        work(turn)
        taken.append((clock() - start) * 1000)
    return median(taken)


def _compact(lake: Lake, store: Store) -> list[int]:
    """Do what is due; the rows that each compaction wrote."""
    written = []
    snapshot = lake.snapshot()
    for rewrite in find_rewrites(lake, snapshot, [store]):
        files = rewrite.write(lake, rewrite.merge(lake))
        with lake.commit("compact", base=snapshot) as commit:
            commit.replace(store.table, rewrite.replaces, files)
        written.append(sum(file.record_count for file in files))
    return written


def _fill(report: Report, lake: Lake, store: Store) -> int:
    """Add all groups; the rows that compaction has written for them."""
    ids = np.random.default_rng(0).permutation(GROUPS)
    start = clock()
    for part in np.array_split(ids, max(8, GROUPS // 2_000_000)):
        with lake.commit("fill") as commit:
            commit.append(store.table, [store.add(lake, rows(part))])
    filled = 0
    while wrote := sum(_compact(lake, store)):
        filled += wrote
    report.add(what="filled and compacted", groups=GROUPS, value=clock() - start, unit="s", files=_files(lake, store))
    return filled


def _files(lake: Lake, store: Store) -> int:
    return len(lake.scan(store.table, lake.snapshot()).files)


def _measure(report: Report, lake: Lake, store: Store, when: str) -> None:
    """What it takes to add a thousand keys without a commit, and to touch as many with copies, by pages, and by reading all."""
    additions = [rows(some_keys(100 + turn)) for turn in range(TURNS)]
    files = []
    added = _turns(lambda turn: files.append(store.add(lake, additions[turn])))
    lake.discard(files)
    common = {"groups": GROUPS, "when": when, "unit": "ms", "files": _files(lake, store)}
    report.add(what=f"add {KEYS} keys", value=added, **common)
    snapshot = lake.snapshot()
    asked = [pa.table({"id": some_keys(200 + turn)}) for turn in range(TURNS)]

    def touched(work: Workspace) -> Callable[[int], None]:
        def one(turn: int) -> None:
            assert touch(work, store, asked[turn], snapshot).num_rows == KEYS

        return one

    hot, cold = Workspace(lake, limits=Limits(hot_bytes=4 << 30)), Workspace(lake, limits=Limits(hot_bytes=0))
    start = clock()
    touched(hot)(0)
    report.add(what="make hot copies", value=(clock() - start) * 1000, **common)
    report.add(what=f"touch {KEYS} keys, hot copies", value=_turns(touched(hot)), **common)
    report.add(what=f"touch {KEYS} keys, no copies", value=_turns(touched(cold)), **common)


def _add_and_compact(report: Report, lake: Lake, store: Store, filled: int) -> list[np.ndarray]:
    """Add a thousand keys many times, doing what is due after each; the ids that were added."""
    ids = [some_keys(1_000 + turn) for turn in range(DELTAS)]
    adding, compacting, written, most = [], [], [], 0
    for turn, own in enumerate(ids):
        start = clock()
        with lake.commit("add") as commit:
            commit.append(store.table, [store.add(lake, rows(own))])
        middle = clock()
        wrote = _compact(lake, store)
        adding.append((middle - start) * 1000)
        if wrote:
            compacting.append((clock() - middle) * 1000)
            written += [(turn, count) for count in wrote]
        most = max(most, _files(lake, store))
    common = {"groups": GROUPS, "when": f"{DELTAS} deltas", "files": most}
    report.add(what="add and commit", value=median(adding), unit="ms", **common)
    report.add(what="compaction, median", value=median(compacting), unit="ms", **common)
    report.add(what="compaction, longest", value=max(compacting), unit="ms", **common)
    report.add(what="compaction, for each delta", value=sum(compacting) / DELTAS, unit="ms", **common)
    every = filled + sum(count for _, count in written), GROUPS + KEYS * DELTAS
    report.add(what="rows that compaction wrote for each added, since the first", value=every[0] / every[1], unit="times", **common)
    half = sum(count for turn, count in written if turn >= DELTAS // 2)
    report.add(what="the same of the second half", value=half / (KEYS * (DELTAS - DELTAS // 2)), unit="times", **common)
    report.add(what="largest share in one compaction", value=max(count for _, count in written) / GROUPS, unit="of the store", **common)
    return ids


def _compare(report: Report, lake: Lake, store: Store, added: list[np.ndarray]) -> None:
    """DuckDB's own client of the lake reads the store as a table, and finds what was added."""
    weights = np.bincount(np.concatenate([np.arange(GROUPS), *added]), minlength=GROUPS)
    marks = np.arange(GROUPS) * 7_919 % 1_000_003
    process = DuckProcess()
    try:
        start = clock()
        each = f"SELECT id, sum(_weight) AS weight FROM {store.table.name} GROUP BY id"
        sums = f"SELECT count(*), sum(weight), sum(weight * (id * 7919 % 1000003)), max(weight) FROM ({each})"
        found = process.attach(str(lake.location)).rows(sums)
        assert found == [(GROUPS, weights.sum(), (weights * marks).sum(), weights.max())]
        report.add(what="DuckDB's client adds up all groups", groups=GROUPS, value=(clock() - start) * 1000, unit="ms")
    finally:
        process.stop()


def _measure_peers(report: Report, folder: str) -> None:
    import duckdb

    def note(name: str, add: Callable[[int], object], read: Callable[[int], object]) -> None:
        report.add(what=f"add {KEYS} keys and commit, {name}", groups=GROUPS, value=_turns(add), unit="ms")
        report.add(what=f"read {KEYS} keys, {name}", groups=GROUPS, value=_turns(read), unit="ms")

    upsert = "ON CONFLICT (id) DO UPDATE SET weight = weight + excluded.weight"
    with duckdb.connect(f"{folder}/peer.duckdb", config={"threads": 2}) as duck:
        duck.execute("CREATE TABLE scores (id BIGINT PRIMARY KEY, score INT, weight BIGINT)")
        duck.execute(f"INSERT INTO scores SELECT range, range % 100, 1 FROM range({GROUPS})")

        def add(turn: int) -> None:
            duck.register("delta", rows(some_keys(300 + turn)))
            duck.execute(f"INSERT INTO scores SELECT id, score, _weight FROM delta {upsert}")

        def read(turn: int) -> None:
            duck.register("asked", pa.table({"id": some_keys(200 + turn)}))
            assert duck.execute("SELECT s.* FROM scores s JOIN asked USING (id)").to_arrow_table().num_rows == KEYS

        note("DuckDB", add, read)
    path = Path(folder) / "peer.sqlite"
    with sqlite3.connect(path) as lite:
        lite.execute("PRAGMA journal_mode = WAL")
        lite.execute("CREATE TABLE scores (id INTEGER PRIMARY KEY, score INT, weight INT)")
        lite.executemany("INSERT INTO scores VALUES (?, ?, 1)", ((number, number % 100) for number in range(GROUPS)))
        lite.commit()

        def add_lite(turn: int) -> None:
            delta = [(number, number % 100) for number in some_keys(300 + turn).tolist()]
            lite.executemany(f"INSERT INTO scores VALUES (?, ?, 1) {upsert}", delta)
            lite.commit()

        def read_lite(turn: int) -> None:
            one = "SELECT * FROM scores WHERE id = ?"
            assert sum(lite.execute(one, (number,)).fetchone() is not None for number in some_keys(200 + turn).tolist()) == KEYS

        note("SQLite", add_lite, read_lite)
