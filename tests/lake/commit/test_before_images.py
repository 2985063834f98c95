"""Before-images are named with the commit that ends their rows, and go when no feed can need them."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest
import sqlalchemy as sa

from platform_plugin.algebra.types.data_types import Field, Primitive
from platform_plugin.errors import CommitConflict, InvalidValue
from platform_plugin.lake.commit.before_images import GONE
from platform_plugin.lake.read.before_images import has_before_images
from platform_plugin.lake.read.deletes import write_replacing_deletes
from tests.lake.agreement import append, assert_agree, assert_changes_agree, create
from tests.lake.changing import end_rows, places_of

ROWS = pa.table({"id": range(100), "s": [str(number) for number in range(100)]})
NOW = dt.timedelta(0)


def named(lake):
    with lake.reading() as connection:
        if not sa.inspect(connection).has_table(GONE.name):
            return []
        return connection.execute(sa.select(GONE.c.snapshot_id, GONE.c.row_count).order_by(GONE.c.snapshot_id, GONE.c.row_count)).all()


def image_files(lake):
    return sorted(path for path, _ in lake.storage.listing() if path.endswith("-gone.parquet"))


def delete(lake, scan, deletes, images, *emptied):
    with lake.commit("delete", base=scan.snapshot) as commit:
        commit.delete(scan.table, deletes)
        commit.remove(scan.table, emptied)
        commit.keep_before_images(scan.table, images)


def expire(lake):
    return lake.expire(dt.datetime.now(dt.UTC) + dt.timedelta(seconds=1))


def test_rows_that_a_commit_ends_are_kept_as_they_were(lake, reader):
    table = create(lake, "t", ROWS)
    reader.execute("INSERT INTO t VALUES (200, 'inlined'), (201, 'inlined')")
    start = lake.snapshot()
    first = end_rows(lake, table, [1, 50], images=True)
    second = end_rows(lake, table, [2], images=True, new={"s": "new"})
    assert named(lake) == [(first.id, 2), (second.id, 1)]
    scan = lake.scan(table, lake.snapshot())
    with lake.commit("delete inlined", base=scan.snapshot) as commit:
        commit.delete_inlined(table, [100])
        commit.keep_before_images(table, lake.write_before_images(scan, {}, inlined=[100]))
    assert named(lake)[-1] == (commit.made.id, 1)
    for after in (start, first, second):
        assert_changes_agree(lake, reader, "t", after=after, until=lake.snapshot())
    assert_agree(lake, reader)


def test_all_rows_of_a_commit_have_before_images_or_none(lake):
    table = create(lake, "t", ROWS, ROWS)
    scan = lake.scan(table, lake.snapshot())
    deletes = write_replacing_deletes(lake, scan, {file.id: [3] for file in scan.files})
    some = lake.write_before_images(scan, {scan.files[0].id: [3]})
    with pytest.raises(InvalidValue, match="have 1 of the 2 rows that the commit ends"):
        delete(lake, scan, deletes, some)
    first, second = (file.id for file in scan.files)
    with pytest.raises(InvalidValue, match="have 1 of the 101 rows that the commit ends"):
        delete(lake, scan, {first: deletes[first]}, lake.write_before_images(scan, {first: [3]}), second)
    assert named(lake) == []
    delete(lake, scan, deletes, [])
    # A file that loses all that an earlier commit left of it.
    scan = lake.scan(table, lake.snapshot())
    rest = {scan.files[0].id: [position for position in range(100) if position != 3]}
    with lake.commit("delete the rest", base=scan.snapshot) as commit:
        commit.replace(table, [scan.files[0].id], [])
        commit.keep_before_images(table, lake.write_before_images(scan, rest))
    assert named(lake) == [(commit.made.id, 99)]


def test_a_refused_commit_leaves_no_before_images(lake):
    table = create(lake, "t", ROWS)
    scan = lake.scan(table, lake.snapshot())
    places = places_of(lake, scan, [7])
    images = lake.write_before_images(scan, places)
    deletes = write_replacing_deletes(lake, scan, places)
    end_rows(lake, table, [8], images=True)
    with pytest.raises(CommitConflict):
        delete(lake, scan, deletes, images)
    assert len(named(lake)) == 1
    lake.discard([*images, *deletes.values()])
    assert len(image_files(lake)) == 1
    # What the catalogue names is never discarded.
    with lake.reading() as connection:
        path = connection.execute(sa.select(GONE.c.path)).scalar_one()
    lake.discard([type(images[0])(path=path, row_count=1, size_bytes=1)])
    assert image_files(lake) == [path]


def test_before_images_go_with_the_snapshots_that_feeds_begin_at(lake):
    table = create(lake, "t", ROWS)
    held = lake.snapshot()
    first = end_rows(lake, table, [1], images=True)
    second = end_rows(lake, table, [2], images=True)
    assert lake.vacuum(grace=NOW).orphans == 0
    with lake.lease(held):
        expire(lake)
        # Only the feed from the leased snapshot is left, and of its commits the first.
        assert [number for number, _ in named(lake)] == [first.id]
        changes = lake.net_changes("t", after=held)
        assert sorted(changes.read(lake)[0].rows.column("id").to_pylist()) == [1, 2]
    expire(lake)
    assert named(lake) == []
    assert len(image_files(lake)) == 2
    lake.vacuum(grace=NOW)
    assert image_files(lake) == []
    assert second.id == lake.snapshot().id


def test_before_images_of_a_dropped_table_go_too(lake):
    table = create(lake, "t", ROWS)
    start = lake.snapshot()
    end_rows(lake, table, [1], images=True)
    before = lake.snapshot()
    with lake.commit("drop") as commit:
        commit.drop_table(lake.table("t"))
    assert len(lake.net_changes("t", after=start, until=before).read(lake)[0].row_ids) == 1
    expire(lake)
    lake.vacuum(grace=NOW)
    assert (named(lake), image_files(lake)) == ([], [])


def test_orphans_of_a_killed_writer_are_vacuumed(lake):
    table = create(lake, "t", ROWS)
    end_rows(lake, table, [3], images=True)
    scan = lake.scan(table, lake.snapshot())
    lake.write_before_images(scan, {scan.files[0].id: [1]})
    assert len(image_files(lake)) == 2
    assert lake.vacuum(grace=NOW).orphans == 1
    assert len(image_files(lake)) == 1


def test_a_table_with_a_type_that_arrow_lacks_has_none(lake):
    with lake.commit("create") as commit:
        table = commit.create_table("t", (Field(name="id", type=Primitive("int64")), Field(name="i", type=Primitive("interval"))))
        plain = commit.create_table("plain", (Field(name="id", type=Primitive("int64")),))
    assert not has_before_images(table)
    assert has_before_images(plain)


def test_appends_need_no_table_of_before_images(lake):
    table = create(lake, "t", ROWS)
    append(lake, table, ROWS)
    assert lake.net_changes("t", after=lake.snapshot(0)).row_count == 200
