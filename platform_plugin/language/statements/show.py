"""SHOW: lists from the catalogue, of caches and of limits, and SHOW CREATE, the statement that defines a relation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from platform_plugin.language.statements.statement import (
    Statement,
    StatementOpening,
)
from platform_plugin.language.text.kind_words import KIND_WORDS, list_kind_words

if TYPE_CHECKING:
    from platform_plugin.language.text.cursor import TokenCursor
    from platform_plugin.language.text.names import WrittenName

_LISTS = ("SCHEMAS", "SNAPSHOTS", "COLUMNS", "CACHES", "LIMITS", "RULES", "CONSUMERS")


@dataclass(frozen=True, slots=True, kw_only=True)
class Show(Statement):
    """A list from the catalogue; `subject` is the word after SHOW, and CREATE asks for the statement that defines a relation."""

    subject: str
    name: WrittenName | None = None
    schema: str | None = None
    like: str | None = None


def list_subjects() -> tuple[str, ...]:
    """The words that may follow SHOW, without CREATE."""
    return (*(kind.plural for kind in KIND_WORDS), *_LISTS)


def read_show(cursor: TokenCursor, _: StatementOpening) -> Statement:
    """The statement after SHOW."""
    if cursor.accept("CREATE"):
        cursor.accept_one(*list_kind_words())
        return Show(subject="CREATE", name=cursor.name("a relation"))
    subject = cursor.expect_one(*list_subjects())
    name = schema = like = None
    if subject == "COLUMNS":
        cursor.expect_one("FROM", "IN")
        name = cursor.name("a relation")
    elif subject == "SNAPSHOTS" and cursor.accept_one("FROM", "OF"):
        name = cursor.name("a relation")
    elif subject not in _LISTS and cursor.accept_one("IN", "FROM"):
        schema = cursor.identifier("a schema")
    if subject != "SNAPSHOTS" and cursor.accept("LIKE"):
        like = cursor.string("'a pattern'")
    return Show(subject=subject, name=name, schema=schema, like=like)
