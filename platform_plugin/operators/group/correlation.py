"""`uncorrelate`: correlated sub-queries are answered from stored groups instead of from rows.

`(SELECT count(*) FROM posts WHERE uid = u.id)` counts by uid once, and each `u.id` looks up the counts: the condition moves above the
grouping, and what it compares becomes a key. Groups are then merged, so that any condition is possible, and no group at all counts as 0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from platform_plugin.algebra.plan.names import unique_name
from platform_plugin.algebra.plan.nodes import Filter, Item, Scalar, columns
from platform_plugin.algebra.plan.traversal import aliases_in, column_reference, columns_in, map_columns
from platform_plugin.operators.group.lookups import add_filters, conjuncts

if TYPE_CHECKING:
    from platform_plugin.algebra.plan.nodes import Aggregate


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrelatedConditions:
    """The conditions that mention the outer query, and the keys that a state has because of them."""

    keys: tuple[Item, ...] = ()
    conditions: tuple[Scalar, ...] = ()

    def over(self, source: Any, alias: str) -> Any:
        """The rows of the stored groups, called `alias`, that satisfy the conditions."""
        names = {column: item.name for item in self.keys for column in columns_in(item.value)}
        return add_filters(
            source,
            (
                map_columns(found, lambda column: column_reference(alias, names[column]) if column in names else None)
                for found in self.conditions
            ),
        )


def uncorrelate(node: Aggregate) -> tuple[Aggregate, CorrelatedConditions]:
    """The grouping without the conditions of its WHERE that mention the outer query, with keys added for them; and these conditions."""
    own = aliases_in(node)
    every: list[Scalar] = []
    base: Any = node.source
    while isinstance(base, Filter):
        every = [*conjuncts(base.condition), *every]
        base = base.source
    outer = [found for found in every if not found.plans and any(column.alias not in own for column in columns_in(found))]
    if not outer or node.sets is not None:
        return node, CorrelatedConditions()
    kinds = columns(base)
    taken = {item.name.lower() for item in (*node.keys, *node.calls)}
    inner = sorted({column for found in outer for column in columns_in(found) if column.alias in own})
    keys = tuple(Item(value=column_reference(*column), name=unique_name(column.name, taken), type=kinds.get(column)) for column in inner)
    finer = replace(node, source=add_filters(base, (found for found in every if found not in outer)), keys=(*node.keys, *keys))
    return finer, CorrelatedConditions(keys=keys, conditions=tuple(outer))
