"""COMMENT ON: the comment of a relation or a column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from platform_plugin.language.statements.statement import (
    DefinitionStatement,
    Statement,
    StatementOpening,
)
from platform_plugin.language.text.kind_words import read_kind_word
from platform_plugin.language.text.names import WrittenName
from platform_plugin.language.text.places import syntax_error
from platform_plugin.language.text.writing import (
    identifier,
    name_text,
    string_text,
)

if TYPE_CHECKING:
    from platform_plugin.language.text.cursor import TokenCursor


@dataclass(frozen=True, slots=True, kw_only=True)
class Comment(DefinitionStatement):
    """The comment of a relation or of one of its columns; None removes it."""

    kind: str
    name: WrittenName
    column: str | None = None
    text: str | None = None


def read_comment(cursor: TokenCursor, _: StatementOpening) -> Statement:
    """The statement after COMMENT."""
    cursor.expect("ON")
    if cursor.accept("COLUMN"):
        first = cursor.index
        parts = [cursor.identifier("a relation")]
        while cursor.accept("."):
            parts.append(cursor.identifier("a column"))
        span = cursor.span(first)
        if not 2 <= len(parts) <= 3:
            raise syntax_error(span, "a column is named after its relation", expected="relation.column or schema.relation.column")
        kind: str = "TABLE"
        name, column = WrittenName(parts=tuple(parts[:-1]), span=span), parts[-1]
    else:
        kind, column = read_kind_word(cursor), None
        name = cursor.name(f"a {kind.lower()} name")
    cursor.expect("IS")
    text = None if cursor.accept("NULL") else cursor.string("'a comment' or NULL")
    return Comment(kind=kind, name=name, column=column, text=text)


def comment_on_text(statement: Comment) -> str:
    """The statement as text."""
    column = "" if statement.column is None else f".{identifier(statement.column)}"
    said = "NULL" if statement.text is None else string_text(statement.text)
    return f"COMMENT ON {'COLUMN' if column else statement.kind} {name_text(statement.name)}{column} IS {said}"
