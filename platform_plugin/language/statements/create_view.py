"""CREATE VIEW and CREATE CONTINUOUS VIEW: a query with a name, and the options by which it is maintained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from platform_plugin.language.statements.statement import (
    DefinitionStatement,
    Statement,
    StatementOpening,
    create_text,
    read_new_name,
    read_trailer,
    trailer_text,
)
from platform_plugin.language.text import options as known
from platform_plugin.language.text.bodies import read_query
from platform_plugin.language.text.cursor import TokenCursor, refuse_twice
from platform_plugin.language.text.writing import (
    comment_text,
    identifier,
)

if TYPE_CHECKING:
    from platform_plugin.language.text.names import WrittenName
    from platform_plugin.language.text.options import Option
    from platform_plugin.language.text.places import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewColumn:
    """The name and the comment that a view gives to an output column."""

    name: str
    comment: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateView(DefinitionStatement):
    """A query with a name; `continuous` is true where the statement says CONTINUOUS."""

    name: WrittenName
    query: Span
    aliases: tuple[ViewColumn, ...] = ()
    comment: str | None = None
    options: tuple[Option, ...] = ()
    continuous: bool = False
    if_not_exists: bool = False
    or_replace: bool = False


def read_create_view(cursor: TokenCursor, opening: StatementOpening) -> Statement:
    """The statement after CREATE VIEW, or after CREATE CONTINUOUS VIEW."""
    name, exists = read_new_name(cursor, "view", replaced=opening.replaced)
    aliases: tuple[ViewColumn, ...] = ()
    if cursor.at_words("("):
        first = cursor.index
        aliases = cursor.listed(lambda: _read_alias(cursor))
        refuse_twice(cursor.span(first), [alias.name for alias in aliases])
    comment, options = read_trailer(cursor, known.VIEW, "a view")
    cursor.expect("AS")
    query = read_query(cursor)
    return CreateView(
        name=name,
        aliases=aliases,
        comment=comment,
        options=options,
        query=query,
        continuous=opening.words != "CREATE VIEW",
        if_not_exists=exists,
        or_replace=opening.replaced,
    )


def _read_alias(cursor: TokenCursor) -> ViewColumn:
    name = cursor.new_identifier("a column name")
    return ViewColumn(name=name, comment=cursor.string("a comment") if cursor.accept("COMMENT") else None)


def create_view_text(statement: CreateView) -> str:
    """The statement as text."""
    kind = "CONTINUOUS VIEW" if statement.continuous else "VIEW"
    aliases = ", ".join(identifier(alias.name) + comment_text(alias.comment) for alias in statement.aliases)
    columns = f" ({aliases})" if aliases else ""
    head = create_text(kind, statement.name, columns, replaced=statement.or_replace, exists=statement.if_not_exists)
    return f"{head}{trailer_text(statement.comment, statement.options)} AS\n{statement.query.text}"
