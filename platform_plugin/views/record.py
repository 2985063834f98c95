"""What the lake keeps of a continuous view: its definition, the tables of its parts, and how far it has taken up each stream.

How far is kept for every snapshot, so that a read at an old one finds the state and the rows beyond it as they were.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from platform_plugin.lake import catalogue as c
from platform_plugin.lake.data_operations import has_table
from platform_plugin.lake.segments import CONSUMER, read_ring
from platform_plugin.language.render import type_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID

    from sqlalchemy.engine import Connection

    from platform_plugin.algebra.types import Field
    from platform_plugin.lake.commit import Commit
    from platform_plugin.lake.tables import Snapshot, Table
    from platform_plugin.lake.writer import Writer

VIEW = sa.Table(
    "platform_view",
    c.metadata,
    sa.Column("view_uuid", sa.String, primary_key=True),
    sa.Column("definition", sa.String, nullable=False),
)
PART = sa.Table(
    "platform_view_part",
    c.metadata,
    sa.Column("view_uuid", sa.String, primary_key=True),
    sa.Column("part", sa.String, primary_key=True),
    sa.Column("table_uuid", sa.String, nullable=False),
)
PROGRESS = sa.Table(
    "platform_view_progress",
    c.metadata,
    sa.Column("view_uuid", sa.String, primary_key=True),
    sa.Column("stream_uuid", sa.String, primary_key=True),
    sa.Column("snapshot_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("next_row_id", sa.BigInteger, nullable=False),
)
# Which snapshot a stored result is the answer of, by the snapshot that stored it.
RESULT = sa.Table(
    "platform_view_result",
    c.metadata,
    sa.Column("view_uuid", sa.String, primary_key=True),
    sa.Column("snapshot_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("of_snapshot", sa.BigInteger, nullable=False),
)
# Tables that a view looks up below its grouping and does not let change.
PROTECTED = sa.Table(
    "platform_view_protected",
    c.metadata,
    sa.Column("table_uuid", sa.String, primary_key=True),
    sa.Column("view_uuid", sa.String, primary_key=True),
)
# Views that want what arrives with the statement that adds it, as soon as so many rows wait.
PROPAGATED = sa.Table(
    "platform_view_propagated",
    c.metadata,
    sa.Column("stream_uuid", sa.String, primary_key=True),
    sa.Column("view_uuid", sa.String, primary_key=True),
    sa.Column("row_count", sa.BigInteger, nullable=False),
)
RESULT_PART = "result"
"""The part that holds a view's stored result, and the option under which a view keeps that one's columns."""
CREATED = "created"
"""The option under which a view keeps the snapshot at which its static parts were read."""
FROM = "from"
"""The option under which a view keeps the row of each stream from which on it covers it."""
VIEW_TABLES = (VIEW, PART, PROGRESS, RESULT, PROTECTED, PROPAGATED)


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewRecord:
    """A continuous view as the lake knows it; `parts` are the tables of its states and static parts, by name."""

    uuid: UUID
    query: str
    columns: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    parts: Mapping[str, UUID] = field(default_factory=dict)


def note_view(commit: Commit, record: ViewRecord) -> None:
    """Write the definition of a view that this commit creates."""
    commit.put(VIEW, expected=None, view_uuid=str(record.uuid), definition=_definition(record))
    for name, table in record.parts.items():
        commit.put(PART, expected=None, view_uuid=str(record.uuid), part=name, table_uuid=str(table))


def note_columns(commit: Commit, record: ViewRecord, fields: Sequence[Field]) -> None:
    """Write the columns of a view's result where they have grown."""
    grown = replace(record, options={**record.options, RESULT_PART: shown_columns(fields)})
    commit.put(VIEW, expected={"definition": _definition(record)}, view_uuid=str(record.uuid), definition=_definition(grown))


def shown_columns(fields: Sequence[Field]) -> list[list[str]]:
    """Columns as a view's record keeps them."""
    return [[field.name, type_text(field.type)] for field in fields]


def _definition(record: ViewRecord) -> str:
    return json.dumps({"query": record.query, "columns": list(record.columns), "options": dict(record.options)})


def read_records(connection: Connection, *, only: UUID | None = None) -> dict[UUID, ViewRecord]:
    """All continuous views, dropped ones included, or one of them."""
    from uuid import UUID

    if not sa.inspect(connection).has_table(VIEW.name):
        return {}
    views, parts = sa.select(VIEW), sa.select(PART)
    if only is not None:
        views, parts = views.where(VIEW.c.view_uuid == str(only)), parts.where(PART.c.view_uuid == str(only))
    tables: dict[str, dict[str, UUID]] = {}
    for row in connection.execute(parts):
        tables.setdefault(row.view_uuid, {})[row.part] = UUID(row.table_uuid)
    found = {}
    for row in connection.execute(views):
        known = json.loads(row.definition)
        uuid = UUID(row.view_uuid)
        found[uuid] = ViewRecord(
            uuid=uuid,
            query=known["query"],
            columns=tuple(known["columns"]),
            options=known["options"],
            parts=tables.get(row.view_uuid, {}),
        )
    return found


