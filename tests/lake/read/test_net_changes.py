"""Net changes are what DuckDB's rows of two snapshots differ by, whoever changed the table and however, and cost what is different."""

from __future__ import annotations

import datetime as dt
from itertools import combinations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from platform_plugin.algebra.predicates.conditions import compare
from platform_plugin.algebra.predicates.ranges import between, points
from platform_plugin.algebra.types.data_types import Field, Primitive
from platform_plugin.errors import InvalidValue, SnapshotExpired
from platform_plugin.lake.files.storage import Storage
from platform_plugin.lake.lake import Lake
from platform_plugin.lake.read import net_changes
from tests.lake.agreement import append, create, kept
from tests.lake.changing import difference, end_rows, rows_by_id

FAR = 1 << 40


def batch(first, count):
    ids = range(first, first + count)
    return pa.table({"id": pa.array(ids, pa.int64()), "n": pa.array([i % 3 for i in ids], pa.int32()), "s": [f"s{i}" for i in ids]})


def net(lake, after, until, **options):
    columns = options.pop("columns", None)
    went, came = lake.net_changes("t", after=after, until=until, **options).read(lake, columns=columns)
    rows = [
        (row_id, weight, *row)
        for part, weight in ((went, -1), (came, 1))
        for row_id, row in zip(part.row_ids.tolist(), zip(*(column.to_pylist() for column in part.rows.columns), strict=True), strict=True)
    ]
    return sorted(rows, key=repr)


def assert_net(lake, reader, after, until):
    """By whichever files: a few rows are read from the data files, unless to open another one costs nothing."""
    expected = difference(rows_by_id(reader, "t", after.id), rows_by_id(reader, "t", until.id))
    assert net(lake, after, until) == expected, (after.id, until.id)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(net_changes, "ROWS_OF_OPENING", -FAR)
        assert net(lake, after, until) == expected, (after.id, until.id, "by before-images")


def test_each_kind_of_change_between_any_two_snapshots(lake, reader):
    reader.execute("CALL lake.set_option('data_inlining_row_limit', 5)")
    table = create(lake, "t", batch(0, 40))
    first = lake.snapshot()
    end_rows(lake, table, [1, 2], images=True)
    append(lake, table, batch(100, 5))
    end_rows(lake, table, [3, 101], images=True, new={"n": 50})
    reader.execute("INSERT INTO t VALUES (200, 0, 'inlined')")
    reader.execute("DELETE FROM t WHERE id IN (5, 200)")
    reader.execute("UPDATE t SET s = 'changed' WHERE id BETWEEN 7 AND 9")
    end_rows(lake, table, [3, 9, 10], images=True, new={"s": "again"})
    end_rows(lake, table, [10, 11], images=False)
    end_rows(lake, table, [12], images=True, new={"n": 12 % 3})
    lake.merge("t")
    end_rows(lake, table, [13, 3], images=True)
    reader.execute("DELETE FROM t WHERE id > 30")
    snapshots = [snapshot for snapshot in kept(lake) if snapshot.id >= first.id]
    for after, until in combinations(snapshots, 2):
        assert_net(lake, reader, after, until)
    # The update that changed nothing, and the merge, are no changes.
    before = {(after.id, until.id): net(lake, after, until) for after, until in combinations(snapshots, 2)}
    lake.merge("t")
    for after, until in combinations(snapshots, 2):
        assert net(lake, after, until) == before[after.id, until.id]


OPERATIONS = st.sampled_from(
    [
        "append",
        "delete",
        "delete plainly",
        "update",
        "update plainly",
        "restore",
        "merge",
        "duck insert",
        "duck delete",
        "duck update",
        "expire",
    ]
)


@pytest.mark.slow
@settings(max_examples=25)
@given(steps=st.lists(st.tuples(OPERATIONS, st.integers(0, 30), st.integers(1, 9)), min_size=2, max_size=12), data=st.data())
def test_any_history_gives_the_difference_of_its_ends(steps, data, tmp_path_factory, duck_process):
    url = f"platform+local://{tmp_path_factory.mktemp('history')}/lake"
    with Lake.create(url) as lake:
        reader = duck_process.attach(url)
        try:
            check_history(lake, reader, steps, data)
        finally:
            reader.close()


