"""Touched rows are those that plain Python finds, at every snapshot, with and without copies, and DuckDB sees the same in the table."""

import tempfile
from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal as Number

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from platform_plugin.algebra.types.data_types import Decimal, Field, Primitive
from platform_plugin.engine.limits import Limits
from platform_plugin.engine.workspace import Workspace
from platform_plugin.errors import InvalidValue
from platform_plugin.lake.lake import Lake
from platform_plugin.state import touch as touching
from platform_plugin.state.arrangement import WEIGHT, arrangement, arrangement_fields
from platform_plugin.state.cache_folder import CACHE_VARIABLE
from platform_plugin.state.merged import read_merged
from platform_plugin.state.store import ADDRESS, Store
from platform_plugin.state.touch import touch
from tests.state.stores import FIELDS, Arranged, counted

ROWS = st.tuples(st.integers(-3, 12) | st.none(), st.sampled_from(["a", "b", "ü" * 40, None]), st.integers(0, 2))
DELTAS = st.lists(st.dictionaries(ROWS, st.sampled_from([-1, 1, 2]), min_size=1, max_size=12), min_size=1, max_size=14)
LAYOUTS = [
    {"keys": ("uid",)},
    {"keys": ("uid",), "order": ("n", "word"), "bits": (3,)},
    {"keys": ("word", "uid")},
    {"keys": ("word", "uid"), "order": ("n",), "bits": (0, 5)},
]


def at_keys(rows, wanted, places):
    """The rows whose columns at these places are one of the wanted keys."""
    return Counter({row: weight for row, weight in rows.items() if weight and tuple(row[place] for place in places) in wanted})


@pytest.mark.parametrize("hot_bytes", [0, 1 << 30])
@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(DELTAS, st.sets(ROWS, min_size=1, max_size=6), st.sampled_from(LAYOUTS))
def test_touched_rows_are_those_of_the_keys_at_every_snapshot(monkeypatch, hot_bytes, deltas, asked, layout):
    keys = layout["keys"]
    monkeypatch.setattr(touching, "_SMALL_BYTES", 0)
    with tempfile.TemporaryDirectory() as folder, Lake.create(f"{folder}/lake") as lake:
        monkeypatch.setenv(CACHE_VARIABLE, f"{folder}/cache")
        work = Workspace(lake, limits=Limits(hot_bytes=hot_bytes))
        arranged = Arranged(lake, **layout)
        history = [(lake.snapshot(), Counter())]
        for delta in deltas:
            arranged.add(delta)
            arranged.compact()
            history.append((lake.snapshot(), Counter(arranged.rows)))
        names = [field.name for field in FIELDS]
        places = [names.index(key) for key in keys]
        wanted = {tuple(row[place] for place in places) for row in asked}
        given_keys = pa.table({name: [row[names.index(name)] for row in asked] for name in keys})
        schema = pa.schema([(name, arranged.table({}).schema.field(name).type) for name in keys])
        for snapshot, rows in history:
            found = touch(work, arranged.store, given_keys.cast(schema), snapshot)
            assert counted(found) == at_keys(rows, wanted, places)
            assert found.num_rows == len(at_keys(rows, wanted, places)), "rows are merged"
        snapshot, rows = history[-1]
        whole = read_merged(lake, arranged.store, lake.scan(arranged.store.table, snapshot))
        assert counted(whole) == Counter({row: weight for row, weight in rows.items() if weight})


def test_other_clients_read_a_store_as_a_table(lake, lake_url, duck):
    arranged = Arranged(lake)
    for number in range(20):
        arranged.add({(number % 5, "x", 1): 1, (number, None, 2): 1 - 2 * (number % 2)})
        arranged.compact()
    sql = f"SELECT uid, word, n, sum({WEIGHT}) AS w FROM arranged GROUP BY ALL HAVING w <> 0"
    assert Counter({row[:3]: row[3] for row in duck(lake_url).rows(sql)}) == Counter({row: w for row, w in arranged.rows.items() if w})
    sorted_files = [lake.storage.readable(file.path) for file in arranged.files()]
    assert len(sorted_files) < 20
    for path in sorted_files:
        addresses = pa.parquet.read_table(path).column(ADDRESS).to_numpy()
        assert (addresses[1:] >= addresses[:-1]).all()


