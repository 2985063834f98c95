"""`BoundedResult`: a query whose result is at most a few times as large as what it reads."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from platform_plugin.algebra.functions import BOUNDED_CALLS
from platform_plugin.algebra.plan.nodes import Aggregate, Generate, Join, SetOperation, scalars, scans, walk
from platform_plugin.algebra.plan.traversal import walk_expression

if TYPE_CHECKING:
    from platform_plugin.algebra.plan.nodes import Node
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
        nodes = [inner for node in walk(query.plan) for value in scalars(node) for inner in walk_expression(value.node)]
        if len(nodes) > _MOST_NODES or any(_lengthens(node) for node in nodes):
            return None
        return replace(query, is_bounded=True)


def _multiplies(node: Node) -> bool:
    return isinstance(node, (Join, Generate, SetOperation)) or (isinstance(node, Aggregate) and node.sets is not None)


def _lengthens(node: exp.Expr) -> bool:
    return (isinstance(node, exp.Anonymous) and str(node.this).lower() not in BOUNDED_CALLS) or isinstance(node, exp.DPipe)
