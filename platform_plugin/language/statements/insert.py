"""INSERT: appends literal rows or those of a query."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from platform_plugin.language.statements.statement import (
    Statement,
    StatementOpening,
)
from platform_plugin.language.text.bodies import is_at_query, read_query
from platform_plugin.language.text.counting import count_text
from platform_plugin.language.text.places import Span, syntax_error
from platform_plugin.language.text.values import Cell, Parameter, read_cell

if TYPE_CHECKING:
    from collections.abc import Mapping

    from platform_plugin.language.text.cursor import TokenCursor
    from platform_plugin.language.text.names import WrittenName


@dataclass(frozen=True, slots=True, kw_only=True)
class Insert(Statement):
    """The rows to append: `rows` if every cell is a literal or a parameter, else only `query`, which Spark runs."""

    name: WrittenName
    query: Span
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[Cell, ...], ...] | None = None
    by_name: bool = False


def read_insert(cursor: TokenCursor, opening: StatementOpening) -> Statement:
    """The statement after INSERT."""
    if cursor.at_words("OVERWRITE"):
        raise cursor.fail("INTO", message="INSERT OVERWRITE is not supported", hint="DELETE the rows, then INSERT INTO")
    cursor.expect("INTO")
    if cursor.upper() == "TABLE" and cursor.upper(1) not in ("", "(", "."):
        cursor.advance()
    name = cursor.name("a relation")
    by_name = cursor.accept("BY", "NAME")
    # A parenthesis begins either the columns or a query in brackets.
    columns = cursor.names("a column") if cursor.at_words("(") and not is_at_query(cursor) else ()
    rows = None
    if cursor.at_words("VALUES"):
        rows = read_rows(cursor, opening.parameters, len(columns) or None)
    query = read_query(cursor)
    return Insert(name=name, columns=columns, query=query, rows=rows, by_name=by_name)


def read_rows(cursor: TokenCursor, parameters: Mapping[int, Parameter], width: int | None) -> tuple[tuple[Cell, ...], ...] | None:
    """The rows of a VALUES at the cursor, which does not move; None if a cell is more than a literal or a parameter."""
    tokens, index, last = cursor.tokens, cursor.index + 1, cursor.last
    source, starts, kinds = tokens.source, tokens.starts, tokens.kinds
    rows: list[tuple[Cell, ...]] = []

    def sign(position: int) -> str:
        return source[starts[position]] if position < last and kinds[position] == "sign" else ""

    while True:
        if sign(index) != "(":
            return None
        first, row = index, []
        while True:
            cell = read_cell(tokens, index + 1, parameters) if index + 1 < last else None
            if cell is None:
                return None
            row.append(cell[0])
            index = cell[1]
            if sign(index) != ",":
                break
        if sign(index) != ")":
            return None
        width = width or len(row)
        if len(row) != width:
            span = tokens.span(first, index + 1)
            raise syntax_error(
                span, f"row {len(rows) + 1} has {count_text(len(row), 'value')} instead of {width}", expected=count_text(width, "value")
            )
        rows.append(tuple(row))
        index += 1
        if index >= last:
            return tuple(rows)
        if sign(index) != ",":
            return None
        index += 1
