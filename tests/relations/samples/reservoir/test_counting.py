"""Spark's look at rows: the same rows as Arrow's look finds, numbered without a join, and no more of them than a sample has."""

import datetime as dt
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from platform_plugin.engine.limits import Limits
from platform_plugin.engine.spark.frames import scan as relation
from platform_plugin.lake.catalogue.relations import Declaration, declare_relation
from platform_plugin.platform import Platform
from platform_plugin.relations.samples.definition import SampleDefinition
from platform_plugin.relations.samples.draw.pieces import read_pieces
from platform_plugin.relations.samples.keys.keys import EVERY, keys_of_ids
from platform_plugin.relations.samples.reservoir.counting import (
    CARDINALITY,
    KEY,
    PLACE,
    STRATUM,
    count_in_spark,
    picking_frame,
    read_picked,
)
from platform_plugin.relations.samples.reservoir.local import PartDraw, RelationPart, find_local

DEFINITION = SampleDefinition(relation="", source="table", size=40, seed=1)


@pytest.fixture
def platform(tmp_path, spark_server):
    with Platform.create(tmp_path / "lake") as made:
        yield made


def stored(platform, name, rows, files):
    """A table of these rows in so many files."""
    lake = platform.lake
    with lake.commit("rows") as commit:
        table = commit.create_table(name, lake.columns_of(rows))
        declare_relation(commit, table, Declaration(kind="table"))
        step = -(-rows.num_rows // files)
        commit.append(table, [lake.write(table, rows.slice(start, step)) for start in range(0, rows.num_rows, step)])
    return part_of(platform, name)


def part_of(platform, name, size=40):
    lake = platform.lake
    return RelationPart(pieces=read_pieces(lake, lake.scan(lake.table(name), lake.snapshot())), size=size, seed=7)


def lowest(found, size):
    """What reservoirs hold, as sets of keys and places."""
    return {
        key: (held.cardinality, sorted(zip((own := held.lowest(size)).keys.tolist(), own.places.tolist(), strict=True)))
        for key, held in found.items()
    }


def agree(platform, definition, part):
    """Both looks at a part, which must be the same."""
    ((_, here),) = find_local(platform.work, [PartDraw(definition, part)])
    there = count_in_spark(platform.work, definition, part)
    size = definition.cap(len(here))
    assert lowest(there, size) == lowest(here, size)
    for held in there.values():
        assert len(held.keys) >= min(size, held.cardinality)
        assert (held.keys <= held.bound).all()
    return there


@pytest.mark.spark
@pytest.mark.parametrize("files", [1, 3, 70])
def test_rows_that_reach_the_client_do_not_grow_with_files(platform, files):
    digits = pa.array([number % 10 for number in range(20_000)], pa.int32())
    part = stored(platform, "t", pa.table({"id": pa.array(range(20_000), pa.int32()), "digit": digits}), files)
    definition = replace(DEFINITION, where="id % 2 = 0")
    picked = platform.work.session.arrow(picking_frame(platform.work, definition, part, None)).read_all()
    assert picked.num_rows == 40
    assert set(picked.column(CARDINALITY).to_pylist()) == {10_000}
    by_digit = replace(DEFINITION, size=200, strata=("digit",))
    assert platform.work.session.arrow(picking_frame(platform.work, by_digit, part, None)).read_all().num_rows == 10 * 40
    held = agree(platform, definition, part)[()]
    keys = keys_of_ids(7, np.arange(0, 20_000, 2))
    assert sorted(held.keys.tolist()) == np.sort(keys)[:40].tolist()
    assert sorted(held.places.tolist()) == sorted((np.argsort(keys)[:40] * 2).tolist())


@pytest.mark.spark
def test_strata_that_came_short_are_asked_for_again(platform):
    kinds = ["common"] * 19_000 + ["rare"] * 500 + ["few"] * 3 + [None] * 497
    rows = pa.table({"id": pa.array(range(20_000), pa.int32()), "kind": kinds, "other": [None if n % 3 else "x" for n in range(20_000)]})
    part = stored(platform, "t", rows, 3)
    definition = replace(DEFINITION, size=200, strata=("kind", "other"))
    found = agree(platform, definition, replace(part, size=200))
    assert {key: held.cardinality for key, held in found.items()}["few", None] == 2
    assert len(found) == 8
    assert all(len(held.keys) >= min(25, held.cardinality) for held in found.values())


@pytest.mark.spark
def test_strata_of_every_kind_of_value(platform):
    numbers = range(600)
    rows = pa.table(
        {
            "day": pa.array([dt.date(2026, 1, 1 + number % 3) for number in numbers]),
            "price": pa.array([Decimal(number % 2) / 4 for number in numbers], pa.decimal128(9, 2)),
            "at": pa.array([dt.datetime(2026, 1, 1, number % 2, tzinfo=dt.UTC) for number in numbers], pa.timestamp("us", "UTC")),
            "real": pa.array([(float("nan"), 0.5, None)[number % 3] for number in numbers]),
            "flag": pa.array([number < 599 for number in numbers]),
        }
    )
    part = stored(platform, "t", rows, 2)
    for column in rows.column_names:
        found = count_in_spark(platform.work, replace(DEFINITION, size=300, strata=(column,)), replace(part, size=300))
        assert sum(held.cardinality for held in found.values()) == 600, column
        assert all(len(held.keys) >= min(100, held.cardinality) for held in found.values()), column


@pytest.mark.spark
def test_rows_that_were_changed_keep_their_ids_and_have_other_places(platform):
    platform.execute("CREATE TABLE t (id INT, score INT)")
    platform.execute("INSERT INTO t SELECT id, id * 7 % 100 FROM range(3000)")
    platform.execute("INSERT INTO t SELECT id + 3000, id % 10 FROM range(500)")
    platform.execute("DELETE FROM t WHERE id % 11 = 0")
    platform.execute("UPDATE t SET score = 1000 WHERE id % 5 = 0")
    part = part_of(platform, "t")
    agree(platform, replace(DEFINITION, where="score >= 50"), part)
    agree(platform, replace(DEFINITION, where="score = 1000"), part)


@pytest.mark.spark
def test_places_are_the_same_whichever_way_rows_are_numbered(platform, monkeypatch):
    stored(platform, "t", pa.table({"id": pa.array(range(500), pa.int32())}), 5)
    lake, session = platform.lake, platform.work.session
    scan = lake.scan(lake.table("t"), lake.snapshot())

    def numbered():
        frame = relation.read_relation(session, lake, scan, hidden=True)
        return sorted(
            zip(*(session.arrow(frame).read_all().column(name).to_pylist() for name in ("id", *relation.HIDDEN[1:])), strict=True)
        )

    by_map = numbered()
    assert [(row[0], row[2], row[3]) for row in by_map] == [(number, number, number) for number in range(500)]
    assert [row[1] for row in by_map] == list(range(100)) * 5
    monkeypatch.setattr(session, "limits", Limits(plan_files=4))
    assert numbered() == by_map


@pytest.mark.spark
def test_rows_of_files_with_odd_names_are_found_again(platform):
    lake = platform.lake
    platform.execute("CREATE TABLE t (id INT)")
    table = lake.table("t")
    with lake.commit("odd names") as commit:
        for start, name in enumerate(("a b.parquet", "a%41+b.parquet", "ü#?.parquet")):
            file = lake.write(table, pa.table({"id": pa.array(range(start * 10, start * 10 + 10), pa.int32())}))
            odd = f"{file.path.rpartition('/')[0]}/{name}"
            # Files of ours say what they are called; those of other clients may be called anything.
            rows = pq.read_table(lake.storage.absolute(file.path)).replace_schema_metadata(None)
            pq.write_table(rows, lake.storage.absolute(odd))
            written = Path(lake.storage.absolute(odd)).read_bytes()
            footer = int.from_bytes(written[-8:-4], "little")
            commit.append(table, [replace(file, path=odd, size_bytes=len(written), footer_bytes=footer)])
    assert platform.execute("DELETE FROM t WHERE id % 5 = 0").row_count == 6
    assert platform.execute("UPDATE t SET id = id + 100 WHERE id % 5 = 1").row_count == 6
    remaining = [number + 100 * (number % 5 == 1) for number in range(30) if number % 5]
    assert sorted(platform.execute("SELECT id FROM t").arrow().column("id").to_pylist()) == sorted(remaining)
    frame = relation.read_relation(platform.work.session, lake, lake.scan(table, lake.snapshot()))
    assert sorted(platform.work.session.arrow(frame).read_all().column("id").to_pylist()) == sorted(remaining)
    agree(platform, replace(DEFINITION, where="id % 2 = 0"), part_of(platform, "t"))


class Numbered:
    """Pieces whose places are the numbers of rows."""

    row_count = 1_000_000

    def number(self, places):
        return places


def picked(rows):
    """What Spark would hand out: place, key and how many rows there are."""
    places, keys, counts = zip(*rows, strict=True)
    columns = {PLACE: pa.array(places, pa.int64()), KEY: pa.array(keys, pa.int64()), CARDINALITY: pa.array(counts, pa.int64())}
    return pa.table({**columns, STRATUM: pa.array([0] * len(rows), pa.int64())})


def test_a_reservoir_is_full_or_has_all_or_is_short():
    part = RelationPart(pieces=Numbered(), size=3, seed=1)
    full = read_picked(DEFINITION, part, picked([(5, 10, 900), (6, 20, 900), (7, 15, 900)]))
    assert (full.held[()].bound, full.short) == (20, [])
    whole = read_picked(DEFINITION, part, picked([(5, 10, 2), (6, 20, 2)]))
    assert (whole.held[()].bound, whole.short) == (EVERY, [])
    (short,) = read_picked(DEFINITION, part, picked([(5, 10, 900), (6, 20, 900)])).short
    assert 0 < short.bound < EVERY
    (none,) = read_picked(DEFINITION, part, picked([(None, None, 4)])).short
    assert (none.bound, none.cardinality) == (EVERY, 4)
    assert read_picked(DEFINITION, part, picked([(None, None, 0)])).held == {}


def test_what_a_full_sample_would_not_take_is_not_asked_for():
    part = RelationPart(pieces=Numbered(), size=3, seed=1, bounds={(): 30})
    found = read_picked(DEFINITION, part, picked([(5, 10, 900), (6, 20, 900)]))
    assert (found.held[()].bound, found.short) == (30, [])
