"""Files that nobody can need are deleted, and no other."""

import datetime as dt
import os
from pathlib import Path

import pyarrow as pa
import pytest

from tests.lake.agreement import append, assert_agree, create, kept

ROWS = pa.table({"i": range(10)})
NO_GRACE = dt.timedelta(0)


def later():
    return dt.datetime.now(dt.UTC) + dt.timedelta(seconds=1)


def parquet(lake):
    return {path for path, _ in lake.storage.listing() if path.endswith(".parquet")}


@pytest.fixture
def removed(lake):
    """A table whose first file only an older snapshot has."""
    table = create(lake, "t", ROWS, ROWS)
    with lake.commit("remove") as commit:
        commit.remove(table, [lake.scan(table, lake.snapshot()).files[0].id])
    return table


def test_files_of_kept_snapshots_stay(lake, reader, removed):
    assert lake.vacuum(grace=NO_GRACE).scheduled == 0
    assert len(parquet(lake)) == 2
    assert_agree(lake, reader, snapshots=kept(lake))


def test_files_of_expired_snapshots_go_after_the_grace(lake, reader, removed):
    lake.expire(later())
    kept_back = lake.vacuum()
    assert (kept_back.scheduled, kept_back.kept, kept_back.leased, len(parquet(lake))) == (0, 1, 0, 2)
    tried = lake.vacuum(grace=NO_GRACE, dry_run=True)
    assert (tried.scheduled, len(parquet(lake))) == (1, 2)
    done = lake.vacuum(grace=NO_GRACE)
    assert (done.scheduled, done.bytes > 0, len(parquet(lake))) == (1, True, 1)
    assert lake.vacuum(grace=NO_GRACE).scheduled == 0
    assert_agree(lake, reader)


def test_orphans_go_by_age_and_nothing_else_is_touched(lake, reader, removed):
    lake.write(removed, ROWS)
    root = Path(lake.storage.absolute(""))
    for name in ("main/t/_temporary/0/part.parquet", "main/t/x.parquet.crc", "main/t/notes.txt", "README.md"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"left over")
    left = lake.vacuum()
    assert (left.orphans, left.young, left.unknown, left.is_listed) == (0, 3, 2, True)
    old = dt.datetime.now().timestamp() - 3 * 86_400  # noqa: DTZ005
    for path, _ in lake.storage.listing():
        os.utime(root / path, (old, old))
    done = lake.vacuum()
    assert (done.orphans, done.young, done.unknown) == (3, 0, 2)
    assert len(parquet(lake)) == 2
    assert (root / "main/t/notes.txt").exists()
    assert (root / "README.md").exists()
    assert_agree(lake, reader, snapshots=kept(lake))


def test_files_that_duckdb_wrote_are_no_orphans(lake, reader):
    reader.execute("CALL lake.set_option('data_inlining_row_limit', 0)")
    reader.execute("CREATE TABLE t AS SELECT range AS i FROM range(100)")
    reader.execute("ALTER TABLE t SET PARTITIONED BY (i)")
    reader.execute("INSERT INTO t SELECT range FROM range(5)")
    reader.execute("DELETE FROM t WHERE i > 50")
    assert lake.vacuum(grace=NO_GRACE).orphans == 0
    assert_agree(lake, reader, snapshots=kept(lake))


def test_a_lease_keeps_what_it_reads(lake, reader, removed):
    old = lake.snapshot(1)
    with lake.lease(old):
        assert lake.expire(later()).leased == 1
        lake.vacuum(grace=NO_GRACE)
        assert lake.read("t", snapshot=old).num_rows == 20
        assert_agree(lake, reader, snapshots=kept(lake))
    lake.expire(later())
    lake.vacuum(grace=NO_GRACE)
    assert len(parquet(lake)) == 1
    append(lake, removed, ROWS)
    assert_agree(lake, reader)
