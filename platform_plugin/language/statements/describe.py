"""DESCRIBE: a relation's columns, and with EXTENDED its options and figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from platform_plugin.language.statements.statement import (
    Statement,
    StatementOpening,
)
from platform_plugin.language.text.kind_words import list_kind_words

if TYPE_CHECKING:
    from platform_plugin.language.text.cursor import TokenCursor
    from platform_plugin.language.text.names import WrittenName


@dataclass(frozen=True, slots=True, kw_only=True)
class Describe(Statement):
    """The relation to describe: `extended` adds its options and figures, `internal` the names of its internal tables."""

    name: WrittenName
    extended: bool = False
    internal: bool = False


def read_describe(cursor: TokenCursor, _: StatementOpening) -> Statement:
    """The statement after DESCRIBE."""
    if cursor.upper() in list_kind_words() and cursor.upper(1) != "." and cursor.kind(1) != "end":
        cursor.advance()
    extended = cursor.upper() in ("EXTENDED", "FORMATTED") and cursor.kind(1) != "end" and cursor.upper(1) != "."
    internal = extended and cursor.upper() == "FORMATTED"
    if extended:
        cursor.advance()
    return Describe(name=cursor.name("a relation"), extended=extended, internal=internal)
