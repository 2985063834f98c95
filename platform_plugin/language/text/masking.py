"""`mask`: a query's text with placeholders, so that sqlglot can't read anything in it otherwise than Spark does.

Every string, number, quoted name, call, type and parameter becomes a placeholder that holds the index of its token: sqlglot rewrites what
it recognises (functions, types, intervals), each time a little differently from Spark. Comments are removed. The platform's own clauses,
and those that sqlglot misreads (`AT (…)`, `VERSION AS OF`, `STREAM orders`, `TABLE orders`, `value:part`), are removed and returned as
marks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from platform_plugin.language.query.changed import find_change_ranges
from platform_plugin.language.query.references import ChangeRange, SessionWindow, TimeTravel
from platform_plugin.language.query.sessions import find_sessions
from platform_plugin.language.text.places import suggest_word, syntax_error
from platform_plugin.language.text.runs import find_runs, is_call
from platform_plugin.language.text.tokens import BINARY, DOUBLE, NUMBER, QUOTED, SIGN, STRING, WORD, find_closing
from platform_plugin.language.text.values import Literal, Parameter, read_cell
from platform_plugin.language.text.words import AFTER_RELATION

if TYPE_CHECKING:
    from platform_plugin.language.text.tokens import Tokens

_KEPT_ITEMS = 64
_LITERAL_WORDS = frozenset(("NULL", "TRUE", "FALSE", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ"))
_SET_WORDS = frozenset(("UNION", "INTERSECT", "EXCEPT", "MINUS", "ALL", "DISTINCT", "AS"))
PLACEHOLDER = re.compile(r"__([fqwlt])(\d+)__")
"""What stands for a token in the masked text: a call, a quoted name, a word, a literal or a type."""


@dataclass(frozen=True, slots=True)
class MaskedQuery:
    """The masked text, the token that each of its parts stands for, and the clauses that were removed."""

    text: str
    origins: dict[int, int]
    """Offset in `text` -> index of the token that stands there."""
    travels: dict[int, tuple[int, TimeTravel]]
    """First token of a time travel clause -> the index after it, and the snapshot it asks for."""
    streams: dict[int, tuple[int, int]]
    """First token of a relation's name -> the STREAM word before it and the index after both."""
    sessions: dict[int, SessionWindow]
    """First token of a relation's name -> the session that its stream is read as."""
    changes: dict[int, ChangeRange]
    """First token of a relation's name -> the range whose changes are read in its place."""
    tables: frozenset[int]
    """First tokens of relations that stand after TABLE, where no alias may follow."""
    runs: dict[int, int]
    """First token of a literal or a type that several tokens make -> the index after it."""
    extractions: frozenset[int] = frozenset()
    """First tokens of the `:part` that takes something out of a value; the tree has none of them."""
    cut: frozenset[int] = frozenset()
    """First items of literal lists that were shortened, and of rows that were left out: the tree does not hold them."""


def mask(tokens: Tokens, parameters: dict[int, Parameter], before: str = "", after: str = "", *, is_whole: bool = False) -> MaskedQuery:
    """The masked text of a query's tokens; `before` and `after` make a query of an expression.

    Long lists of literals are shortened unless `is_whole`.
    """
    travels = _travels(tokens, parameters)
    streams, dropped = _streams(tokens)
    windows, ranges = find_sessions(tokens), find_change_ranges(tokens, parameters)
    for first, (begin, end, name, _) in (*windows.items(), *ranges.items()):
        streams[first] = (begin, end)
        dropped.update(index for index in range(begin, end) if index not in range(first, name))
    tables = frozenset(index + 1 for index, word in enumerate(tokens.uppers) if word == "TABLE" and _is_table_query(tokens, index))
    cut = frozenset[int]() if is_whole else _shorten(tokens, dropped)
    extractions = _drop_extractions(tokens, parameters, dropped)
    for first, (end, _) in travels.items():
        dropped.update(range(first, end))
    runs = find_runs(tokens)
    pieces: list[str] = [before] if before else []
    origins: dict[int, int] = {}
    length = len(before) + 1 if before else 0
    index = 0
    while index < len(tokens):
        end = runs.get(index, index + 1)
        if index not in dropped:
            if index in parameters:
                piece = f":p{index}"
                end += parameters[index].name is not None
            elif index + 1 in tables:
                piece = "SELECT * FROM"
            elif index in runs:
                piece = f"STRUCT<__t{index}__: INT>" if _is_type(tokens, index) else f"'__l{index}__'"
            else:
                piece = _placeholder(tokens, index)
            origins[length] = index
            pieces.append(piece)
            length += len(piece) + 1
        index = end
    sessions = {first: window for first, (_, _, _, window) in windows.items()}
    changes = {first: changed for first, (_, _, _, changed) in ranges.items()}
    text = " ".join([*pieces, after] if after else pieces)
    return MaskedQuery(text, origins, travels, streams, sessions, changes, tables, runs, extractions, cut)


