"""Cursors: what the catalogue says of them, now and at every snapshot, agrees with a plain model of what was written."""

from __future__ import annotations

from dataclasses import dataclass

import hypothesis.strategies as st
import pytest
import sqlalchemy as sa
from hypothesis import given, settings

from platform_plugin.errors import CommitConflict
from platform_plugin.lake.catalogue.forgotten import Folding
from platform_plugin.lake.cursors.cursor import (
    CURSOR,
    CURSOR_TABLES,
    find_cursor,
    has_cursors,
    present_cursors,
    read_cursor,
    read_cursors,
    read_cursors_at,
    read_last_moves,
    read_lowest,
    read_moves,
    read_owners,
)
from platform_plugin.lake.cursors.move import (
    AddCursor,
    EndCursors,
    MoveCursor,
    MoveCursors,
    end_cursors,
    fold_cursors,
    forget_cursors,
    move_present,
    write_reader,
)
from platform_plugin.lake.lake import Lake


@dataclass
class Change:
    """An operation of a commit that does what it is told."""

    do: object

    def apply(self, writer):
        self.do(writer)


@pytest.fixture
def prepared(lake):
    lake.prepare_tables(CURSOR_TABLES)
    with lake.reading() as connection:
        assert has_cursors(connection)
    return lake


def commit(lake, *operations):
    with lake.commit("cursors") as made:
        for operation in operations:
            made.also(operation)
    return made.made.id


def move(owner, expected, position, **more):
    return MoveCursor(owner=owner, input="posts", expected=expected, position=position, consumer=f"view {owner}", **more)


def test_a_cursor_moves_from_where_it_was_read(prepared):
    first = commit(prepared, AddCursor(owner="a", input="posts", position=5), AddCursor(owner="b", input="likes", position=1, note="x"))
    second = commit(prepared, move("a", 5, 12))
    with pytest.raises(CommitConflict, match="view a has consumed its input up to 12 meanwhile"):
        commit(prepared, move("a", 5, 13))
    with pytest.raises(CommitConflict, match="view c was dropped meanwhile"):
        commit(prepared, move("c", 5, 13))
    with pytest.raises(CommitConflict, match="view a has consumed"):
        commit(prepared, move("a", None, 13))
    with prepared.reading() as connection:
        assert read_cursor(connection, "a", "posts") == 12
        assert read_cursor(connection, "a", "likes") is None
        assert find_cursor(connection, "b", "likes").note == "x"
        assert {key: found.position for key, found in read_cursors(connection, ["a", "b", "c"]).items()} == {
            ("a", "posts"): 12,
            ("b", "likes"): 1,
        }
        assert read_cursors_at(connection, first) == {"a": {"posts": 5}, "b": {"likes": 1}}
        assert read_cursors_at(connection, second, ["a"]) == {"a": {"posts": 12}}
        assert read_cursors_at(connection, first - 1) == {}
        assert read_last_moves(connection) == {"a": second, "b": first}
        assert [(row.owner, row.position) for row in read_moves(connection) if row.owner == "a"] == [("a", 5), ("a", 12)]
        rows = connection.execute(sa.select(present_cursors(sa.literal("posts")))).all()
        assert [tuple(row) for row in rows] == [("a", "posts", 12)]


def test_a_note_counts_as_what_was_read(prepared):
    commit(prepared, move("feed", None, 7, note="topic 1", is_traced=False))
    with pytest.raises(CommitConflict):
        commit(prepared, move("feed", 7, 9, note="topic 2", expected_note="topic 2", is_traced=False))
    commit(prepared, move("feed", 7, 9, note="topic 2", expected_note="topic 1", is_traced=False))
    with prepared.reading() as connection:
        assert find_cursor(connection, "feed", "posts").note == "topic 2"
        assert connection.execute(sa.select(sa.func.count()).select_from(CURSOR)).scalar() == 1, "nobody asks where a feed was"


def test_one_commit_may_add_move_and_end_a_cursor(prepared):
    moved = commit(prepared, AddCursor(owner="a", input="posts", position=1), MoveCursors((move("a", 1, 2),)))
    ended = commit(prepared, AddCursor(owner="b", input="posts", position=1), EndCursors([("b", "posts"), ("a", "posts")]))
    with prepared.reading() as connection:
        assert read_cursors_at(connection, moved) == {"a": {"posts": 2}}
        assert read_cursors_at(connection, ended) == {}
        assert read_lowest(connection, "posts") is None


def test_the_cursors_of_an_owner_end_and_are_forgotten(prepared):
    begun = commit(prepared, AddCursor(owner="a", input="posts", position=1), AddCursor(owner="a", input="likes", position=2))
    commit(prepared, Change(lambda w: end_cursors(w, "a")))
    with prepared.reading() as connection:
        assert read_owners(connection, "posts") == {}
        assert read_cursors_at(connection, begun) == {"a": {"posts": 1, "likes": 2}}
    commit(prepared, Change(lambda w: forget_cursors(w, "a")))
    with prepared.reading() as connection:
        assert read_cursors_at(connection, begun) == {}


def test_readers_write_theirs_outside_of_commits(prepared):
    for position in (3, 8):
        with prepared.writing(shared=True) as connection:
            write_reader(connection, "session 1", "posts", position)
    commit(prepared, AddCursor(owner="a", input="posts", position=5), Change(lambda w: (w.flush(), move_present(w, "posts", {"a": 6}))))
    with prepared.reading() as connection:
        assert read_owners(connection, "posts") == {"session 1": 8, "a": 6}
        assert read_lowest(connection, "posts") == 6
    with prepared.writing(shared=True) as connection:
        write_reader(connection, "session 1", "posts", None)
    with prepared.reading() as connection:
        assert read_owners(connection, "posts") == {"a": 6}


STEPS = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["add", "move", "end", "fold"]), st.integers(1, 9)), max_size=14)


@settings(max_examples=25, deadline=None)
@given(steps=STEPS)
def test_positions_at_every_snapshot_are_those_of_a_plain_model(tmp_path_factory, steps):
    with Lake.create(tmp_path_factory.mktemp("cursors") / "lake") as lake:
        lake.prepare_tables(CURSOR_TABLES)
        now: dict[str, int] = {}
        at: dict[int, dict[str, int]] = {}
        oldest = 0
        for owner, step, number in steps:
            if step == "add" and owner not in now:
                made = commit(lake, AddCursor(owner=owner, input="posts", position=number))
                now[owner] = number
            elif step == "move" and owner in now:
                made = commit(lake, move(owner, now[owner], now[owner] + number))
                now[owner] += number
            elif step == "end" and owner in now:
                made = commit(lake, EndCursors([(owner, "posts")]))
                del now[owner]
            elif step == "fold" and at:
                oldest = max(oldest, sorted(at)[min(number, len(at) - 1)])
                with lake.writing() as connection:
                    fold_cursors(Folding.at(connection, oldest))
                continue
            else:
                continue
            at[made] = dict(now)
        with lake.reading() as connection:
            for snapshot, expected in at.items():
                if snapshot >= oldest:
                    found = read_cursors_at(connection, snapshot)
                    assert {owner: inputs["posts"] for owner, inputs in found.items()} == expected
            assert read_owners(connection, "posts") == now
            ended = connection.execute(sa.select(sa.func.count()).where(CURSOR.c.end_snapshot <= oldest)).scalar()
            assert ended == 0