def test_keys_of_any_type_are_found(lake):
    kinds = {
        "whole": (Primitive("int32"), [1, -1, 7, None]),
        "text": (Primitive("varchar"), ["", "a", "b" * 50, None]),
        "exact": (Decimal(precision=9, scale=2), [Number("1.00"), Number("1.50"), Number("-7.25"), None]),
        "wide": (Decimal(precision=38, scale=4), [Number(10**30), Number("0.5"), Number(-1), None]),
        "day": (Primitive("date"), [date(2024, 1, 1), date(1900, 1, 1), date(1970, 1, 1), None]),
        "moment": (Primitive("timestamptz"), [datetime(2024, 1, number, tzinfo=UTC) for number in (1, 2, 3)] + [None]),
        "yes": (Primitive("boolean"), [True, False, True, None]),
        "fraction": (Primitive("float64"), [0.0, 1.5, 3.0, None]),
    }
    work = Workspace(lake)
    fields = [Field(name=name, type=kind) for name, (kind, _) in kinds.items()]
    with lake.commit("create") as commit:
        commit.create_table("typed", arrangement_fields(fields))
    table = lake.table("typed")
    rows = pa.table({**{name: values for name, (_, values) in kinds.items()}, WEIGHT: pa.array([1] * 4)})
    schema = pa.schema(
        [(field.name, kind) for field, kind in zip(fields, [lake.read("typed").schema.field(f.name).type for f in fields], strict=True)]
    )
    rows = rows.cast(schema.append(pa.field(WEIGHT, pa.int64())))
    with lake.commit("add") as commit:
        commit.append(table, [arrangement(table, ["whole"]).add(lake, rows)])
    with lake.commit("add the same rows, by other keys") as commit:
        commit.append(table, [arrangement(table, ["whole"]).add(lake, rows)])
    for name, (_, values) in kinds.items():
        # Files that are sorted by the addresses of other keys are read whole.
        store = Store(table=lake.table("typed"), keys=(name,), merge=arrangement(table, [name]).merge)
        keys = pa.table({name: rows.column(name).slice(1, 1)})
        found = touch(work, store, keys, lake.snapshot())
        assert found.column(name).to_pylist() == [value for value in values if value == values[1]]
        assert set(found.column(WEIGHT).to_pylist()) == {2}


def test_keys_of_other_types_are_fitted(lake):
    arranged, work = Arranged(lake, keys=("n",)), Workspace(lake)
    arranged.add({(1, "a", 5): 1, (2, "b", 6): 1})

    def words(keys):
        return sorted(touch(work, arranged.store, pa.table({"n": keys}), lake.snapshot()).column("word").to_pylist())

    assert words(pa.array([5, 1 << 40, 6 + (1 << 32)])) == ["a"], "numbers beyond INT are none of the column's"
    assert words(pa.array([5.0, 6.5, float("nan"), None])) == ["a"]
    assert words(pa.array([Number("6.00"), Number("5.10")])) == ["b"]
    assert words(pa.array([], pa.int32())) == []
    with pytest.raises(InvalidValue, match='column "n" is int32, and its keys are list'):
        words(pa.array([[1]]))
    with pytest.raises(InvalidValue, match="not among the keys"):
        touch(work, arranged.store, pa.table({"uid": [1]}), lake.snapshot())


def test_a_table_without_addresses_is_found_in_by_key_all_the_same(lake, monkeypatch):
    monkeypatch.setattr(touching, "_SMALL_BYTES", 0)
    plain = tuple(field for field in arrangement_fields(FIELDS) if field.name != ADDRESS)
    with lake.commit("create") as commit:
        commit.create_table("old", plain)
    table = lake.table("old")
    store = arrangement(table, ["uid"])
    rows = pa.table(
        {"uid": pa.array(np.arange(5000) % 100), "word": ["x"] * 5000, "n": pa.array(range(5000), pa.int32()), WEIGHT: pa.array([1] * 5000)}
    )
    with lake.commit("add") as commit:
        commit.append(table, [lake.write(table, rows), store.add(lake, rows.slice(0, 10))])
    for hot_bytes in (0, 1 << 30, 1 << 30):
        work = Workspace(lake, limits=Limits(hot_bytes=hot_bytes))
        found = touch(work, store, pa.table({"uid": pa.array([7, 99, 1000])}), lake.snapshot())
        assert found.num_rows == 100
        assert sum(found.column(WEIGHT).to_pylist()) == 101


def test_rows_that_another_client_deleted_or_inserted_are_seen(lake, lake_url, duck):
    arranged, work = Arranged(lake), Workspace(lake)
    arranged.add({(number, "x", 1): 1 for number in range(50)})
    client = duck(lake_url)
    client.execute("DELETE FROM arranged WHERE uid = 3")
    client.execute(f"INSERT INTO arranged (uid, word, n, {WEIGHT}) VALUES (4, 'y', 2, 1)")
    found = touch(work, arranged.store, pa.table({"uid": [3, 4]}), lake.snapshot())
    assert counted(found) == Counter({(4, "x", 1): 1, (4, "y", 2): 1})


def test_few_pages_are_read_without_copies(lake, monkeypatch):
    arranged, work = Arranged(lake), Workspace(lake, limits=Limits(hot_bytes=0))
    count = 100_000
    rows = pa.table(
        {
            "uid": pa.array(range(count)),
            "word": pa.array(["w"] * count),
            "n": pa.array([1] * count, pa.int32()),
            WEIGHT: pa.array([1] * count),
        }
    )
    with lake.commit("add") as commit:
        commit.append(arranged.store.table, [arranged.store.add(lake, rows)])
    read = []
    found = touching.read_file
    monkeypatch.setattr(
        touching, "read_file", lambda *given, **more: read.append(len(more.get("positions", range(count)))) or found(*given, **more)
    )
    assert counted(touch(work, arranged.store, pa.table({"uid": [77, 77, 12_345, count]}), lake.snapshot())) == Counter(
        {(77, "w", 1): 1, (12_345, "w", 1): 1}
    )
    assert read == [2]