def _placeholder(tokens: Tokens, index: int) -> str:
    kind = tokens.kinds[index]
    if kind == NUMBER:
        return str(index)
    if kind in (STRING, DOUBLE, BINARY):
        return f"'__l{index}__'"
    text = tokens.text(index)
    if kind == SIGN:
        return text
    if tokens.upper(index + 1) == "(" and is_call(tokens, index, tokens.uppers[index]):
        return f"__f{index}__"
    if kind == QUOTED:
        return f"`__q{index}__`"
    is_plain = text.isascii() and not text[0].isdigit() and not PLACEHOLDER.fullmatch(text) and index not in tokens.names
    return text if is_plain else f"`__w{index}__`"


def _is_type(tokens: Tokens, index: int) -> bool:
    return tokens.upper(index - 1) in ("AS", "::") and tokens.kind(index) not in (STRING, DOUBLE)


_TRAVEL_WORDS = frozenset(("AT", "VERSION", "SYSTEM_VERSION", "TIMESTAMP", "SYSTEM_TIME"))


def _travels(tokens: Tokens, parameters: dict[int, Parameter]) -> dict[int, tuple[int, TimeTravel]]:
    found: dict[int, tuple[int, TimeTravel]] = {}
    for index, word in enumerate(tokens.uppers):
        if word not in _TRAVEL_WORDS:
            continue
        if word == "AT" and tokens.upper(index + 1) == "(" and tokens.kind(index + 2) == WORD and tokens.upper(index + 3) == "=>":
            what = tokens.upper(index + 2)
            if what not in _EXPECTED:
                span = tokens.span(index + 2, index + 3)
                expected = "VERSION => n, TIMESTAMP => 't', STALENESS => '5 seconds' or GATE => 'passed'"
                raise syntax_error(span, f"AT has no {span.text[:40]}", expected=expected, hint=suggest_word(what, tuple(_EXPECTED)))
            after = find_closing(tokens, index + 1)
            found[index] = (after + 1, _travel(tokens, parameters, what, first=index, value=index + 4, after=after))
        elif word != "AT" and tokens.upper(index + 1) == "AS" and tokens.upper(index + 2) == "OF":
            first = index - 1 if tokens.upper(index - 1) == "FOR" else index
            what = "VERSION" if "VERSION" in word else "TIMESTAMP"
            cell = read_cell(tokens, index + 3, parameters) if index + 3 < len(tokens) else None
            after = cell[1] if cell else index + 4
            found[first] = (after, _travel(tokens, parameters, what, first=first, value=index + 3, after=after))
    return found


def _travel(tokens: Tokens, parameters: dict[int, Parameter], what: str, *, first: int, value: int, after: int) -> TimeTravel:
    cell = read_cell(tokens, value, parameters) if value < after else None
    span = tokens.span(first, min(after + 1, len(tokens)) if tokens.upper(first) == "AT" else after)
    item = cell[0] if cell and cell[1] == after else None
    if isinstance(item, Parameter) and item.name is None:
        raise syntax_error(span, "a snapshot can't be given by ?", hint="use a named parameter")
    if what == "VERSION" and (isinstance(item, Parameter) or (isinstance(item, Literal) and item.kind == "integer")):
        version = item if isinstance(item, Parameter) else item.value
        return TimeTravel(version=version, span=span)  # type: ignore[arg-type]
    if what == "TIMESTAMP" and (
        isinstance(item, Parameter) or (isinstance(item, Literal) and item.kind in ("string", "timestamp", "date"))
    ):
        return TimeTravel(timestamp=item, span=span)
    if what == "STALENESS" and (isinstance(item, Parameter) or (isinstance(item, Literal) and item.kind == "string")):
        return TimeTravel(staleness=item, span=span)
    if what == "GATE" and isinstance(item, Literal) and str(item.value).lower() == "passed":
        return TimeTravel(passed=True, span=span)
    raise syntax_error(span, "a snapshot is named by one value", expected=_EXPECTED[what])


