"""`conjuncts` and `all_of`: the parts of a condition that AND joins, and the condition that they make."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from platform_plugin.algebra.plan.nodes import Scalar
from platform_plugin.algebra.plan.traversal import columns_in, is_plan, walk_expression

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def conjuncts(condition: Scalar) -> Iterator[Scalar]:
    """The parts of a condition that AND joins, each with its sub-queries."""
    stack = [condition.node]
    while stack:
        node = stack.pop()
        if isinstance(node, exp.And):
            stack += [node.expression, node.this]
        elif isinstance(node, exp.Paren):
            stack.append(node.this)
        else:
            yield Scalar(node, condition.plans)


def has_plan(value: Scalar) -> bool:
    """Whether an expression itself, and not only one that it was a part of, has a sub-query."""
    return any(map(is_plan, walk_expression(value.node)))


def aliases_of(value: Scalar) -> frozenset[str]:
    """The sources whose columns an expression without sub-queries mentions."""
    return frozenset(column.alias for column in columns_in(Scalar(value.node)))


def all_of(parts: Iterable[Scalar]) -> Scalar | None:
    """The condition that all of these hold; None for no parts."""
    nodes = [exp.Paren(this=part.node.copy()) if isinstance(part.node, exp.Or) else part.node.copy() for part in parts]
    if not nodes:
        return None
    return Scalar(exp.and_(*nodes, wrap=False) if len(nodes) > 1 else nodes[0])
