"""Folding what feeds have noted of streams that are gone: another client that drops a stream deletes none of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from platform_plugin.lake.catalogue.forgotten import delete_forgotten
from platform_plugin.lake.commit.data_operations import has_table
from platform_plugin.relations.streams.feeds.sources import SOURCE_FILE, SOURCE_FOLD

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection


def fold_feeds(connection: Connection, _oldest: int) -> int:
    """Delete the records of files that were read for streams that no kept snapshot has."""
    tables = [table for table in (SOURCE_FILE, SOURCE_FOLD) if has_table(connection, table.name)]
    return sum(delete_forgotten(connection, table, table.c.relation_uuid) for table in tables)
