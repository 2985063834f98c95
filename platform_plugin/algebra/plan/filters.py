"""`conjuncts`, `split_filters` and `add_filters`: the parts of a condition that AND joins, and the filters on top of a source."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from platform_plugin.algebra.plan.nodes import Filter, Scalar
from platform_plugin.algebra.plan.traversal import is_plan, map_nodes, walk_expression

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from platform_plugin.algebra.plan.nodes import Query


def split_operands(condition: exp.Expr, operator: type[exp.Connector]) -> Iterator[exp.Expr]:
    """The operands that AND or OR joins, without brackets round them; a chain of thousands is a deep tree."""
    stack = [condition]
    while stack:
        node = stack.pop()
        if isinstance(node, operator):
            stack += [node.args["expression"], node.args["this"]]
        elif isinstance(node, exp.Paren):
            stack.append(node.args["this"])
        else:
            yield node


def conjuncts(condition: Scalar) -> list[Scalar]:
    """The parts of a condition that AND joins, each with its own sub-queries.

    >>> import sqlglot
    >>> [part.node.sql() for part in conjuncts(Scalar(sqlglot.condition("a = 1 AND (b OR c) AND (d AND e)")))]
    ['a = 1', 'b OR c', 'd', 'e']
    """
    parts = split_operands(condition.node, exp.And)
    return [_alone(node, condition.plans) for node in parts] if condition.plans else [Scalar(node) for node in parts]


def _alone(node: exp.Expr, plans: tuple[Query, ...]) -> Scalar:
    used = list(dict.fromkeys(int(inner.name) for inner in walk_expression(node) if is_plan(inner)))
    if not used:
        return Scalar(node)
    if used == list(range(len(plans))):
        return Scalar(node, plans)
    numbered = map_nodes(node, lambda inner: exp.Placeholder(this=str(used.index(int(inner.name)))) if is_plan(inner) else None)
    return Scalar(numbered, tuple(plans[number] for number in used))


def all_of(parts: Iterable[Scalar]) -> Scalar | None:
    """The condition that all of these hold, which have no sub-queries; None for no parts."""
    nodes = [exp.Paren(this=part.node.copy()) if isinstance(part.node, exp.Or) else part.node.copy() for part in parts]
    if not nodes:
        return None
    return Scalar(exp.and_(*nodes, wrap=False) if len(nodes) > 1 else nodes[0])


def split_filters(source: Any) -> tuple[Any, list[Filter]]:
    """A source without the filters on top of it, and these filters, the innermost first."""
    filters: list[Filter] = []
    while isinstance(source, Filter):
        filters.append(source)
        source = source.source
    return source, filters[::-1]


def filter_conditions(filters: Iterable[Filter]) -> list[Scalar]:
    """The parts of the conditions of filters."""
    return [part for one in filters for part in conjuncts(one.condition)]


def restore_filters(source: Any, filters: Sequence[Filter]) -> Any:
    """A source under filters that `split_filters` took from another one; they keep their places in the text."""
    for one in filters:
        source = Filter(source=source, condition=one.condition, at=one.at)
    return source


def add_filters(source: Any, conditions: Iterable[Scalar]) -> Any:
    """A source with one filter for each condition."""
    return reduce(lambda below, condition: Filter(source=below, condition=condition), conditions, source)
