"""`BoundedResult`: a query whose result is at most a few times as large as what it reads."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from platform_plugin.algebra.functions import BOUNDED_CALLS
from platform_plugin.algebra.plan.nodes import Aggregate, Generate, Join, SetOperation, scalars, scans, walk

if TYPE_CHECKING:
    from platform_plugin.algebra.plan.nodes import Node, ScalarFacts
    from platform_plugin.algebra.rules.rule import Phase, PlannedQuery, RuleFacts

_MOST_NODES = 2_000


class BoundedResult:
    """The result of a query over few rows is fetched at once if the query makes no more of them; else it is fetched in parts."""

    name = "bounded_result"
    phase: Phase = "names"

    def apply(self, query: PlannedQuery, facts: RuleFacts) -> PlannedQuery | None:
        """Find nothing that makes more rows, or longer ones, than are read."""
        del facts
        if len(scans(query.plan)) > 1 or any(_multiplies(node) for node in walk(query.plan)):
            return None
        facts_of = [value.facts for node in walk(query.plan) for value in scalars(node)]
        if sum(found.size for found in facts_of) > _MOST_NODES or any(_lengthens(found) for found in facts_of):
            return None
        return replace(query, is_bounded=True)


def _multiplies(node: Node) -> bool:
    return isinstance(node, (Join, Generate, SetOperation)) or (isinstance(node, Aggregate) and node.sets is not None)


def _lengthens(found: ScalarFacts) -> bool:
    return exp.DPipe in found.kinds or any(name.lower() not in BOUNDED_CALLS for name in found.calls)
