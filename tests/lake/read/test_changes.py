"""The change feed names each row that came or went, with its id and its snapshot; moving rows between files is no change."""

import datetime as dt
from itertools import combinations

import pyarrow as pa
import pytest

from platform_plugin.algebra.types.data_types import Field, Primitive
from platform_plugin.errors import InvalidValue, SnapshotExpired
from tests.lake.agreement import append, assert_changes_agree, create, delete_positions, kept, rows_of

ROWS = pa.table({"i": range(20), "s": [str(number) for number in range(20)]})


def feed(lake, after, until):
    return sorted(rows_of(lake.changes("t", after=after, until=until).read(lake)))


def test_each_kind_of_change_between_any_two_snapshots(lake, reader):
    table = create(lake, "t", ROWS)
    first = lake.snapshot()
    file = lake.scan(table, first).files[0].id
    delete_positions(lake, table, {file: [1, 2]})
    append(lake, table, ROWS.slice(0, 3))
    reader.execute("INSERT INTO t VALUES (100, 'inlined')")
    reader.execute("DELETE FROM t WHERE i IN (5, 100)")
    reader.execute("UPDATE t SET s = 'changed' WHERE i = 7")
    with lake.commit("replace") as commit:
        newest = lake.scan(table, lake.snapshot()).files[-1]
        commit.replace(table, [newest.id], [lake.write(table, ROWS.slice(0, 1))])
    snapshots = [snapshot for snapshot in kept(lake) if snapshot.id >= first.id]
    for after, until in combinations(snapshots, 2):
        assert_changes_agree(lake, reader, "t", after=after, until=until)
    before = {(after.id, until.id): feed(lake, after, until) for after, until in combinations(snapshots, 2)}
    lake.merge("t")
    for after, until in combinations(snapshots, 2):
        assert feed(lake, after, until) == before[after.id, until.id]
    assert lake.changes("t", after=snapshots[-1]).read(lake).num_rows == 0


def test_changes_replayed_give_the_next_snapshot(lake, reader):
    table = create(lake, "t", ROWS)
    start = lake.snapshot()
    append(lake, table, ROWS)
    delete_positions(lake, table, {file.id: [0, 19] for file in lake.scan(table, lake.snapshot()).files})
    reader.execute("UPDATE t SET s = 'x' WHERE i = 3")
    reader.execute("DELETE FROM t WHERE s = 'x' AND i = 3")
    rows = dict(enumerate(rows_of(lake.read("t", snapshot=start))))
    changes = lake.changes("t", after=start).read(lake).to_pylist()
    # Within a snapshot a row leaves before it comes back: that is an update.
    for change in sorted(changes, key=lambda change: (change["snapshot_id"], change["change_type"])):
        if change["change_type"] == "delete":
            del rows[change["rowid"]]
        else:
            rows[change["rowid"]] = (change["i"], change["s"])
    assert sorted(rows.values()) == sorted(rows_of(lake.read("t")))


def test_changes_have_the_columns_of_the_later_snapshot(lake, reader):
    table = create(lake, "t", ROWS)
    start = lake.snapshot()
    append(lake, table, ROWS.slice(0, 1))
    with lake.commit("alter") as commit:
        commit.drop_column(table, "s")
        commit.add_column(table, Field(name="n", type=Primitive("int32"), default="7"))
        commit.rename_column(table, "i", to="id")
    reader.execute("INSERT INTO t VALUES (50, 1)")
    end = lake.snapshot()
    assert lake.changes("t", after=start).read(lake).column_names == ["snapshot_id", "rowid", "change_type", "id", "n"]
    assert [row[3:] for row in feed(lake, start, end)] == [(0, 7), (50, 1)]
    found = reader.rows(f"SELECT * FROM ducklake_table_changes('lake', 'main', 't', {start.id + 1}, {end.id}) ORDER BY ALL")
    assert [row[3:] for row in found] == [(0, 7), (50, 1)]


def test_changes_since_an_expired_snapshot_are_not_known(lake):
    table = create(lake, "t", ROWS)
    start = lake.snapshot()
    append(lake, table, ROWS)
    with pytest.raises(InvalidValue, match="newer"):
        lake.changes("t", after=lake.snapshot(), until=start)
    lake.expire(dt.datetime.now(dt.UTC) + dt.timedelta(seconds=1))
    with pytest.raises(SnapshotExpired, match="changes"):
        lake.changes("t", after=start)


def test_rows_that_another_client_moved_are_no_changes(lake, reader):
    reader.execute("CALL lake.set_option('data_inlining_row_limit', 0)")
    reader.execute("CREATE TABLE t AS SELECT range AS i FROM range(10)")
    created = lake.snapshot()
    reader.execute("DELETE FROM t WHERE i < 5")
    deleted = lake.snapshot()
    reader.execute("CALL ducklake_rewrite_data_files('lake', 't', delete_threshold => 0)")
    moved = lake.snapshot()
    reader.execute("DELETE FROM t WHERE i = 8")
    end = lake.snapshot()
    gone = [(deleted.id, i, "delete", i) for i in range(5)]
    came = [(created.id, i, "insert", i) for i in range(10)]
    assert feed(lake, deleted, moved) == []
    assert feed(lake, deleted, end) == [(end.id, 8, "delete", 8)]
    assert feed(lake, lake.snapshot(0), end) == sorted([*came, *gone, (end.id, 8, "delete", 8)])
    # Once the snapshot that moved them is forgotten, the same values tell it.
    with lake.lease(deleted):
        lake.expire(dt.datetime.now(dt.UTC))
        assert feed(lake, deleted, end) == [(end.id, 8, "delete", 8)]


@pytest.mark.parametrize("limit", [0, 10])
def test_changes_map_columns_as_reads_do(lake, reader, limit):
    reader.execute(f"CALL lake.set_option('data_inlining_row_limit', {limit})")
    reader.execute("CREATE TABLE t (i INT, st STRUCT(a INT), l STRUCT(a INT)[], s VARCHAR)")
    start = lake.snapshot()
    reader.execute("INSERT INTO t VALUES (1, {'a': 1}, [{'a': 1}], NULL), (2, NULL, NULL, 'b')")
    reader.execute("ALTER TABLE t ADD COLUMN st.b VARCHAR")
    reader.execute("ALTER TABLE t ADD COLUMN l.element.b VARCHAR")
    reader.execute("DELETE FROM t WHERE i = 1")
    reader.execute("ALTER TABLE t ALTER s SET NOT NULL")
    reader.execute("UPDATE t SET s = 'z' WHERE i = 2")
    assert_changes_agree(lake, reader, "t", after=lake.snapshot(start.id + 4), until=lake.snapshot())
    first = [row[3:] for row in feed(lake, start, lake.snapshot()) if row[:2] == (start.id + 1, 0)]
    assert first == [(1, (("a", 1), ("b", None)), ((("a", 1), ("b", None)),), None)]
    assert lake.changes("t", after=start).read(lake).num_rows == 5
