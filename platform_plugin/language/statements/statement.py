"""The classes `Statement` and `DefinitionStatement`, and the parts of the grammar that several statements share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from platform_plugin.language.text.options import Option, read_options
from platform_plugin.language.text.places import Span
from platform_plugin.language.text.writing import comment_text, name_text, options_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from platform_plugin.language.text.cursor import TokenCursor
    from platform_plugin.language.text.names import WrittenName
    from platform_plugin.language.text.values import Parameter


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One statement of a script, with its place in the text and its parameters."""

    span: Span = field(compare=False, repr=False, default=Span("", 0, 0))
    parameters: tuple[Parameter, ...] = ()

    @property
    def takes_parameters(self) -> bool:
        """Whether values may be bound; the text of a definition is stored, so a definition has no parameters."""
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionStatement(Statement):
    """A statement whose text the lake stores, so that it holds values and no parameters."""

    @property
    def takes_parameters(self) -> bool:
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementOpening:
    """The words that a statement began with, and what its reader needs besides the cursor."""

    words: str
    replaced: bool
    parameters: Mapping[int, Parameter]
    read: Callable[[TokenCursor], Statement]
    """Reads a statement inside this one, for EXPLAIN."""


def read_new_name(cursor: TokenCursor, what: str, *, replaced: bool) -> tuple[WrittenName, bool]:
    """The name of a new relation, and whether IF NOT EXISTS stands before it."""
    exists = cursor.accept("IF", "NOT", "EXISTS")
    if exists and replaced:
        raise cursor.fail(message="OR REPLACE and IF NOT EXISTS exclude each other")
    return cursor.new_name(f"a {what} name"), exists


def read_trailer(cursor: TokenCursor, options: dict[str, str | tuple[str, ...]], what: str) -> tuple[str | None, tuple[Option, ...]]:
    """The COMMENT and the WITH list of a definition, in any order."""
    comment, found = None, None
    while True:
        if comment is None and cursor.accept("COMMENT"):
            comment = cursor.string("a comment")
        elif found is None and cursor.accept("WITH"):
            found = read_options(cursor, options, what)
        else:
            return comment, found or ()


def create_text(kind: str, name: WrittenName, rest: str, *, replaced: bool, exists: bool) -> str:
    """The head of a CREATE statement."""
    return f"CREATE {'OR REPLACE ' if replaced else ''}{kind} {'IF NOT EXISTS ' if exists else ''}{name_text(name)}{rest}"


def trailer_text(comment: str | None, options: tuple[Option, ...]) -> str:
    """The COMMENT and the WITH list of a definition."""
    return comment_text(comment) + (f" WITH {options_text(options)}" if options else "")
