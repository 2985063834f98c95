"""Folding the rows of streams that are gone, of files that have left, and of segments that nothing evicts: these go to arrival logs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from platform_plugin.lake.catalogue import catalogue as c
from platform_plugin.lake.catalogue.relations import read_declarations
from platform_plugin.lake.cursors.cursor import read_lowest
from platform_plugin.lake.ring.arrival_log import ARRIVAL_LOG, LoggedSegment, write_log
from platform_plugin.lake.ring.segments import LEFT_FILE, SEGMENT, STREAM, RetentionLimits

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from platform_plugin.lake.catalogue.forgotten import Folding
    from platform_plugin.lake.catalogue.relations import Declaration

LOGGED_AT_ONCE = 512
"""So many segments are put in a log of some kilobytes; fewer keep their rows."""


def fold_rings(rows: Folding) -> int:
    """Delete what is kept of streams and histories that no kept snapshot has."""
    forgotten = sum(rows.delete_forgotten(table, table.c.relation_uuid) for table in (STREAM, SEGMENT, LEFT_FILE, ARRIVAL_LOG))
    # The expiry that took the file from the catalogue has scheduled it for deletion.
    return forgotten + rows.delete(LEFT_FILE, LEFT_FILE.c.data_file_id.not_in(sa.select(c.DATA_FILE.c.data_file_id)))


def fold_segments(rows: Folding) -> int:
    """Put segments in arrival logs that nothing evicts, that all consumers have read, and whose snapshots are gone; returns how many.

    Rows of a log count against it.
    """
    if not rows.has(SEGMENT, ARRIVAL_LOG):
        return 0
    connection, oldest = rows.connection, rows.oldest
    s = SEGMENT.c
    many = sa.select(s.relation_uuid).where(s.snapshot_id < oldest).group_by(s.relation_uuid).having(sa.func.count() > LOGGED_AT_ONCE)
    uuids = connection.execute(many).scalars().all()
    declared = read_declarations(connection, only=uuids) if uuids else {}
    return sum(_log_segments(connection, uuid, oldest, declaration) for uuid, declaration in declared.items() if _keeps_all(declaration))


def _keeps_all(declaration: Declaration) -> bool:
    """Whether it is a history or a stream without limits; a log is no place for segments that are evicted one by one."""
    limits = RetentionLimits.of(declaration.options)
    return declaration.kind != "stream" or (limits.rows, limits.age, limits.size_bytes) == (None, None, None)


def _log_segments(connection: Connection, uuid: str, oldest: int, declaration: Declaration) -> int:
    s = SEGMENT.c
    own = s.relation_uuid == uuid
    # The newest one stays, which says when rows came last, and so does all that a consumer waits for.
    newest = connection.execute(sa.select(sa.func.max(s.first_row_id)).where(own)).scalar()
    until = connection.execute(sa.select(sa.func.min(s.first_row_id)).where(own, s.snapshot_id >= oldest)).scalar()
    lowest = read_lowest(connection, uuid) if declaration.kind == "stream" else None
    end = min(bound for bound in (newest, until, lowest) if bound is not None)
    query = sa.select(s.first_row_id, s.next_row_id, s.size_bytes, s.arrived_at, s.snapshot_id)
    rows = [LoggedSegment(*row) for row in connection.execute(query.where(own, s.next_row_id <= end).order_by(s.first_row_id))]
    deleted = 0
    for start in range(0, len(rows) - LOGGED_AT_ONCE + 1, LOGGED_AT_ONCE):
        part = rows[start : start + LOGGED_AT_ONCE]
        write_log(connection, uuid, part)
        gone = sa.delete(SEGMENT).where(own, s.first_row_id >= part[0].first_row_id, s.first_row_id <= part[-1].first_row_id)
        deleted += connection.execute(gone).rowcount - 1
    return deleted
