"""DuckDB keeps working on tables that we created, altered, merged and expired, and we on what it leaves: writers take turns."""

import datetime as dt
import random
from decimal import Decimal as Number

import pyarrow as pa
import pytest

from platform_plugin.algebra.types.data_types import Decimal, Field, Primitive, list_of, map_of, struct_of
from platform_plugin.lake.lake import Lake
from tests.lake.agreement import append, assert_agree, assert_changes_agree, create, delete_positions, kept, ours, theirs

COLUMNS = (
    Field(name="i", type=Primitive("int32")),
    Field(name="s", type=Primitive("varchar")),
    Field(name="st", type=struct_of(a=Primitive("int32"), b=list_of(Primitive("varchar")))),
    Field(name="m", type=map_of(Primitive("varchar"), Decimal(precision=9, scale=2))),
)
ROWS = pa.table(
    {
        "i": pa.array(range(20), pa.int32()),
        "s": [f"row {number}" for number in range(20)],
        "st": [{"a": number, "b": [str(number), None]} for number in range(20)],
        "m": pa.array([[("k", Number(number))] for number in range(20)], pa.map_(pa.string(), pa.decimal128(9, 2))),
    }
)
VALUES = "'inlined', {'a': 1, 'b': ['it''s']}, MAP {'k': 1.25}"


def agree_at_every_snapshot(lake, reader):
    assert_agree(lake, reader)
    assert_agree(lake, reader, snapshots=kept(lake))


def test_duckdb_writes_to_a_table_of_ours(lake, reader):
    create(lake, "t", ROWS, fields=COLUMNS, comment="ours")
    reader.execute(f"INSERT INTO t VALUES (100, {VALUES})")
    reader.execute(f"INSERT INTO t SELECT 200 + range, {VALUES} FROM range(50)")
    reader.execute("DELETE FROM t WHERE i = 3 OR i = 100")
    reader.execute("UPDATE t SET s = 'changed' WHERE i BETWEEN 5 AND 7")
    agree_at_every_snapshot(lake, reader)
    for before, after in zip(kept(lake)[1:], kept(lake)[2:], strict=False):
        assert_changes_agree(lake, reader, "t", after=before, until=after)


@pytest.mark.parametrize("prefill", [False, True], ids=["after rows of its own", "before any"])
def test_duckdb_writes_after_we_altered(lake, reader, prefill):
    """It fills its newest inlined table by position, so an alteration by us must leave it one of the right shape."""
    table = create(lake, "t", ROWS, fields=COLUMNS)
    if prefill:
        reader.execute(f"INSERT INTO t VALUES (100, {VALUES})")
    with lake.commit("alter") as commit:
        commit.drop_column(table, "s")
        commit.add_column(table, Field(name="n", type=Primitive("varchar"), default="seven"))
        commit.rename_column(table, "i", to="id")
        commit.widen_column(table, "id", to=Primitive("int64"))
        commit.add_column(table, Field(name="c", type=Primitive("int32")), parent=("st",))
    reader.execute("INSERT INTO t VALUES (3000000000, {'a': 1, 'b': [], 'c': 5}, NULL, 'new')")
    reader.execute("DELETE FROM t WHERE id = 4")
    reader.execute("ALTER TABLE t DROP COLUMN m")
    reader.execute("INSERT INTO t VALUES (5, NULL, 'newer')")
    with lake.commit("rename") as commit:
        commit.rename_table(lake.table("t"), "u")
    reader.execute("INSERT INTO u VALUES (6, NULL, 'newest')")
    reader.execute("UPDATE u SET n = 'x' WHERE id > 5")
    agree_at_every_snapshot(lake, reader)
    lake.merge("u")
    agree_at_every_snapshot(lake, reader)
    reader.execute("INSERT INTO u VALUES (7, NULL, 'last')")
    reader.execute("CALL ducklake_flush_inlined_data('lake')")
    agree_at_every_snapshot(lake, reader)


