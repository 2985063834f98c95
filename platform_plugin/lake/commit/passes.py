"""Passes of gates: the version of each relation that its gate let pass last, and the snapshot at which it is readable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

import sqlalchemy as sa

from platform_plugin.lake.catalogue import catalogue as c
from platform_plugin.lake.catalogue.relations import filter_streams
from platform_plugin.lake.catalogue.snapshots import oldest_snapshot
from platform_plugin.lake.catalogue.tables import read_tables
from platform_plugin.lake.commit.data_operations import has_table
from platform_plugin.lake.read.last_change import differs_since, has_older_rows

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    from sqlalchemy.engine import Connection

    from platform_plugin.lake.catalogue.forgotten import Folding
    from platform_plugin.lake.catalogue.tables import Name, Snapshot, Table
    from platform_plugin.lake.commit.writer import Writer
    from platform_plugin.lake.lake import Lake

# By name: a table that is built again is another one under the same name, and what passed before is the old one's rows.
GATE_PASS = sa.Table(
    "platform_gate_pass",
    c.metadata,
    sa.Column("schema_name", sa.String, primary_key=True),
    sa.Column("relation_name", sa.String, primary_key=True),
    sa.Column("snapshot_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("passed_at", c.UtcTimestamp, nullable=False),
    sa.Column("table_uuid", sa.String, nullable=False),
    sa.Column("readable_at", sa.BigInteger, nullable=False),
)
PASS_TABLES = (GATE_PASS,)


@dataclass(frozen=True, slots=True, kw_only=True)
class GatePass:
    """The version of a relation that passed its gate last: its first snapshot, its table, and a snapshot at which it is readable."""

    snapshot_id: int
    passed_at: datetime
    table_uuid: UUID
    readable_at: int


def read_pass(connection: Connection, name: Name, snapshot: Snapshot) -> GatePass | None:
    """The version that had passed last at a snapshot; None if none had."""
    if not has_table(connection, GATE_PASS.name):
        return None
    p = GATE_PASS.c
    newest = sa.select(GATE_PASS).where(_named(name), p.snapshot_id <= snapshot.id).order_by(p.snapshot_id.desc()).limit(1)
    return _pass(connection.execute(newest).first())


def is_passed(connection: Connection, name: Name, table: Table, snapshot: Snapshot) -> bool:
    """Whether the rows of a table at a snapshot are those of the version that passed the relation's gate last."""
    found = read_pass(connection, name, snapshot)
    return found is not None and found.table_uuid == table.uuid and not differs_since(connection, table, found.readable_at, snapshot)


def hold_passes(connection: Connection, newest: Snapshot) -> frozenset[int]:
    """The snapshots that must not expire because only they have the version that passed a gate last.

    Where nothing has changed since, the newest snapshot has it too: then that one is noted, and the older one may go.
    """
    if not has_table(connection, GATE_PASS.name):
        return frozenset()
    p = GATE_PASS.c
    passes = connection.execute(sa.select(GATE_PASS).order_by(p.snapshot_id)).all()
    names = _live_names(connection, newest) if passes else ()
    held: set[int] = set()
    for row in passes:
        key = (row.schema_name, row.relation_name)
        own = sa.and_(p.schema_name == row.schema_name, p.relation_name == row.relation_name)
        if key not in names:
            connection.execute(sa.delete(GATE_PASS).where(own))
            continue
        later = connection.execute(sa.select(sa.func.max(p.snapshot_id)).where(own)).scalar()
        if later is not None and later > row.snapshot_id:
            continue
        tables = read_tables(connection, newest.id, uuids=[UUID(row.table_uuid)])
        if tables and not differs_since(connection, tables[0], row.readable_at, newest):
            connection.execute(sa.update(GATE_PASS).where(own, p.snapshot_id == row.snapshot_id).values(readable_at=newest.id))
        else:
            held.add(row.readable_at)
    return frozenset(held)


def fold_passes(rows: Folding) -> int:
    """Delete the passes before the one that the oldest snapshot sees; those of dropped relations go with `hold_passes`."""
    return rows.delete_superseded(GATE_PASS, GATE_PASS.c.schema_name, GATE_PASS.c.relation_name)


def lift_gate(lake: Lake, name: Name) -> None:
    """Delete the pass of a relation that has no gate any more, so that no snapshot is kept for it."""
    with lake.reading() as connection:
        if (
            not has_table(connection, GATE_PASS.name)
            or connection.execute(sa.select(GATE_PASS).where(_named(name)).limit(1)).first() is None
        ):
            return
    with lake.writing() as connection:
        connection.execute(sa.delete(GATE_PASS).where(_named(name)))


@dataclass(frozen=True, slots=True)
class ForgetPasses:
    """Deletes the passes of a dropped relation."""

    name: Name

    def apply(self, w: Writer) -> None:
        if has_table(w.connection, GATE_PASS.name):
            w.connection.execute(sa.delete(GATE_PASS).where(_named(self.name)))


@dataclass(frozen=True, slots=True)
class NotePass:
    """Records that the rows which this commit adds to a table have passed the relation's gate.

    The version as a whole has passed only if nothing else is in the table but what passed before: rows that came past the gate stay
    out of what is given to those who ask for what passed. Of a stream each batch passes for itself, and no version is noted.
    """

    name: Name
    table: Table

    def apply(self, w: Writer) -> None:
        if filter_streams(w.connection, [str(self.table.uuid)]):
            return
        w.flush()
        table_id = w.table_id(self.table)
        here = next(iter(read_tables(w.connection, w.id, ids=[table_id])))
        if has_older_rows(w.connection, here, w.id) and not is_passed(w.connection, self.name, here, w.head):
            return
        w.connection.execute(sa.delete(GATE_PASS).where(_named(self.name), GATE_PASS.c.snapshot_id < oldest_snapshot()))
        w.insert(
            GATE_PASS,
            schema_name=self.name.schema.lower(),
            relation_name=self.name.relation.lower(),
            snapshot_id=w.id,
            passed_at=w.time,
            table_uuid=str(self.table.uuid),
            readable_at=w.id,
        )


def _named(name: Name) -> sa.ColumnElement[bool]:
    return sa.and_(GATE_PASS.c.schema_name == name.schema.lower(), GATE_PASS.c.relation_name == name.relation.lower())


def _live_names(connection: Connection, newest: Snapshot) -> Collection[tuple[str, str]]:
    s = c.SCHEMA
    found: set[tuple[str, str]] = set()
    for relation, name in ((c.TABLE, c.TABLE.c.table_name), (c.VIEW, c.VIEW.c.view_name)):
        query = sa.select(s.c.schema_name, name).join(s, sa.and_(s.c.schema_id == relation.c.schema_id, c.is_visible_at(s, newest.id)))
        found |= {
            (str(row[0]).lower(), str(row[1]).lower()) for row in connection.execute(query.where(c.is_visible_at(relation, newest.id)))
        }
    return found


def _pass(row: c.AnyRow | None) -> GatePass | None:
    if row is None:
        return None
    return GatePass(snapshot_id=row.snapshot_id, passed_at=row.passed_at, table_uuid=UUID(row.table_uuid), readable_at=row.readable_at)
