"""DELETE: removes the rows that meet a condition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from platform_plugin.language.statements.statement import (
    Statement,
    StatementOpening,
)

if TYPE_CHECKING:
    from platform_plugin.language.text.cursor import TokenCursor
    from platform_plugin.language.text.names import WrittenName
    from platform_plugin.language.text.places import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete(Statement):
    """The rows to delete; without a condition, all of them."""

    name: WrittenName
    alias: str | None = None
    where: Span | None = None


def read_delete(cursor: TokenCursor, _: StatementOpening) -> Statement:
    """The statement after DELETE."""
    cursor.expect("FROM")
    name = cursor.name("a table")
    alias = None if cursor.at_words("WHERE") else cursor.alias("WHERE")
    where = cursor.rest("a condition") if cursor.accept("WHERE") else None
    cursor.finish()
    return Delete(name=name, alias=alias, where=where)
