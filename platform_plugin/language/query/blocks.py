"""`find_blocks`: the SELECTs of a query and the items of their FROM clauses, read from tokens alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from platform_plugin.language.text.tokens import QUOTED, WORD, find_closing

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from platform_plugin.algebra.types.data_types import Field
    from platform_plugin.language.text.tokens import Tokens

_SETS = ("UNION", "INTERSECT", "EXCEPT", "MINUS")
_END = frozenset(
    ("WHERE", "GROUP", "HAVING", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "LIMIT", "OFFSET", "WINDOW", "QUALIFY", ")", *_SETS)
)
_JOIN_WORDS = frozenset(("INNER", "CROSS", "LEFT", "RIGHT", "FULL", "OUTER", "SEMI", "ANTI", "NATURAL", "JOIN"))
_GIVE_UP = frozenset(("LATERAL", "PIVOT", "UNPIVOT", "USING", "NATURAL", "FULL", "TABLESAMPLE"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """The columns and the size of a relation that a query reads."""

    columns: frozenset[str] | None
    """In lower case; None where only Spark would know."""
    size_bytes: int
    is_stream: bool = False
    fields: tuple[Field, ...] = ()
    """Its columns with their types, where the lake knows them."""


@dataclass(frozen=True, slots=True)
class FromItem:
    """One item of a FROM clause: its tokens, its alias, its columns and its size."""

    first: int
    last: int
    alias: str
    columns: frozenset[str] | None
    size_bytes: int | None
    is_stream: bool
    holds_stream: bool
    join: str = ","
    on: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Block:
    """One SELECT with its FROM clause, as token indexes."""

    select: int
    first: int
    last: int
    sources: tuple[FromItem, ...]
    where: tuple[int, int] | None


def find_blocks(tokens: Tokens, inputs: Mapping[str, Input]) -> Iterator[Block]:
    """All SELECTs of a text, outer ones first."""
    for index in range(len(tokens)):
        if tokens.upper(index) == "SELECT" and tokens.upper(index - 1) != ".":
            block = read_block(tokens, index, inputs)
            if block is not None:
                yield block


def read_block(tokens: Tokens, select: int, inputs: Mapping[str, Input]) -> Block | None:
    """The SELECT that begins at a token; None if its FROM holds something that this reader does not understand."""
    start = _find(tokens, select + 1, frozenset(("FROM",)) | _END)
    if tokens.upper(start) != "FROM":
        return None
    end = _find(tokens, start + 1, _END)
    sources = _sources(tokens, start + 1, end, inputs)
    if not sources:
        return None
    where = (end + 1, _find(tokens, end + 1, _END - {"WHERE"})) if tokens.upper(end) == "WHERE" else None
    return Block(select, start + 1, end, tuple(sources), where)


def _find(tokens: Tokens, index: int, words: frozenset[str]) -> int:
    """The first of these words outside of brackets."""
    while index < len(tokens):
        word = tokens.upper(index)
        if word in words and not (word == "FROM" and tokens.upper(index - 1) == "DISTINCT" and index > 1 and _is_comparison(tokens, index)):
            return index
        index = find_closing(tokens, index) + 1 if word in ("(", "[") else index + 1
    return len(tokens)


def _is_comparison(tokens: Tokens, index: int) -> bool:
    return tokens.upper(index - 2) in ("IS", "NOT")


def _sources(tokens: Tokens, first: int, end: int, inputs: Mapping[str, Input]) -> list[FromItem] | None:
    sources: list[FromItem] = []
    begin, join = first, ","
    while True:
        index = begin
        while index < end and tokens.upper(index) not in _JOIN_WORDS and tokens.upper(index) not in (",", "ON"):
            if tokens.upper(index) in _GIVE_UP:
                return None
            index = find_closing(tokens, index) + 1 if tokens.upper(index) in ("(", "[") else index + 1
        source = _source(tokens, begin, index, inputs)
        if source is None:
            return None
        on = None
        if tokens.upper(index) == "ON" and index < end:
            after = index + 1
            while after < end and tokens.upper(after) not in _JOIN_WORDS - {"LEFT", "RIGHT"} and tokens.upper(after) != ",":
                if tokens.upper(after) in ("LEFT", "RIGHT") and tokens.upper(after + 1) != "(":
                    break
                after = find_closing(tokens, after) + 1 if tokens.upper(after) in ("(", "[") else after + 1
            on, index = (index + 1, after), after
        sources.append(replace(source, join=join, on=on))
        if index >= end:
            return sources
        if tokens.upper(index) == ",":
            begin, join = index + 1, ","
            continue
        words = []
        while tokens.upper(index) in _JOIN_WORDS and index < end:
            words.append(tokens.upper(index))
            index += 1
        if not words or words[-1] != "JOIN" or _GIVE_UP & set(words):
            return None
        begin, join = index, " ".join(words)


def _source(tokens: Tokens, first: int, last: int, inputs: Mapping[str, Input]) -> FromItem | None:
    if first >= last:
        return None
    if tokens.upper(first) == "(":
        inner = find_closing(tokens, first)
        alias = _alias(tokens, inner + 1, last)
        if alias is None or tokens.upper(first + 1) not in ("SELECT", "WITH", "VALUES"):
            return None
        inside = [inputs[name] for index in range(first, inner) if (name := _plain(tokens, index)) in inputs]
        streams = any(known.is_stream for known in inside)
        columns = None if tokens.upper(first + 1) != "SELECT" else _output(tokens, first + 1)
        return FromItem(first, last, alias, columns, sum(known.size_bytes for known in inside), is_stream=False, holds_stream=streams)
    if tokens.kind(first) not in (WORD, QUOTED):
        return None
    known = inputs.get(_plain(tokens, first))
    alias = _alias(tokens, first + 1, last) if first + 1 < last else _plain(tokens, first)
    if alias is None:
        return None
    if known is None:
        # A part of WITH: how large it is nobody knows, and it may hold a stream.
        return FromItem(first, last, alias, None, None, is_stream=False, holds_stream=True)
    return FromItem(first, last, alias, known.columns, known.size_bytes, known.is_stream, known.is_stream)


def _plain(tokens: Tokens, index: int) -> str:
    text = tokens.text(index)
    return text[1:-1].replace("``", "`") if tokens.kind(index) == QUOTED else text


def _alias(tokens: Tokens, first: int, last: int) -> str | None:
    """The alias between a source and what follows; None if there is something else."""
    first += tokens.upper(first) == "AS"
    return _plain(tokens, first) if first + 1 == last and tokens.kind(first) in (WORD, QUOTED) else None


def _output(tokens: Tokens, select: int) -> frozenset[str] | None:
    """The names of a subquery's columns; None if a * hides them."""
    end = _find(tokens, select + 1, frozenset(("FROM",)) | _END)
    names, index = set(), select + 1
    while index < end:
        word = tokens.upper(index)
        after = find_closing(tokens, index) + 1 if word in ("(", "[") else index + 1
        if after >= end or tokens.upper(after) == ",":
            if word == "*":
                return None
            if tokens.kind(index) in (WORD, QUOTED):
                names.add(read_name_at(tokens, index))
        index = after
    return frozenset(names)


def read_name_at(tokens: Tokens, index: int) -> str:
    """A name in lower case, without its quotes."""
    text = tokens.text(index)
    return (text[1:-1].replace("``", "`") if tokens.kind(index) == QUOTED else text).lower()
