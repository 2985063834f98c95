"""EXPLAIN and SET RULE: the plan by which another statement would run, and the rules that make it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from typing import Literal as Choice

from platform_plugin.language.statements.select import Select
from platform_plugin.language.statements.statement import (
    Statement,
    StatementOpening,
)
from platform_plugin.language.text.bodies import is_at_query, read_query

if TYPE_CHECKING:
    from platform_plugin.language.text.cursor import TokenCursor
    from platform_plugin.language.text.places import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Explain(Statement):
    """The statement to explain."""

    statement: Statement
    mode: Choice["simple", "verbose", "extended", "formatted", "cost", "codegen"] = "simple"


def read_explain(cursor: TokenCursor, opening: StatementOpening) -> Statement:
    """The statement after EXPLAIN, with the one that it explains."""
    mode: Choice["simple", "verbose", "extended", "formatted", "cost", "codegen"] = "simple"
    match cursor.accept_one("VERBOSE", "EXTENDED", "FORMATTED", "COST", "CODEGEN"):
        case "VERBOSE":
            mode = "verbose"
        case "EXTENDED":
            mode = "extended"
        case "FORMATTED":
            mode = "formatted"
        case "COST":
            mode = "cost"
        case "CODEGEN":
            mode = "codegen"
    first = cursor.index
    if is_at_query(cursor):
        return Explain(statement=Select(query=read_query(cursor), span=cursor.span(first)), mode=mode)
    if cursor.upper() not in ("CREATE", "INSERT", "DELETE", "UPDATE", "REFRESH"):
        cursor.advance(0)
        raise cursor.fail("a query, CREATE VIEW, INSERT, DELETE, UPDATE or REFRESH")
    return Explain(statement=opening.read(cursor), mode=mode)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetRule(Statement):
    """A rule by its name, or ALL, and whether it is applied from now on."""

    name: str
    is_on: bool
    name_span: Span


def read_set_rule(cursor: TokenCursor, _: StatementOpening) -> Statement:
    """The statement after SET RULE."""
    first = cursor.index
    name = "ALL" if cursor.accept("ALL") else cursor.identifier("a rule's name, or ALL")
    span = cursor.span(first)
    return SetRule(name=name, is_on=cursor.expect_one("ON", "OFF") == "ON", name_span=span)
