"""The queries inside CREATE, INSERT and other statements: where one begins, and its text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from platform_plugin.language.text.places import suggest_word
from platform_plugin.language.text.tokens import WORD

if TYPE_CHECKING:
    from platform_plugin.language.text.cursor import TokenCursor
    from platform_plugin.language.text.places import Span

QUERY_WORDS = ("SELECT", "WITH", "VALUES", "FROM", "TABLE")


def is_at_query(cursor: TokenCursor) -> bool:
    """Whether a query begins at the cursor, whatever brackets stand before it."""
    ahead = 0
    while cursor.upper(ahead) == "(":
        ahead += 1
    return cursor.upper(ahead) in QUERY_WORDS


def read_query(cursor: TokenCursor) -> Span:
    """The rest of a statement, which must begin like a query."""
    if not is_at_query(cursor):
        word = cursor.tokens.text(cursor.index) if cursor.kind() == WORD else ""
        raise cursor.fail("a query", hint=suggest_word(word, QUERY_WORDS) if word else None)
    return cursor.rest("a query")
