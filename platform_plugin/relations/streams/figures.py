"""The figures of a stream: what it holds, how fast rows come, who writes, and who is behind."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import sqlalchemy as sa

from platform_plugin.lake.ring.history import read_history
from platform_plugin.lake.ring.segments import CONSUMER, LEFT_FILE, SEGMENT, STREAM, read_ring

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from platform_plugin.lake.catalogue.tables import Snapshot, Table

_RECENT = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamFigures:
    """A stream at one moment. Rates and writers are those of the last minute, or of what a faster ring holds."""

    rows: int
    bytes: int
    segments: int
    first_row_id: int
    next_row_id: int
    rows_per_second: float
    segments_per_second: float
    writers: int
    last_arrival: datetime | None
    oldest_arrival: datetime | None
    bytes_held_by_readers: int
    unconsumed_rows: int
    history: str | None

    def lag_seconds(self, now: datetime) -> float | None:
        """How long nothing has come."""
        return None if self.last_arrival is None else max((now - self.last_arrival).total_seconds(), 0.0)


def read_figures(connection: Connection, stream: Table, snapshot: Snapshot, now: datetime | None = None) -> StreamFigures | None:
    """The figures of a stream, from the catalogue alone; None before anything was ever added to a stream of this lake."""
    if not sa.inspect(connection).has_table(STREAM.name):
        return None
    now = now or datetime.now(UTC)
    uuid = str(stream.uuid)
    ring = read_ring(connection, stream.uuid)
    s = SEGMENT.c
    own = s.relation_uuid == uuid
    arrivals = connection.execute(sa.select(sa.func.min(s.arrived_at), sa.func.max(s.arrived_at)).where(own)).one()
    count, rows, writers = connection.execute(
        sa.select(
            sa.func.count(), sa.func.coalesce(sa.func.sum(s.next_row_id - s.first_row_id), 0), sa.func.count(sa.distinct(s.writer))
        ).where(own, s.arrived_at > now - _RECENT)
    ).one()
    # Of a ring that turns in less than a minute only what it still holds is known.
    span = _RECENT if not ring.first_row_id or arrivals[0] is None else min(_RECENT, max(now - arrivals[0], timedelta(seconds=1)))
    left = sa.select(sa.func.coalesce(sa.func.sum(LEFT_FILE.c.size_bytes), 0)).where(LEFT_FILE.c.relation_uuid == uuid)
    furthest_behind = connection.execute(sa.select(sa.func.min(CONSUMER.c.next_row_id)).where(CONSUMER.c.relation_uuid == uuid)).scalar()
    history = read_history(connection, stream, snapshot.id)
    return StreamFigures(
        rows=ring.row_count,
        bytes=ring.size_bytes,
        segments=ring.segment_count,
        first_row_id=ring.first_row_id,
        next_row_id=ring.next_row_id,
        rows_per_second=int(rows) / span.total_seconds(),
        segments_per_second=count / span.total_seconds(),
        writers=writers,
        last_arrival=arrivals[1],
        oldest_arrival=arrivals[0],
        bytes_held_by_readers=int(connection.execute(left).scalar_one()),
        unconsumed_rows=0 if furthest_behind is None else max(ring.next_row_id - furthest_behind, 0),
        history=None if history is None else str(history.name),
    )
