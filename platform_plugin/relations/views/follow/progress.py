"""The progress of views: how far each had consumed its streams at each snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from platform_plugin.lake.catalogue import catalogue as c
from platform_plugin.lake.catalogue.bulk import is_among, split_chunks
from platform_plugin.lake.catalogue.snapshots import oldest_snapshot, snapshot_times
from platform_plugin.lake.commit.data_operations import has_table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from sqlalchemy.engine import Connection

    from platform_plugin.lake.commit.writer import Writer

PROGRESS = sa.Table(
    "platform_view_progress",
    c.metadata,
    sa.Column("view_uuid", sa.String, primary_key=True),
    sa.Column("stream_uuid", sa.String, primary_key=True),
    sa.Column("snapshot_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("next_row_id", sa.BigInteger, nullable=False),
)
PROGRESS_TABLES = (PROGRESS,)


def read_progress(connection: Connection, view: UUID, snapshot_id: int) -> dict[str, int]:
    """The row id up to which a view had consumed each stream at a snapshot, by the stream's identity."""
    return _read(connection, snapshot_id, PROGRESS.c.view_uuid == str(view)).get(str(view), {})


def read_all_progress(connection: Connection, snapshot_id: int) -> dict[str, dict[str, int]]:
    """The same for every view, by its identity."""
    return _read(connection, snapshot_id, sa.true())


def read_last_progress(connection: Connection) -> dict[str, int]:
    """The snapshot at which each view last consumed rows, or that of its creation."""
    if not has_table(connection, PROGRESS.name):
        return {}
    newest = sa.select(PROGRESS.c.view_uuid, sa.func.max(PROGRESS.c.snapshot_id)).group_by(PROGRESS.c.view_uuid)
    return {str(uuid): int(snapshot_id) for uuid, snapshot_id in connection.execute(newest)}


def read_steps(connection: Connection) -> Sequence[c.AnyRow]:
    """View, stream, time and row id of every recorded step, in the order of snapshots."""
    if not has_table(connection, PROGRESS.name):
        return []
    p, times = PROGRESS.c, snapshot_times()
    query = sa.select(p.view_uuid, p.stream_uuid, times.c.snapshot_time, p.next_row_id)
    return connection.execute(query.join(times, times.c.snapshot_id == p.snapshot_id).order_by(p.snapshot_id)).all()


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


def note_progress(w: Writer, moves: Sequence[tuple[str, str, int]]) -> None:
    """Record how far views have come with this snapshot, and delete what no snapshot needs."""
    p = PROGRESS.c
    for part in split_chunks(sorted({view for view, _, _ in moves})):
        forget_unneeded(w, PROGRESS, (p.view_uuid, p.stream_uuid), is_among(w.connection, p.view_uuid, part))
    for view, stream, next_row_id in moves:
        w.insert(PROGRESS, view_uuid=view, stream_uuid=stream, snapshot_id=w.id, next_row_id=next_row_id)


def forget_unneeded(w: Writer, table: sa.Table, keys: Sequence[sa.Column[str]], whose: sa.ColumnElement[bool]) -> None:
    """Delete rows that no snapshot reads: for each key, those before the newest that the oldest snapshot sees."""
    at = table.c.snapshot_id
    oldest = oldest_snapshot()
    query = sa.select(*keys, sa.func.max(at).label("needed"), sa.func.count().label("seen")).where(whose, at <= oldest).group_by(*keys)
    going = [dict(row._mapping) for row in w.connection.execute(query) if row.seen > 1]  # noqa: SLF001  SQLAlchemy's public way
    if going:
        own = sa.and_(*(key == sa.bindparam(key.name) for key in keys))
        w.connection.execute(sa.delete(table).where(own, at < sa.bindparam("needed")), going)
