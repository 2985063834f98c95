"""Join order: streams are put on the probing side of joins, with hints, so that Spark streams them past hash tables.

Nothing is known of a stream's size by the time it is read, so it counts as the largest input of every join (thesis, section 3.2.4):
it comes first, its rows look up the others' hash tables one after the other, and the first thing that stores any is an aggregation.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from platform_plugin.algebra.types.data_types import quote_identifier
from platform_plugin.language.query.blocks import Block, FromItem, find_blocks, read_block, read_name_at
from platform_plugin.language.text.bare_names import find_names
from platform_plugin.language.text.tokens import DOUBLE, QUOTED, STRING, WORD, find_closing, tokenize

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from platform_plugin.language.query.blocks import Input
    from platform_plugin.language.query.rendering import RenderedQuery
    from platform_plugin.language.text.places import Place
    from platform_plugin.language.text.tokens import Tokens

_NO_COLUMNS = frozenset(("AND", "NOT", "IS", "NULL", "TRUE", "FALSE", "BETWEEN", "IN", "LIKE", "DATE", "INTERVAL", "DAY", "MONTH", "YEAR"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Probing:
    """The rewritten text of a query for Spark, and the place that each part of it comes from."""

    text: str
    _rendered: RenderedQuery = field(repr=False)
    _starts: tuple[int, ...] = field(repr=False)
    _origins: tuple[tuple[int, bool], ...] = field(repr=False)

    def at(self, position: int) -> Place:
        """The place in the user's text of an offset in this text."""
        piece = max(0, bisect_right(self._starts, position) - 1)
        origin, moves = self._origins[piece]
        return self._rendered.at(origin + (position - self._starts[piece] if moves else 0))


_Edit = tuple[int, int, list["tuple[int, int] | str"]]


def plan_probing(rendered: RenderedQuery, inputs: Mapping[str, Input], *, broadcast_bytes: int) -> RenderedQuery | Probing:
    """The query with streams on the probing side of every join where its text allows it, or the same query if nothing changes.

    `inputs` has the relations by the names that they have in the rendered text. A hash table of up to `broadcast_bytes` of Parquet goes
    to every executor whole; larger ones are built from shuffled parts.
    """
    if len(inputs) < 2 or not any(known.is_stream for known in inputs.values()):
        return rendered
    tokens = find_names(tokenize(rendered.text))
    edits: list[_Edit] = []
    for block in find_blocks(tokens, inputs):
        edits += _plan_block(tokens, block, inputs, broadcast_bytes)
        edits += _plan_lookup(tokens, block)
    return _edited(rendered, edits) if edits else rendered


def _plan_block(tokens: Tokens, block: Block, inputs: Mapping[str, Input], broadcast_bytes: int) -> Iterator[_Edit]:
    streams = [place for place, source in enumerate(block.sources) if source.is_stream]
    if not streams or _has_hint(tokens, block.select):
        return
    if block.where is not None:
        yield from _hinted_subqueries(tokens, block.where, inputs, broadcast_bytes)
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
    hints = [hint for place, source in enumerate(block.sources) if place != stream and (hint := _hint(source, broadcast_bytes))]
    if hints:
        yield _hint_edit(tokens, block.select, hints)


def _plan_lookup(tokens: Tokens, block: Block) -> Iterator[_Edit]:
    """A stream that is only asked whether it has a row is built, but not row by row: its keys are made distinct before.

    Spark builds the right side of such joins and nothing else, so without this the whole stream would become a hash table.
    """
    first, word = block.select + 1, tokens.upper(block.select - 2)
    if len(block.sources) != 1 or not block.sources[0].is_stream or tokens.upper(block.select - 1) != "(":
        return
    tail = tokens.upper(block.where[1] if block.where else block.last)
    if tail != ")" or tokens.upper(first) == "DISTINCT" or _has_hint(tokens, block.select):
        return
    if word == "IN":
        yield tokens.ends[block.select], tokens.ends[block.select], [" DISTINCT"]
    elif word == "EXISTS" and block.where is not None and (keys := _lookup_keys(tokens, block, *block.where)):
        yield tokens.starts[first], tokens.ends[block.first - 2], [f"DISTINCT {', '.join(keys)}"]


def _lookup_keys(tokens: Tokens, block: Block, first: int, last: int) -> list[str]:
    """The stream's columns that are compared with the outer query; none if that is done in another way than by equations."""
    source, keys, index = block.sources[0], [], first
    while index < last:
        end, between = index, False
        while end < last and (between or tokens.upper(end) != "AND"):
            between = tokens.upper(end) == "BETWEEN" or (between and tokens.upper(end) != "AND")
            end = find_closing(tokens, end) + 1 if tokens.upper(end) in ("(", "[") else end + 1
        columns = [_column_ending(tokens, place) for place in range(index, end) if _is_column(tokens, place)]
        own = [qualifier == source.alias.lower() if qualifier else name in (source.columns or ()) for qualifier, name in columns]
        if any(tokens.upper(place) in ("SELECT", "OR") for place in range(index, end)) or (not all(own) and tokens.upper(index) == "("):
            return []
        if not all(own):
            width = sum(1 if qualifier is None else 3 for qualifier, _ in columns) + 1
            if len(own) != 2 or not any(own) or width != end - index or "=" not in [tokens.upper(place) for place in range(index, end)]:
                return []
            keys.append(".".join((quote_identifier(source.alias), quote_identifier(columns[own.index(True)][1]))))
        index = end + 1
    return keys


def _is_column(tokens: Tokens, index: int) -> bool:
    """Whether a name is the last part of a column's: words of the language may count too, which only makes us careful."""
    plain = tokens.kind(index) == QUOTED or (tokens.kind(index) == WORD and tokens.upper(index) not in _NO_COLUMNS)
    return plain and tokens.upper(index + 1) not in (".", "(") and tokens.kind(index + 1) not in (STRING, DOUBLE)


