"""Consumers of streams: how many rows wait for each of them, and since when, by their cursors."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

import sqlalchemy as sa

from platform_plugin.lake.cursors.cursor import present_cursors
from platform_plugin.lake.ring.arrival_log import ARRIVAL_LOG, has_logs
from platform_plugin.lake.ring.arrivals import read_arrived_beyond
from platform_plugin.lake.ring.segments import SEGMENT, STREAM

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy.engine import Connection


def read_lagging_consumers(connection: Connection) -> list[tuple[str, str, int]]:
    """The consumers with unconsumed rows: consumer, stream, and the number of these rows."""
    n = present_cursors(connection=connection).c
    ahead = sa.and_(STREAM.c.relation_uuid == n.input, STREAM.c.next_row_id > n.position)
    query = sa.select(n.owner, n.input, STREAM.c.next_row_id - n.position).join(STREAM, ahead)
    return [(owner, stream, int(count)) for owner, stream, count in connection.execute(query)]


def read_waiting_since(connection: Connection) -> dict[str, datetime]:
    """The arrival time of the oldest unconsumed row of each consumer that has one."""
    n = present_cursors(connection=connection).c
    later = sa.and_(SEGMENT.c.relation_uuid == n.input, SEGMENT.c.next_row_id > n.position)
    query = sa.select(n.owner, sa.func.min(SEGMENT.c.arrived_at)).join(SEGMENT, later).group_by(n.owner)
    found = {row[0]: row[1] for row in connection.execute(query)}
    if has_logs(connection):
        # Few have so far to go: a log has only segments that every consumer had read when it was written.
        far = sa.and_(ARRIVAL_LOG.c.relation_uuid == n.input, ARRIVAL_LOG.c.next_row_id > n.position)
        for owner, stream, position in connection.execute(sa.select(n.owner, n.input, n.position).join(ARRIVAL_LOG, far).distinct()):
            arrived_at = read_arrived_beyond(connection, UUID(stream), position)
            if arrived_at is not None:
                found[owner] = min(arrived_at, found.get(owner, arrived_at))
    return found
