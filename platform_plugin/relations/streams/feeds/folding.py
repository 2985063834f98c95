"""Folding what feeds have noted of streams that are gone: another client that drops a stream deletes none of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from platform_plugin.relations.streams.feeds.sources import SOURCE_FILE, SOURCE_FOLD

if TYPE_CHECKING:
    from platform_plugin.lake.catalogue.forgotten import Folding


def fold_feeds(rows: Folding) -> int:
    """Delete the records of files that were read for streams that no kept snapshot has."""
    return sum(rows.delete_forgotten(table, table.c.relation_uuid) for table in (SOURCE_FILE, SOURCE_FOLD))
