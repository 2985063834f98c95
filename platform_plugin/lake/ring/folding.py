"""Folding the rows of streams that are gone, and of files that have left and that the catalogue knows no more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from platform_plugin.lake.catalogue import catalogue as c
from platform_plugin.lake.catalogue.forgotten import delete_forgotten
from platform_plugin.lake.commit.data_operations import has_table
from platform_plugin.lake.ring.segments import LEFT_FILE, SEGMENT, STREAM

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection


def fold_rings(connection: Connection, _oldest: int) -> int:
    """Delete what is kept of streams and histories that no kept snapshot has."""
    there = [table for table in (STREAM, SEGMENT, LEFT_FILE) if has_table(connection, table.name)]
    deleted = sum(delete_forgotten(connection, table, table.c.relation_uuid) for table in there)
    if LEFT_FILE in there:
        # The expiry that took the file from the catalogue has scheduled it for deletion.
        gone = LEFT_FILE.c.data_file_id.not_in(sa.select(c.DATA_FILE.c.data_file_id))
        deleted += connection.execute(sa.delete(LEFT_FILE).where(gone)).rowcount
    return deleted
