"""Progress: how far views have taken up their streams, at each snapshot that is kept, and the operations that move it on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa

from platform_plugin.lake import catalogue as c
from platform_plugin.lake.bulk import among, chunks
from platform_plugin.lake.segments import CONSUMER, read_ring

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self
    from uuid import UUID

    from sqlalchemy.engine import Connection

    from platform_plugin.lake.tables import Table
    from platform_plugin.lake.writer import Writer
    from platform_plugin.views.ranges import Range

PROGRESS = sa.Table(
    "platform_view_progress",
    c.metadata,
    sa.Column("view_uuid", sa.String, primary_key=True),
    sa.Column("stream_uuid", sa.String, primary_key=True),
    sa.Column("snapshot_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("next_row_id", sa.BigInteger, nullable=False),
)


def read_progress(connection: Connection, view: UUID, snapshot_id: int) -> dict[str, int]:
    """The row id up to which a view had taken up each stream at a snapshot, by the stream's identity."""
    return _read(connection, snapshot_id, PROGRESS.c.view_uuid == str(view)).get(str(view), {})


def read_all_progress(connection: Connection, snapshot_id: int) -> dict[str, dict[str, int]]:
    """The same for every view, by its identity."""
    return _read(connection, snapshot_id, sa.true())


def _read(connection: Connection, snapshot_id: int, whose: sa.ColumnElement[bool]) -> dict[str, dict[str, int]]:
    p = PROGRESS.c
    newest = (
        sa.select(p.view_uuid, p.stream_uuid, sa.func.max(p.snapshot_id).label("snapshot_id"))
        .where(whose, p.snapshot_id <= snapshot_id)
        .group_by(p.view_uuid, p.stream_uuid)
        .subquery()
    )
    same = [newest.c[name] == p[name] for name in ("view_uuid", "stream_uuid", "snapshot_id")]
    found: dict[str, dict[str, int]] = {}
    for row in connection.execute(sa.select(p.view_uuid, p.stream_uuid, p.next_row_id).join(newest, sa.and_(*same))):
        found.setdefault(row.view_uuid, {})[row.stream_uuid] = row.next_row_id
    return found


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
        _note(w, [(str(self.view), str(self.stream.uuid), self.next_row_id)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Advance:
    """A view goes on from the row of a stream at which it is expected to be."""

    view: UUID
    stream: Table
    expected: int
    next_row_id: int

    @classmethod
    def over(cls, view: UUID, taken: Range) -> Self:
        """The view has taken up this range."""
        return cls(view=view, stream=taken.stream, expected=taken.first_row_id, next_row_id=taken.next_row_id)


@dataclass(frozen=True, slots=True)
class Advances:
    """Views have taken up ranges of streams in this same commit; a conflict if another run has taken up any of that."""

    moves: Sequence[Advance]

    def apply(self, w: Writer) -> None:
        found: dict[tuple[str, str], int] = {}
        for part in chunks(sorted({str(move.view) for move in self.moves})):
            query = sa.select(CONSUMER.c.consumer, CONSUMER.c.relation_uuid, CONSUMER.c.next_row_id)
            for row in w.connection.execute(query.where(among(w.connection, CONSUMER.c.consumer, part))):
                found[row.consumer, row.relation_uuid] = row.next_row_id
        for move in self.moves:
            now = found.get((str(move.view), str(move.stream.uuid)))
            if now != move.expected:
                raise w.conflict(f'another run has maintained the view on stream "{move.stream.name}" up to row {now}')
            key = {"relation_uuid": str(move.stream.uuid), "consumer": str(move.view)}
            w.update_later(CONSUMER, key, {"next_row_id": move.next_row_id})
        _note(w, [(str(move.view), str(move.stream.uuid), move.next_row_id) for move in self.moves])


def _note(w: Writer, moves: Sequence[tuple[str, str, int]]) -> None:
    """Note how far views are from this snapshot on, and forget what no snapshot that is kept needs."""
    p = PROGRESS.c
    for part in chunks(sorted({view for view, _, _ in moves})):
        forget_unneeded(w, PROGRESS, (p.view_uuid, p.stream_uuid), among(w.connection, p.view_uuid, part))
    for view, stream, next_row_id in moves:
        w.insert(PROGRESS, view_uuid=view, stream_uuid=stream, snapshot_id=w.id, next_row_id=next_row_id)


def forget_unneeded(w: Writer, table: sa.Table, keys: Sequence[sa.Column[str]], whose: sa.ColumnElement[bool]) -> None:
    """Forget those of some notes that no snapshot that is kept reads: of each key, all before the newest that the oldest one sees."""
    at = table.c.snapshot_id
    oldest = sa.select(sa.func.min(c.SNAPSHOT.c.snapshot_id)).scalar_subquery()
    query = sa.select(*keys, sa.func.max(at).label("needed"), sa.func.count().label("seen")).where(whose, at <= oldest).group_by(*keys)
    going = [dict(row._mapping) for row in w.connection.execute(query) if row.seen > 1]  # noqa: SLF001  SQLAlchemy's public way
    if going:
        own = sa.and_(*(key == sa.bindparam(key.name) for key in keys))
        w.connection.execute(sa.delete(table).where(own, at < sa.bindparam("needed")), going)
