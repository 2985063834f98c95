"""SUSPEND QUERY and RESUME QUERY (planned): stop a running query with its state, and continue it later."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from platform_plugin.language.statements.statement import (
    Statement,
    StatementOpening,
)

if TYPE_CHECKING:
    from platform_plugin.language.text.cursor import TokenCursor


@dataclass(frozen=True, slots=True, kw_only=True)
class SuspendQuery(Statement):
    """The running query to suspend, with what it has computed."""

    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeQuery(Statement):
    """The suspended query to continue."""

    id: str


def read_suspend(cursor: TokenCursor, _: StatementOpening) -> Statement:
    """The statement after SUSPEND QUERY."""
    return SuspendQuery(id=_read_id(cursor))


def read_resume(cursor: TokenCursor, _: StatementOpening) -> Statement:
    """The statement after RESUME QUERY."""
    return ResumeQuery(id=_read_id(cursor))


def _read_id(cursor: TokenCursor) -> str:
    first = cursor.index
    name = cursor.string("'the id of a query'")
    if not name.strip():
        cursor.index = first
        raise cursor.fail(message="an empty query id")
    return name
