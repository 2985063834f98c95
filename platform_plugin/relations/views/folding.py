"""Folding what the catalogue keeps of views: their definitions, when no kept snapshot has the view."""

from __future__ import annotations

from typing import TYPE_CHECKING

from platform_plugin.lake.catalogue.forgotten import delete_forgotten
from platform_plugin.lake.commit.data_operations import has_table
from platform_plugin.relations.views.record import MEANING, VIEW

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection


def fold_views(connection: Connection, _oldest: int) -> int:
    """Delete what is kept of views that no kept snapshot has; what they use goes with the nodes."""
    there = [table for table in (VIEW, MEANING) if has_table(connection, table.name)]
    return sum(delete_forgotten(connection, table, table.c.view_uuid) for table in there)
