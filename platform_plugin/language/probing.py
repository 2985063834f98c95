"""Probing: a query's joins put in such an order, and hinted such, that Spark passes a stream by hash tables of the other sides.

Nothing is known of a stream's size by the time it is read, so it counts as the largest input of every join (thesis, section 3.2.4):
it comes first, its rows look up the others' hash tables one after the other, and the first thing that stores any is an aggregation.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from platform_plugin.algebra.types import quoted
from platform_plugin.language.tokens import QUOTED, WORD, closing, tokenize

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from platform_plugin.language.places import Place
    from platform_plugin.language.rendering import Rendered
    from platform_plugin.language.tokens import Tokens

# A hash table of this many bytes of Parquet goes to every executor whole; larger ones are built from shuffled parts.
BROADCAST_BYTES = 64 * 1024 * 1024

_SETS = ("UNION", "INTERSECT", "EXCEPT", "MINUS")
_END = frozenset(
    ("WHERE", "GROUP", "HAVING", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "LIMIT", "OFFSET", "WINDOW", "QUALIFY", ")", *_SETS)
)
_JOIN_WORDS = frozenset(("INNER", "CROSS", "LEFT", "RIGHT", "FULL", "OUTER", "SEMI", "ANTI", "NATURAL", "JOIN"))
_GIVE_UP = frozenset(("LATERAL", "PIVOT", "UNPIVOT", "USING", "NATURAL", "FULL", "TABLESAMPLE"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """What is known of a relation that a query reads."""

    columns: frozenset[str] | None
    """In lower case; None where only Spark would know."""
    size_bytes: int
    is_stream: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Probing:
    """A query's text for Spark, and where each part of it comes from."""

    text: str
    _rendered: Rendered = field(repr=False)
    _starts: tuple[int, ...] = field(repr=False)
    _origins: tuple[tuple[int, bool], ...] = field(repr=False)

    def at(self, position: int) -> Place:
        """The place in the user's text of an offset in this one."""
        piece = max(0, bisect_right(self._starts, position) - 1)
        origin, moves = self._origins[piece]
        return self._rendered.at(origin + (position - self._starts[piece] if moves else 0))


@dataclass(frozen=True, slots=True)
class _Source:
    """One item of a FROM clause: its tokens, what it is called, and what is known of it."""

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
class _Block:
    """One SELECT with its FROM clause, as token indexes."""

    select: int
    first: int
    last: int
    sources: tuple[_Source, ...]
    where: tuple[int, int] | None


_Edit = tuple[int, int, list["tuple[int, int] | str"]]


def plan_probing(rendered: Rendered, inputs: Mapping[str, Input]) -> Rendered | Probing:
    """The query with streams on the probing side of every join where its words allow it; the same query where there is nothing to do.

    `inputs` tells the relations by the names that they have in the rendered text.
    """
    if len(inputs) < 2 or not any(known.is_stream for known in inputs.values()):
        return rendered
    tokens = tokenize(rendered.text)
    edits: list[_Edit] = []
    for block in _blocks(tokens, inputs):
        edits += _plan_block(tokens, block, inputs)
    return _edited(rendered, edits) if edits else rendered


def _plan_block(tokens: Tokens, block: _Block, inputs: Mapping[str, Input]) -> Iterator[_Edit]:
    streams = [place for place, source in enumerate(block.sources) if source.is_stream]
    if not streams or _has_hint(tokens, block.select):
        return
    if block.where is not None:
        yield from _hinted_subqueries(tokens, block.where, inputs)
    if len(block.sources) < 2:
        return
    stream = max(streams, key=lambda place: block.sources[place].size_bytes or 0)
    joins = {source.join for source in block.sources[1:]}
    if joins <= {",", "JOIN", "INNER JOIN", "CROSS JOIN"}:
        order = _order(tokens, block, stream)
        if not _is_probed(tokens, block, range(len(order)), stream):
            if order == list(range(len(order))) or not _may_move(tokens, block):
                return
            yield from _moved(tokens, block, order)
    elif not _is_kept_whole(block, stream):
        return
    hints = [hint for place, source in enumerate(block.sources) if place != stream and (hint := _hint(source))]
    if hints:
        yield _hint_edit(tokens, block.select, hints)


