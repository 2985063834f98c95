"""A rule that leaves out conditions that are always true. It exists in tests only."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from platform_plugin.algebra.plan.filters import add_filters, conjuncts
from platform_plugin.algebra.plan.nodes import Filter
from platform_plugin.algebra.plan.traversal import map_inputs

if TYPE_CHECKING:
    from platform_plugin.algebra.rules.rule import Phase, PlannedQuery, RuleFacts

TRUE = exp.true()


def drop_truths(node: Any) -> Any:
    """A plan without the condition TRUE, wherever it is one of those that all hold."""
    node = map_inputs(node, drop_truths)
    if not isinstance(node, Filter):
        return node
    conditions = conjuncts(node.condition)
    some = [condition for condition in conditions if condition.node.unnest() != TRUE]
    return node if len(some) == len(conditions) else add_filters(node.source, some)


class DropTruths:
    """Conditions that are always true are left out of the text for Spark."""

    name = "drop_truths"
    phase: Phase = "names"

    def apply(self, query: PlannedQuery, facts: RuleFacts) -> PlannedQuery | None:
        """Rewrite the plan where there is such a condition."""
        del facts
        plan = drop_truths(query.plan)
        return None if plan == query.plan else replace(query, plan=plan, is_rewritten=True)
