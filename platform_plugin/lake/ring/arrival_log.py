"""Arrival logs: hundreds of segments that no append will evict, in one row of the catalogue.

A stream without limits and the history of a stream keep the arrival of every row. With a row of the catalogue for each segment it would
grow with commits for as long as the lake lives. An expiry puts segments of snapshots that are gone into logs, some bytes each; nothing of
them is lost but the name of the process that wrote them.
"""

from __future__ import annotations

import zlib
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import sqlalchemy as sa

from platform_plugin.lake.catalogue import catalogue as c
from platform_plugin.lake.migrations.arrival_logs import VERSION
from platform_plugin.lake.migrations.version import read_version

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from sqlalchemy.engine import Connection

ARRIVAL_LOG = sa.Table(
    "platform_arrival_log",
    c.metadata,
    sa.Column("relation_uuid", sa.String, primary_key=True),
    sa.Column("first_row_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("next_row_id", sa.BigInteger, nullable=False),
    sa.Column("segment_count", sa.BigInteger, nullable=False),
    sa.Column("oldest_arrival", c.UtcTimestamp, nullable=False),
    sa.Column("newest_arrival", c.UtcTimestamp, nullable=False),
    sa.Column("segments", sa.LargeBinary, nullable=False),
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_COLUMNS = 5


class LoggedSegment(NamedTuple):
    """A segment in a log: its row ids from `first_row_id` up to but not including `next_row_id`, size, arrival and snapshot."""

    first_row_id: int
    next_row_id: int
    size_bytes: int
    arrived_at: datetime
    snapshot_id: int


def pack_segments(segments: Sequence[LoggedSegment]) -> bytes:
    """Segments as bytes: each number as its difference from the one before, compressed.

    >>> noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    >>> parts = [LoggedSegment(i * 10, i * 10 + 10, 900, noon + timedelta(seconds=i), i) for i in range(1000)]
    >>> unpack_segments(pack_segments(parts)) == parts, len(pack_segments(parts)) < 1000
    (True, True)
    """
    rows = [(s.first_row_id, s.next_row_id, s.size_bytes, (s.arrived_at - _EPOCH) // _MICROSECOND, s.snapshot_id) for s in segments]
    steps = np.diff(np.array(rows, dtype="<i8"), axis=0, prepend=np.int64(0))
    return zlib.compress(np.ascontiguousarray(steps.T).tobytes(), 9)


def unpack_segments(data: bytes) -> list[LoggedSegment]:
    """The segments of `pack_segments`, in their order."""
    steps = np.frombuffer(zlib.decompress(data), dtype="<i8").reshape(_COLUMNS, -1)
    return [
        LoggedSegment(first, until, size, _EPOCH + at * _MICROSECOND, snapshot_id)
        for first, until, size, at, snapshot_id in np.cumsum(steps, axis=1).T.tolist()
    ]


def has_logs(connection: Connection) -> bool:
    """Whether the catalogue has the table; a lake of an earlier version lacks it until somebody writes to it."""
    return read_version(connection) >= VERSION and sa.inspect(connection).has_table(ARRIVAL_LOG.name)


def read_logged(connection: Connection, uuid: UUID | str, *, beyond: int = -1, since: datetime | None = None) -> list[LoggedSegment]:
    """The logged segments of a relation that reach beyond a row id, in order; with `since`, only of logs with an arrival after it."""
    if not has_logs(connection):
        return []
    t = ARRIVAL_LOG.c
    query = sa.select(t.segments).where(t.relation_uuid == str(uuid), t.next_row_id > beyond).order_by(t.first_row_id)
    if since is not None:
        query = query.where(t.newest_arrival > since)
    return [each for data in connection.execute(query).scalars() for each in unpack_segments(data) if each.next_row_id > beyond]


def read_oldest_logged(connection: Connection, uuid: UUID) -> datetime | None:
    """The time of the oldest logged arrival in a relation."""
    if not has_logs(connection):
        return None
    t = ARRIVAL_LOG.c
    return connection.execute(sa.select(sa.func.min(t.oldest_arrival)).where(t.relation_uuid == str(uuid))).scalar()


def write_log(connection: Connection, uuid: str, segments: Sequence[LoggedSegment]) -> None:
    """Add a log of segments, which are neighbours."""
    connection.execute(
        sa.insert(ARRIVAL_LOG).values(
            relation_uuid=uuid,
            first_row_id=segments[0].first_row_id,
            next_row_id=segments[-1].next_row_id,
            segment_count=len(segments),
            oldest_arrival=min(each.arrived_at for each in segments),
            newest_arrival=max(each.arrived_at for each in segments),
            segments=pack_segments(segments),
        )
    )


def take_logged(connection: Connection, uuid: UUID) -> list[LoggedSegment]:
    """Delete the logs of a relation, and return their segments."""
    found = read_logged(connection, uuid)
    if found:
        connection.execute(sa.delete(ARRIVAL_LOG).where(ARRIVAL_LOG.c.relation_uuid == str(uuid)))
    return found