def _is_kept_whole(block: _Block, stream: int) -> bool:
    """Whether outer joins let every row of the stream through, in a place where it can look up the others."""
    may_come_second = stream == 1 and block.sources[1].join in (",", "JOIN", "INNER JOIN", "RIGHT JOIN", "RIGHT OUTER JOIN")
    return (stream == 0 or may_come_second) and not any(source.join.startswith("RIGHT") for source in block.sources[stream + 1 :])


def _hint(source: _Source) -> str | None:
    if source.size_bytes is None or source.holds_stream:
        return None
    return f"{'BROADCAST' if source.size_bytes <= BROADCAST_BYTES else 'SHUFFLE_HASH'}({quoted(source.alias)})"


def _hint_edit(tokens: Tokens, select: int, hints: Sequence[str]) -> _Edit:
    after = tokens.ends[select]
    return after, after, [f" /*+ {', '.join(hints)} */"]


def _has_hint(tokens: Tokens, select: int) -> bool:
    following = tokens.starts[select + 1] if select + 1 < len(tokens) else len(tokens.source)
    return "/*+" in tokens.source[tokens.ends[select] : following]


def _hinted_subqueries(tokens: Tokens, where: tuple[int, int], inputs: Mapping[str, Input]) -> Iterator[_Edit]:
    """Tables in IN and EXISTS over a stream's rows are looked up like those of joins."""
    for index in range(*where):
        if tokens.upper(index) == "(" and tokens.upper(index + 1) == "SELECT" and not _has_hint(tokens, index + 1):
            inner = _block(tokens, index + 1, inputs)
            if inner is not None and len(inner.sources) == 1 and (hint := _hint(inner.sources[0])):
                yield _hint_edit(tokens, inner.select, [hint])


def _may_move(tokens: Tokens, block: _Block) -> bool:
    """Moving sources would change what a bare * means, and which value a ? gets."""
    begin = block.select + 2 if tokens.upper(block.select + 1) in ("DISTINCT", "ALL") else block.select + 1
    if tokens.upper(begin) == "*":
        return False
    index = begin
    while index < block.first:
        index = closing(tokens, index) if tokens.upper(index) in ("(", "[") else index
        if tokens.upper(index) == "," and tokens.upper(index + 1) == "*":
            return False
        index += 1
    last = block.where[1] if block.where else block.last
    return not any(tokens.upper(index) == "?" for index in range(block.first, last))


def _moved(tokens: Tokens, block: _Block, order: Sequence[int]) -> Iterator[_Edit]:
    """FROM names the sources in the new order, all conditions stand in WHERE."""
    pieces: list[tuple[int, int] | str] = []
    for place in order:
        source = block.sources[place]
        pieces += [", "] if pieces else []
        pieces.append((tokens.starts[source.first], tokens.ends[source.last - 1]))
    conditions: list[tuple[int, int] | str] = []
    for source in block.sources:
        if source.on is not None:
            conditions += [" AND (" if conditions else "(", (tokens.starts[source.on[0]], tokens.ends[source.on[1] - 1]), ")"]
    begin, end = tokens.starts[block.first], tokens.ends[block.last - 1]
    if block.where is None:
        yield begin, end, [*pieces, *([" WHERE ", *conditions] if conditions else [])]
        return
    yield begin, end, pieces
    if conditions:
        first, last = block.where
        # The condition itself stays, so that edits inside of it hold.
        yield tokens.starts[first], tokens.starts[first], [*conditions, " AND ("]
        yield tokens.ends[last - 1], tokens.ends[last - 1], [")"]


def _order(tokens: Tokens, block: _Block, stream: int) -> list[int]:
    """The stream first, then whatever an equation connects with what is there already, in the order it was written."""
    pairs = _connections(tokens, block)
    order, left = [stream], [place for place in range(len(block.sources)) if place != stream]
    while left:
        place = next((place for place in left if any({place, known} in pairs for known in order)), left[0])
        order.append(place)
        left.remove(place)
    return order


