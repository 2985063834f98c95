"""CREATE TABLE: a history table, empty or filled by a query; AS HISTORY OF makes the history of a stream."""

from __future__ import annotations

from dataclasses import dataclass, replace
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
from platform_plugin.language.text.columns import read_columns
from platform_plugin.language.text.places import Span, syntax_error
from platform_plugin.language.text.writing import (
    columns_text,
    name_text,
)

if TYPE_CHECKING:
    from platform_plugin.algebra.types.data_types import Field
    from platform_plugin.language.text.cursor import TokenCursor
    from platform_plugin.language.text.names import WrittenName
    from platform_plugin.language.text.options import Option


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTable(DefinitionStatement):
    """A history table, empty with these columns or filled by a query."""

    name: WrittenName
    columns: tuple[Field, ...] = ()
    primary_key: tuple[str, ...] = ()
    comment: str | None = None
    options: tuple[Option, ...] = ()
    query: Span | None = None
    if_not_exists: bool = False
    or_replace: bool = False

    @property
    def takes_parameters(self) -> bool:
        """Whether the table is filled by a query: that query runs once, so it may have parameters."""
        return self.query is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateHistory(DefinitionStatement):
    """A table that receives every segment that a stream evicts."""

    name: WrittenName
    stream: WrittenName
    if_not_exists: bool = False


def read_create_table(cursor: TokenCursor, opening: StatementOpening) -> Statement:
    """The statement after CREATE TABLE."""
    name, exists = read_new_name(cursor, "table", replaced=opening.replaced)
    if cursor.accept("AS", "HISTORY", "OF"):
        if opening.replaced:
            raise syntax_error(name.span, "a history can't be replaced", hint="drop it first")
        return CreateHistory(name=name, stream=cursor.name("a stream name"), if_not_exists=exists)
    table = CreateTable(name=name, if_not_exists=exists, or_replace=opening.replaced)
    if cursor.at_words("("):
        columns, keys = read_columns(cursor)
        table = replace(table, columns=columns, primary_key=keys)
    comment, options = read_trailer(cursor, known.TABLE, "a table")
    table = replace(table, comment=comment, options=options)
    if cursor.at_words("AS"):
        if table.columns:
            raise cursor.fail(
                message="a table takes its columns from the list or from the query, not from both", hint="name columns in the query with AS"
            )
        cursor.advance()
        return replace(table, query=read_query(cursor))
    if not table.columns:
        raise cursor.fail("a column list")
    return table


def create_table_text(statement: CreateTable) -> str:
    """The statement as text."""
    body = f" {columns_text(statement.columns, statement.primary_key)}" if statement.columns else ""
    head = create_text("TABLE", statement.name, body, replaced=statement.or_replace, exists=statement.if_not_exists)
    text = head + trailer_text(statement.comment, statement.options)
    return text if statement.query is None else f"{text} AS\n{statement.query.text}"


def create_history_text(statement: CreateHistory) -> str:
    """The statement as text."""
    rest = f" AS HISTORY OF {name_text(statement.stream)}"
    return create_text("TABLE", statement.name, rest, replaced=False, exists=statement.if_not_exists)
