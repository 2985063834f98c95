"""`find_change_ranges`: each CHANGES(relation, after [, until] [, steps => true]) in place of a relation in a query."""

from __future__ import annotations

from typing import TYPE_CHECKING

from platform_plugin.language.query.references import ChangeRange
from platform_plugin.language.text.places import suggest_word, syntax_error
from platform_plugin.language.text.tokens import QUOTED, WORD, find_closing
from platform_plugin.language.text.values import Literal, Parameter, read_cell

if TYPE_CHECKING:
    from platform_plugin.language.text.tokens import Tokens
    from platform_plugin.language.text.values import Cell

_FORM = "changes(users, 12, 40)"
_NAMES = ("after", "until", "steps")
_KINDS = ("integer", "string", "timestamp", "date")


def find_change_ranges(tokens: Tokens, parameters: dict[int, Parameter]) -> dict[int, tuple[int, int, int, ChangeRange]]:
    """The calls of a query, by the first token of each relation's name.

    Each comes with the token of its CHANGES, the index after the whole, the index after the name, and its range.
    """
    found = {}
    for index in range(1, len(tokens) - 1):
        if tokens.upper(index) == "CHANGES" and tokens.upper(index + 1) == "(" and tokens.upper(index - 1) in ("FROM", "JOIN", ","):
            if tokens.upper(index - 1) == "," and tokens.kind(index + 2) not in (WORD, QUOTED):
                continue  # a call among others in a list
            end = find_closing(tokens, index + 1)
            name, changed = _read(tokens, parameters, index, end)
            found[index + 2] = (index, end + 1, name, changed)
    return found


def _read(tokens: Tokens, parameters: dict[int, Parameter], index: int, end: int) -> tuple[int, ChangeRange]:
    name = index + 2
    if tokens.kind(name) not in (WORD, QUOTED) or name >= end:
        raise syntax_error(tokens.span(name, name + 1), "changes are those of a relation", expected=f"a table, as in {_FORM}")
    name += 1
    while tokens.upper(name) == "." and tokens.kind(name + 1) in (WORD, QUOTED):
        name += 2
    place, values = name, dict[str, "Cell"]()
    while place < end:
        if tokens.upper(place) != ",":
            raise syntax_error(tokens.span(place, place + 1), f"unexpected {tokens.text(place)[:40]}", expected=f", as in {_FORM}")
        place = _read_argument(tokens, parameters, place + 1, end, values)
    if "after" not in values:
        what = tokens.span(index, end + 1)
        raise syntax_error(what, "no snapshot is named that the changes begin behind", expected=f"its number or a time, as in {_FORM}")
    if tokens.upper(end + 1) == "AT" and tokens.upper(end + 2) == "(":
        raise syntax_error(tokens.span(end + 1, end + 2), "changes are between two snapshots, not at one", hint="leave AT (…) out")
    steps = values.get("steps")
    return name, ChangeRange(
        after=values["after"],
        until=values.get("until"),
        steps=isinstance(steps, Literal) and steps.value is True,
        span=tokens.span(index, end + 1),
    )


def _read_argument(tokens: Tokens, parameters: dict[int, Parameter], place: int, end: int, values: dict[str, Cell]) -> int:
    """Read one argument, by its place or by its name, and return the index after it."""
    is_named = tokens.kind(place) == WORD and tokens.upper(place + 1) == "=>"
    argument = tokens.text(place).lower() if is_named else next((known for known in _NAMES[:2] if known not in values), "")
    span = tokens.span(place, min(place + 1, end))
    if argument not in _NAMES or argument in values:
        told = f"{argument} is given twice" if argument in values else f"changes have no {span.text[:40]}"
        raise syntax_error(span, told, expected=f"a relation and one or two snapshots, as in {_FORM}", hint=suggest_word(argument, _NAMES))
    first = place + 2 if is_named else place
    cell = read_cell(tokens, first, parameters) if first < end else None
    if cell is None or cell[1] > end:
        what = tokens.span(first, max(first + 1, min(end, first + 1)))
        raise syntax_error(what, f"{what.text[:40]} names no snapshot", expected="a number, a time or a parameter")
    value, after = cell
    if isinstance(value, Parameter) and value.name is None:
        raise syntax_error(tokens.span(first, after), "a snapshot can't be given by ?", hint="use a named parameter")
    if argument == "steps":
        if not (isinstance(value, Literal) and value.kind == "boolean"):
            raise syntax_error(tokens.span(first, after), "steps are asked for or not", expected="steps => true")
    elif isinstance(value, Literal) and value.kind not in _KINDS:
        raise syntax_error(
            tokens.span(first, after), f"{tokens.span(first, after).text[:40]} names no snapshot", expected="a number or a time"
        )
    values[argument] = value
    return after