def _is_probed(tokens: Tokens, block: _Block, order: Sequence[int], stream: int) -> bool:
    """Whether the stream passes every join in this order: it is in the first one, and each has an equation."""
    pairs = _connections(tokens, block)
    connected = all(any({order[place], known} in pairs for known in order[:place]) for place in range(1, len(order)))
    return order.index(stream) <= 1 and (connected or len(order) == 2)


def _connections(tokens: Tokens, block: _Block) -> list[set[int]]:
    ranges = [*([block.where] if block.where else []), *(source.on for source in block.sources if source.on)]
    pairs = []
    for first, last in ranges:
        index = first
        while index < last:
            if tokens.upper(index) == "(" and tokens.upper(index + 1) in ("SELECT", "WITH"):
                index = closing(tokens, index)
            elif tokens.upper(index) in ("=", "==", "<=>"):
                left, right = _column_before(tokens, index), _column_after(tokens, index)
                found = {place for column in (left, right) if column and (place := _owner(block, *column)) is not None}
                pairs += [found] if len(found) == 2 else []
            index += 1
    return pairs


def _column_before(tokens: Tokens, index: int) -> tuple[str | None, str] | None:
    if tokens.kind(index - 1) not in (WORD, QUOTED):
        return None
    return (_name(tokens, index - 3) if tokens.upper(index - 2) == "." else None, _name(tokens, index - 1))


def _column_after(tokens: Tokens, index: int) -> tuple[str | None, str] | None:
    if tokens.kind(index + 1) not in (WORD, QUOTED) or tokens.upper(index + 2) == "(":
        return None
    if tokens.upper(index + 2) == ".":
        return _name(tokens, index + 1), _name(tokens, index + 3)
    return None, _name(tokens, index + 1)


def _owner(block: _Block, qualifier: str | None, column: str) -> int | None:
    """The source that a column belongs to, if only one can be meant."""
    if qualifier is not None:
        found = [place for place, source in enumerate(block.sources) if source.alias.lower() == qualifier]
    else:
        found = [place for place, source in enumerate(block.sources) if source.columns is not None and column in source.columns]
        found = found or [place for place, source in enumerate(block.sources) if source.columns is None]
    return found[0] if len(found) == 1 else None


def _name(tokens: Tokens, index: int) -> str:
    text = tokens.text(index)
    return (text[1:-1].replace("``", "`") if tokens.kind(index) == QUOTED else text).lower()


def _blocks(tokens: Tokens, inputs: Mapping[str, Input]) -> Iterator[_Block]:
    for index in range(len(tokens)):
        if tokens.upper(index) == "SELECT" and tokens.upper(index - 1) != ".":
            block = _block(tokens, index, inputs)
            if block is not None:
                yield block


def _block(tokens: Tokens, select: int, inputs: Mapping[str, Input]) -> _Block | None:
    """The SELECT that begins here; None if its FROM holds what is not understood, which is then left as it is."""
    start = _find(tokens, select + 1, frozenset(("FROM",)) | _END)
    if tokens.upper(start) != "FROM":
        return None
    end = _find(tokens, start + 1, _END)
    sources = _sources(tokens, start + 1, end, inputs)
    if not sources:
        return None
    where = (end + 1, _find(tokens, end + 1, _END - {"WHERE"})) if tokens.upper(end) == "WHERE" else None
    return _Block(select, start + 1, end, tuple(sources), where)


def _find(tokens: Tokens, index: int, words: frozenset[str]) -> int:
    """The first of these words outside of brackets."""
    while index < len(tokens):
        word = tokens.upper(index)
        if word in words and not (word == "FROM" and tokens.upper(index - 1) == "DISTINCT" and index > 1 and _is_comparison(tokens, index)):
            return index
        index = closing(tokens, index) + 1 if word in ("(", "[") else index + 1
    return len(tokens)


