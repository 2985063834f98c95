"""`find_sessions`: each SESSION(stream, INTERVAL '2' SECOND [, 'earliest']) in place of a relation in a query."""

from __future__ import annotations

from typing import TYPE_CHECKING

from platform_plugin.language.query.references import SessionWindow
from platform_plugin.language.text.options import parse_duration
from platform_plugin.language.text.places import suggest_word, syntax_error
from platform_plugin.language.text.tokens import DOUBLE, NUMBER, QUOTED, STRING, WORD, find_closing
from platform_plugin.language.text.values import string_value

if TYPE_CHECKING:
    from platform_plugin.language.text.tokens import Tokens

_FORM = "SESSION(stream, INTERVAL '2' SECOND [, 'earliest'])"


def find_sessions(tokens: Tokens) -> dict[int, tuple[int, int, int, SessionWindow]]:
    """The sessions of a query, by the first token of each stream's name.

    Each comes with the token of its SESSION, the index after the whole, the index after the name, and its window.
    """
    found = {}
    for index in range(1, len(tokens) - 1) if "SESSION" in tokens.uppers else ():
        if tokens.upper(index) == "SESSION" and tokens.upper(index + 1) == "(" and tokens.upper(index - 1) in ("FROM", "JOIN", ","):
            end = find_closing(tokens, index + 1)
            name, window = _read(tokens, index, end)
            found[index + 2] = (index, end + 1, name, window)
    return found


def _read(tokens: Tokens, index: int, end: int) -> tuple[int, SessionWindow]:
    name = index + 2
    if tokens.kind(name) not in (WORD, QUOTED) or name >= end:
        raise syntax_error(tokens.span(name, name + 1), "a session is of a stream", expected=f"a stream, as in {_FORM}")
    name += 1
    while tokens.upper(name) == "." and tokens.kind(name + 1) in (WORD, QUOTED):
        name += 2
    if tokens.upper(name) != ",":
        raise syntax_error(tokens.span(name, name + 1), "a session has a time after which it ends", expected=f", and a time, as in {_FORM}")
    place = _part_end(tokens, name + 1, end)
    idle = parse_duration(_duration(tokens, name + 1, place))
    if idle is None:
        what = tokens.span(name + 1, max(place, name + 2))
        raise syntax_error(
            what, f"{what.text[:40]} is not how long a session waits for rows", expected="a time above zero, as INTERVAL '2' SECOND"
        )
    earliest = False
    if place < end:
        start = tokens.span(place + 1, end)
        word = string_value(start.text).lower() if end == place + 2 and tokens.kind(place + 1) in (STRING, DOUBLE) else ""
        if word not in ("earliest", "now"):
            hint = suggest_word(word, ("earliest", "now"))
            raise syntax_error(start, f"a session can't start at {start.text[:40]}", expected="'earliest' or 'now'", hint=hint)
        earliest = word == "earliest"
    if tokens.upper(end + 1) == "AT" and tokens.upper(end + 2) == "(":
        raise syntax_error(tokens.span(end + 1, end + 2), "a session reads what arrives, not a snapshot", hint="leave AT (…) out")
    return name, SessionWindow(idle=idle, earliest=earliest, span=tokens.span(index, end + 1))


def _part_end(tokens: Tokens, index: int, end: int) -> int:
    while index < end and tokens.upper(index) != ",":
        index = find_closing(tokens, index) + 1 if tokens.upper(index) == "(" else index + 1
    return index


def _duration(tokens: Tokens, first: int, last: int) -> str:
    """The text of a time: `INTERVAL '2' SECOND`, `INTERVAL '2 seconds'`, or the text alone."""
    first += tokens.upper(first) == "INTERVAL"
    parts = []
    for index in range(first, last):
        kind = tokens.kind(index)
        if kind not in (STRING, DOUBLE, NUMBER, WORD) or (kind == WORD and index == first):
            return ""
        parts.append(string_value(tokens.text(index)) if kind in (STRING, DOUBLE) else tokens.text(index))
    return " ".join(parts)
