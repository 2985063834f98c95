"""Arrival logs: segments that nothing evicts leave the catalogue's rows and lose nothing, and come back when a stream is given limits."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pyarrow as pa
import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from platform_plugin.lake.cursors.move import write_reader
from platform_plugin.lake.ring import folding
from platform_plugin.lake.ring.arrival_log import ARRIVAL_LOG, LoggedSegment, pack_segments, unpack_segments
from platform_plugin.lake.ring.arrivals import read_arrival_span, read_arrived_beyond, read_last_arrival, read_recent
from platform_plugin.lake.ring.consumers import read_waiting_since
from platform_plugin.lake.ring.segments import SEGMENT, read_arrivals, read_ring, read_segments
from platform_plugin.platform import Platform
from platform_plugin.relations.follow.arrivals import read_rows_with_hidden

NUMBER = st.integers(0, 2**62)
MOMENT = st.datetimes(datetime(1970, 1, 1), datetime(9999, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001  it is given one
AT_ONCE = 4


@given(st.lists(st.builds(LoggedSegment, NUMBER, NUMBER, NUMBER, MOMENT, NUMBER), min_size=1))
def test_segments_come_back_as_they_were(segments):
    assert unpack_segments(pack_segments(segments)) == segments


def rows_of(connection, table, uuid):
    return connection.execute(sa.select(sa.func.count()).where(table.c.relation_uuid == str(uuid))).scalar()


@pytest.fixture
def platform(lake_url, monkeypatch):
    """A lake with a stream that keeps all, one with limits, and its history; four segments are put in a log at once."""
    monkeypatch.setattr(folding, "LOGGED_AT_ONCE", AT_ONCE)
    with Platform.create(lake_url) as made:
        made.execute("CREATE STREAM every (i INT)")
        made.execute("CREATE STREAM few (i INT) WITH (retention_rows = 2)")
        made.execute("CREATE TABLE gone AS HISTORY OF few")
        yield made


def fill(platform, count, *, first=0):
    for number in range(first, first + count):
        for stream in ("every", "few"):
            table = platform.lake.table(stream)
            with platform.lake.commit("append") as commit:
                commit.append(table, [platform.lake.write(table, pa.table({"i": pa.array([number, number], pa.int32())}))])


def told(platform):
    """What every reader of segments says of each relation."""
    found = {}
    moment = platform.lake.commits()[-1].time - timedelta(hours=1)
    with platform.lake.reading() as connection:
        for name in ("every", "few", "gone"):
            uuid = platform.lake.table(name).uuid
            segments = read_segments(connection, uuid)
            assert read_segments(connection, uuid, newest_first=True) == segments[::-1]
            for limit in (1, 3, 100):
                assert read_segments(connection, uuid, limit=limit) == segments[:limit]
                assert read_segments(connection, uuid, limit=limit, newest_first=True) == segments[::-1][:limit]
            assert all(before.next_row_id == after.first_row_id for before, after in pairwise(segments))
            recent = read_recent(connection, uuid, moment)
            found[name] = (
                [(s.first_row_id, s.next_row_id, s.size_bytes, s.arrived_at, s.snapshot_id) for s in segments],
                list(read_arrivals(connection, uuid)),
                read_arrival_span(connection, uuid),
                read_last_arrival(connection, uuid),
                [read_arrived_beyond(connection, uuid, row_id) for row_id in range(-1, 60)],
                (recent.segments, recent.rows),
            )
        waiting = read_waiting_since(connection)
    lake, arrived = platform.lake, {}
    for name in found:
        scan = lake.scan(lake.table(name), lake.snapshot())
        arrived[name] = sorted(read_rows_with_hidden(lake, scan, scan.table.fields, ("_row_id", "_arrived_at")).to_pylist(), key=str)
    return found, waiting, arrived


def test_an_expiry_puts_segments_in_logs_and_every_reader_says_the_same(platform):
    fill(platform, 15)
    before = told(platform)
    platform.lake.expire(datetime.now(UTC) + timedelta(seconds=1))
    with platform.lake.reading() as connection:
        rows = {
            name: (rows_of(connection, SEGMENT, table.uuid), rows_of(connection, ARRIVAL_LOG, table.uuid))
            for name in ("every", "few", "gone")
            for table in [platform.lake.table(name)]
        }
    # Of fifteen segments the newest stays; of the fourteen in the history also the newest. Few has limits.
    assert rows == {"every": (3, 3), "few": (1, 0), "gone": (2, 3)}
    assert told(platform) == before
    fill(platform, 6, first=15)
    platform.lake.merge("every")
    platform.lake.merge("gone")
    now = told(platform)
    platform.lake.expire(datetime.now(UTC) + timedelta(seconds=1))
    assert told(platform) == now
    for name in ("every", "gone"):
        assert now[0][name][1][: len(before[0][name][1])] == before[0][name][1]


def test_what_a_consumer_has_not_read_keeps_its_rows(platform):
    every = platform.lake.table("every").uuid
    fill(platform, 12)
    with platform.lake.writing() as connection:
        write_reader(connection, "slow", every, 9)
    before = told(platform)
    platform.lake.expire(datetime.now(UTC) + timedelta(seconds=1))
    with platform.lake.reading() as connection:
        assert rows_of(connection, ARRIVAL_LOG, every) == 1
        assert rows_of(connection, SEGMENT, every) == 8
    assert told(platform) == before
    # One that comes later may begin before them.
    with platform.lake.writing() as connection:
        write_reader(connection, "later", every, 3)
        assert read_waiting_since(connection)["later"] == read_arrivals(connection, every)[1].arrived_at


def test_a_snapshot_that_is_kept_keeps_the_rows_of_its_segments(platform):
    fill(platform, 12)
    with platform.lake.lease(platform.lake.snapshot(platform.lake.snapshot().id - 8)):
        platform.lake.expire(datetime.now(UTC) + timedelta(seconds=1))
        with platform.lake.reading() as connection:
            every = platform.lake.table("every").uuid
            # Eight of the twelve came before it.
            assert (rows_of(connection, ARRIVAL_LOG, every), rows_of(connection, SEGMENT, every)) == (2, 4)


def test_a_stream_that_is_given_limits_evicts_its_oldest_segments(platform):
    fill(platform, 12)
    before = told(platform)[0]["every"][0]
    platform.lake.expire(datetime.now(UTC) + timedelta(seconds=1))
    platform.execute("ALTER STREAM every SET (retention_rows = 6)")
    fill(platform, 1, first=12)
    with platform.lake.reading() as connection:
        every = platform.lake.table("every").uuid
        ring, left = read_ring(connection, every), read_segments(connection, every)
        assert rows_of(connection, ARRIVAL_LOG, every) == 0
    assert [segment.first_row_id for segment in left] == [20, 22, 24]
    assert (ring.first_row_id, ring.row_count, ring.segment_count, ring.size_bytes) == (20, 6, 3, sum(s.size_bytes for s in left))
    assert [(s.first_row_id, s.arrived_at) for s in left[:2]] == [(row[0], row[3]) for row in before[10:]]
    assert sorted(row[0] for row in platform.execute("SELECT i FROM every")) == [10, 10, 11, 11, 12, 12]


def test_logs_go_with_their_relation(platform):
    fill(platform, 12)
    platform.lake.expire(datetime.now(UTC) + timedelta(seconds=1))
    for statement in ("DROP STREAM every", "DROP TABLE gone", "DROP STREAM few"):
        platform.execute(statement)
    platform.lake.expire(datetime.now(UTC) + timedelta(seconds=1))
    with platform.lake.reading() as connection:
        assert connection.execute(sa.select(sa.func.count()).select_from(ARRIVAL_LOG)).scalar() == 0
