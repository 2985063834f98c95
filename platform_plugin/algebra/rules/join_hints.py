"""`JoinHints`: hints by which Spark builds hash tables of what a stream is joined with, and never of the stream."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from platform_plugin.algebra.plan.filters import restore_filters, split_filters
from platform_plugin.algebra.plan.nodes import Derived, Filter, Join, Project, Scalar, Scan, scans
from platform_plugin.algebra.plan.traversal import is_plan, map_inputs, walk_expression
from platform_plugin.algebra.rules.stream_first import size_of

if TYPE_CHECKING:
    from platform_plugin.algebra.plan.nodes import JoinHint, JoinKind, Query, Source
    from platform_plugin.algebra.rules.rule import Phase, PlannedQuery, RuleFacts


class JoinHints:
    """Where every row of a stream passes all joins of a SELECT, the other relations whose size is known are looked up."""

    name = "join_hints"
    phase: Phase = "sizes"

    def apply(self, query: PlannedQuery, facts: RuleFacts) -> PlannedQuery | None:
        """Put a hint on each relation that a stream is joined with, and on those in IN and EXISTS over a stream's rows."""
        if facts.has_hints:
            return None
        hinting = _Hinting(facts)
        plan = hinting.below(query.plan)
        return replace(query, plan=plan, is_rewritten=True) if hinting.count else None


class _Hinting:
    def __init__(self, facts: RuleFacts) -> None:
        self.facts = facts
        self.count = 0

    def below(self, node: Any, *, is_inside: bool = False) -> Any:
        """A node with hints in all that is below it; `is_inside` of a FROM that has been looked at."""
        of_from = isinstance(node, (Filter, Join))
        if of_from and not is_inside:
            node = self._hinted_from(node)
        return map_inputs(node, lambda inner: self.below(inner, is_inside=of_from))

    def _hinted_from(self, source: Source) -> Source:
        below, filters = split_filters(source)
        below = self._hinted(below)
        if self._has_stream(below) and any(one.condition.plans for one in filters):
            filters = [replace(one, condition=self._hinted_subqueries(one.condition)) for one in filters]
        return restore_filters(below, filters)  # type: ignore[no-any-return]

    def _has_stream(self, source: Source) -> bool:
        if isinstance(source, Join):
            return self._has_stream(source.left) or self._has_stream(source.right)
        size = size_of(source, self.facts)
        return size is not None and size.is_stream

    def _hinted(self, source: Source) -> Source:
        """The joins with hints on all sources but the stream's; as they are if the stream does not pass them all."""
        spine = _spine(source)
        if spine is None or len(spine) < 2:
            return source
        streams = [place for place, (_, item) in enumerate(spine) if (size := size_of(item, self.facts)) is not None and size.is_stream]
        if not streams:
            return source
        stream = max(streams, key=lambda place: getattr(size_of(spine[place][1], self.facts), "size_bytes", 0))
        kinds = [kind for kind, _ in spine]
        if stream > 1 or (stream == 1 and kinds[1] not in ("inner", "cross", "right")) or "right" in kinds[stream + 1 :] or "full" in kinds:
            return source
        return self._with_hints(source, spine[stream][1])

    def _with_hints(self, source: Source, stream: Source) -> Source:
        if isinstance(source, Join):
            return replace(source, left=self._with_hints(source.left, stream), right=self._with_hints(source.right, stream))
        if source is stream or not isinstance(source, (Scan, Derived)):
            return source
        hint = self._hint(source)
        return source if hint is None else replace(source, hint=hint)

    def _hint(self, source: Scan | Derived) -> JoinHint | None:
        relations = [self.facts.sizes.get(scan.relation[-1]) for scan in (scans(source) if isinstance(source, Derived) else (source,))]
        if any(size is None or size.is_stream for size in relations):
            return None
        self.count += 1
        return (
            "BROADCAST" if sum(size.size_bytes for size in relations if size is not None) <= self.facts.broadcast_bytes else "SHUFFLE_HASH"
        )

    def _hinted_subqueries(self, value: Scalar) -> Scalar:
        """Relations in IN and EXISTS over a stream's rows are looked up like those of joins."""
        if not value.plans:
            return value
        plans = list(value.plans)
        for node in walk_expression(value.node):
            if is_plan(node) and isinstance(node.parent, (exp.In, exp.Exists)):
                plans[int(node.name)] = self._hinted_plan(plans[int(node.name)])
        return Scalar(value.node, tuple(plans))

    def _hinted_plan(self, plan: Query) -> Query:
        if not isinstance(plan, Project):
            return plan
        source, filters = split_filters(plan.source)
        if not isinstance(source, (Scan, Derived)) or (hint := self._hint(source)) is None:
            return plan
        return replace(plan, source=restore_filters(replace(source, hint=hint), filters))


def _spine(source: Source) -> list[tuple[JoinKind | None, Source]] | None:
    """The sources of left-deep joins, each with the kind of its join; None where a join stands on a right side, or is lateral."""
    if not isinstance(source, Join):
        return [(None, source)]
    left = None if source.lateral or isinstance(source.right, Join) else _spine(source.left)
    return None if left is None else [*left, (source.kind, source.right)]
