"""A lease keeps its snapshot, until it is released or runs out."""

import datetime as dt

import pyarrow as pa
import pytest
import sqlalchemy as sa

from platform_plugin.errors import SnapshotExpired
from platform_plugin.lake.catalogue import catalogue as c
from platform_plugin.lake.lake import Lake
from platform_plugin.lake.read.read import read_rows
from tests.lake.agreement import append, create, rows_of

ROWS = pa.table({"i": [1]})


def later():
    return dt.datetime.now(dt.UTC) + dt.timedelta(seconds=1)


@pytest.fixture
def old(lake):
    table = create(lake, "t", ROWS)
    snapshot = lake.snapshot()
    append(lake, table, ROWS)
    return snapshot


def test_leased_snapshots_outlive_expiry(lake, old):
    with lake.lease(old, holder="a test") as lease:
        assert lake.expire(later()).leased == 1
        assert rows_of(lake.read("t", snapshot=lease.snapshot)) == [(1,)]
    lake.expire(later())
    with pytest.raises(SnapshotExpired):
        lake.read("t", snapshot=old)


def test_two_leases_on_one_snapshot_both_count(lake, old):
    first, second = lake.lease(old), lake.lease(old)
    first.release()
    first.release()
    lake.expire(later())
    assert lake.read("t", snapshot=old).num_rows == 1
    second.release()
    lake.expire(later())
    with pytest.raises(SnapshotExpired):
        lake.read("t", snapshot=old)


def test_a_lease_that_ran_out_no_longer_counts(lake, old):
    lease = lake.lease(old, duration=dt.timedelta(seconds=-1))
    lake.expire(later())
    with pytest.raises(SnapshotExpired):
        lake.read("t", snapshot=old)
    with pytest.raises(SnapshotExpired):
        lease.renew()
    with pytest.raises(SnapshotExpired):
        lake.lease(old)


def test_a_renewed_lease_counts_on(lake, old):
    lease = lake.lease(old, duration=dt.timedelta(seconds=-1))
    lease.renew()
    lake.expire(later())
    assert lake.read("t", snapshot=old).num_rows == 1


def test_a_lease_that_is_renewed_late_still_keeps_files_that_were_merged_meanwhile(lake, old):
    append(lake, lake.table("t"), ROWS)
    lease = lake.lease(duration=dt.timedelta(seconds=-1))
    scan = lake.scan(lake.table("t"), lease.snapshot)
    lake.merge("t")
    assert lake.vacuum(grace=dt.timedelta(days=1)).kept == 3
    lease.renew()
    lake.vacuum(grace=dt.timedelta(0))
    assert read_rows(lake, scan).num_rows == 3
    lease.release()
    lake.vacuum(grace=dt.timedelta(0))
    with pytest.raises(SnapshotExpired):
        read_rows(lake, scan)


def test_a_lease_without_a_snapshot_takes_the_newest(lake, old):
    with lake.lease() as lease:
        assert lease.snapshot.id == old.id + 1
        with lake.reading() as connection:
            assert connection.execute(sa.select(sa.func.count()).select_from(c.PLATFORM_LEASE)).scalar() == 1
    with lake.reading() as connection:
        assert connection.execute(sa.select(sa.func.count()).select_from(c.PLATFORM_LEASE)).scalar() == 0


def test_commits_wait_for_the_disk_and_leases_do_not(tmp_path):
    with Lake.create(f"platform+local://{tmp_path}/lake") as lake:
        for shared, level in ((False, 2), (True, 1), (False, 2)):
            with lake.writing(shared=shared) as connection:
                assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == level
