"""DESCRIBE and status say what a stream holds, how fast rows come and who is behind."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa
import pytest

from platform_plugin.lake.cursors.move import AddCursor, EndCursors
from platform_plugin.platform import Platform
from platform_plugin.relations.streams.figures import read_figures
from platform_plugin.select.overview import read_overview


@pytest.fixture
def platform(lake_url):
    with Platform.create(lake_url) as made:
        yield made


def append(platform, first, count):
    lake = platform.lake
    table = lake.table("posts")
    with lake.commit("append") as commit:
        commit.append(table, [lake.write(table, pa.table({"n": pa.array(range(first, first + count), pa.int64())}))])
    return commit.made


def figures(platform, **kwargs):
    lake = platform.lake
    with lake.reading() as connection:
        return read_figures(connection, lake.table("posts"), lake.snapshot(), **kwargs)


def test_figures_of_the_last_minute(platform):
    platform.execute("CREATE STREAM posts (n BIGINT) WITH (retention_rows = 30)")
    platform.execute("CREATE TABLE posts_all AS HISTORY OF posts")
    made = [append(platform, place * 15, 15) for place in range(4)]
    now = made[-1].time + timedelta(seconds=3)
    found = figures(platform, now=now)
    assert (found.rows, found.segments, found.first_row_id, found.next_row_id) == (30, 2, 30, 60)
    assert found.rows_per_second == pytest.approx(30 / (now - made[2].time).total_seconds()), "what a ring that turns fast still holds"
    assert found.writers == 1
    assert (found.oldest_arrival, found.last_arrival) == (made[2].time, made[3].time)
    assert found.lag_seconds(now) == pytest.approx(3)
    assert found.history == "main.posts_all"
    assert figures(platform, now=now + timedelta(hours=1)).rows_per_second == 0


def test_who_holds_what(platform):
    platform.execute("CREATE STREAM posts (n BIGINT) WITH (retention_rows = 5)")
    append(platform, 0, 5)
    lake = platform.lake
    with lake.commit("attach") as commit:
        commit.also(AddCursor(owner="view", input=lake.table("posts").uuid, position=2))
    assert figures(platform).unconsumed_rows == 3
    with lake.commit("detach") as commit:
        commit.also(EndCursors([("view", str(lake.table("posts").uuid))]))
    with lake.lease():
        append(platform, 5, 5)
        assert figures(platform).bytes_held_by_readers > 0
    append(platform, 10, 5)
    assert figures(platform).bytes_held_by_readers == 0


def test_describe_and_status(platform, lake_url):
    platform.execute("CREATE STREAM posts (n BIGINT) WITH (retention_rows = 30, retention = '1 hour')")
    before = dict(row[:2] for row in platform.execute("DESCRIBE EXTENDED posts"))
    assert before["# kind"] == "stream"
    platform.execute("CREATE STREAM fed (n BIGINT) FROM FILES '/data/*.csv' (HEADER)")
    fed = dict(row[:2] for row in platform.execute("DESCRIBE EXTENDED fed"))
    assert fed["# feed"] == "FILES '/data/*.csv' (header = true, format = 'csv')"
    platform.execute("CREATE TABLE keyed (a INT, b INT, PRIMARY KEY (a, b)); DROP STREAM fed")
    assert ("# primary_key", "a, b") in [row[:2] for row in platform.execute("DESCRIBE EXTENDED keyed")]
    platform.execute("DROP TABLE keyed")
    append(platform, 0, 12)
    said = dict(row[:2] for row in platform.execute("DESCRIBE EXTENDED posts"))
    assert said["# row ids"] == "0 to 11"
    assert said["# rows a second"] == "0.2 in the last minute, in 0.0 segments a second"
    assert said["# writers"] == "1 in the last minute"
    assert said["# retention_rows"] == "30"
    assert "seconds ago" in said["# last arrival"]
    assert said["# last arrival"].startswith(said["# oldest arrival"]), "one form, with its zone"
    (posts,) = read_overview(lake_url).relations
    assert (posts.kind, posts.rows, posts.rows_per_second) == ("stream", 12, 0.2)
    assert posts.last_arrival == platform.lake.snapshot().time
