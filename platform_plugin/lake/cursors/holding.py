"""Consumers of tables: cursors that keep the snapshot up to which the changes of a table were consumed, so that the next ones are known."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa

from platform_plugin.lake.catalogue.relations import read_declarations
from platform_plugin.lake.catalogue.tables import read_tables
from platform_plugin.lake.cursors.cursor import CURSOR
from platform_plugin.lake.migrations.cursors import VERSION
from platform_plugin.lake.migrations.version import read_version

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from platform_plugin.lake.catalogue.tables import Snapshot, Table

PREFIX = "consumer "
"""What the owner of a named consumer's cursor begins with."""
_HOLDS = "holds"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeConsumer:
    """Who consumes the changes of a table, and the snapshot up to which; it is kept unless the table `drops` what is unconsumed."""

    name: str
    table: Table
    position: int
    drops: bool = False


def holding_note(name: str) -> str:
    """The note of a cursor that keeps its snapshot, with the name of its consumer as it is shown."""
    return json.dumps({_HOLDS: name})


def read_change_consumers(connection: Connection, snapshot: Snapshot) -> list[ChangeConsumer]:
    """The consumers of the changes of tables that are there at a snapshot, those that are furthest behind first."""
    if read_version(connection) < VERSION or not sa.inspect(connection).has_table(CURSOR.name):
        return []
    t = CURSOR.c
    query = sa.select(t.input, t.position, t.note).where(t.end_snapshot.is_(None), t.note.contains(f'"{_HOLDS}"'))
    found = connection.execute(query.order_by(t.position, t.owner)).all()
    if not found:
        return []
    by_uuid = {str(table.uuid): table for table in read_tables(connection, snapshot.id)}
    declared = read_declarations(connection, only={row.input for row in found})
    return [
        ChangeConsumer(
            name=json.loads(row.note)[_HOLDS],
            table=by_uuid[row.input],
            position=row.position,
            drops=row.input in declared and declared[row.input].options.get("on_unconsumed") == "drop",
        )
        for row in found
        if row.input in by_uuid
    ]


def hold_changes(connection: Connection, newest: Snapshot) -> dict[int, list[ChangeConsumer]]:
    """The snapshots that must not expire because a consumer's next changes begin behind them, each with its consumers."""
    held: dict[int, list[ChangeConsumer]] = {}
    for consumer in read_change_consumers(connection, newest):
        if not consumer.drops:
            held.setdefault(consumer.position, []).append(consumer)
    return held


def owner_of(name: str) -> str:
    """The owner of a named consumer's cursors."""
    return f"{PREFIX}{name}"
