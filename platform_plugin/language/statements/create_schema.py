"""CREATE SCHEMA: a new namespace for relations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from platform_plugin.language.statements.statement import (
    DefinitionStatement,
    Statement,
    StatementOpening,
)
from platform_plugin.language.text.writing import (
    identifier,
)

if TYPE_CHECKING:
    from platform_plugin.language.text.cursor import TokenCursor


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateSchema(DefinitionStatement):
    """A new namespace for relations."""

    name: str
    if_not_exists: bool = False


def read_create_schema(cursor: TokenCursor, _: StatementOpening) -> Statement:
    """The statement after CREATE SCHEMA."""
    exists = cursor.accept("IF", "NOT", "EXISTS")
    return CreateSchema(name=cursor.identifier("a schema name"), if_not_exists=exists)


def create_schema_text(statement: CreateSchema) -> str:
    """The statement as text."""
    return f"CREATE SCHEMA {'IF NOT EXISTS ' if statement.if_not_exists else ''}{identifier(statement.name)}"
