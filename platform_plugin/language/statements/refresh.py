"""REFRESH and REBUILD: maintenance that is wanted now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from platform_plugin.language.statements.statement import (
    Opening,
    Statement,
)

if TYPE_CHECKING:
    from platform_plugin.language.text.cursor import Cursor
    from platform_plugin.language.text.names import Name


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshView(Statement):
    """Maintenance of a continuous view that is wanted now."""

    name: Name


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildView(Statement):
    """A view to be made anew from what its streams and their histories still have."""

    name: Name


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshSample(Statement):
    """Maintenance of a sample that is wanted now."""

    name: Name


def read_refresh_view(cursor: Cursor, _: Opening) -> Statement:
    """The statement after REFRESH VIEW."""
    return RefreshView(name=cursor.name("a view name"))


def read_rebuild_view(cursor: Cursor, _: Opening) -> Statement:
    """The statement after REBUILD VIEW."""
    return RebuildView(name=cursor.name("a view name"))


def read_refresh_sample(cursor: Cursor, _: Opening) -> Statement:
    """The statement after REFRESH SAMPLE."""
    return RefreshSample(name=cursor.name("a sample name"))
