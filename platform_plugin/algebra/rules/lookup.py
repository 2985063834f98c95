"""`FindLookup`: a query for values of the rows of one relation, which an engine in this process may answer."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from platform_plugin.algebra.plan.filters import split_filters
from platform_plugin.algebra.plan.nodes import Derived, Limit, Project, Scan
from platform_plugin.algebra.plan.traversal import column_of

if TYPE_CHECKING:
    from platform_plugin.algebra.plan.nodes import Query
    from platform_plugin.algebra.rules.rule import Phase, PlannedQuery, RuleFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """A relation of a plan, and what is asked of its rows: `plan`, of which the reader takes `limit` rows."""

    relation: str
    plan: Query = field(repr=False)
    columns: tuple[tuple[str, str], ...] | None = None
    """Where every row is asked for, and columns of it only: these with their output names."""
    limit: int | None = None


class FindLookup:
    """Columns and values of the rows of one small relation are answered without Spark where the kernel means the same."""

    name = "lookup"
    phase: Phase = "names"

    def apply(self, query: PlannedQuery, facts: RuleFacts) -> PlannedQuery | None:
        """Recognise projections and filters of one relation."""
        plan: Query = query.plan
        if isinstance(plan, Limit):
            if query.limit is None:
                return None
            plan = plan.query
        scan = _find_scan(plan)
        if scan is None or facts.has_hints:
            return None
        limit = None if query.limit is None else query.limit.rows
        return replace(query, lookup=Lookup(relation=scan.relation[-1], plan=plan, columns=_all_rows(plan), limit=limit))


def _find_scan(query: Query) -> Scan | None:
    """The relation of which a query gives a row for each row that passes."""
    if not isinstance(query, Project) or any(item.value.plans for item in query.items):
        return None
    source, filters = split_filters(query.source)
    if any(one.condition.plans for one in filters):
        return None
    if isinstance(source, Derived):
        return _find_scan(source.query)
    return source if isinstance(source, Scan) else None


def _all_rows(query: Query) -> tuple[tuple[str, str], ...] | None:
    if not isinstance(query, Project) or not isinstance(query.source, Scan):
        return None
    columns = [(column_of(item.value.node), item.name) for item in query.items]
    return tuple((column.name, name) for column, name in columns if column is not None) if all(column for column, _ in columns) else None
