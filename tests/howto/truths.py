"""A rule that leaves out conditions that are always true. It exists in tests only."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from platform_plugin.algebra.plan.nodes import Filter
from platform_plugin.algebra.plan.traversal import map_inputs
from platform_plugin.operators.group.lookups import add_filters, conjuncts

TRUE = exp.true()


def drop_truths(node: Any) -> Any:
    """A plan without the condition TRUE, wherever it is one of those that all hold."""
    node = map_inputs(node, drop_truths)
    if not isinstance(node, Filter):
        return node
    conditions = conjuncts(node.condition)
    some = [condition for condition in conditions if condition.node.unnest() != TRUE]
    return node if len(some) == len(conditions) else add_filters(node.source, some)
