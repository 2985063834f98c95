"""`LimitAtReader`: a LIMIT of any rows is kept by the reader of the result, which stops there."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from platform_plugin.algebra.plan.nodes import Limit, Sort
from platform_plugin.algebra.rules.rule import ResultLimit

if TYPE_CHECKING:
    from platform_plugin.algebra.plan.nodes import Query
    from platform_plugin.algebra.rules.rule import Phase, PlannedQuery, RuleFacts

_MOST = 1 << 31


class LimitAtReader:
    """Spark would run one task after the other to find the first rows; a reader that stops has them as soon as they are there."""

    name = "limit_at_reader"
    phase: Phase = "names"

    def apply(self, query: PlannedQuery, facts: RuleFacts) -> PlannedQuery | None:
        """Take the number of a plain LIMIT at the end; where an order decides which rows are left, Spark keeps it."""
        del facts
        plan = query.plan
        if not isinstance(plan, Limit) or plan.offset is not None or plan.count is None or plan.at is None or _is_ordered(plan.query):
            return None
        number = plan.count.node
        if not isinstance(number, exp.Literal) or not str(number.this).isdecimal() or int(number.this) >= _MOST:
            return None
        return replace(query, limit=ResultLimit(int(number.this), plan.at))


def _is_ordered(query: Query) -> bool:
    while isinstance(query, Limit):
        query = query.query
    return isinstance(query, Sort)
