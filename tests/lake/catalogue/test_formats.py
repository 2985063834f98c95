"""Catalogues of DuckLake 1.1: read and written as those of 1.0 are, and made from them when asked.

No reader of 1.1 can be installed from the package index yet. What these tests know of it is its specification; what was written to
an upgraded lake is read by DuckDB 1.5.5 once the test has given the columns their old names back.
"""

import datetime as dt
from contextlib import contextmanager
from itertools import pairwise

import pyarrow as pa
import pytest
import sqlalchemy as sa

from platform_plugin.algebra.predicates.conditions import compare
from platform_plugin.errors import CatalogueError, InvalidValue
from platform_plugin.lake.catalogue.location import Location
from platform_plugin.lake.commit.data_operations import DeleteInlinedRows
from platform_plugin.lake.lake import Lake
from tests.lake.agreement import append, assert_agree, create, delete_positions, kept, rows_of

OWN = ("row_id", "begin_snapshot", "end_snapshot")


@contextmanager
def catalogue(url):
    engine = sa.create_engine(Location.parse(url).catalogue)
    try:
        with engine.begin() as connection:
            yield connection
    finally:
        engine.dispose()


def downgrade(url):
    """The one thing that keeps a reader of 1.0 from reading an upgraded catalogue is what columns of inlined rows are called."""
    with catalogue(url) as connection:
        for (name,) in connection.execute(sa.text("SELECT DISTINCT table_name FROM ducklake_inlined_data_tables")).all():
            for column in OWN:
                connection.execute(sa.text(f'ALTER TABLE "{name}" RENAME COLUMN "_ducklake_{column}" TO "{column}"'))
        connection.execute(sa.text("UPDATE ducklake_metadata SET value = '1.0' WHERE key = 'version'"))


def state(lake, *, until=None):
    """All rows at all snapshots up to one, and all changes between neighbours and between the ends."""
    newest = until or lake.snapshot().id
    snapshots = [snapshot for snapshot in kept(lake) if lake.table("t").begin_snapshot <= snapshot.id <= newest]
    rows = {at.id: sorted(map(repr, rows_of(lake.read("t", snapshot=at)))) for at in snapshots}
    feeds = {
        (after.id, until.id): sorted(map(repr, rows_of(lake.changes("t", after=after, until=until).read(lake))))
        for after, until in [*pairwise(snapshots), (snapshots[0], snapshots[-1])]
    }
    return rows, feeds


def test_an_upgraded_lake_reads_and_writes_as_before(lake, reader, lake_url, duck):
    reader.execute("CREATE TABLE t (i INT, s VARCHAR)")
    reader.execute("INSERT INTO t VALUES (1, 'inlined'), (2, NULL)")
    reader.execute("INSERT INTO t SELECT range, 'file' FROM range(10, 60)")
    reader.execute("ALTER TABLE t ADD COLUMN n INT DEFAULT 7")
    reader.execute("INSERT INTO t VALUES (3, 'later', 8)")
    reader.execute("DELETE FROM t WHERE i IN (2, 12)")
    reader.execute("CREATE VIEW v AS SELECT i FROM t")
    reader.end()
    before = state(lake)
    assert Lake.upgrade(lake_url) == ("1.0", "1.1")
    assert Lake.upgrade(lake_url) == ("1.1", "1.1")
    # One that was open when it happened goes on as well.
    for opened in (lake, Lake.open(lake_url)):
        assert state(opened) == before
    rows = pa.table({"i": [70, 71], "s": ["a", "b"], "n": [1, 2]}).cast(
        pa.schema([("i", pa.int32()), ("s", pa.string()), ("n", pa.int32())])
    )
    append(lake, lake.table("t"), rows)
    newest = max(lake.scan(lake.table("t"), lake.snapshot()).files, key=lambda file: file.id)
    delete_positions(lake, lake.table("t"), {newest.id: [1]})
    with lake.commit("delete an inlined row") as commit:
        commit.also(DeleteInlinedRows(lake.table("t"), (0,)))
    create(lake, "u", pa.table({"row_id": [1], "end_snapshot": [2]}))
    with lake.commit("widen") as commit:
        commit.widen_column(lake.table("t"), "i", to=lake.columns_of(pa.table({"i": pa.array([1], pa.int64())}))[0].type)
    with lake.commit("drop") as commit:
        commit.drop_view(lake.views()[0])
    wanted, newest = state(lake), lake.snapshot().id
    with catalogue(lake_url) as connection:
        counts = connection.execute(sa.text("SELECT row_group_count FROM ducklake_data_file ORDER BY data_file_id")).scalars().all()
        assert counts[-2:] == [1, 1]
        assert connection.execute(sa.text("SELECT max(row_group_count) FROM ducklake_delete_file")).scalar() == 1
        (name,) = connection.execute(
            sa.text("SELECT table_name FROM ducklake_inlined_data_tables WHERE table_id = :id"), {"id": lake.table("u").id}
        ).scalars()
        # The names of 1.0 are free for columns of a user's.
        connection.execute(sa.text(f'INSERT INTO "{name}" VALUES (1, {lake.snapshot().id}, NULL, 10, 20)'))
    assert sorted(rows_of(lake.read("u"))) == [(1, 2), (10, 20)]
    assert lake.read("u", where=compare("row_id", "=", 10)).num_rows == 1
    lake.merge("u")
    lake.merge("t")
    assert state(lake, until=newest) == wanted
    with lake.commit("drop") as commit:
        commit.drop_table(lake.table("u"))
    lake.expire(dt.datetime.now(dt.UTC))
    lake.vacuum(grace=dt.timedelta(0))
    assert sorted(map(repr, rows_of(lake.read("t")))) == wanted[0][newest]
    downgrade(lake_url)
    with Lake.open(lake_url) as again:
        assert_agree(again, duck(lake_url))


def test_an_upgrade_that_cannot_be_changes_nothing(lake, reader, lake_url):
    reader.execute("CREATE TABLE a (i INT)")
    reader.execute('CREATE TABLE t ("_ducklake_row_id" INT)')
    reader.execute("INSERT INTO a VALUES (1)")
    with pytest.raises(InvalidValue, match="_ducklake_row_id"):
        Lake.upgrade(lake_url)
    assert_agree(lake, reader)


def test_a_newer_format_and_schemas_in_schemas_are_refused(lake, lake_url):
    Lake.upgrade(lake_url)
    with catalogue(lake_url) as connection:
        connection.execute(
            sa.text("INSERT INTO ducklake_schema (schema_id, begin_snapshot, schema_name, parent_schema_id) VALUES (5, 0, 'inner', 0)")
        )
    with pytest.raises(CatalogueError, match="inner"):
        Lake.open(lake_url)
    with pytest.raises(CatalogueError, match="inner"):
        lake.vacuum()
    with catalogue(lake_url) as connection:
        connection.execute(sa.text("DELETE FROM ducklake_schema WHERE schema_id = 5"))
        connection.execute(sa.text("UPDATE ducklake_metadata SET value = '1.2' WHERE key = 'version'"))
    with pytest.raises(CatalogueError, match=r"1\.2, this version reads 1\.0 and 1\.1") as refused:
        Lake.open(lake_url)
    assert "upgrade" in refused.value.hint