def check_history(lake, reader, steps, data):
    reader.execute("CALL lake.set_option('data_inlining_row_limit', 3)")
    table = create(lake, "t", batch(0, 30))
    created, following = lake.snapshot(), 1000
    for operation, first, count in steps:
        ids = list(range(first, first + count)) + [1000 + i for i in range(first % 7)]
        listed = ", ".join(map(str, ids))
        match operation:
            case "append":
                append(lake, table, batch(following, count))
                following += count
            case "delete":
                end_rows(lake, table, ids, images=True)
            case "delete plainly":
                end_rows(lake, table, ids, images=False)
            case "update":
                end_rows(lake, table, ids, images=True, new={"n": count})
            case "update plainly":
                end_rows(lake, table, ids, images=False, new={"s": f"x{count}"})
            case "restore":
                end_rows(lake, table, ids[:1], images=True, new={"n": ids[0] % 3, "s": f"s{ids[0]}"})
            case "merge":
                lake.merge("t")
            case "duck insert":
                values = ", ".join(f"({following + i}, 0, 'd')" for i in range(count))
                reader.execute(f"INSERT INTO t VALUES {values}")
                following += count
            case "duck delete":
                reader.execute(f"DELETE FROM t WHERE id IN ({listed})")
            case "duck update":
                reader.execute(f"UPDATE t SET n = {count} WHERE id IN ({listed})")
            case "expire":
                # Some in the middle go, and some stay under lease.
                held = [snapshot for snapshot in kept(lake) if snapshot.id % 3 == first % 3 or snapshot.id == created.id]
                leases = [lake.lease(snapshot) for snapshot in held]
                lake.expire(dt.datetime.now(dt.UTC))
                for lease in leases:
                    lease.release()
    snapshots = [snapshot for snapshot in kept(lake) if snapshot.id >= created.id]
    pairs = list(combinations(snapshots, 2))
    for after, until in data.draw(st.lists(st.sampled_from(pairs), min_size=1, max_size=6, unique=True)) if pairs else ():
        assert_net(lake, reader, after, until)


def test_columns_and_conditions_are_pushed_down(lake):
    table = create(lake, "t", batch(0, 30))
    start = lake.snapshot()
    end_rows(lake, table, [1, 4], images=True, new={"n": 9})
    end_rows(lake, table, [2], images=True, new={"s": "other"})
    end = lake.snapshot()
    assert net(lake, start, end, columns=["n"]) == [(1, -1, 1), (1, 1, 9), (4, -1, 1), (4, 1, 9)]
    assert net(lake, start, end, columns=["S"]) == [(2, -1, "s2"), (2, 1, "other")]
    assert net(lake, start, end, columns=[]) == []
    # What goes over the edge of a condition comes or goes.
    assert net(lake, start, end, columns=["id"], where=compare("n", ">", 5)) == [(1, 1, 1), (4, 1, 4)]
    assert net(lake, start, end, columns=["id"], where=compare("n", "<", 5)) == [(1, -1, 1), (4, -1, 4)]
    assert net(lake, start, end, columns=["id"], where=compare("id", "=", 4)) == []
    assert net(lake, start, end, columns=["id"], where=compare("id", "=", 4).inexact()) == []
    # A condition that is tested again needs both rows where they differ in its columns.
    assert net(lake, start, end, columns=["id"], where=compare("n", ">", -1).inexact()) == [(1, -1, 1), (1, 1, 1), (4, -1, 4), (4, 1, 4)]


def test_row_ids_leave_out_the_files_that_have_none_of_them(lake):
    table = create(lake, "t", batch(0, 30))
    start = lake.snapshot()
    for first in (30, 40, 50):
        append(lake, table, batch(first, 10))
    end_rows(lake, table, [3, 31], images=False, new={"n": 9})
    end_rows(lake, table, [45], images=False)
    whole, steps = lake.net_changes("t", after=start), lake.changes("t", after=start)
    for row_ids in (between(40, 44), between(3, 3), between(30, 39) | between(55, 55), points([1000])):
        part = whole.within(lake, row_ids)
        assert len(part.added) + len(part.losing) < len(whole.added) + len(whole.losing)
        expected, found = (
            [
                [
                    (row_id, row["n"])
                    for row_id, row in zip(side.row_ids.tolist(), side.rows.to_pylist(), strict=True)
                    if row_ids.contains(row_id)
                ]
                for side in each.read(lake)
            ]
            for each in (whole, part)
        )
        assert found == expected
        every, some = (
            [row for row in each.read(lake).to_pylist() if row_ids.contains(row["rowid"])] for each in (steps, steps.within(lake, row_ids))
        )
        assert some == every
    # The file of the update has ids of its own, of which the catalogue tells nothing.
    assert len(whole.within(lake, points([1000])).added) == 1


