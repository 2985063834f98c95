"""Who consumes streams: what the catalogue answers agrees with what was written of each consumer."""

from __future__ import annotations

from uuid import uuid4

import pytest
import sqlalchemy as sa

from platform_plugin.lake.ring.consumers import (
    add_consumer,
    cursors_of,
    has_consumers,
    move_cursor,
    move_cursors,
    read_consumers,
    read_cursor,
    read_cursors,
    read_lagging_consumers,
    read_lowest_cursor,
    read_positions,
    read_waiting_since,
    remove_consumer,
    write_reader,
)
from tests.lake.ring.test_retention import append, stream


class Changing:
    """An operation of a commit that does what it is told to the consumers."""

    def __init__(self, change):
        self.change = change

    def apply(self, writer):
        self.change(writer)


@pytest.fixture
def posts(lake):
    table = stream(lake, "posts")
    for first in (0, 10, 20):
        append(lake, table, first, 10)
    return table


def change(lake, *changes):
    with lake.commit("consumers") as commit:
        for each in changes:
            commit.also(Changing(each))


def test_cursors_are_where_commits_moved_them(lake, posts):
    late, early = uuid4(), uuid4()
    change(lake, lambda w: add_consumer(w, posts.uuid, late, 5), lambda w: add_consumer(w, posts.uuid, early, 0))
    change(lake, lambda w: move_cursor(w, posts.uuid, late, 12), lambda w: move_cursors(w, posts.uuid, {str(early): 10}))
    write_in(lake, posts, "session x", 30)
    with lake.reading() as connection:
        assert has_consumers(connection)
        assert read_consumers(connection, posts.uuid) == {str(late): 12, str(early): 10, "session x": 30}
        assert (read_cursor(connection, posts.uuid, late), read_cursor(connection, posts.uuid, uuid4())) == (12, None)
        assert read_cursors(connection, [str(late), str(uuid4())]) == {(str(late), str(posts.uuid)): 12}
        assert read_lowest_cursor(connection, posts.uuid) == 10
        assert read_lowest_cursor(connection, uuid4()) is None
        rows = connection.execute(sa.select(cursors_of(sa.literal(str(posts.uuid))))).all()
        assert sorted(map(tuple, rows)) == sorted([(str(late), 12), (str(early), 10), ("session x", 30)])
    change(lake, lambda w: remove_consumer(w, late))
    write_in(lake, posts, "session x", None)
    with lake.reading() as connection:
        assert read_consumers(connection, posts.uuid) == {str(early): 10}


def write_in(lake, table, reader, next_row_id):
    with lake.writing(shared=True) as connection:
        write_reader(connection, table.uuid, reader, next_row_id)


def test_what_waits_for_whom_and_since_when(lake, posts):
    likes = stream(lake, "likes")
    append(lake, likes, 0, 4)
    both, done = uuid4(), uuid4()
    change(
        lake,
        lambda w: add_consumer(w, posts.uuid, both, 10),
        lambda w: add_consumer(w, likes.uuid, both, 1),
        lambda w: add_consumer(w, posts.uuid, done, 30),
    )
    with lake.reading() as connection:
        assert sorted(read_lagging_consumers(connection)) == sorted([(str(both), str(posts.uuid), 20), (str(both), str(likes.uuid), 3)])
        assert read_positions(connection) == {str(both): 11, str(done): 30}
        second = lake.commits()[2]
        assert second.message == "append"
        assert set(read_waiting_since(connection)) == {str(both)}
        assert read_waiting_since(connection)[str(both)] > second.time, "the first ten rows do not wait"
