"""Version 2: one table of cursors, and nodes with their users, in place of eight tables that said the same for views, feeds and consumers.

The select statements are also how a lake of an earlier version is read until somebody writes to it.
"""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING

import sqlalchemy as sa

from platform_plugin.lake.migrations.retired import retire_table

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

VERSION = 2
_RETIRED = (
    "platform_consumer",
    "platform_view_progress",
    "platform_view_part",
    "platform_view_likeness",
    "platform_view_result",
    "platform_view_propagated",
    "platform_source_table",
    "platform_source_offset",
)
_VIEW_UUID = "CAST(v.view_uuid AS VARCHAR(36))"
# When a relation's view was dropped; NULL while it is there, under whatever name.
_GONE = f"""
    SELECT {_VIEW_UUID} AS view_uuid, CASE WHEN count(*) = count(v.end_snapshot) THEN max(v.end_snapshot) END AS end_snapshot
    FROM ducklake_view v GROUP BY {_VIEW_UUID}"""
# The tables of a view that take rows of its streams: its states or, of a deferred view, its stored rows. Which of them reads which stream
# only the plan knows; a run ends the cursors that it does not need.
_TAKING = """
    SELECT p.view_uuid, p.table_uuid FROM platform_view_part p
    WHERE substr(p.part, 1, 5) = 'rows_' OR (substr(p.part, 1, 6) = 'state_' AND NOT EXISTS (
        SELECT 1 FROM platform_view_part r WHERE r.view_uuid = p.view_uuid AND substr(r.part, 1, 5) = 'rows_'))"""
_VIEWS = f"""
    SELECT step.node AS owner, step.stream_uuid AS input, step.snapshot_id AS snapshot_id,
        coalesce(lead(step.snapshot_id) OVER (PARTITION BY step.node, step.stream_uuid ORDER BY step.snapshot_id), gone.end_snapshot)
            AS end_snapshot,
        step.next_row_id AS position, CAST(NULL AS VARCHAR(36)) AS note
    FROM (
        SELECT t.table_uuid AS node, g.stream_uuid, g.snapshot_id, max(g.next_row_id) AS next_row_id
        FROM ({_TAKING}) t JOIN platform_view_progress g ON g.view_uuid = t.view_uuid
        GROUP BY t.table_uuid, g.stream_uuid, g.snapshot_id
    ) step
    JOIN (
        SELECT t.table_uuid AS node, CASE WHEN count(*) = count(e.end_snapshot) THEN max(e.end_snapshot) END AS end_snapshot
        FROM ({_TAKING}) t JOIN ({_GONE}) e ON e.view_uuid = t.view_uuid GROUP BY t.table_uuid
    ) gone ON gone.node = step.node"""
_RESULTS = f"""
    SELECT p.table_uuid AS owner, r.view_uuid AS input, r.snapshot_id AS snapshot_id,
        coalesce(lead(r.snapshot_id) OVER (PARTITION BY r.view_uuid ORDER BY r.snapshot_id), e.end_snapshot) AS end_snapshot,
        r.of_snapshot AS position, CAST(NULL AS VARCHAR(36)) AS note
    FROM platform_view_result r
    JOIN platform_view_part p ON p.view_uuid = r.view_uuid AND p.part = 'result'
    JOIN ({_GONE}) e ON e.view_uuid = r.view_uuid"""
_CONSUMERS = """
    SELECT n.consumer AS owner, n.relation_uuid AS input, -1 AS snapshot_id, CAST(NULL AS BIGINT) AS end_snapshot,
        n.next_row_id AS position, CAST(NULL AS VARCHAR(36)) AS note
    FROM platform_consumer n"""
_NO_VIEWS = " WHERE n.consumer NOT IN (SELECT view_uuid FROM platform_view)"
_TABLE_FEEDS = """
    SELECT t.relation_uuid AS owner, t.source_uuid AS input, -1 AS snapshot_id, CAST(NULL AS BIGINT) AS end_snapshot,
        t.snapshot_id AS position, '{"next_row_id": ' || t.next_row_id || '}' AS note
    FROM platform_source_table t"""
_TOPIC_FEEDS = """
    SELECT o.relation_uuid AS owner, 'partition ' || o.partition_id AS input, -1 AS snapshot_id, CAST(NULL AS BIGINT) AS end_snapshot,
        o.next_offset AS position, o.topic_id AS note
    FROM platform_source_offset o"""
_NOTHING = "SELECT '' AS owner, '' AS input, 0 AS snapshot_id, 0 AS end_snapshot, 0 AS position, '' AS note WHERE 1 = 0"
_USES = f"""
    SELECT p.view_uuid AS user_uuid, p.part AS part, p.table_uuid AS node_uuid, e.end_snapshot AS end_snapshot
    FROM platform_view_part p JOIN ({_GONE}) e ON e.view_uuid = p.view_uuid"""