def test_a_few_deletes_cost_before_images_and_not_data_files(lake, monkeypatch):
    table = create(lake, "t", batch(0, 20_000))
    start = lake.snapshot()
    end_rows(lake, table, range(0, 20_000, 2_000), images=True)
    changes = lake.net_changes("t", after=start)
    assert changes.losing == ()
    assert [file.row_count for file in changes.images] == [10]
    assert changes.row_count == 10
    opened = []
    original = Storage.open_arrow
    monkeypatch.setattr(Storage, "open_arrow", lambda self, path: opened.append(path) or original(self, path))
    went, came = changes.read(lake, columns=["id"])
    assert went.rows.column("id").to_pylist() == list(range(0, 20_000, 2_000))
    assert len(came.row_ids) == 0
    assert [path.endswith("-gone.parquet") for path in opened] == [True]


def test_before_images_that_are_missing_cost_time_and_no_answer(lake, reader):
    table = create(lake, "t", batch(0, 20_000))
    start = lake.snapshot()
    end_rows(lake, table, [5, 600], images=True)
    end_rows(lake, table, [700], images=True, new={"n": 8})
    changes = lake.net_changes("t", after=start)
    assert len(changes.images) == 2
    lake.storage.delete(file.path for file in changes.images)
    assert_net(lake, reader, start, lake.snapshot())
    steps = lake.changes("t", after=start).read(lake)
    assert sorted(zip(steps["rowid"].to_pylist(), steps["change_type"].to_pylist(), strict=True)) == [
        (5, "delete"),
        (600, "delete"),
        (700, "delete"),
        (700, "insert"),
    ]


def test_columns_altered_since_are_as_the_newer_snapshot_has_them(lake, reader):
    table = create(lake, "t", batch(0, 3000))
    start = lake.snapshot()
    end_rows(lake, table, [1], images=True)
    with lake.commit("alter") as commit:
        commit.drop_column(table, "s")
        commit.add_column(table, Field(name="m", type=Primitive("int32"), default="7"))
        commit.widen_column(table, "n", to=Primitive("int64"))
        commit.rename_column(table, "n", to="k")
    middle = lake.snapshot()
    end_rows(lake, table, [2], images=True, new={"k": 1 << 40})
    end = lake.snapshot()
    assert net(lake, start, end) == [(1, -1, 1, 1, 7), (2, -1, 2, 2, 7), (2, 1, 2, 1 << 40, 7)]
    assert net(lake, middle, end) == [(2, -1, 2, 2, 7), (2, 1, 2, 1 << 40, 7)]
    with lake.commit("rename") as commit:
        commit.rename_table(lake.table("t"), "u")
    assert len(lake.net_changes("u", after=start).read(lake)[0].row_ids) == 2


def test_a_range_must_begin_at_a_snapshot_that_is_kept(lake):
    table = create(lake, "t", batch(0, 3))
    start = lake.snapshot()
    append(lake, table, batch(3, 1))
    assert lake.net_changes("t", after=lake.snapshot()).is_empty
    with pytest.raises(InvalidValue, match="newer"):
        lake.net_changes("t", after=lake.snapshot(), until=start)
    lake.expire(dt.datetime.now(dt.UTC) + dt.timedelta(seconds=1))
    with pytest.raises(SnapshotExpired, match="changes"):
        lake.net_changes("t", after=start)


def test_appended_files_are_known_as_such(lake):
    table = create(lake, "t", batch(0, 3))
    start = lake.snapshot()
    append(lake, table, batch(3, 2), batch(5, 2))
    changes = lake.net_changes("t", after=start)
    assert changes.is_append_only
    assert [file.record_count for file in changes.whole_files or ()] == [2, 2]
    end_rows(lake, table, [4], images=True)
    later = lake.net_changes("t", after=start)
    assert later.is_append_only
    assert later.whole_files is None
    assert [row[2] for row in net(lake, start, lake.snapshot())] == [3, 5, 6]
