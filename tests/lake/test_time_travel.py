"""Every read names one snapshot, by its id or by a time; snapshots only grow, whatever the clock does."""

import datetime as dt

import pyarrow as pa
import pytest

from platform_plugin.errors import SnapshotExpired, UnknownObject
from platform_plugin.lake.commit import commit as commit_module
from tests.lake.agreement import append, assert_agree, create, kept, rows_of, theirs

SECOND = dt.timedelta(seconds=1)


class Clock:
    """A clock that goes where it is told; everything else of `datetime` stays."""

    def __init__(self, now):
        self.at = now

    def now(self, zone):
        return self.at.astimezone(zone)


@pytest.fixture
def clock(lake, monkeypatch):
    made = Clock(lake.snapshot().time)
    monkeypatch.setattr(commit_module, "datetime", made)
    return made


def number(lake, value):
    return append(lake, lake.table("t"), pa.table({"i": [value]}))


def test_snapshots_grow_by_one_and_time_never_goes_back(lake, clock, reader):
    create(lake, "t", pa.table({"i": [0]}))
    for step, change in enumerate([SECOND, -3600 * SECOND, 0 * SECOND, 7200 * SECOND, -SECOND], start=1):
        clock.at += change
        assert number(lake, step).id == step + 1
    records = lake.commits()
    assert [record.id for record in records] == list(range(7))
    assert [record.time for record in records] == sorted({record.time for record in records})
    # DuckDB's clock is the real one, and so may be behind ours: its snapshot still comes after.
    reader.execute("INSERT INTO t VALUES (9)")
    assert lake.snapshot().id == 7
    assert sorted(rows_of(lake.read("t"))) == [(value,) for value in [0, 1, 2, 3, 4, 5, 9]]


def test_time_travel_by_time_when_clocks_went_back(lake, clock):
    create(lake, "t", pa.table({"i": [0]}))
    start = clock.at
    clock.at = start + 100 * SECOND
    late = number(lake, 1)
    clock.at = start + 50 * SECOND
    later = number(lake, 2)
    assert lake.snapshot(at=start + 99 * SECOND).id == late.id - 1
    assert late.time < later.time < start + 101 * SECOND
    assert lake.snapshot(at=late.time).id == late.id
    assert lake.snapshot(at=later.time).id == later.id
    assert lake.snapshot(at=start + 1000 * SECOND).id == later.id


@pytest.mark.parametrize("fraction", [0, 1, 100_000, 120_000, 123_450, 999_999])
def test_fractions_of_a_second_compare_as_times(lake, clock, fraction):
    """SQLite keeps times as text."""
    create(lake, "t", pa.table({"i": [0]}))
    clock.at = clock.at.replace(microsecond=fraction) + 10 * SECOND
    snapshot = number(lake, 1)
    tick = dt.timedelta(microseconds=1)
    assert lake.snapshot(at=clock.at).id == snapshot.id
    assert lake.snapshot(at=clock.at + tick).id == snapshot.id
    assert lake.snapshot(at=clock.at - tick).id == snapshot.id - 1
    assert lake.snapshot(at=clock.at.astimezone(dt.timezone(dt.timedelta(hours=5)))).id == snapshot.id
    assert lake.snapshot(at=clock.at.replace(tzinfo=None)).id == snapshot.id


def test_times_of_duckdb_s_snapshots(lake, reader):
    reader.execute("CREATE TABLE t (i INT)")
    for value in range(12):
        reader.execute(f"INSERT INTO t VALUES ({value})")
    # DuckDB leaves out the zeros at the end of a fraction, so some of these texts are shorter than others.
    for snapshot in kept(lake)[1:]:
        assert lake.snapshot(at=snapshot.time).id == snapshot.id
        assert lake.snapshot(at=snapshot.time - dt.timedelta(microseconds=1)).id == snapshot.id - 1


def test_duckdb_travels_by_our_times(lake, reader, clock):
    create(lake, "t", pa.table({"i": [0]}))
    for value in range(1, 4):
        clock.at += SECOND
        number(lake, value)
    for snapshot in kept(lake)[1:]:
        found = reader.rows(f"SELECT count(*) FROM t AT (TIMESTAMP => TIMESTAMPTZ '{snapshot.time.isoformat()}')")
        assert found == [(lake.read("t", snapshot=snapshot).num_rows,)]
        assert sum(theirs(reader, "t", version=snapshot.id).values()) == found[0][0]
    assert_agree(lake, reader)


def test_snapshots_that_are_not_there(lake):
    create(lake, "t", pa.table({"i": [0]}))
    with pytest.raises(UnknownObject, match="does not exist yet"):
        lake.snapshot(99)
    with pytest.raises(SnapshotExpired):
        lake.snapshot(at=dt.datetime(1999, 1, 1, tzinfo=dt.UTC))
    old = lake.snapshot()
    number(lake, 1)
    lake.expire(dt.datetime.now(dt.UTC) + SECOND)
    with pytest.raises(SnapshotExpired) as gone:
        lake.snapshot(old.id)
    assert gone.value.hint == f"the oldest is {lake.snapshot().id}; run SHOW SNAPSHOTS"
    with pytest.raises(SnapshotExpired):
        lake.read("t", snapshot=old)
    with pytest.raises(SnapshotExpired):
        lake.scan(lake.table("t"), old)


def test_a_read_names_its_snapshot_and_others_do_not_change_it(lake, reader):
    table = create(lake, "t", pa.table({"i": [0]}))
    pinned = lake.snapshot()
    plan = lake.scan(table, pinned)
    number(lake, 1)
    reader.execute("DELETE FROM t")
    with lake.commit("drop") as commit:
        commit.drop_table(lake.table("t"))
    assert rows_of(lake.read("t", snapshot=pinned)) == [(0,)]
    assert plan == lake.scan(table, pinned)
    with pytest.raises(UnknownObject):
        lake.read("t")
