"""Version 2: what eight tables said of cursors and nodes is in three; before the first write a query reads it from the eight."""

from __future__ import annotations

import json

import pytest
import sqlalchemy as sa

from platform_plugin.lake.cursors.cursor import CURSOR, has_cursors, read_cursor, read_cursors_at, read_owners
from platform_plugin.lake.lake import Lake
from platform_plugin.lake.migrations.cursors import _RETIRED, former_cursors, former_uses
from platform_plugin.lake.migrations.version import read_version
from platform_plugin.state.node import read_nodes, read_parts, read_users

FORMER = """
CREATE TABLE platform_consumer (relation_uuid VARCHAR, consumer VARCHAR, next_row_id BIGINT);
CREATE TABLE platform_view_progress (view_uuid VARCHAR, stream_uuid VARCHAR, snapshot_id BIGINT, next_row_id BIGINT);
CREATE TABLE platform_view_part (view_uuid VARCHAR, part VARCHAR, table_uuid VARCHAR);
CREATE TABLE platform_view_likeness (likeness VARCHAR, view_uuid VARCHAR, part VARCHAR);
CREATE TABLE platform_view_result (view_uuid VARCHAR, snapshot_id BIGINT, of_snapshot BIGINT);
CREATE TABLE platform_view_propagated (stream_uuid VARCHAR, view_uuid VARCHAR, row_count BIGINT);
CREATE TABLE platform_source_table (relation_uuid VARCHAR, source_uuid VARCHAR, snapshot_id BIGINT, next_row_id BIGINT);
CREATE TABLE platform_source_offset (relation_uuid VARCHAR, partition_id INTEGER, next_offset BIGINT, topic_id VARCHAR)
"""
POSTS, STATE, ROWS, STATIC, RESULT, FEED, USERS, UNUSED = (f"00000000-0000-0000-0000-00000000000{digit}" for digit in range(1, 9))


@pytest.fixture
def old(lake_url):
    """A lake as version 1 had it: two views that share a state, one of them dropped later; a deferred view; a sample; feeds; a session."""
    with Lake.create(lake_url) as lake:
        with lake.commit("views") as commit:
            first, twin, deferred = (str(commit.create_view(name, "SELECT 1")) for name in ("first", "twin", "deferred"))
        for _ in range(3):
            with lake.commit("nothing"):
                pass
        with lake.commit("drop") as commit:
            commit.drop_view(next(view for view in lake.views() if str(view.uuid) == twin))
        with lake.writing() as connection:
            run = connection.exec_driver_sql
            for name in (CURSOR.name, "platform_node", "platform_node_use", "platform_view"):
                run(f"DROP TABLE IF EXISTS {name}")
            for statement in (*FORMER.split(";"), "CREATE TABLE platform_view (view_uuid VARCHAR, definition VARCHAR)"):
                run(statement)
            definition = json.dumps({"query": "SELECT 1", "columns": [], "options": {"created": 1}})
            put(connection, "platform_view", *((view, definition) for view in (first, twin, deferred)))
            shared = (("state_1", STATE), ("static_1", STATIC))
            put(connection, "platform_view_part", *((view, part, node) for view in (first, twin) for part, node in shared))
            put(connection, "platform_view_part", (deferred, "rows_1", ROWS), (first, "result", RESULT))
            put(connection, "platform_view_part", (deferred, "state_1", UNUSED))
            put(connection, "platform_view_likeness", ("like", first, "static_1"), ("all", first, ""))
            steps = ((first, 1, 0), (twin, 1, 0), (first, 3, 10), (twin, 3, 10), (first, 5, 12), (deferred, 1, 7))
            put(connection, "platform_view_progress", *((view, POSTS, at, row) for view, at, row in steps))
            put(connection, "platform_view_result", (first, 2, 1), (first, 4, 3))
            consumers = ((first, 12), (deferred, 7), ("sample", 4), ("session x", 9))
            put(connection, "platform_consumer", *((POSTS, consumer, row) for consumer, row in consumers))
            put(connection, "platform_source_table", (FEED, USERS, 3, 40))
            put(connection, "platform_source_offset", (FEED, 2, 77, "topic"))
            run("UPDATE platform_lake SET value = '1' WHERE key = 'version'")
        yield lake.location, {"first": first, "twin": twin, "deferred": deferred}


def put(connection, table, *rows):
    names = [column["name"] for column in sa.inspect(connection).get_columns(table)]
    target = sa.table(table, *(sa.column(name) for name in names))
    connection.execute(sa.insert(target), [dict(zip(names, row, strict=True)) for row in rows])


def read_all(connection, rows):
    found = connection.execute(sa.select(rows.c.owner, rows.c.input, rows.c.snapshot_id, rows.c.end_snapshot, rows.c.position, rows.c.note))
    return sorted(map(tuple, found), key=str)


def answers(lake, views):
    with lake.reading() as connection:
        return {
            "lowest": read_owners(connection, POSTS),
            "state": [read_cursors_at(connection, at, [STATE]) for at in range(7)],
            "result": [read_cursors_at(connection, at, [RESULT]).get(RESULT) for at in range(7)],
            "feed": (read_cursor(connection, FEED, USERS), read_cursor(connection, FEED, "partition 2")),
            "parts": {
                name: {part: str(node) for part, node in read_parts(connection)[uuid].items() if str(node) != UNUSED}
                for name, uuid in views.items()
            },
            "users": sorted(str(user) for users in read_users(connection).values() for user in users),
        }


def test_the_same_is_read_before_and_after_the_first_write(old):
    location, views = old
    with Lake.open(location) as lake:
        with lake.reading() as connection:
            assert read_version(connection) == 1
            assert has_cursors(connection)
            before = read_all(connection, former_cursors(connection))
            assert len(connection.execute(sa.select(former_uses(connection))).all()) == 7
        told = answers(lake, views)
        with lake.commit("the first write"):
            pass
    with Lake.open(location) as lake:
        with lake.reading() as connection:
            assert read_version(connection) >= 2
            assert read_all(connection, CURSOR) == before
            nodes = read_nodes(connection, read_users(connection))
            assert {str(uuid): (node.kind, node.likeness, dict(node.options)) for uuid, node in nodes.items()}[STATIC] == (
                "static",
                "like",
                {"created": 1},
            )
        assert answers(lake, views) == told
    assert told["lowest"] == {STATE: 12, ROWS: 7, "sample": 4, "session x": 9}
    assert [at.get(STATE, {}).get(POSTS) for at in told["state"]] == [None, 0, 0, 10, 10, 12, 12]
    assert [None if at is None else at[views["first"]] for at in told["result"]] == [None, None, 1, 1, 3, 3, 3]
    assert told["feed"] == (3, 77)
    assert told["parts"]["twin"] == {"state_1": STATE, "static_1": STATIC}, "a read at an older snapshot needs them"


def test_an_older_program_finds_no_empty_tables(old):
    location, _ = old
    with Lake.open(location) as lake:
        with lake.commit("the first write"):
            pass
        with lake.reading() as connection:
            for name in _RETIRED:
                with pytest.raises(sa.exc.DBAPIError, match="upgrade platform-plugin"), connection.begin_nested():
                    connection.exec_driver_sql(f"SELECT * FROM {name}").all()
