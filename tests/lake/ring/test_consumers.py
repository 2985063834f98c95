"""What waits for the consumers of streams, and since when."""

from __future__ import annotations

from platform_plugin.lake.cursors.move import AddCursor
from platform_plugin.lake.ring.consumers import read_lagging_consumers, read_waiting_since
from tests.lake.ring.test_retention import append, stream


def test_what_waits_for_whom_and_since_when(lake):
    posts = stream(lake, "posts")
    for first in (0, 10, 20):
        append(lake, posts, first, 10)
    likes = stream(lake, "likes")
    append(lake, likes, 0, 4)
    with lake.commit("consumers") as commit:
        commit.also(AddCursor(owner="both", input=posts.uuid, position=10))
        commit.also(AddCursor(owner="both", input=likes.uuid, position=1))
        commit.also(AddCursor(owner="done", input=posts.uuid, position=30))
    with lake.reading() as connection:
        assert sorted(read_lagging_consumers(connection)) == sorted([("both", str(posts.uuid), 20), ("both", str(likes.uuid), 3)])
        second = lake.commits()[2]
        assert second.message == "append"
        assert set(read_waiting_since(connection)) == {"both"}
        assert read_waiting_since(connection)["both"] > second.time, "the first ten rows do not wait"
