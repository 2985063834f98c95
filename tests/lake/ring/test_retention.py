"""A stream's oldest segments leave with its appends: whole, in order, at the cost of a catalogue change."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from platform_plugin.errors import StreamOverrun
from platform_plugin.lake.catalogue.relations import Declaration, declare_relation
from platform_plugin.lake.cursors.move import AddCursor, MoveCursor
from platform_plugin.lake.ring.segments import RetentionLimits, Ring, Segment, plan_eviction, read_ring, read_segments

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def stream(lake, name="posts", **options):
    with lake.commit("create stream") as commit:
        table = commit.create_table(name, lake.columns_of(pa.schema([("n", pa.int64())])))
        declare_relation(commit, table, Declaration(kind="stream", options=options))
    return lake.table(name)


def append(lake, table, first, count):
    rows = pa.table({"n": pa.array(range(first, first + count), pa.int64())})
    with lake.commit("append") as commit:
        commit.append(table, [lake.write(table, rows)])
    return commit.made


def held(lake, name="posts"):
    return lake.read(name).column("n").to_pylist()


def files(lake):
    return sorted(path for path in Path(lake.storage.absolute("")).rglob("*.parquet"))


def test_old_segments_leave_and_their_files_with_them(lake):
    table = stream(lake, retention_rows=25)
    for place in range(10):
        append(lake, table, place * 10, 10)
    assert held(lake) == list(range(70, 100))
    assert len(files(lake)) == 3
    with lake.reading() as connection:
        ring = read_ring(connection, table.uuid)
        segments = read_segments(connection, table.uuid)
    assert (ring.first_row_id, ring.next_row_id, ring.row_count, ring.segment_count) == (70, 100, 30, 3)
    assert [(part.first_row_id, part.next_row_id) for part in segments] == [(70, 80), (80, 90), (90, 100)]
    assert ring.size_bytes == sum(path.stat().st_size for path in files(lake))


def test_one_row_segments_wrap_around(lake):
    table = stream(lake, retention_rows=3)
    for place in range(20):
        append(lake, table, place, 1)
        assert held(lake) == list(range(max(place - 2, 0), place + 1))


def test_a_segment_larger_than_the_ring_stays_until_others_take_its_place(lake):
    table = stream(lake, retention_rows=5)
    append(lake, table, 0, 100)
    assert len(held(lake)) == 100
    append(lake, table, 100, 4)
    assert len(held(lake)) == 104
    append(lake, table, 104, 1)
    assert held(lake) == [100, 101, 102, 103, 104]


def test_bytes_are_a_limit_too(lake):
    table = stream(lake, retention_bytes=2000)
    for place in range(30):
        append(lake, table, place, 1)
    size = sum(path.stat().st_size for path in files(lake))
    assert 2000 <= size < 2000 + 2 * files(lake)[0].stat().st_size


def test_time_is_a_limit_and_needs_no_append(lake, monkeypatch):
    table = stream(lake, retention_seconds=3600)
    append(lake, table, 0, 5)
    append(lake, table, 5, 5)
    later = datetime.now(UTC) + timedelta(hours=2)

    class Later(datetime):
        @classmethod
        def now(cls, _):
            return later

    monkeypatch.setattr("platform_plugin.lake.commit.commit.datetime", Later)
    monkeypatch.setattr("platform_plugin.lake.ring.retention.datetime", Later)
    assert [stream.name.relation for stream in lake.retain()] == ["posts"]
    assert held(lake) == []
    assert lake.retain() == []
    assert files(lake) == []
    append(lake, table, 10, 2)
    assert held(lake) == [10, 11]


def test_row_ids_grow_without_gaps_over_an_emptied_ring(lake):
    table = stream(lake, retention_rows=1)
    for place in range(5):
        append(lake, table, place * 3, 3)
    with lake.reading() as connection:
        ring = read_ring(connection, table.uuid)
    assert (ring.first_row_id, ring.next_row_id) == (12, 15)


def test_a_lease_keeps_files_and_a_reader_that_holds_one_is_never_torn(lake):
    table = stream(lake, retention_rows=10)
    append(lake, table, 0, 10)
    with lake.lease() as lease:
        for place in range(1, 6):
            append(lake, table, place * 10, 10)
        assert lake.read("posts", snapshot=lease.snapshot).column("n").to_pylist() == list(range(10))
        assert len(files(lake)) == 6
    append(lake, table, 60, 10)
    assert held(lake) == list(range(60, 70))
    assert len(files(lake)) == 1
    with pytest.raises(StreamOverrun, match="snapshot") as overrun:
        lake.read("posts", snapshot=lease.snapshot)
    assert "60 rows came since; it holds rows 60 to 69" in str(overrun.value.detail)


def test_a_reader_that_holds_on_for_too_long_is_overrun(lake):
    table = stream(lake, retention_rows=10, overrun_grace_seconds=0)
    append(lake, table, 0, 10)
    with lake.lease() as lease:
        append(lake, table, 10, 10)
        with pytest.raises(StreamOverrun):
            lake.read("posts", snapshot=lease.snapshot)
    assert held(lake) == list(range(10, 20))


def test_a_stream_that_blocks_waits_for_its_readers_and_then_refuses_the_writer(lake):
    table = stream(lake, retention_rows=10, on_overrun="block", overrun_grace_seconds=0.2)
    append(lake, table, 0, 10)
    with lake.lease() as lease:
        append(lake, table, 10, 10)
        assert len(held(lake)) == 20
        with pytest.raises(StreamOverrun, match="is full"):
            append(lake, table, 20, 10)
        assert len(held(lake)) == 20
        assert lake.read("posts", snapshot=lease.snapshot).num_rows == 10
    append(lake, table, 20, 10)
    assert held(lake) == list(range(20, 30))


def test_what_a_consumer_has_not_seen_stays_unless_the_stream_drops_it(lake):
    table = stream(lake, retention_rows=10)
    append(lake, table, 0, 10)
    with lake.commit("attach") as commit:
        commit.also(AddCursor(owner="view", input=table.uuid, position=5))
    append(lake, table, 10, 5)
    append(lake, table, 15, 40)
    assert held(lake) == list(range(55))
    with lake.commit("consume") as commit:
        commit.also(MoveCursor(owner="view", input=table.uuid, expected=5, position=15, consumer="the view"))
        commit.retain(table)
    assert held(lake) == list(range(15, 55))
    with lake.commit("drop instead") as commit:
        declare_relation(commit, table, Declaration(kind="stream", options={"retention_rows": 10, "on_unconsumed": "drop"}))
    append(lake, table, 55, 10)
    assert held(lake) == list(range(55, 65))


def test_rows_of_another_client_count_and_leave(lake, reader):
    table = stream(lake, retention_rows=10)
    append(lake, table, 0, 5)
    reader.execute("INSERT INTO lake.posts SELECT * FROM range(5, 8)")
    reader.execute("INSERT INTO lake.posts SELECT * FROM range(8, 1008)")
    append(lake, table, 1008, 4)
    assert sorted(held(lake)) == list(range(5, 1012)), (
        "the first of its rows are kept in the catalogue and share the segment of the next file"
    )
    append(lake, table, 1012, 7)
    assert sorted(held(lake)) == list(range(1008, 1019))
    assert reader.rows("SELECT count(*), min(n) FROM lake.posts") == [(11, 1008)]


def test_an_empty_commit_or_another_table_leaves_rings_alone(lake):
    table = stream(lake, retention_rows=1)
    append(lake, table, 0, 2)
    before = lake.snapshot()
    with lake.commit("nothing") as commit:
        commit.retain(table)
    assert held(lake) == [0, 1]
    assert lake.snapshot().id == before.id + 1


@settings(max_examples=300, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 30), max_size=30),
    rows=st.none() | st.integers(1, 60),
    size=st.none() | st.integers(1, 60),
    age=st.none() | st.integers(1, 40),
)
def test_what_stays_is_all_that_the_limits_ask_for_and_at_most_a_segment_more(sizes, rows, size, age):
    segments, first = [], 0
    for place, count in enumerate(sizes):
        segments.append(
            Segment(
                first_row_id=first,
                next_row_id=first + count,
                size_bytes=count,
                arrived_at=NOON + timedelta(minutes=place),
                snapshot_id=place,
            )
        )
        first += count
    now = NOON + timedelta(minutes=len(sizes))
    ring = Ring(next_row_id=first, row_count=first, size_bytes=first, segment_count=len(sizes))
    limits = RetentionLimits(rows=rows, size_bytes=size, age=None if age is None else timedelta(minutes=age))
    gone = plan_eviction(segments, ring, limits, now)
    kept = segments[len(gone) :]
    assert segments[: len(gone)] == gone
    total = sum(part.row_count for part in kept)

    def may_go(remaining, oldest):
        return (
            (rows is not None and remaining >= rows)
            or (size is not None and remaining >= size)
            or (age is not None and oldest.arrived_at + timedelta(minutes=age) <= now)
        )

    if kept:
        assert not may_go(total - kept[0].row_count, kept[0])
    assert all(may_go(sum(part.row_count for part in segments[place + 1 :]), segments[place]) for place in range(len(gone)))


def test_large_files_are_deleted_beside_the_writer(lake):
    table = stream(lake, retention_rows=1)
    noise = pa.table({"n": pa.array(np.random.default_rng(1).integers(0, 2**62, 1_500_000))})
    with lake.commit("append") as commit:
        commit.append(table, [lake.write(table, noise)])
    append(lake, table, 0, 1)
    for thread in threading.enumerate():
        if thread.name == "delete files":
            thread.join()
    assert len(files(lake)) == 1
