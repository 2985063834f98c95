"""Errors of Spark about a query, in terms of the user's statement: its places and its columns."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from platform_plugin.engine.spark.session.wording import UNGROUPED
from platform_plugin.errors import PlatformError, QueryFailed
from platform_plugin.language.query.ungrouped import find_ungrouped
from platform_plugin.language.text.places import suggest_word
from platform_plugin.language.text.tokens import tokenize

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from platform_plugin.lake.catalogue.tables import Table
    from platform_plugin.language.text.places import Place

_FEW = 20
_UNKNOWN = re.compile(r'column "(.+)" does not exist')
_UNGROUPED = re.compile(r'expression "(.+)" is neither grouped by nor aggregated')


class TextPlaces(Protocol):
    """A text that Spark has parsed, with the places in the user's text that its parts come from."""

    @property
    def text(self) -> str: ...

    def at(self, position: int) -> Place:
        """The place in the user's text of an offset in this text."""


class place_spark_errors:  # noqa: N801  reads as a statement
    """Gives an error of Spark's its place in the user's text."""

    def __init__(self, rendered: TextPlaces) -> None:
        self.rendered = rendered

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, QueryFailed) and not hasattr(error, "line"):
            offset = explain_ungrouped(error, self.rendered.text)
            if offset is None:
                offset = find_offset(error, self.rendered)
            if offset is None and (ungrouped := _UNGROUPED.fullmatch(error.message)):
                offset = find_column(ungrouped[1], self.rendered.text)
            if offset is not None:
                self.rendered.at(offset).attach(error)


def explain_ungrouped(error: QueryFailed, text: str) -> int | None:
    """Say of a column beside a grouping what to add to GROUP BY, and return the offset of the column; None for other errors."""
    said = _UNGROUPED.fullmatch(error.message)
    hidden = _UNKNOWN.fullmatch(error.message) if error.__dict__.get("is_of_table") else None
    if said is None and hidden is None and error.message != UNGROUPED:
        return None
    name = said[1] if said else hidden[1].rpartition(".")[2] if hidden else None
    found = find_ungrouped(text, name)
    if found is None:
        return None
    if found.clause is not None:
        error.message = f'expression "{found.name}" is neither grouped by nor aggregated'
    error.hint = found.hint
    return found.start


@contextmanager
def suggest_columns(tables: Sequence[Table]) -> Iterator[None]:
    """Let errors about an unknown column suggest the tables' columns, of which Spark sees only those that the query names."""
    try:
        yield
    except QueryFailed as error:
        unknown = _UNKNOWN.fullmatch(error.message)
        known = [field.name for table in tables for field in table.fields]
        if unknown is not None and known:
            name = unknown[1].rpartition(".")[2].lower()
            others = [column for column in known if column.lower() != name]
            few = f"the columns are {', '.join(known)}" if len(known) <= _FEW else None
            error.hint = suggest_word(name, others) or error.hint or few
            # Then it is hidden from where it is named, as behind a grouping.
            error.__dict__["is_of_table"] = len(others) < len(known)
        raise


def find_column(name: str, text: str) -> int | None:
    """The offset of a column that Spark names without a place, in the fewest brackets where it stands several times.

    >>> find_column("score", "SELECT sum(score), score FROM posts")
    19
    """
    try:
        tokens = tokenize(text)
    except PlatformError:
        return None
    depth, found = 0, list[tuple[int, int]]()
    for index in range(len(tokens)):
        word = tokens.text(index)
        depth += (word == "(") - (word == ")")
        if word.strip("`").lower() == name.lower():
            found.append((depth, tokens.starts[index]))
    return min(found)[1] if found else None


def find_offset(error: PlatformError, rendered: TextPlaces) -> int | None:
    """The offset in the rendered text that Spark's error names."""
    cause = error.__cause__
    contexts = cause.getQueryContext() if cause is not None and hasattr(cause, "getQueryContext") else []
    for context in contexts or []:
        start = getattr(context, "startIndex", lambda: -1)()
        fragment = getattr(context, "fragment", lambda: "")()
        if start >= 0 and fragment and rendered.text[start : start + len(fragment)] == fragment:
            return int(start)
    said = re.search(r"line (\d+)(?:,| )\s*pos (\d+)", str(cause or ""))
    if said is None:
        return None
    lines = rendered.text.split("\n")
    line, column = int(said[1]), int(said[2])
    return sum(len(before) + 1 for before in lines[: line - 1]) + column if line <= len(lines) else None
