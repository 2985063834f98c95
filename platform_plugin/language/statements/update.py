"""UPDATE: sets columns in the rows that meet a condition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from platform_plugin.language.statements.statement import (
    Statement,
    StatementOpening,
)
from platform_plugin.language.text.cursor import TokenCursor, refuse_twice
from platform_plugin.language.text.values import Cell, read_cell

if TYPE_CHECKING:
    from platform_plugin.language.text.names import WrittenName
    from platform_plugin.language.text.places import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """One `column = expression`; `value` is given when the expression is a literal or a parameter."""

    column: str
    expression: Span
    value: Cell | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Update(Statement):
    """The columns to set in the rows that meet the condition; without a condition, in all rows."""

    name: WrittenName
    assignments: tuple[Assignment, ...]
    alias: str | None = None
    where: Span | None = None


def read_update(cursor: TokenCursor, opening: StatementOpening) -> Statement:
    """The statement after UPDATE."""
    name = cursor.name("a table")
    alias = None if cursor.at_words("SET") else cursor.alias("SET")
    cursor.expect("SET")
    assignments: list[Assignment] = []
    first = cursor.index
    while not assignments or cursor.accept(","):
        column = cursor.identifier("a column")
        if cursor.upper() == "." and (alias or name.relation).lower() == column.lower():
            cursor.advance()
            column = cursor.identifier("a column")
        cursor.expect("=")
        begin = cursor.index
        expression = cursor.until("an expression", ",", "WHERE")
        cell = read_cell(cursor.tokens, begin, opening.parameters)
        value = cell[0] if cell and cell[1] == cursor.index else None
        assignments.append(Assignment(column=column, expression=expression, value=value))
    refuse_twice(cursor.span(first), [assignment.column for assignment in assignments])
    where = cursor.rest("a condition") if cursor.accept("WHERE") else None
    cursor.finish()
    return Update(name=name, alias=alias, assignments=tuple(assignments), where=where)
