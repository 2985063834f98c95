"""`DistinctKeys`: a stream that is only asked whether it has a row is reduced to its different keys before.

Spark builds the right side of such joins and nothing else, so without this the whole stream would become a hash table.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from platform_plugin.algebra.plan.filters import filter_conditions, split_filters
from platform_plugin.algebra.plan.nodes import Distinct, Item, Project, Scalar, Scan, scans
from platform_plugin.algebra.plan.traversal import (
    column_of,
    column_reference,
    columns_in,
    is_plan,
    map_inputs,
    map_scalars,
    walk_expression,
)

if TYPE_CHECKING:
    from platform_plugin.algebra.plan.nodes import Column, Query, Source
    from platform_plugin.algebra.rules.rule import Phase, PlannedQuery, RuleFacts


class DistinctKeys:
    """`id IN (SELECT uid FROM posts)` and `EXISTS (SELECT * FROM posts WHERE uid = id)` look `id` up in the different values of `uid`."""

    name = "distinct_keys"
    phase: Phase = "sizes"

    def apply(self, query: PlannedQuery, facts: RuleFacts) -> PlannedQuery | None:
        """Put a DISTINCT over such sub-queries."""
        streams = {scan.alias for scan in scans(query.plan) if (size := facts.sizes.get(scan.relation[-1])) is not None and size.is_stream}
        if facts.has_hints or not streams:
            return None
        plan = _changed(query.plan, streams)
        return None if plan is query.plan else replace(query, plan=plan, is_rewritten=True)


def _changed(node: Any, streams: set[str]) -> Any:
    below = map_inputs(node, lambda inner: _changed(inner, streams))
    return map_scalars(below, lambda value: _changed_value(value, streams))


def _changed_value(value: Scalar, streams: set[str]) -> Scalar:
    if not value.plans:
        return value
    plans = list(value.plans)
    for node in walk_expression(value.node):
        if is_plan(node):
            number = int(node.name)
            plans[number] = _reduced(plans[number], node.parent, streams)
    return value if all(old is new for old, new in zip(value.plans, plans, strict=True)) else Scalar(value.node, tuple(plans))


def _reduced(plan: Query, parent: exp.Expr | None, streams: set[str]) -> Query:
    if not isinstance(plan, Project):
        return plan
    scan = _only_scan(plan.source)
    if scan is None or scan.alias not in streams:
        return plan
    if isinstance(parent, exp.In):
        return Distinct(query=plan, at=plan.at)
    if isinstance(parent, exp.Exists) and (keys := _keys(plan.source, scan.alias)):
        return Distinct(query=replace(plan, items=keys), at=plan.at)
    return plan


def _only_scan(source: Source) -> Scan | None:
    below, _ = split_filters(source)
    return below if isinstance(below, Scan) else None


def _keys(source: Source, alias: str) -> tuple[Item, ...]:
    """The stream's columns that are compared with the outer query; none if that is done in another way than by equations."""
    names: dict[str, None] = {}
    for part in filter_conditions(split_filters(source)[1]):
        if part.plans:
            return ()
        if all(column.alias == alias for column in columns_in(part)):
            continue
        column = _own_side(part.node, alias)
        if column is None:
            return ()
        names[column.name] = None
    return tuple(Item(value=column_reference(alias, name), name=name) for name in names)


def _own_side(node: exp.Expr, alias: str) -> Column | None:
    """The stream's column in an equation of two columns."""
    if not isinstance(node, exp.EQ):
        return None
    sides = [column_of(node.this), column_of(node.expression)]
    own = [side for side in sides if side is not None and side.alias == alias]
    return own[0] if None not in sides and len(own) == 1 else None
