"""Folding what the catalogue keeps of views: their definitions, when no kept snapshot has the view."""

from __future__ import annotations

from typing import TYPE_CHECKING

from platform_plugin.relations.views.record import MEANING, VIEW

if TYPE_CHECKING:
    from platform_plugin.lake.catalogue.forgotten import Folding


def fold_views(rows: Folding) -> int:
    """Delete what is kept of views that no kept snapshot has; what they use goes with the nodes."""
    return sum(rows.delete_forgotten(table, table.c.view_uuid) for table in (VIEW, MEANING))
