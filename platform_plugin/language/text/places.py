"""Places in a source text: spans, carets under them, and the errors that show them."""

from __future__ import annotations

import difflib
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from platform_plugin.errors import InvalidStatement, PlatformError
from platform_plugin.redaction import redact_text

if TYPE_CHECKING:
    from collections.abc import Iterable

_Error = TypeVar("_Error", bound=PlatformError)

_SHOWN = 100
_LONGEST_WORD = 80


class InvalidSyntax(InvalidStatement):
    """A statement does not follow the grammar; `line` and `column` (from 1) say where."""

    line: int = 0
    column: int = 0


class RefusedQuery(InvalidSyntax):
    """A query would read past the platform; `rule` names what forbids it."""

    rule: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Span:
    """A stretch of a source text; two with the same characters are equal.

    >>> Span("SELECT 1", 7, 8).text, Span("SELECT 1", 7, 8).column, Span("1", 0, 1) == Span("SELECT 1", 7, 8)
    ('1', 8, True)
    """

    source: str
    start: int
    end: int

    @property
    def text(self) -> str:
        """The characters themselves."""
        return self.source[self.start : self.end]

    @property
    def line(self) -> int:
        """The line on which the stretch begins, from 1."""
        return self.source.count("\n", 0, self.start) + 1

    @property
    def column(self) -> int:
        """The column at which the stretch begins, from 1, in code points."""
        return self.start - self.source.rfind("\n", 0, self.start)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Span) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return (
            f"Span({redact_text(self.text)!r} at {self.line}:{self.column})"
            if self.end - self.start < _SHOWN
            else f"Span({self.start}:{self.end})"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A line and a column of a text, and the excerpt with carets that shows them."""

    line: int
    column: int
    shown: str

    def attach(self, error: _Error, expected: str | None = None) -> _Error:
        """The same error with `line` and `column`, and with a detail that shows the place before what it said already."""
        detail = f"line {self.line}, column {self.column}\n{self.shown}"
        for more in (expected and f"expected {expected}", error.detail):
            if more:
                detail += f"\n    {more}"
        error.detail = detail
        error.__dict__.update(line=self.line, column=self.column)
        return error


def locate_offset(source: str | Span, position: int = 0, end: int | None = None) -> Place:
    r"""The place of an offset in a text or in a span; the excerpt is of the whole source.

    >>> print(locate_offset("SELECT *\nFORM posts", 9, 13).shown)
        FORM posts
        ^^^^
    """
    if isinstance(source, Span):
        if end is None and position == 0:
            end = source.end - source.start
        position, end = position + source.start, None if end is None else end + source.start
        source = source.source
    position = max(0, min(position, len(source)))
    span = Span(source, position, position)
    first = source.rfind("\n", 0, position) + 1
    last = source.find("\n", position)
    last = len(source) if last < 0 else last
    begin = max(first, position - _SHOWN // 2)
    until = min(last, begin + _SHOWN)
    before, after = (_printable(source[a:b]) for a, b in ((begin, position), (position, until)))
    marked = max(1, _width(_printable(source[position : min(end or 0, until)])))
    left, right = "…" if begin > first else "", "…" if until < last else ""
    shown = f"    {left}{before}{after.rstrip()}{right}\n    {' ' * (_width(before) + len(left))}{'^' * marked}"
    return Place(line=span.line, column=span.column, shown=shown)


def syntax_error(
    source: str | Span, message: str, position: int = 0, *, end: int | None = None, expected: str | None = None, hint: str | None = None
) -> InvalidSyntax:
    """The syntax error for a place, for the caller to raise."""
    return locate_offset(source, position, end).attach(InvalidSyntax(message, hint=hint), expected)


def refusal_error(
    source: str | Span, rule: str, message: str, position: int = 0, *, end: int | None = None, hint: str | None = None
) -> RefusedQuery:
    """The refusal of a query at a place, with the rule that forbids it, for the caller to raise."""
    error = locate_offset(source, position, end).attach(RefusedQuery(message, detail=f"rule: {rule}", hint=hint))
    error.rule = rule
    return error


def nearest_word(name: str, known: Iterable[str]) -> str | None:
    """The word of a list that is most like this one, whatever its case, or None if none is like it.

    >>> nearest_word("retention_row", ["retention", "retention_rows"]), nearest_word("x", ["retention"])
    ('retention_rows', None)
    """
    words = {word.lower(): word for word in known}
    if len(name) > _LONGEST_WORD:
        return None
    if name.lower() in words:
        return words[name.lower()]
    found = difflib.get_close_matches(name.lower(), words, n=1, cutoff=0.6)
    return words[found[0]] if found else None


def suggest_word(name: str, known: Iterable[str]) -> str | None:
    """The hint for an unknown name: the nearest one of a list, or None."""
    found = nearest_word(name, known)
    return f"did you mean {found}?" if found else None


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else " " for character in text)


def _width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)
