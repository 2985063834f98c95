"""Old snapshots are forgotten; the newest, leased ones and all they need stay, for us and for DuckDB."""

import datetime as dt

import pyarrow as pa
import pytest
import sqlalchemy as sa

from platform_plugin.algebra.types.data_types import Field, Primitive
from platform_plugin.errors import SnapshotExpired
from platform_plugin.lake.catalogue import catalogue as c
from tests.lake.agreement import append, assert_agree, create, delete_positions, kept, rows_of

ROWS = pa.table({"i": range(10), "s": [str(number) for number in range(10)]})


def later():
    return dt.datetime.now(dt.UTC) + dt.timedelta(seconds=1)


def count(lake, table):
    with lake.reading() as connection:
        return connection.execute(sa.text(f"SELECT count(*) FROM ducklake_{table}")).scalar()


def test_only_older_snapshots_go(lake, reader):
    table = create(lake, "t", ROWS)
    snapshots = [append(lake, table, ROWS) for _ in range(4)]
    expired = lake.expire(snapshots[2].time)
    assert expired.snapshots == 4
    assert [snapshot.id for snapshot in kept(lake)] == [snapshots[2].id, snapshots[3].id]
    assert_agree(lake, reader, snapshots=kept(lake))
    with pytest.raises(SnapshotExpired):
        lake.snapshot(snapshots[1].id)
    assert lake.expire(snapshots[2].time).snapshots == 0


def test_the_newest_snapshot_always_stays(lake, reader):
    create(lake, "t", ROWS)
    lake.expire(later())
    lake.expire(later())
    assert len(kept(lake)) == 1
    assert lake.read("t").num_rows == 10
    assert_agree(lake, reader)
    assert append(lake, lake.table("t"), ROWS).id == 2


def test_what_only_expired_snapshots_had_is_scheduled_once(lake, reader):
    table = create(lake, "t", ROWS, ROWS)
    first, second = (file.id for file in lake.scan(table, lake.snapshot()).files)
    delete_positions(lake, table, {first: [0]})
    delete_positions(lake, table, {first: [1], second: [2]})
    with lake.commit("remove") as commit:
        commit.remove(table, [second])
    assert lake.expire(later(), dry_run=True).files == 3
    assert (count(lake, "files_scheduled_for_deletion"), count(lake, "delete_file"), len(kept(lake))) == (0, 3, 5)
    expired = lake.expire(later())
    # The removed file, its delete file, and the delete file that another one superseded.
    assert expired.files == 3
    assert count(lake, "files_scheduled_for_deletion") == 3
    assert lake.expire(later()).files == 0
    assert (count(lake, "data_file"), count(lake, "delete_file")) == (1, 1)
    assert_agree(lake, reader)


def test_a_dropped_table_leaves_nothing_behind(lake, reader):
    table = create(lake, "t", ROWS, comment="gone", partition_by=[])
    reader.execute("INSERT INTO t VALUES (1, 'inlined')")
    reader.execute("DELETE FROM t WHERE i = 5")
    with lake.commit("alter") as commit:
        commit.add_column(table, Field(name="row_id", type=Primitive("int32")))  # of which DuckDB is told to keep no rows
    with lake.commit("drop") as commit:
        commit.drop_table(lake.table("t"))
    lake.expire(later())
    for name in ("table", "column", "tag", "data_file", "file_column_stats", "table_stats", "table_column_stats", "inlined_data_tables"):
        assert count(lake, name) == 0, name
    with lake.reading() as connection:
        assert connection.execute(sa.select(c.METADATA.c.key).where(c.METADATA.c.scope.is_not(None))).all() == []
        assert [name for name in sa.inspect(connection).get_table_names() if "_inlined_data_1" in name or "_inlined_delete_1" in name] == []
    assert_agree(lake, reader)
    create(lake, "t", ROWS)
    reader.execute("INSERT INTO t VALUES (1, 'again')")
    assert_agree(lake, reader)


def test_altered_tables_still_read_after_their_old_shapes_are_forgotten(lake, reader):
    table = create(lake, "t", ROWS)
    reader.execute("INSERT INTO t VALUES (100, 'inlined')")
    with lake.commit("alter") as commit:
        commit.rename_column(table, "i", to="id")
        commit.drop_column(table, "s")
        commit.add_column(table, Field(name="s", type=Primitive("int32"), default="5"))
    lake.expire(later())
    assert (100, 5) in rows_of(lake.read("t"))
    assert_agree(lake, reader)
    lake.merge("t")
    lake.expire(later())
    lake.vacuum(grace=dt.timedelta(0))
    assert_agree(lake, reader)


def test_inlined_rows_that_were_deleted_go_with_their_snapshots(lake, reader):
    reader.execute("CREATE TABLE t (i INT)")
    reader.execute("INSERT INTO t VALUES (1), (2)")
    reader.execute("DELETE FROM t WHERE i = 1")
    lake.expire(later())
    with lake.reading() as connection:
        (name,) = connection.execute(sa.text("SELECT table_name FROM ducklake_inlined_data_tables")).scalars()
        assert connection.execute(sa.text(f"SELECT count(*) FROM {name}")).scalar() == 1
    assert_agree(lake, reader)


def test_inlined_rows_outlive_the_name_that_their_table_had(lake, reader, duck, lake_url):
    """DuckDB looks for the table under the shape in which the rows were written, and knows no row without it."""
    reader.execute("CREATE TABLE t (i INT)")
    reader.execute("ALTER TABLE t RENAME TO u")
    with lake.commit("alter") as commit:
        commit.add_column(lake.table("u"), Field(name="j", type=Primitive("int32"), default="5"))
    reader.execute("INSERT INTO u VALUES (1, 2)")
    with lake.commit("alter") as commit:
        commit.rename_table(lake.table("u"), "v")
        commit.rename_column(lake.table("u"), "j", to="k")
    lake.expire(later())
    assert rows_of(lake.read("v")) == [(1, 2)]
    assert_agree(lake, duck(lake_url))
