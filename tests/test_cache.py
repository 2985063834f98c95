"""What a process keeps in memory has one budget: it grows with neither relations nor snapshots, and reads are right at any budget."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_plugin.cache import BUDGET, DEFAULT_BYTES, ENTRY_BYTES, Budget, Cache, list_figures, read_limit
from platform_plugin.errors import InvalidValue
from platform_plugin.lake.catalogue.tables import Name
from platform_plugin.platform import Platform


def make(limit: int = 100 * ENTRY_BYTES, count: int = 2) -> list[Cache[int, bytes]]:
    budget = Budget(limit)
    return [Cache(f"cache {number}", weigh=len, budget=budget) for number in range(count)]


@given(
    steps=st.lists(
        st.tuples(st.integers(0, 1), st.integers(0, 20), st.sampled_from(["put", "get", "find", "clear"]), st.integers(0, 4000))
    ),
    limit=st.integers(0, 12_000),
)
def test_the_budget_holds_whatever_is_done(steps, limit):
    caches = make(limit)
    newest: dict[tuple[int, int], bytes] = {}
    for which, key, action, size in steps:
        cache, value = caches[which], bytes(size)
        if action == "put":
            cache.put(key, value)
            newest[which, key] = value
        elif action == "get":
            assert cache.get(key) in (None, newest.get((which, key)))
        elif action == "find":
            known = cache.get(key)
            assert cache.find(key, lambda value=value: value) == (value if known is None else known)
            newest[which, key] = value if known is None else known
        else:
            cache.clear()
            assert cache.get(key) is None
        figures = [cache.figures() for cache in caches]
        assert sum(each.bytes for each in figures) <= limit
        assert all(each.bytes >= each.entries * ENTRY_BYTES for each in figures)


def test_what_was_used_stays_longer_whichever_cache_it_is_of():
    first, second = make(10 * ENTRY_BYTES)
    first.put(0, b"")
    for key in range(30):
        second.put(key, b"")
        assert first.get(0) == b""
    assert first.figures().entries == 1
    assert second.figures().entries == 9
    assert second.get(29) is not None


def test_a_value_larger_than_half_of_the_budget_drives_nothing_out():
    first, second = make(10 * ENTRY_BYTES)
    first.put(0, b"small")
    assert second.put(0, bytes(6 * ENTRY_BYTES)) == bytes(6 * ENTRY_BYTES)
    assert (first.get(0), second.get(0)) == (b"small", None)


def test_an_error_is_not_kept():
    cache, _ = make()
    with pytest.raises(ZeroDivisionError):
        cache.find(1, lambda: bytes(1 // 0))
    assert cache.find(1, lambda: b"right") == b"right"


def test_nothing_is_a_value_too():
    cache: Cache[int, None] = Cache("nothing", budget=Budget(10 * ENTRY_BYTES))
    cache.put(1, None)
    assert (cache.has(1), cache.has(2)) == (True, False)


def test_threads_share_a_budget():
    caches = make(50 * ENTRY_BYTES)
    start = threading.Barrier(4)

    def work(number: int) -> None:
        start.wait()
        for step in range(5_000):
            caches[step % 2].find((step * (number + 7)) % 90, lambda step=step: bytes(step % 300))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert sum(cache.figures().bytes for cache in caches) <= 50 * ENTRY_BYTES


def test_a_child_process_goes_on_with_what_is_there():
    cache: Cache[str, int] = Cache("of a fork")
    cache.put("parent", 1)
    child = os.fork()
    if child == 0:
        os._exit(0 if cache.get("parent") == 1 and cache.put("child", 2) == 2 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    cache.clear()
    assert cache.figures().entries == 0


def test_the_environment_sets_the_budget(monkeypatch, tmp_path):
    assert (read_limit("2G"), read_limit(" 16 k "), read_limit("0"), read_limit("")) == (2 << 30, 16384, 0, DEFAULT_BYTES)
    for wrong in ("much", "-1", "1T", "1.5G"):
        with pytest.raises(InvalidValue, match=r"PLATFORM_CACHE_BYTES is .* no number of bytes"):
            read_limit(wrong)
    monkeypatch.setenv("PLATFORM_CACHE_BYTES", "3M")
    with Platform.create(tmp_path / "lake"):
        assert BUDGET.limit == 3 << 20
    monkeypatch.delenv("PLATFORM_CACHE_BYTES")
    with Platform.open(tmp_path / "lake"):
        assert BUDGET.limit == DEFAULT_BYTES


@pytest.mark.parametrize("limit", ["0", "200K"])
def test_hundreds_of_snapshots_do_not_make_it_grow(tmp_path, monkeypatch, limit):
    monkeypatch.setenv("PLATFORM_CACHE_BYTES", limit)
    with Platform.create(tmp_path / "lake") as platform:
        platform.execute("CREATE TABLE readings (id INT, value INT)")
        lake = platform.lake
        for number in range(300 if limit != "0" else 20):
            table = lake.table("readings", lake.snapshot())
            files = [lake.write(table, pa.table({"id": [1], "value": [number]}))]
            with lake.commit("another value") as commit:
                commit.replace(table, [file.id for file in lake.scan(table, lake.snapshot()).files], files)
            assert platform.execute("SELECT value FROM readings WHERE id = 1").arrow().to_pylist() == [{"value": number}]
            assert BUDGET.bytes <= read_limit(limit)
        shown = platform.execute("SHOW CACHES").arrow().to_pylist()
    assert sum(row["bytes"] for row in shown) <= read_limit(limit)
    assert {row["name"] for row in shown} >= {"relations of lookups", "parsed statements"}
    monkeypatch.delenv("PLATFORM_CACHE_BYTES")
    Platform.open(tmp_path / "lake").close()


@pytest.mark.slow
def test_ten_thousand_relations_do_not_make_it_grow(tmp_path, monkeypatch):
    monkeypatch.setenv("PLATFORM_CACHE_BYTES", "2M")
    with Platform.create(tmp_path / "lake") as platform:
        with platform.lake.commit("many relations") as commit:
            for number in range(10_000):
                commit.create_view(f"v{number}", "SELECT 1 AS one")
        snapshot = platform.lake.snapshot()
        with platform.lake.reading() as connection:
            for number in range(10_000):
                name = Name(schema="main", relation=f"v{number}")
                assert platform.lake.find_relation(connection, name, snapshot).name == name
                assert BUDGET.bytes <= 2 << 20
    figures = {each.name: each for each in list_figures()}
    assert 0 < figures["relations"].entries < 10_000
    monkeypatch.delenv("PLATFORM_CACHE_BYTES")
    Platform.open(tmp_path / "lake").close()
