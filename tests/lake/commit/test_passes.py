"""What passed a gate last stays readable, whatever came past the gate since, and expiry keeps it for as long as it is given."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

from platform_plugin import Lake
from platform_plugin.lake.catalogue.tables import Name
from platform_plugin.lake.commit.passes import lift_gate, read_pass

T = Name.of("t")


def passes(table, files):
    """A gate that is open."""


@pytest.fixture
def lake(lake_url):
    with Lake.create(lake_url) as made:
        with made.commit("make") as commit:
            commit.create_table("t", made.columns_of(pa.schema([("id", pa.int32())])))
        yield made


def put(lake, *ids, replacing=False):
    table = lake.table("t")
    old = [file.id for file in lake.scan(table, lake.snapshot()).files] if replacing else []
    with lake.commit("put") as commit:
        if old:
            commit.remove(table, old)
        commit.append(table, [lake.write(table, pa.table({"id": pa.array(ids, pa.int32())}))])


def passed(lake):
    """The rows of the version that passed last, or None."""
    with lake.reading() as connection:
        found = read_pass(connection, T, lake.snapshot())
    return None if found is None else sorted(lake.read("t", snapshot=lake.snapshot(found.readable_at))["id"].to_pylist())


def expire(lake):
    return lake.expire(dt.datetime.now(dt.UTC) + dt.timedelta(seconds=1))


def test_what_came_past_the_gate_is_not_what_passed(lake):
    assert passed(lake) is None
    with lake.gates.guarding(T, passes):
        put(lake, 1)
        put(lake, 2)
    assert passed(lake) == [1, 2]
    put(lake, -1)
    assert passed(lake) == [1, 2]
    with lake.gates.guarding(T, passes):
        put(lake, 3)
        assert passed(lake) == [1, 2], "the row that was not judged is still there"
        put(lake, 4, replacing=True)
    assert passed(lake) == [4]


def test_expiry_keeps_what_passed_last_and_no_more(lake):
    with lake.gates.guarding(T, passes):
        put(lake, 1)
    for _ in range(3):
        with lake.commit("elsewhere") as commit:
            commit.create_schema(f"s{lake.snapshot().id}")
    expired = expire(lake)
    assert (expired.gated, len(lake.commits(limit=100))) == (0, 1), "the newest has it too"
    put(lake, -1)
    put(lake, -2)
    assert (lake.expire(dt.datetime.now(dt.UTC) + dt.timedelta(seconds=1), dry_run=True).gated, passed(lake)) == (1, [1])
    assert (expire(lake).gated, passed(lake)) == (1, [1])
    lake.merge("t")
    lake.vacuum(grace=dt.timedelta(0))
    assert (expire(lake).gated, passed(lake)) == (1, [1])
    lake.vacuum(grace=dt.timedelta(0))
    assert passed(lake) == [1]
    with lake.gates.guarding(T, passes):
        put(lake, 5, replacing=True)
    assert (expire(lake).gated, passed(lake), len(lake.commits(limit=100))) == (0, [5], 1)


def test_a_table_that_takes_the_place_of_another_leaves_what_passed_readable(lake):
    with lake.gates.guarding(T, passes):
        put(lake, 1)
    with lake.commit("replace") as commit:
        commit.drop_table(lake.table("t"))
        commit.create_table("t", lake.columns_of(pa.schema([("id", pa.int32())])))
    put(lake, -1)
    assert (expire(lake).gated, passed(lake)) == (1, [1])
    with lake.commit("drop") as commit:
        commit.drop_table(lake.table("t"))
    assert (expire(lake).gated, passed(lake)) == (0, None)


def test_a_gate_that_is_lifted_keeps_nothing(lake):
    lift_gate(lake, T)
    with lake.gates.guarding(T, passes):
        put(lake, 1)
    put(lake, -1)
    lift_gate(lake, T)
    assert (expire(lake).gated, passed(lake)) == (0, None)