def read_progress(connection: Connection, view: UUID, snapshot_id: int) -> dict[str, int]:
    """The row id up to which a view had taken up each stream at a snapshot, by the stream's identity."""
    p = PROGRESS.c
    newest = (
        sa.select(p.stream_uuid, sa.func.max(p.snapshot_id).label("snapshot_id"))
        .where(p.view_uuid == str(view), p.snapshot_id <= snapshot_id)
        .group_by(p.stream_uuid)
        .subquery()
    )
    query = (
        sa.select(p.stream_uuid, p.next_row_id)
        .join(newest, sa.and_(newest.c.stream_uuid == p.stream_uuid, newest.c.snapshot_id == p.snapshot_id))
        .where(p.view_uuid == str(view))
    )
    return {row.stream_uuid: row.next_row_id for row in connection.execute(query)}


@dataclass(frozen=True, slots=True)
class Attach:
    """A view begins to consume a stream; what arrives from now on waits for it."""

    view: UUID
    stream: Table
    next_row_id: int

    def apply(self, w: Writer) -> None:
        ring = read_ring(w.connection, self.stream.uuid)
        if ring.first_row_id > self.next_row_id:
            raise w.conflict(f'rows of stream "{self.stream.name}" left before the view could hold them')
        w.insert(CONSUMER, relation_uuid=str(self.stream.uuid), consumer=str(self.view), next_row_id=self.next_row_id)
        _note_progress(w, self.view, self.stream, self.next_row_id)


@dataclass(frozen=True, slots=True)
class Advance:
    """A view has taken up a range of a stream in this same commit; a conflict if another run has taken up any of it."""

    view: UUID
    stream: Table
    expected: int
    next_row_id: int

    def apply(self, w: Writer) -> None:
        own = sa.and_(CONSUMER.c.relation_uuid == str(self.stream.uuid), CONSUMER.c.consumer == str(self.view))
        found = w.connection.execute(sa.select(CONSUMER.c.next_row_id).where(own)).scalar()
        if found != self.expected:
            raise w.conflict(f'another run has maintained the view on stream "{self.stream.name}" up to row {found}')
        w.connection.execute(sa.update(CONSUMER).where(own).values(next_row_id=self.next_row_id))
        _note_progress(w, self.view, self.stream, self.next_row_id)


def _note_progress(w: Writer, view: UUID, stream: Table, next_row_id: int) -> None:
    """Note how far the view is from this snapshot on, and forget what no snapshot that is kept needs."""
    p = PROGRESS.c
    _forget_unneeded(w, PROGRESS, sa.and_(p.view_uuid == str(view), p.stream_uuid == str(stream.uuid)))
    w.insert(PROGRESS, view_uuid=str(view), stream_uuid=str(stream.uuid), snapshot_id=w.id, next_row_id=next_row_id)


def _forget_unneeded(w: Writer, table: sa.Table, own: sa.ColumnElement[bool]) -> None:
    """Forget those of some rows by snapshot that no snapshot that is kept reads: all before the newest that the oldest one sees."""
    oldest = sa.select(sa.func.min(c.SNAPSHOT.c.snapshot_id)).scalar_subquery()
    needed = w.connection.execute(sa.select(sa.func.max(table.c.snapshot_id)).where(own, table.c.snapshot_id <= oldest)).scalar()
    if needed is not None:
        w.connection.execute(sa.delete(table).where(own, table.c.snapshot_id < needed))


def note_result(commit: Commit, view: UUID, of: Snapshot) -> None:
    """Note that what a commit stores for a view is its answer at a snapshot."""
    commit.also(_Stored(view, of.id))


@dataclass(frozen=True, slots=True)
class _Stored:
    view: UUID
    of_snapshot: int

    def apply(self, w: Writer) -> None:
        _forget_unneeded(w, RESULT, RESULT.c.view_uuid == str(self.view))
        w.insert(RESULT, view_uuid=str(self.view), snapshot_id=w.id, of_snapshot=self.of_snapshot)


@dataclass(frozen=True, slots=True)
class Protect:
    """Tables may not change as long as a view is there."""

    view: UUID
    tables: tuple[Table, ...]

    def apply(self, w: Writer) -> None:
        for uuid in {table.uuid for table in self.tables}:
            w.insert(PROTECTED, table_uuid=str(uuid), view_uuid=str(self.view))


def find_protector(connection: Connection, table: Table) -> UUID | None:
    """A view that does not let a table change, or None."""
    from uuid import UUID

    if not has_table(connection, PROTECTED.name):
        return None
    query = sa.select(PROTECTED.c.view_uuid).where(PROTECTED.c.table_uuid == str(table.uuid)).limit(1)
    found = connection.execute(query).scalar()
    return None if found is None else UUID(found)


@dataclass(frozen=True, slots=True)
class Detach:
    """A view is dropped: streams no longer wait for it. What it was stays known for reads at older snapshots."""

    view: UUID

    def apply(self, w: Writer) -> None:
        w.connection.execute(sa.delete(PROPAGATED).where(PROPAGATED.c.view_uuid == str(self.view)))
        w.connection.execute(sa.delete(PROTECTED).where(PROTECTED.c.view_uuid == str(self.view)))
        w.connection.execute(sa.delete(CONSUMER).where(CONSUMER.c.consumer == str(self.view)))