def _column_ending(tokens: Tokens, index: int) -> tuple[str | None, str]:
    return (read_name_at(tokens, index - 2) if tokens.upper(index - 1) == "." else None, read_name_at(tokens, index))


def _is_kept_whole(block: Block, stream: int) -> bool:
    """Whether outer joins let every row of the stream through, in a place where it can look up the others."""
    may_come_second = stream == 1 and block.sources[1].join in (",", "JOIN", "INNER JOIN", "RIGHT JOIN", "RIGHT OUTER JOIN")
    return (stream == 0 or may_come_second) and not any(source.join.startswith("RIGHT") for source in block.sources[stream + 1 :])


def _hint(source: FromItem, broadcast_bytes: int) -> str | None:
    if source.size_bytes is None or source.holds_stream:
        return None
    return f"{'BROADCAST' if source.size_bytes <= broadcast_bytes else 'SHUFFLE_HASH'}({quote_identifier(source.alias)})"


def _hint_edit(tokens: Tokens, select: int, hints: Sequence[str]) -> _Edit:
    after = tokens.ends[select]
    return after, after, [f" /*+ {', '.join(hints)} */"]


def _has_hint(tokens: Tokens, select: int) -> bool:
    following = tokens.starts[select + 1] if select + 1 < len(tokens) else len(tokens.source)
    return "/*+" in tokens.source[tokens.ends[select] : following]


def _hinted_subqueries(tokens: Tokens, where: tuple[int, int], inputs: Mapping[str, Input], broadcast_bytes: int) -> Iterator[_Edit]:
    """Tables in IN and EXISTS over a stream's rows are looked up like those of joins."""
    for index in range(*where):
        if tokens.upper(index) == "(" and tokens.upper(index + 1) == "SELECT" and not _has_hint(tokens, index + 1):
            inner = read_block(tokens, index + 1, inputs)
            if inner is not None and len(inner.sources) == 1 and (hint := _hint(inner.sources[0], broadcast_bytes)):
                yield _hint_edit(tokens, inner.select, [hint])


def _may_move(tokens: Tokens, block: Block) -> bool:
    """Moving sources would change what a bare * means, and which value a ? gets."""
    begin = block.select + 2 if tokens.upper(block.select + 1) in ("DISTINCT", "ALL") else block.select + 1
    if tokens.upper(begin) == "*":
        return False
    index = begin
    while index < block.first:
        index = find_closing(tokens, index) if tokens.upper(index) in ("(", "[") else index
        if tokens.upper(index) == "," and tokens.upper(index + 1) == "*":
            return False
        index += 1
    last = block.where[1] if block.where else block.last
    return not any(tokens.upper(index) == "?" for index in range(block.first, last))


def _moved(tokens: Tokens, block: Block, order: Sequence[int]) -> Iterator[_Edit]:
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


def _order(tokens: Tokens, block: Block, stream: int) -> list[int]:
    """The stream first, then whatever an equation connects with what is there already, in the order it was written."""
    pairs = _connections(tokens, block)
    order, left = [stream], [place for place in range(len(block.sources)) if place != stream]
    while left:
        place = next((place for place in left if any({place, known} in pairs for known in order)), left[0])
        order.append(place)
        left.remove(place)
    return order


def _is_probed(tokens: Tokens, block: Block, order: Sequence[int], stream: int) -> bool:
    """Whether the stream passes every join in this order: it is in the first one, and each has an equation."""
    pairs = _connections(tokens, block)
    connected = all(any({order[place], known} in pairs for known in order[:place]) for place in range(1, len(order)))
    return order.index(stream) <= 1 and (connected or len(order) == 2)


def _connections(tokens: Tokens, block: Block) -> list[set[int]]:
    ranges = [*([block.where] if block.where else []), *(source.on for source in block.sources if source.on)]
    pairs = []
    for first, last in ranges:
        index = first
        while index < last:
            if tokens.upper(index) == "(" and tokens.upper(index + 1) in ("SELECT", "WITH"):
                index = find_closing(tokens, index)
            elif tokens.upper(index) in ("=", "==", "<=>"):
                left, right = _column_before(tokens, index), _column_after(tokens, index)
                found = {place for column in (left, right) if column and (place := _owner(block, *column)) is not None}
                pairs += [found] if len(found) == 2 else []
            index += 1
    return pairs


def _column_before(tokens: Tokens, index: int) -> tuple[str | None, str] | None:
    if tokens.kind(index - 1) not in (WORD, QUOTED):
        return None
    return (read_name_at(tokens, index - 3) if tokens.upper(index - 2) == "." else None, read_name_at(tokens, index - 1))


def _column_after(tokens: Tokens, index: int) -> tuple[str | None, str] | None:
    if tokens.kind(index + 1) not in (WORD, QUOTED) or tokens.upper(index + 2) == "(":
        return None
    if tokens.upper(index + 2) == ".":
        return read_name_at(tokens, index + 1), read_name_at(tokens, index + 3)
    return None, read_name_at(tokens, index + 1)


def _owner(block: Block, qualifier: str | None, column: str) -> int | None:
    """The source that a column belongs to, if only one can be meant."""
    if qualifier is not None:
        found = [place for place, source in enumerate(block.sources) if source.alias.lower() == qualifier]
    else:
        found = [place for place, source in enumerate(block.sources) if source.columns is not None and column in source.columns]
        found = found or [place for place, source in enumerate(block.sources) if source.columns is None]
    return found[0] if len(found) == 1 else None


def _edited(rendered: RenderedQuery, edits: Sequence[_Edit]) -> Probing:
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
