"""EXPLAIN: the plan by which another statement would run."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Explain(Statement):
    """The statement to explain."""

    statement: Statement
    mode: Choice["simple", "extended", "formatted", "cost", "codegen"] = "simple"


def read_explain(cursor: TokenCursor, opening: StatementOpening) -> Statement:
    """The statement after EXPLAIN, with the one that it explains."""
    mode: Choice["simple", "extended", "formatted", "cost", "codegen"] = "simple"
    match cursor.accept_one("EXTENDED", "FORMATTED", "COST", "CODEGEN"):
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
