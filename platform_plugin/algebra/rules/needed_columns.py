"""`NeededColumns`: the columns of each relation that a query uses."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from platform_plugin.algebra.plan.nodes import scans
from platform_plugin.algebra.plan.traversal import columns_in

if TYPE_CHECKING:
    from platform_plugin.algebra.rules.rule import Phase, PlannedQuery, RuleFacts


class NeededColumns:
    """Only the columns that a query mentions are read; a part of WITH that is used twice needs those of both uses."""

    name = "needed_columns"
    phase: Phase = "names"

    def apply(self, query: PlannedQuery, facts: RuleFacts) -> PlannedQuery | None:
        """Note the columns of every scan."""
        del facts
        by_alias: dict[str, set[str]] = defaultdict(set)
        for column in columns_in(query.plan):
            by_alias[column.alias].add(column.name.lower())
        columns: dict[str, frozenset[str]] = {}
        for scan in scans(query.plan):
            name = scan.relation[-1]
            columns[name] = columns.get(name, frozenset()) | by_alias[scan.alias]
        return replace(query, columns=columns) if columns else None
