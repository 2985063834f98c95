"""Rendering a query's text for Spark: names are replaced, and offsets map back to the source."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from platform_plugin.algebra.types.data_types import quote_identifier
from platform_plugin.language.text.places import Place, Span, locate_offset

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


ALWAYS = -2
"""The index of edits that are made whatever becomes of the references."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """A stretch of the source that is replaced when reference `index` is: by the temporary view's name, if `view`, and by `text`."""

    start: int
    end: int
    index: int
    view: bool = False
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderedQuery:
    """A query's text for Spark, with the map from its offsets to those of the source."""

    text: str
    span: Span = field(repr=False)
    _rendered_at: tuple[int, ...] = field(repr=False)
    _source_at: tuple[int, ...] = field(repr=False)
    _moves: tuple[bool, ...] = field(repr=False)

    def locate(self, position: int) -> int:
        """The offset in the whole source for an offset in `text`; any offset inside a replaced name gives the start of that name."""
        piece = max(0, bisect_right(self._rendered_at, position) - 1)
        moved = position - self._rendered_at[piece] if self._moves[piece] else 0
        return min(self._source_at[piece] + max(0, moved), self.span.end)

    def locate_line(self, line: int, column: int) -> int:
        """The same for a line from 1 and a column from 0, as Spark reports the place of a parse error."""
        position = 0
        for _ in range(line - 1):
            position = self.text.find("\n", position) + 1
        return self.locate(position + column)

    def at(self, position: int) -> Place:
        """The place in the source of an offset in `text`, for an error of Spark's."""
        return locate_offset(self.span.source, self.locate(position))


def render_edits(span: Span, edits: Iterable[Edit], names: Mapping[int, str | tuple[str, ...]]) -> RenderedQuery:
    """The text of a span with the edits of these references applied."""
    pieces: list[str] = []
    rendered_at, source_at, moves = [0], [span.start], [True]
    length, position = 0, span.start
    for edit in sorted((edit for edit in edits if edit.index in names or edit.index == ALWAYS), key=lambda edit: (edit.start, edit.end)):
        kept = span.source[position : edit.start]
        name = names.get(edit.index, "")
        parts = (name,) if isinstance(name, str) else name
        written = (".".join(quote_identifier(part) for part in parts) if edit.view else "") + edit.text
        pieces += [kept, written]
        length += len(kept)
        rendered_at += [length, length + len(written)]
        source_at += [edit.start, edit.end]
        moves += [False, True]
        length += len(written)
        position = edit.end
    pieces.append(span.source[position : span.end])
    return RenderedQuery(
        text="".join(pieces),
        span=span,
        _rendered_at=tuple(rendered_at),
        _source_at=tuple(source_at),
        _moves=tuple(moves),
    )
