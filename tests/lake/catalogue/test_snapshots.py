"""Snapshots: their times, what their commits say that they changed, and the marks that commits carry."""

from __future__ import annotations

import pyarrow as pa
import sqlalchemy as sa

from platform_plugin.lake.catalogue.snapshots import find_marked, oldest_snapshot, read_last_note, read_notes, read_times, snapshot_times

ROWS = pa.table({"n": pa.array([1, 2], pa.int64())})


def test_commits_are_told_by_their_times_notes_and_marks(lake):
    with lake.commit("create") as commit:
        for name in ("a", "b"):
            commit.create_table(name, lake.columns_of(ROWS.schema))
    created = commit.made
    for name, mark in (("a", "50% _one_"), ("b", "two"), ("a", "three")):
        table = lake.table(name)
        with lake.commit("append", notes={"mark": mark}) as commit:
            commit.append(table, [lake.write(table, ROWS)])
    a, b, newest = lake.table("a"), lake.table("b"), lake.snapshot()
    times = {each.id: each.time for each in lake.commits()}
    with lake.reading() as connection:
        notes = read_notes(connection, after=created.id, until=newest.id)
        assert [tuple(row) for row in notes] == [
            (created.id + place, f"inserted_into_table:{table.id}", times[created.id + place]) for place, table in enumerate((a, b, a), 1)
        ]
        assert read_notes(connection, after=newest.id, until=newest.id) == []
        assert (read_last_note(connection, a.id), read_last_note(connection, b.id)) == (newest.id, newest.id - 1)
        assert read_last_note(connection, b.id + 1000) is None
        assert find_marked(connection, "two", after=created.id) == newest.id - 1
        assert find_marked(connection, "50% _one_", after=created.id) == created.id + 1
        assert find_marked(connection, "5%_one_", after=created.id) is None, "signs of LIKE stand for themselves"
        assert find_marked(connection, "two", after=newest.id - 1) is None
        assert read_times(connection, {newest.id, 10_000}) == {newest.id: newest.time}
        found = snapshot_times()
        assert dict(map(tuple, connection.execute(sa.select(found.c.snapshot_id, found.c.snapshot_time)))) == times
        assert connection.execute(sa.select(oldest_snapshot())).scalar() == min(times)