def test_duckdb_goes_on_after_merge_expire_and_vacuum(lake, reader):
    table = create(lake, "t", ROWS, ROWS, fields=COLUMNS)
    files = [file.id for file in lake.scan(table, lake.snapshot()).files]
    delete_positions(lake, table, {files[0]: [0, 5], files[1]: [7]})
    lake.merge("t")
    reader.execute("DELETE FROM t WHERE i = 9")
    reader.execute(f"INSERT INTO t VALUES (100, {VALUES})")
    agree_at_every_snapshot(lake, reader)
    lake.expire(lake.snapshot().time)
    lake.merge("t")
    lake.expire(dt.datetime.now(dt.UTC))
    lake.vacuum(grace=dt.timedelta(0))
    agree_at_every_snapshot(lake, reader)
    reader.execute("UPDATE t SET s = 'after' WHERE i < 5")
    reader.execute("CALL ducklake_merge_adjacent_files('lake')")
    reader.execute("CALL ducklake_rewrite_data_files('lake', 't', delete_threshold => 0)")
    agree_at_every_snapshot(lake, reader)


def test_our_delete_files_and_inlined_deletes_stay_apart(lake, reader):
    """DuckDB loses its place where the two lists share a position."""
    table = create(lake, "t", ROWS.select(["i"]))
    reader.execute("DELETE FROM t WHERE i IN (0, 3)")
    (file,) = lake.scan(table, lake.snapshot()).files
    assert file.positions == (0, 3)
    delete_positions(lake, table, {file.id: [0, 3, 5, 6]})
    assert theirs(reader, "t") == ours(lake, "t")
    reader.execute("DELETE FROM t WHERE i = 8")
    delete_positions(lake, table, {file.id: [9]})
    assert theirs(reader, "t") == ours(lake, "t")
    assert sorted(row[0] for row in ours(lake, "t")) == [1, 2, 4, 7, *range(10, 20)]
    agree_at_every_snapshot(lake, reader)


def test_duckdb_sets_partitions_and_order_on_a_table_of_ours(lake, reader):
    create(lake, "t", ROWS.select(["i", "s"]))
    reader.execute("ALTER TABLE t SET PARTITIONED BY (i)")
    reader.execute("ALTER TABLE t SET SORTED BY (s DESC)")
    reader.execute("INSERT INTO t SELECT range % 3, 'p' || range FROM range(30)")
    agree_at_every_snapshot(lake, reader)
    assert [key.transform for key in lake.table("t").partition_keys] == ["identity"]
    lake.merge("t")
    agree_at_every_snapshot(lake, reader)
    assert reader.rows("SELECT count(*) FROM t WHERE i = 1") == [(11,)]


@pytest.mark.parametrize("seed", range(2))
def test_writers_in_random_order(lake, reader, seed):
    chance = random.Random(seed)
    table = create(lake, "t", ROWS.select(["i", "s"]))
    expected = {(number, f"row {number}") for number in range(20)}
    for turn in range(1000, 1012):
        match chance.randrange(6):
            case 0:
                append(lake, table, pa.table({"i": pa.array([turn], pa.int32()), "s": ["ours"]}))
                expected |= {(turn, "ours")}
            case 1:
                reader.execute(f"INSERT INTO t VALUES ({turn}, 'theirs')")
                expected |= {(turn, "theirs")}
            case 2:
                gone = min(expected)
                reader.execute(f"DELETE FROM t WHERE i = {gone[0]}")
                expected -= {gone}
            case 3:
                lake.merge("t")
            case 4:
                reader.execute("CALL ducklake_merge_adjacent_files('lake')")
            case 5:
                reader.execute("CALL ducklake_flush_inlined_data('lake')")
        assert set(ours(lake, "t")) == set(theirs(reader, "t")) == expected, turn
    agree_at_every_snapshot(lake, reader)


def test_columns_named_like_keywords_can_be_altered_beside_inlined_rows(lake_url, duck):
    with Lake.create(lake_url) as lake:
        with lake.commit("create") as commit:
            commit.create_table("t", lake.columns_of(pa.table({"nothing": [1], "word": ["a"]})))
        duck(lake_url).execute("INSERT INTO t VALUES (1, 'a')")
        with lake.commit("alter") as commit:
            commit.rename_column(lake.table("t"), "word", to="order")
        duck(lake_url).execute("INSERT INTO t VALUES (2, 'b')")
        assert lake.read("t").sort_by("nothing").to_pylist() == [{"nothing": 1, "order": "a"}, {"nothing": 2, "order": "b"}]
