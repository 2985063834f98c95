"""DROP: removes a relation or a schema."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from platform_plugin.language.statements.statement import (
    Statement,
    StatementOpening,
)
from platform_plugin.language.text.kind_words import read_kind_word
from platform_plugin.language.text.places import syntax_error
from platform_plugin.language.text.writing import (
    name_text,
)

if TYPE_CHECKING:
    from platform_plugin.language.text.cursor import TokenCursor
    from platform_plugin.language.text.names import WrittenName


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop(Statement):
    """The relation or schema to drop."""

    kind: str
    name: WrittenName
    if_exists: bool = False
    cascade: bool = False


def read_drop(cursor: TokenCursor, _: StatementOpening) -> Statement:
    """The statement after DROP."""
    kind = read_kind_word(cursor, also=("SCHEMA",))
    exists = cursor.accept("IF", "EXISTS")
    name = cursor.name(f"a {kind.lower()} name")
    if kind == "SCHEMA" and name.schema is not None:
        raise syntax_error(name.span, "a schema's name has one part")
    cascade = cursor.accept("CASCADE")
    if not cascade:
        cursor.accept("RESTRICT")
    return Drop(kind=kind, name=name, if_exists=exists, cascade=cascade)


def drop_text(statement: Drop) -> str:
    """The statement as text."""
    exists, cascade = "IF EXISTS " if statement.if_exists else "", " CASCADE" if statement.cascade else ""
    return f"DROP {statement.kind} {exists}{name_text(statement.name)}{cascade}"
