"""Small files become few; every kept snapshot reads the same rows before and after, by us and by DuckDB."""

import datetime as dt
from itertools import pairwise

import pyarrow as pa
import pytest

from platform_plugin.errors import CommitConflict
from platform_plugin.lake.read.deletes import write_replacing_deletes
from tests.lake.agreement import append, assert_agree, assert_changes_agree, create, delete_positions, kept, rows_of

ROWS = pa.table({"i": range(10), "s": [str(number) for number in range(10)]})


def everything(lake, name="t"):
    return {snapshot.id: sorted(rows_of(lake.read(name, snapshot=snapshot)), key=str) for snapshot in kept(lake)[1:]}


def test_many_files_become_one_and_older_snapshots_stay(lake, reader):
    table = create(lake, "t", ROWS)
    for number in range(1, 6):
        append(lake, table, pa.table({"i": [10 * number], "s": ["x"]}))
    files = lake.scan(table, lake.snapshot()).files
    delete_positions(lake, table, {files[0].id: [3], files[2].id: [0]})
    delete_positions(lake, table, {files[0].id: [4]})
    before = everything(lake)
    merged = lake.merge("t")
    assert (merged.files_before, merged.files_after) == (6, 1)
    assert {snapshot_id: rows for snapshot_id, rows in everything(lake).items() if snapshot_id in before} == before
    assert_agree(lake, reader)
    assert_agree(lake, reader, snapshots=kept(lake))
    snapshots = kept(lake)
    for after, until in pairwise(snapshots[1:]):
        assert_changes_agree(lake, reader, "t", after=after, until=until)
    assert reader.rows("SELECT rowid, i FROM t WHERE i >= 10 ORDER BY 1") == [(10, 10), (12, 30), (13, 40), (14, 50)]


def test_a_second_merge_has_nothing_to_do(lake):
    table = create(lake, "t", ROWS, ROWS)
    lake.merge("t")
    before = lake.snapshot()
    assert lake.merge("t").files_before == 0
    assert lake.snapshot() == before
    append(lake, table, ROWS)
    assert lake.merge("t").files_after == 1


def test_deleted_rows_go_once_no_snapshot_has_them(lake, reader):
    table = create(lake, "t", ROWS, ROWS)
    delete_positions(lake, table, {file.id: range(8) for file in lake.scan(table, lake.snapshot()).files})
    assert lake.merge("t").rows == 20
    lake.expire(dt.datetime.now(dt.UTC) + dt.timedelta(seconds=1))
    merged = lake.merge("t")
    assert (merged.rows, merged.rows_dropped) == (4, 16)
    lake.expire(dt.datetime.now(dt.UTC) + dt.timedelta(seconds=1))
    lake.vacuum(grace=dt.timedelta(0))
    assert len([path for path, _ in lake.storage.listing() if path.endswith(".parquet")]) == 1
    assert_agree(lake, reader)
    assert reader.rows("SELECT count(*) FROM t") == [(4,)]


def test_partitions_and_full_files_stay_apart(lake, reader):
    rows = pa.table({"region": ["eu"], "v": [1]})
    from platform_plugin.lake.files.files import with_partition

    with lake.commit("create") as commit:
        table = commit.create_table("t", lake.columns_of(rows), partition_by=[("region", "identity")])
        commit.append(
            table,
            [
                with_partition(lake.write(table, rows.set_column(0, "region", pa.array([region]))), [region])
                for region in ("eu", "us", "eu", "us", "xx")
            ],
        )
    assert (lake.merge("t").files_before, len(lake.scan(lake.table("t"), lake.snapshot()).files)) == (4, 3)
    assert_agree(lake, reader, snapshots=kept(lake))
    assert reader.rows("SELECT count(*) FROM t WHERE region = 'eu'") == [(2,)]
    plain = create(lake, "p", ROWS, ROWS, ROWS)
    size = lake.scan(plain, lake.snapshot()).files[0].size_bytes
    assert lake.merge("p", target_bytes=size).files_before == 0
    assert lake.merge("p", target_bytes=size * 2 + size // 2).files_after == 1


def test_inlined_rows_move_to_a_file(lake, reader):
    reader.execute("CREATE TABLE t (i INT, s VARCHAR)")
    for number in range(5):
        reader.execute(f"INSERT INTO t VALUES ({number}, 'it''s')")
    reader.execute("DELETE FROM t WHERE i = 2")
    reader.execute("UPDATE t SET s = 'new' WHERE i = 3")
    before = everything(lake)
    merged = lake.merge("t")
    assert merged.inlined_rows == 6
    assert lake.scan(lake.table("t"), lake.snapshot()).inlined == ()
    assert {snapshot_id: rows for snapshot_id, rows in everything(lake).items() if snapshot_id in before} == before
    assert_agree(lake, reader, snapshots=kept(lake))
    reader.execute("DELETE FROM t WHERE i = 4")
    assert_agree(lake, reader)


@pytest.mark.parametrize("whose", ["ours", "theirs"])
def test_a_delete_during_the_merge_is_a_conflict_and_both_can_go_on(lake, reader, monkeypatch, whose):
    from platform_plugin.lake.upkeep import merge as merge_module

    table = create(lake, "t", ROWS, ROWS)
    plan = merge_module.find_groups
    file = lake.scan(table, lake.snapshot()).files[0]

    def delete_meanwhile(*arguments, **options):
        groups = plan(*arguments, **options)
        if whose == "ours":
            delete_positions(lake, table, {file.id: [0]})
        else:
            reader.execute("DELETE FROM t WHERE i = 0")
        return groups

    monkeypatch.setattr(merge_module, "find_groups", delete_meanwhile)
    with pytest.raises(CommitConflict, match="deleted"):
        lake.merge("t")
    monkeypatch.undo()
    assert lake.merge("t").files_before == 2
    assert sorted(row[0] for row in rows_of(lake.read("t"))).count(0) == (1 if whose == "ours" else 0)
    assert_agree(lake, reader, snapshots=kept(lake))


def test_a_delete_planned_before_the_merge_is_a_conflict(lake):
    table = create(lake, "t", ROWS, ROWS)
    base = lake.snapshot()
    scan = lake.scan(table, base)
    deletes = write_replacing_deletes(lake, scan, {scan.files[0].id: [0]})
    lake.merge("t")
    with pytest.raises(CommitConflict, match="removed or merged") as conflict, lake.commit("late", base=base) as commit:
        commit.delete(table, deletes)
    assert '"late"' in conflict.value.message


def test_appends_and_alterations_during_the_merge_are_kept(lake, reader, monkeypatch):
    from platform_plugin.lake.upkeep import merge as merge_module

    table = create(lake, "t", ROWS, ROWS)
    plan = merge_module.find_groups

    def append_meanwhile(*arguments, **options):
        groups = plan(*arguments, **options)
        append(lake, table, ROWS)
        reader.execute("INSERT INTO t VALUES (99, 'inlined')")
        reader.execute("ALTER TABLE t RENAME COLUMN s TO text")
        return groups

    monkeypatch.setattr(merge_module, "find_groups", append_meanwhile)
    lake.merge("t")
    assert lake.read("t").num_rows == 31
    assert_agree(lake, reader)
    assert_agree(lake, reader, snapshots=kept(lake))
