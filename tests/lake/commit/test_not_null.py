"""SET NOT NULL holds of every row, those of other clients and of writers on their way included; nothing else is in its way."""

from __future__ import annotations

import pyarrow as pa
import pytest

from platform_plugin.algebra.types.data_types import Field, Primitive
from platform_plugin.errors import CommitConflict, NullRefused
from platform_plugin.lake.read import read
from platform_plugin.platform import Platform
from tests.lake.agreement import append, assert_agree, create, delete_positions

FULL = pa.table({"i": pa.array([1, 2], pa.int64()), "s": ["a", "b"]})
HOLED = pa.table({"i": pa.array([3, 4], pa.int64()), "s": ["c", None]})


def set_not_null(lake, column="s", name="t", base=None):
    with lake.commit("not null", base=base) as commit:
        commit.forbid_null(lake.table(name), column)


def is_nullable(lake, column="s"):
    return lake.table("t").field(column).nullable


def test_statistics_suffice_where_they_tell(lake, reader, monkeypatch):
    create(lake, "t", FULL, FULL)
    monkeypatch.setattr(read, "read_file", lambda *_, **__: pytest.fail("a file was read"))
    set_not_null(lake)
    monkeypatch.undo()
    assert not is_nullable(lake)
    with pytest.raises(NullRefused):
        lake.write(lake.table("t"), HOLED)
    with pytest.raises(Exception, match="NOT NULL"):
        reader.execute("INSERT INTO t VALUES (5, NULL)")
    assert_agree(lake, reader)


def test_a_row_with_null_is_in_the_way_until_it_is_gone(lake, reader):
    table = create(lake, "t", FULL, HOLED)
    with pytest.raises(NullRefused, match=r'column "s" of table "main\.t" holds NULL in 1 rows'):
        set_not_null(lake)
    assert is_nullable(lake)
    (holed,) = [file.id for file in lake.scan(table, lake.snapshot()).files if lake.read("t") and file.row_id_start == 2]
    delete_positions(lake, table, {holed: [1]})
    set_not_null(lake)
    assert_agree(lake, reader)


def test_rows_of_duckdb_are_looked_at_too(lake, reader):
    reader.execute("CREATE TABLE t (i BIGINT, s VARCHAR)")
    reader.execute("INSERT INTO t VALUES (1, 'a'), (2, NULL)")  # kept in the catalogue
    with pytest.raises(NullRefused, match="1 rows"):
        set_not_null(lake)
    reader.execute("DELETE FROM t WHERE s IS NULL")
    reader.execute("ALTER TABLE t ADD COLUMN d INTEGER DEFAULT 5")
    reader.execute("ALTER TABLE t ADD COLUMN e INTEGER")
    reader.execute("INSERT INTO t SELECT range, 'b', 6, 7 FROM range(2000)")
    set_not_null(lake)
    set_not_null(lake, "d")
    with pytest.raises(NullRefused, match='"e"'):
        set_not_null(lake, "e")
    with pytest.raises(Exception, match="NOT NULL"):
        reader.execute("INSERT INTO t VALUES (5, NULL, 1, 1)")
    assert_agree(lake, reader)


def test_columns_that_older_files_lack_are_looked_at(lake):
    table = create(lake, "t", FULL)
    with lake.commit("add") as commit:
        commit.add_column(table, Field(name="x", type=Primitive("int32"), default="1"))
        commit.add_column(table, Field(name="y", type=Primitive("int32")))
    set_not_null(lake, "x")
    with pytest.raises(NullRefused, match="2 rows"):
        set_not_null(lake, "y")
    with lake.commit("empty") as commit:
        commit.remove(table, [file.id for file in lake.scan(table, lake.snapshot()).files])
    set_not_null(lake, "y")


def test_writers_on_their_way_lose_against_it_and_it_against_them(lake):
    table = create(lake, "t", FULL)
    before, late = lake.snapshot(), [lake.write(table, rows) for rows in (HOLED, FULL)]
    append(lake, table, HOLED)
    with pytest.raises(CommitConflict, match="may hold NULL"):
        set_not_null(lake, base=before)
    with lake.commit("empty") as commit:
        commit.remove(table, [file.id for file in lake.scan(table, lake.snapshot()).files])
    set_not_null(lake)
    with pytest.raises(CommitConflict, match="became NOT NULL"), lake.commit("late") as commit:
        commit.append(table, late[:1])
    with lake.commit("late") as commit:
        commit.append(table, late[1:])
    assert lake.read("t").column("s").null_count == 0


def test_in_sql(tmp_path):
    with Platform.create(tmp_path / "lake") as platform:
        platform.execute("CREATE TABLE t (i INT, s STRING); INSERT INTO t VALUES (1, 'a'), (2, NULL)")
        with pytest.raises(NullRefused, match="holds NULL in 1 rows") as refused:
            platform.execute("ALTER TABLE t ALTER COLUMN s SET NOT NULL")
        assert "UPDATE" in refused.value.hint
        platform.execute("ALTER TABLE t ALTER COLUMN i SET NOT NULL")
        with pytest.raises(NullRefused):
            platform.execute("INSERT INTO t (s) VALUES ('x')")
        platform.execute("ALTER TABLE t ALTER COLUMN i DROP NOT NULL")
        platform.execute("INSERT INTO t (s) VALUES ('x')")
        platform.execute("CREATE STREAM s (i INT) WITH (retention_rows = 2); CREATE TABLE h AS HISTORY OF s")
        platform.execute("INSERT INTO s VALUES (1); INSERT INTO s VALUES (2); INSERT INTO s VALUES (3)")
        platform.execute("ALTER STREAM s ALTER COLUMN i SET NOT NULL")
        assert [platform.lake.table(name).fields[0].nullable for name in ("s", "h")] == [False, False]


def test_a_stream_is_read_as_empty_where_it_was_empty(lake_url):
    with Platform.create(lake_url) as platform:
        platform.execute("CREATE STREAM s (i INT) WITH (retention_rows = 1)")
        empty = platform.lake.snapshot()
        for number in range(4):
            platform.execute(f"INSERT INTO s VALUES ({number})")
        assert platform.lake.read("s", snapshot=empty).num_rows == 0
        with pytest.raises(Exception, match="have left"):
            platform.lake.read("s", snapshot=platform.lake.snapshot(empty.id + 1))