def _is_comparison(tokens: Tokens, index: int) -> bool:
    return tokens.upper(index - 2) in ("IS", "NOT")


def _sources(tokens: Tokens, first: int, end: int, inputs: Mapping[str, Input]) -> list[_Source] | None:
    sources: list[_Source] = []
    begin, join = first, ","
    while True:
        index = begin
        while index < end and tokens.upper(index) not in _JOIN_WORDS and tokens.upper(index) not in (",", "ON"):
            if tokens.upper(index) in _GIVE_UP:
                return None
            index = closing(tokens, index) + 1 if tokens.upper(index) in ("(", "[") else index + 1
        source = _source(tokens, begin, index, inputs)
        if source is None:
            return None
        on = None
        if tokens.upper(index) == "ON" and index < end:
            after = index + 1
            while after < end and tokens.upper(after) not in _JOIN_WORDS - {"LEFT", "RIGHT"} and tokens.upper(after) != ",":
                if tokens.upper(after) in ("LEFT", "RIGHT") and tokens.upper(after + 1) != "(":
                    break
                after = closing(tokens, after) + 1 if tokens.upper(after) in ("(", "[") else after + 1
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


def _source(tokens: Tokens, first: int, last: int, inputs: Mapping[str, Input]) -> _Source | None:
    if first >= last:
        return None
    if tokens.upper(first) == "(":
        inner = closing(tokens, first)
        alias = _alias(tokens, inner + 1, last)
        if alias is None or tokens.upper(first + 1) not in ("SELECT", "WITH", "VALUES"):
            return None
        inside = [inputs[name] for index in range(first, inner) if (name := _plain(tokens, index)) in inputs]
        streams = any(known.is_stream for known in inside)
        columns = None if tokens.upper(first + 1) != "SELECT" else _output(tokens, first + 1)
        return _Source(first, last, alias, columns, sum(known.size_bytes for known in inside), is_stream=False, holds_stream=streams)
    if tokens.kind(first) not in (WORD, QUOTED):
        return None
    known = inputs.get(_plain(tokens, first))
    alias = _alias(tokens, first + 1, last) if first + 1 < last else _plain(tokens, first)
    if alias is None:
        return None
    if known is None:
        # A part of WITH: how large it is nobody knows, and it may hold a stream.
        return _Source(first, last, alias, None, None, is_stream=False, holds_stream=True)
    return _Source(first, last, alias, known.columns, known.size_bytes, known.is_stream, known.is_stream)


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
        after = closing(tokens, index) + 1 if word in ("(", "[") else index + 1
        if after >= end or tokens.upper(after) == ",":
            if word == "*":
                return None
            if tokens.kind(index) in (WORD, QUOTED):
                names.add(_name(tokens, index))
        index = after
    return frozenset(names)


def _edited(rendered: Rendered, edits: Sequence[_Edit]) -> Probing:
    """The text with edits done, outer ones first; an edit inside of a stretch that another one moves goes along with it."""
    pieces: list[str] = []
    starts: list[int] = []
    origins: list[tuple[int, bool]] = []
    length = 0

    def put(text: str, origin: int, *, moves: bool) -> None:
        nonlocal length
        pieces.append(text)
        starts.append(length)
        origins.append((origin, moves))
        length += len(text)

    def copy(first: int, last: int, left: list[_Edit]) -> None:
        position = first
        for begin, end, parts in left:
            if begin < position or end > last:
                continue
            put(rendered.text[position:begin], position, moves=True)
            inner = [edit for edit in left if begin <= edit[0] and edit[1] <= end and (edit[0], edit[1]) != (begin, end)]
            for part in parts:
                if isinstance(part, str):
                    put(part, begin, moves=False)
                else:
                    copy(*part, [edit for edit in inner if part[0] <= edit[0] and edit[1] <= part[1]])
            position = end
        put(rendered.text[position:last], position, moves=True)

    copy(0, len(rendered.text), sorted(edits, key=lambda edit: (edit[0], -edit[1])))
    return Probing(text="".join(pieces), _rendered=rendered, _starts=tuple(starts), _origins=tuple(origins))
