"""Marks of ended streams: which readers come to them, and when they go."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from platform_plugin.errors import InvalidValue
from platform_plugin.lake.ring.ends import STREAM_END, read_end
from platform_plugin.platform import Platform

if TYPE_CHECKING:
    from platform_plugin.lake.lake import Lake


@pytest.fixture
def platform(lake: Lake) -> Platform:
    made = Platform(lake)
    made.execute("CREATE STREAM posts (id INT) WITH (retention_rows = 5)")
    return made


def count_marks(platform: Platform) -> int:
    with platform.lake.reading() as connection:
        return connection.execute(sa.select(sa.func.count()).select_from(STREAM_END)).scalar_one()


def test_a_lake_without_marks_has_no_end(platform: Platform) -> None:
    with platform.lake.reading() as connection:
        assert read_end(connection, platform.lake.table("posts").uuid, first_row_id=0, after=0) is None


@settings(max_examples=15, deadline=None)
@given(steps=st.lists(st.one_of(st.integers(1, 3), st.none()), max_size=8), first=st.integers(0, 8), began=st.integers(0, 8))
def test_readers_come_to_the_first_mark_behind_them(
    tmp_path_factory: pytest.TempPathFactory, steps: list[int | None], first: int, began: int
) -> None:
    """`steps` are numbers of appended rows, and None for a mark; the model is a walk over them."""
    with Platform.create(tmp_path_factory.mktemp("ends") / "lake") as platform:
        platform.execute("CREATE STREAM posts (id INT)")
        rows, marks, snapshots = 0, [], [platform.lake.newest_id()]
        with platform.stream("posts") as stream:
            for step in steps:
                if step is None:
                    platform.execute("END STREAM posts")
                    marks.append((rows, platform.lake.newest_id()))
                else:
                    stream.append([{"id": number} for number in range(step)], wait=True)
                    rows += step
                snapshots.append(platform.lake.newest_id())
        after = snapshots[min(began, len(snapshots) - 1)]
        expected = min((at for at, made in marks if at > first or (at == first and made > after)), default=None)
        with platform.lake.reading() as connection:
            assert read_end(connection, platform.lake.table("posts").uuid, first_row_id=first, after=after) == expected


def test_the_last_append_ends_the_stream_in_its_commit(platform: Platform) -> None:
    with platform.stream("posts") as stream:
        stream.append([{"id": 1}, {"id": 2}], wait=True)
        before = platform.lake.newest_id()
        done = stream.append([{"id": 3}], wait=True, last=True).result()
        assert done.snapshot_id == before + 1
        empty = stream.append([], wait=True, last=True).result()
    with platform.lake.reading() as connection:
        marks = connection.execute(sa.select(STREAM_END.c.snapshot_id, STREAM_END.c.next_row_id).order_by(STREAM_END.c.snapshot_id)).all()
    assert [tuple(mark) for mark in marks] == [(done.snapshot_id, 3), (empty.snapshot_id, 3)]


def test_marks_go_with_their_rows_or_their_stream(platform: Platform) -> None:
    platform.execute("CREATE STREAM others (id INT)")
    platform.execute("END STREAM others")
    with platform.stream("posts") as stream:
        for number in range(4):
            stream.append([{"id": number}] * 3, wait=True, last=number == 0)
    platform.lake.expire(datetime.now(UTC) + timedelta(seconds=1))
    assert count_marks(platform) == 1, "the rows before the mark of posts have left"
    platform.execute("DROP STREAM others")
    platform.lake.expire(datetime.now(UTC) + timedelta(seconds=1))
    assert count_marks(platform) == 0


def test_only_streams_end(platform: Platform) -> None:
    platform.execute("CREATE TABLE users (id INT)")
    with pytest.raises(InvalidValue, match="not a stream"):
        platform.execute("END STREAM users")