_EXPECTED = {"VERSION": "a whole number", "TIMESTAMP": "'a timestamp'", "STALENESS": "'a duration'", "GATE": "'passed'"}


def _is_name(tokens: Tokens, index: int) -> bool:
    kind = tokens.kind(index)
    return kind == QUOTED or (kind == WORD and tokens.upper(index) not in AFTER_RELATION)


def _streams(tokens: Tokens) -> tuple[dict[int, tuple[int, int]], set[int]]:
    """`FROM STREAM orders` and `FROM STREAM(orders)`: the relation orders, where sqlglot sees a relation STREAM."""
    found: dict[int, tuple[int, int]] = {}
    dropped: set[int] = set()
    for index in range(1, len(tokens) - 1) if "STREAM" in tokens.uppers else ():
        if tokens.upper(index) != "STREAM" or tokens.upper(index - 1) not in ("FROM", "JOIN", ","):
            continue
        if tokens.upper(index + 1) == "(" and _is_name(tokens, index + 2):
            after = find_closing(tokens, index + 1)
            found[index + 2] = (index, after + 1)
            dropped.update((index, index + 1, after))
        elif _is_name(tokens, index + 1) and tokens.upper(index - 1) != ",":
            after = index + 2
            while tokens.upper(after) == "." and tokens.kind(after + 1) in (WORD, QUOTED):
                after += 2
            found[index + 1] = (index, after)
            dropped.add(index)
    return found, dropped


def _drop_extractions(tokens: Tokens, parameters: dict[int, Parameter], dropped: set[int]) -> frozenset[int]:
    """`value:name.name[0]` takes a part out of a value; sqlglot reads only some of that, and none of it names a column."""
    angles = 0
    extractions: set[int] = set()
    for index, sign in enumerate(tokens.uppers) if ":" in tokens.uppers else ():
        if sign == "<" and (angles or tokens.upper(index - 1) in ("STRUCT", "ARRAY", "MAP")):
            angles += 1
        elif sign == ">":
            angles = max(0, angles - 1)
        elif sign == ":" and not angles and index not in parameters and tokens.kind(index + 1) in (WORD, QUOTED):
            after = index + 2
            while True:
                if tokens.upper(after) in (".", ":") and tokens.kind(after + 1) in (WORD, QUOTED):
                    after += 2
                elif tokens.upper(after) == "[" and tokens.kind(after + 1) in (NUMBER, STRING) and tokens.upper(after + 2) == "]":
                    after += 3
                else:
                    break
            extractions.add(index)
            dropped.update(range(index, after))
    return frozenset(extractions)


def _is_table_query(tokens: Tokens, index: int) -> bool:
    if tokens.upper(index) != "TABLE" or tokens.kind(index + 1) not in (WORD, QUOTED):
        return False
    return index == 0 or tokens.upper(index - 1) in ("(", ")") or tokens.upper(index - 1) in _SET_WORDS


def _shorten(tokens: Tokens, dropped: set[int]) -> frozenset[int]:
    """Long lists of literals, and all rows of literals but the first, are left out: they name no relation and no column."""
    cut: set[int] = set()
    uppers = tokens.uppers
    index = 0
    while index < len(uppers):
        if uppers[index] != "(":
            index += 1
            continue
        after = _literal_list(tokens, index)
        if after is None:
            index += 1
            continue
        if after - index > 2 * _KEPT_ITEMS:
            cut.add(index + 1)
            keep = index + 3 if tokens.upper(index + 1) in ("-", "+") or tokens.kind(index + 1) == WORD else index + 2
            dropped.update(range(keep, after))
        index = after + 1
        # Further rows of the same kind.
        while tokens.upper(index) == "," and tokens.upper(index + 1) == "(" and (end := _literal_list(tokens, index + 1)) is not None:
            dropped.update(range(index, end + 1))
            cut.add(index + 1)
            index = end + 1
    return frozenset(cut)


def _literal_list(tokens: Tokens, index: int) -> int | None:
    """The closing bracket of a list of nothing but literals, or None."""
    uppers, kinds = tokens.uppers, tokens.kinds
    for inner in range(index + 1, len(kinds)):
        kind = kinds[inner]
        if kind == SIGN:
            sign = uppers[inner]
            if sign == ")":
                return inner if inner > index + 1 else None
            if sign not in ",-+":
                return None
        elif kind == WORD:
            if uppers[inner] not in _LITERAL_WORDS:
                return None
        elif kind == QUOTED:
            return None
    return None
