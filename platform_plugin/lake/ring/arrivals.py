"""Arrivals in streams: row counts, times and writers of what came, from the catalogue and for many streams at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa

from platform_plugin.lake.commit.data_operations import has_table
from platform_plugin.lake.ring.arrival_log import read_logged, read_oldest_logged
from platform_plugin.lake.ring.segments import LEFT_FILE, SEGMENT, STREAM

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from uuid import UUID

    from sqlalchemy.engine import Connection

    from platform_plugin.lake.catalogue import catalogue as c


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentArrivals:
    """The segments, rows and writers that have arrived since a moment and that the stream still holds."""

    segments: int
    rows: int
    writers: int


def has_rings(connection: Connection) -> bool:
    """Whether anything was ever appended to a stream of this lake."""
    return has_table(connection, STREAM.name)


def has_segments(connection: Connection) -> bool:
    """Whether the catalogue has the table of segments."""
    return has_table(connection, SEGMENT.name)


def read_ends(connection: Connection) -> dict[str, int]:
    """The next row id of each stream with appends, which is the number of rows that it ever received."""
    if not has_rings(connection):
        return {}
    return {uuid: int(rows) for uuid, rows in connection.execute(sa.select(STREAM.c.relation_uuid, STREAM.c.next_row_id))}


def read_all_arrivals(connection: Connection) -> Sequence[c.AnyRow]:
    """Stream, first row id, end and arrival of every segment that is in no arrival log, ordered by end.

    The catalogue must have the table of segments.
    """
    s = SEGMENT.c
    return connection.execute(sa.select(s.relation_uuid, s.first_row_id, s.next_row_id, s.arrived_at).order_by(s.next_row_id)).all()


def read_last_arrival(connection: Connection, stream: UUID) -> int | None:
    """The snapshot that appended the newest segment of a stream."""
    return connection.execute(sa.select(sa.func.max(SEGMENT.c.snapshot_id)).where(SEGMENT.c.relation_uuid == str(stream))).scalar()


def read_arrived_beyond(connection: Connection, stream: UUID, row_id: int) -> datetime | None:
    """The arrival time of the oldest row of a stream at or after a row id, or None."""
    if not has_segments(connection):
        return None
    logged = read_logged(connection, stream, beyond=row_id)
    if logged:
        return min(each.arrived_at for each in logged)
    s = SEGMENT.c
    return connection.execute(sa.select(sa.func.min(s.arrived_at)).where(s.relation_uuid == str(stream), s.next_row_id > row_id)).scalar()


def read_arrival_span(connection: Connection, stream: UUID) -> tuple[datetime | None, datetime | None]:
    """The arrival times of the oldest and the newest segment that a stream holds."""
    s = SEGMENT.c
    query = sa.select(sa.func.min(s.arrived_at), sa.func.max(s.arrived_at)).where(s.relation_uuid == str(stream))
    oldest, newest = connection.execute(query).one()
    return read_oldest_logged(connection, stream) or oldest, newest


def read_recent(connection: Connection, stream: UUID, since: datetime) -> RecentArrivals:
    """What has arrived in a stream since a moment."""
    s = SEGMENT.c
    rows = sa.func.coalesce(sa.func.sum(s.next_row_id - s.first_row_id), 0)
    query = sa.select(sa.func.count(), rows, sa.func.count(sa.distinct(s.writer)))
    segments, came, writers = connection.execute(query.where(s.relation_uuid == str(stream), s.arrived_at > since)).one()
    logged = [each.next_row_id - each.first_row_id for each in read_logged(connection, stream, since=since) if each.arrived_at > since]
    return RecentArrivals(segments=segments + len(logged), rows=int(came) + sum(logged), writers=writers)


def read_evicted_bytes(connection: Connection, stream: UUID) -> int:
    """The bytes of evicted files that a reader may still need."""
    query = sa.select(sa.func.coalesce(sa.func.sum(LEFT_FILE.c.size_bytes), 0)).where(LEFT_FILE.c.relation_uuid == str(stream))
    return int(connection.execute(query).scalar_one())
