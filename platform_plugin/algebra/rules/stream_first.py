"""`StreamFirst`: the order of joins, with the largest stream first, so that its rows pass the others' hash tables.

Nothing is known of a stream's size by the time it is read, so it counts as the largest input of every join: it comes first, its rows
look up the other relations one after the other, and the first operator that stores any of them is an aggregation.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from platform_plugin.algebra.plan.filters import all_of, conjuncts, filter_conditions, restore_filters, split_filters
from platform_plugin.algebra.plan.nodes import Derived, Filter, Join, Scan
from platform_plugin.algebra.plan.traversal import column_of, columns_in, map_inputs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from platform_plugin.algebra.plan.nodes import Scalar, Source
    from platform_plugin.algebra.rules.rule import Phase, PlannedQuery, RuleFacts, ScanSize


class StreamFirst:
    """Only inner joins are put into another order, and only where the stream would not pass every join in the order of the text."""

    name = "stream_first"
    phase: Phase = "sizes"

    def apply(self, query: PlannedQuery, facts: RuleFacts) -> PlannedQuery | None:
        """Order the joins of every SELECT."""
        if facts.has_hints:
            return None
        plan = _ordered(query.plan, facts)
        return None if plan is query.plan else replace(query, plan=plan, is_rewritten=True)


def _ordered(node: Any, facts: RuleFacts, *, is_inside: bool = False) -> Any:
    of_from = isinstance(node, (Filter, Join))
    if of_from and not is_inside:
        source, filters = split_filters(node)
        if isinstance(source, Join) and (better := _reorder(source, filters, facts)) is not None:
            node = better
    return map_inputs(node, lambda below: _ordered(below, facts, is_inside=of_from))


def _reorder(join: Join, filters: Sequence[Filter], facts: RuleFacts) -> Source | None:
    """The same joins and filters with the stream first; None where the order is right already or may not change."""
    sources = _sources(join)
    if sources is None:
        return None
    streams = [place for place, source in enumerate(sources) if (size := size_of(source, facts)) is not None and size.is_stream]
    if not streams:
        return None
    stream = max(streams, key=lambda place: getattr(size_of(sources[place], facts), "size_bytes", 0))
    on = _join_conditions(join)
    if any(part.plans for part in on):
        return None
    pairs = _connections([*filter_conditions(filters), *on])
    aliases = [str(source.alias) for source in sources]
    if _is_probed(range(len(sources)), stream, pairs, aliases):
        return None
    order = _order(stream, pairs, aliases)
    if order == list(range(len(order))):
        return None
    return restore_filters(_joined([sources[place] for place in order], on), filters)  # type: ignore[no-any-return]


def _sources(source: Source) -> list[Scan | Derived] | None:
    """What inner joins join, in order; None if there is anything else."""
    if isinstance(source, (Scan, Derived)):
        return [source]
    if not isinstance(source, Join) or source.kind not in ("inner", "cross") or source.lateral or isinstance(source.right, Join):
        return None
    left, right = _sources(source.left), _sources(source.right)
    return None if left is None or right is None else [*left, *right]


def _join_conditions(source: Source) -> list[Scalar]:
    if not isinstance(source, Join):
        return []
    return [*_join_conditions(source.left), *(conjuncts(source.condition) if source.condition is not None else ())]


def size_of(source: Source, facts: RuleFacts) -> ScanSize | None:
    """The size of a relation; None for anything else."""
    return facts.sizes.get(source.relation[-1]) if isinstance(source, Scan) else None


def _connections(parts: Sequence[Scalar]) -> set[frozenset[str]]:
    """The pairs of sources that an equation of two columns connects."""
    pairs = set()
    for part in parts:
        if isinstance(part.node, (exp.EQ, exp.NullSafeEQ)):
            sides = [column_of(side) for side in (part.node.this, part.node.expression)]
            aliases = frozenset(side.alias for side in sides if side is not None)
            if len(aliases) == 2:
                pairs.add(aliases)
    return pairs


def _is_probed(order: Sequence[int], stream: int, pairs: set[frozenset[str]], aliases: Sequence[str]) -> bool:
    """Whether the stream passes every join in this order: it is in the first one, and each has an equation."""
    connected = all(
        any(frozenset((aliases[order[place]], aliases[known])) in pairs for known in order[:place]) for place in range(1, len(order))
    )
    return list(order).index(stream) <= 1 and (connected or len(order) == 2)


def _order(stream: int, pairs: set[frozenset[str]], aliases: Sequence[str]) -> list[int]:
    """The stream first, then whatever an equation connects with what is there already, in the order it was written."""
    order, left = [stream], [place for place in range(len(aliases)) if place != stream]
    while left:
        place = next((place for place in left if any(frozenset((aliases[place], aliases[known])) in pairs for known in order)), left[0])
        order.append(place)
        left.remove(place)
    return order


def _aliases_of(value: Scalar) -> set[str]:
    return {column.alias for column in columns_in(value)}


def _joined(sources: Sequence[Scan | Derived], on: Sequence[Scalar]) -> Source:
    """The sources joined in this order, each condition at the first join that has all of its columns."""
    result: Source = sources[0]
    there, left = {sources[0].alias}, list(on)
    for source in sources[1:]:
        there.add(source.alias)
        due = [part for part in left if _aliases_of(part) <= there]
        left = [part for part in left if part not in due]
        condition = all_of(due)
        result = Join(left=result, right=source, kind="cross" if condition is None else "inner", condition=condition)
    return result