_CREATE = """
CREATE TABLE IF NOT EXISTS platform_cursor (
    owner VARCHAR NOT NULL, input VARCHAR NOT NULL, snapshot_id BIGINT NOT NULL, end_snapshot BIGINT, position BIGINT NOT NULL,
    note VARCHAR, PRIMARY KEY (owner, input, snapshot_id)
);
CREATE INDEX IF NOT EXISTS platform_cursor_by_input ON platform_cursor (end_snapshot, input, owner);
CREATE INDEX IF NOT EXISTS platform_cursor_by_owner ON platform_cursor (end_snapshot, owner);
CREATE TABLE IF NOT EXISTS platform_node (
    node_uuid VARCHAR NOT NULL, kind VARCHAR NOT NULL, likeness VARCHAR, plan VARCHAR, options VARCHAR NOT NULL, PRIMARY KEY (node_uuid)
);
CREATE INDEX IF NOT EXISTS platform_node_by_likeness ON platform_node (likeness);
CREATE TABLE IF NOT EXISTS platform_node_use (
    user_uuid VARCHAR NOT NULL, part VARCHAR NOT NULL, node_uuid VARCHAR NOT NULL, end_snapshot BIGINT, PRIMARY KEY (user_uuid, part)
);
CREATE INDEX IF NOT EXISTS platform_node_use_by_node ON platform_node_use (node_uuid)"""


def former_cursors(connection: Connection) -> sa.Subquery:
    """The cursors of a lake before version 2, in the form of `platform_cursor`."""
    text = sa.text(_cursors_sql(set(sa.inspect(connection).get_table_names())))
    numbers = dict.fromkeys(("snapshot_id", "end_snapshot", "position"), sa.BigInteger)
    return text.columns(owner=sa.String, input=sa.String, note=sa.String, **numbers).subquery("platform_cursor")


def former_uses(connection: Connection) -> sa.Subquery:
    """The uses of nodes of a lake before version 2, in the form of `platform_node_use`."""
    has_parts = sa.inspect(connection).has_table("platform_view_part")
    none = "SELECT '' AS user_uuid, '' AS part, '' AS node_uuid, 0 AS end_snapshot WHERE 1 = 0"
    text = sa.text(_USES if has_parts else none)
    names = dict.fromkeys(("user_uuid", "part", "node_uuid"), sa.String)
    return text.columns(**names, end_snapshot=sa.BigInteger).subquery("platform_node_use")


def _cursors_sql(there: set[str]) -> str:
    parts = []
    if {"platform_view_part", "platform_view_progress"} <= there:
        parts.append(_VIEWS)
    if {"platform_view_part", "platform_view_result"} <= there:
        parts.append(_RESULTS)
    if "platform_consumer" in there:
        parts.append(_CONSUMERS + (_NO_VIEWS if "platform_view" in there else ""))
    parts += [_TABLE_FEEDS] if "platform_source_table" in there else []
    parts += [_TOPIC_FEEDS] if "platform_source_offset" in there else []
    # SQLite takes no brackets around the parts of a union.
    columns = "owner, input, snapshot_id, end_snapshot, position, note"
    return " UNION ALL ".join(f"SELECT {columns} FROM ({part}) p{number}" for number, part in enumerate(parts)) or _NOTHING


def move_cursors_and_nodes(connection: Connection) -> None:
    """Make the three tables, fill them from the former ones, and retire these."""
    run = connection.exec_driver_sql
    there = set(sa.inspect(connection).get_table_names())
    for statement in _CREATE.split(";\n"):
        run(statement)
    columns = "owner, input, snapshot_id, end_snapshot, position, note"
    run(f"INSERT INTO platform_cursor ({columns}) SELECT {columns} FROM ({_cursors_sql(there)}) c")
    if "platform_view_part" in there:
        columns = "user_uuid, part, node_uuid, end_snapshot"
        run(f"INSERT INTO platform_node_use ({columns}) SELECT {columns} FROM ({_USES}) u")
        _add_nodes(connection, there)
    for name in _RETIRED:
        if name in there:
            retire_table(connection, name)


def _add_nodes(connection: Connection, there: set[str]) -> None:
    """The nodes of all views, with the likeness of static parts; states are shared with later views only when they are made anew."""
    run = connection.exec_driver_sql
    created = {row[0]: json.loads(row[1])["options"].get("created") for row in run("SELECT view_uuid, definition FROM platform_view")}
    likeness: defaultdict[tuple[str, str], str | None] = defaultdict(lambda: None)
    if "platform_view_likeness" in there:
        likeness |= {
            (row[0], row[1]): row[2] for row in run("SELECT view_uuid, part, likeness FROM platform_view_likeness WHERE part <> ''")
        }
    nodes: dict[str, tuple[str, str, str | None, str]] = {}
    # A node that was shared was read when the first view that has it was made; only some of its views may have noted its likeness.
    for view, part, node in run("SELECT view_uuid, part, table_uuid FROM platform_view_part ORDER BY view_uuid DESC"):
        options = {} if created.get(view) is None else {"created": created[view]}
        alike = likeness[view, part] or (nodes[node][2] if node in nodes else None)
        nodes[node] = (node, part.partition("_")[0], alike, json.dumps(options))
    if nodes:
        names = ("node_uuid", "kind", "likeness", "options")
        target = sa.table("platform_node", *(sa.column(name) for name in names))
        connection.execute(sa.insert(target), [dict(zip(names, row, strict=True)) for row in nodes.values()])
