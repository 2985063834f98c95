"""Arrivals: what the catalogue answers about many streams at once agrees with their segments, one by one."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

from platform_plugin.lake.ring.arrivals import (
    has_rings,
    has_segments,
    read_all_arrivals,
    read_arrival_span,
    read_arrived_beyond,
    read_ends,
    read_evicted_bytes,
    read_last_arrival,
    read_recent,
)
from platform_plugin.lake.ring.segments import RING_TABLES, read_segments
from tests.lake.ring.test_retention import append, stream


def test_a_lake_of_a_version_without_streams_has_seen_nothing(lake):
    with lake.writing() as connection:
        for table in RING_TABLES:
            table.drop(connection)
    with lake.reading() as connection:
        assert not has_rings(connection)
        assert not has_segments(connection)
        assert read_ends(connection) == {}
        assert read_arrived_beyond(connection, uuid4(), 0) is None


def test_arrivals_are_those_of_the_segments(lake):
    posts, likes = stream(lake, "posts", retention_rows=15), stream(lake, "likes")
    made = [append(lake, posts, place * 10, 10) for place in range(4)]
    append(lake, likes, 0, 3)
    with lake.reading() as connection:
        segments = read_segments(connection, posts.uuid)
        assert [part.first_row_id for part in segments] == [20, 30]
        assert read_ends(connection) == {str(posts.uuid): 40, str(likes.uuid): 3}
        assert read_last_arrival(connection, posts.uuid) == made[-1].id
        assert read_arrival_span(connection, posts.uuid) == (segments[0].arrived_at, segments[-1].arrived_at)
        assert read_arrived_beyond(connection, posts.uuid, 29) == segments[0].arrived_at
        assert read_arrived_beyond(connection, posts.uuid, 30) == segments[1].arrived_at
        assert read_arrived_beyond(connection, posts.uuid, 40) is None
        recent = read_recent(connection, posts.uuid, segments[0].arrived_at)
        assert (recent.segments, recent.rows, recent.writers) == (1, 10, 1)
        recent = read_recent(connection, posts.uuid, segments[0].arrived_at - timedelta(seconds=1))
        assert (recent.segments, recent.rows) == (2, 20)
        rows = [tuple(row) for row in read_all_arrivals(connection)]
        assert [row[2] for row in rows] == [3, 30, 40]
        assert rows[1:] == [(str(posts.uuid), part.first_row_id, part.next_row_id, part.arrived_at) for part in segments]
        assert read_evicted_bytes(connection, posts.uuid) == 0


def test_files_that_a_reader_may_need_count_until_it_lets_go(lake):
    posts = stream(lake, "posts", retention_rows=5)
    append(lake, posts, 0, 10)
    with lake.lease():
        size = sum(file.size_bytes for file in lake.scan(posts, lake.snapshot()).files)
        append(lake, posts, 10, 10)
        with lake.reading() as connection:
            assert read_evicted_bytes(connection, posts.uuid) == size
