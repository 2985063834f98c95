"""Rows leave by position, files leave whole; older snapshots keep both."""

import pyarrow as pa
import pytest

from platform_plugin.errors import CommitConflict
from platform_plugin.lake.read.deletes import write_replacing_deletes
from tests.lake.agreement import append, assert_agree, assert_changes_agree, create, delete_positions, kept, rows_of

ROWS = pa.table({"i": range(10), "s": [str(number) for number in range(10)]})


def file_ids(lake, table):
    return [file.id for file in lake.scan(table, lake.snapshot()).files]


def test_positions_leave_and_older_snapshots_keep_them(lake, reader):
    table = create(lake, "t", ROWS, ROWS)
    first, second = file_ids(lake, table)
    delete_positions(lake, table, {first: [0, 9, 9], second: [5]})
    delete_positions(lake, table, {first: [3]})
    delete_positions(lake, table, {second: list(range(10))})
    assert sorted(row[0] for row in rows_of(lake.read("t"))) == [1, 2, 4, 5, 6, 7, 8]
    assert_agree(lake, reader)
    assert_agree(lake, reader, snapshots=kept(lake))
    snapshots = kept(lake)
    for number in range(1, len(snapshots) - 1):
        assert_changes_agree(lake, reader, "t", after=snapshots[number], until=snapshots[number + 1])
    assert_changes_agree(lake, reader, "t", after=snapshots[1], until=snapshots[-1])


def test_files_leave_whole(lake, reader):
    table = create(lake, "t", ROWS, ROWS, ROWS)
    first, second, third = file_ids(lake, table)
    delete_positions(lake, table, {first: [1]})
    with lake.commit("remove") as commit:
        commit.remove(table, [first, third])
    assert file_ids(lake, table) == [second]
    assert_agree(lake, reader)
    assert_agree(lake, reader, snapshots=kept(lake))
    assert_changes_agree(lake, reader, "t", after=lake.snapshot(2), until=lake.snapshot(3))


def test_files_are_replaced(lake, reader):
    table = create(lake, "t", ROWS, ROWS)
    with lake.commit("replace") as commit:
        commit.replace(table, file_ids(lake, table), [lake.write(table, ROWS.slice(0, 2))])
    assert lake.read("t").num_rows == 2
    assert_agree(lake, reader, snapshots=kept(lake))


def test_a_delete_of_another_commit_meanwhile_is_a_conflict_that_names_both(lake):
    table = create(lake, "t", ROWS)
    (file,) = file_ids(lake, table)
    base = lake.snapshot()
    scan = lake.scan(table, base)
    delete_positions(lake, table, {file: [1]})
    for do in (
        lambda commit: commit.delete(table, write_replacing_deletes(lake, scan, {file: [2]})),
        lambda commit: commit.replace(table, [file], [lake.write(table, ROWS)]),
    ):
        with pytest.raises(CommitConflict) as conflict, lake.commit("mine", base=base) as commit:
            do(commit)
        assert '"mine"' in conflict.value.message
        assert '"delete"' in conflict.value.detail
    # Whole files leave, whatever was deleted from them: retention removes what is old.
    with lake.commit("retention", base=base) as commit:
        commit.remove(table, [file])
    assert lake.read("t").num_rows == 0


def test_a_delete_by_duckdb_meanwhile_is_a_conflict(lake, reader):
    table = create(lake, "t", ROWS)
    (file,) = file_ids(lake, table)
    base = lake.snapshot()
    scan = lake.scan(table, base)
    reader.execute("DELETE FROM t WHERE i = 3")
    with pytest.raises(CommitConflict, match="deleted"), lake.commit("mine", base=base) as commit:
        commit.delete(table, write_replacing_deletes(lake, scan, {file: [2]}))


def test_appends_meanwhile_are_no_conflict(lake, reader):
    table = create(lake, "t", ROWS)
    (file,) = file_ids(lake, table)
    base = lake.snapshot()
    append(lake, table, ROWS)
    reader.execute("INSERT INTO t VALUES (99, 'inlined')")
    with lake.commit("delete", base=base) as commit:
        commit.delete(table, write_replacing_deletes(lake, lake.scan(table, base), {file: [2]}))
    assert lake.read("t").num_rows == 20
    assert_agree(lake, reader)


def test_inlined_rows_leave_by_their_ids(lake, reader):
    reader.execute("CREATE TABLE t (i INT)")
    reader.execute("INSERT INTO t VALUES (1), (2), (3)")
    table = lake.table("t")
    with lake.commit("delete inlined") as commit:
        commit.delete_inlined(table, [0, 2])
    assert rows_of(lake.read("t")) == [(2,)]
    assert_agree(lake, reader, snapshots=kept(lake))
    with pytest.raises(CommitConflict, match="moved to a file"), lake.commit("again") as commit:
        commit.delete_inlined(table, [0])


def test_a_table_without_rows_left(lake, reader):
    table = create(lake, "t", ROWS)
    delete_positions(lake, table, {file_ids(lake, table)[0]: range(10)})
    assert lake.read("t").num_rows == 0
    assert_agree(lake, reader)
    reader.execute("INSERT INTO t VALUES (1, 'again')")
    assert_agree(lake, reader, snapshots=kept(lake))
