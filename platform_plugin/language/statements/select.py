"""SELECT: a query whose rows are returned to the caller."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from platform_plugin.language.statements.statement import (
    Statement,
)

if TYPE_CHECKING:
    from platform_plugin.language.text.places import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Select(Statement):
    """A query whose rows are returned to the caller."""

    query: Span
