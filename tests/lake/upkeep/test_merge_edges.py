"""A merge of a stream leaves its rows where they can leave: by rows, time and bytes, into a history or for good."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from platform_plugin.lake.ring.segments import read_ring
from platform_plugin.lake.upkeep import merge_edges
from platform_plugin.platform import Platform

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def platform(lake_url):
    with Platform.create(lake_url) as made:
        yield made


@pytest.fixture
def clock():
    """The time of commits, which only the test moves; wherever a lake asks for it."""
    with Clock() as made:
        yield made


class Clock:
    """A time that stands still until it is moved."""

    def __init__(self):
        self.now = datetime.now(UTC)
        self.patch = pytest.MonkeyPatch()

    def __enter__(self):
        clock = self

        class Moved(datetime):
            @classmethod
            def now(cls, _):
                return clock.now

        for module in ("commit.commit", "ring.retention", "upkeep.leases", "upkeep.leased"):
            self.patch.setattr(f"platform_plugin.lake.{module}.datetime", Moved)
        return self

    def __exit__(self, *_):
        self.patch.undo()


@dataclass
class Part:
    """A segment of the ring as anybody would keep one."""

    numbers: range
    size: int
    at: datetime


@dataclass
class Oracle:
    """A ring in plain Python."""

    rows: int | None = None
    size: int | None = None
    age: timedelta | None = None

    def __post_init__(self):
        self.parts = []

    def append(self, part):
        self.parts.append(part)
        while self.parts and self._may_go(self.parts[0], self.parts[1:], part.at):
            self.parts.pop(0)

    def _may_go(self, oldest, rest, now):
        return (
            (self.rows is not None and sum(len(part.numbers) for part in rest) >= self.rows)
            or (self.size is not None and sum(part.size for part in rest) >= self.size)
            or (self.age is not None and oldest.at + self.age <= now)
        )

    def held(self):
        return [n for part in self.parts for n in part.numbers]


def append(lake, first, count):
    table = lake.table("posts")
    file = lake.write(table, pa.table({"n": pa.array(range(first, first + count), pa.int64())}))
    with lake.commit("append") as commit:
        commit.append(table, [file])
    return Part(range(first, first + count), file.size_bytes, commit.made.time)


def held(lake, name="posts"):
    return sorted(lake.read(name).column("n").to_pylist())


def file_count(lake, name="posts"):
    return len(lake.scan(lake.table(name), lake.snapshot()).files)


def test_a_merge_every_fifth_append_holds_no_more_than_none(platform):
    platform.execute("CREATE STREAM posts (n BIGINT) WITH (retention_rows = 10)")
    for place in range(25):
        append(platform.lake, place * 2, 2)
        if place % 5 == 4:
            platform.lake.merge("posts")
        assert held(platform.lake) == list(range(max(place * 2 - 8, 0), place * 2 + 2))


@pytest.mark.parametrize("history", [False, True])
def test_nightly_merges_in_a_month_hold_at_most_a_segment_more(tmp_path, clock, history):
    with Platform.create(tmp_path / "lake") as platform:
        lake = platform.lake
        platform.execute("CREATE STREAM posts (n BIGINT) WITH (retention = '7 days')")
        if history:
            platform.execute("CREATE TABLE posts_all AS HISTORY OF posts")
        start = clock.now
        for hour in range(0, 30 * 24, 12):
            clock.now = start + timedelta(hours=hour)
            append(lake, hour, 12)
            if hour % 24:
                lake.merge("posts")
            if history and hour % 240 == 228:
                lake.merge("posts_all")
            with lake.reading() as connection:
                ring = read_ring(connection, lake.table("posts").uuid)
            assert ring.row_count <= 7 * 24 + 12
            assert ring.next_row_id - ring.row_count >= hour - 7 * 24
        assert len(held(lake)) == ring.row_count
        if history:
            assert held(lake, "posts_all") + held(lake) == list(range(30 * 24))
            assert file_count(lake, "posts_all") < 5, "a history merges all it has"


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    steps=st.lists(st.tuples(st.integers(1, 9), st.sampled_from(["", "merge posts", "merge posts_all"])), min_size=8, max_size=12),
    rows=st.integers(1, 25) | st.none(),
    size=st.integers(500, 4000) | st.none(),
    age=st.integers(2, 9) | st.none(),
    share=st.sampled_from([merge_edges.SHARE, 3]),
)
def test_what_stays_is_what_stays_without_merges_but_for_a_share(tmp_path_factory, steps, share, **kept):
    rows, size, age = kept["rows"], kept["size"], kept["age"]
    limits = {"retention_rows": rows, "retention_bytes": size, "retention": None if age is None else f"'{age} minutes'"}
    options = ", ".join(f"{name} = {value}" for name, value in limits.items() if value is not None)
    oracle = Oracle(rows=rows, size=size, age=None if age is None else timedelta(minutes=age))
    with Platform.create(tmp_path_factory.mktemp("ring") / "lake") as platform, Clock() as clock, pytest.MonkeyPatch.context() as patch:
        patch.setattr(merge_edges, "SHARE", share)
        lake, every = platform.lake, 0
        platform.execute(f"CREATE STREAM posts (n BIGINT){f' WITH ({options})' if options else ''}")
        platform.execute("CREATE TABLE posts_all AS HISTORY OF posts")
        parts = []
        for count, then in steps:
            clock.now += timedelta(minutes=1)
            parts.append(append(lake, every, count))
            oracle.append(parts[-1])
            every += count
            ours, least = held(lake), oracle.held()
            assert ours == list(range(every - len(ours), every))
            assert ours[len(ours) - len(least) :] == least
            assert held(lake, "posts_all") + ours == list(range(every))
            more = [part for part in parts if part.numbers[0] >= ours[0] and part.numbers[0] < (least or [every])[0]] if ours else []
            with lake.reading() as connection:
                ring = read_ring(connection, lake.table("posts").uuid)
            assert (ring.first_row_id, ring.row_count, ring.segment_count) == (every - len(ours), len(ours), len(more) + len(oracle.parts))
            if more:
                assert share == 3, "nothing is small enough to share a file"
                assert rows is None or sum(len(part.numbers) for part in more) * share <= rows
                assert size is None or sum(part.size for part in more) * share <= size
                assert age is None or (more[-1].at - more[0].at) * share <= timedelta(minutes=age)
            if then:
                lake.merge(then.removeprefix("merge "))


def test_small_segments_share_files_up_to_a_part_of_what_the_stream_keeps(platform):
    rows = 5 * merge_edges.SHARE
    platform.execute(f"CREATE STREAM posts (n BIGINT) WITH (retention_rows = {rows})")
    for place in range(20):
        append(platform.lake, place, 1)
    assert platform.lake.merge("posts").files_after == 4
    assert platform.lake.merge("posts").files_before == 0
    append(platform.lake, 20, rows - 3)
    assert held(platform.lake)[0] == 15
    append(platform.lake, rows + 17, 3)
    assert held(platform.lake)[0] == 20


def test_rows_do_not_leave_before_their_time_because_others_were_deleted(platform, duck, lake_url, monkeypatch):
    monkeypatch.setattr(merge_edges, "SHARE", 0)
    platform.execute("CREATE STREAM posts (n BIGINT) WITH (retention_rows = 15)")
    lake = platform.lake
    for place in range(2):
        append(lake, place * 10, 10 if place == 0 else 4)
    duck(lake_url).execute("DELETE FROM lake.posts WHERE n BETWEEN 1 AND 11")
    lake.expire(datetime.now(UTC) + timedelta(seconds=1))
    lake.merge("posts")
    append(lake, 14, 12)
    assert held(lake) == list(range(12, 26))


def test_rows_of_another_client_get_a_file_for_each_segment(platform, duck, lake_url):
    platform.execute("CREATE STREAM posts (n BIGINT) WITH (retention_rows = 4)")
    lake, reader = platform.lake, duck(lake_url)
    for first in (0, 3):
        reader.execute(f"INSERT INTO lake.posts SELECT range FROM range({first}, {first + 3})")
    lake.merge("posts")
    assert file_count(lake) == 2
    append(lake, 6, 1)
    assert held(lake) == [3, 4, 5, 6]
