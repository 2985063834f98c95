"""QUALIFY: a condition on window results becomes a filter over the window query that computes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from platform_plugin.algebra.plan.names import unique_name
from platform_plugin.algebra.plan.nodes import Column, Derived, Filter, Item, Project, Scalar, Window, outputs
from platform_plugin.algebra.plan.traversal import column_of, column_reference, is_plan, map_columns_below, map_nodes, walk_expression

if TYPE_CHECKING:
    from collections.abc import Callable

    from platform_plugin.algebra.plan.nodes import Place, Query, Source
    from platform_plugin.algebra.types.data_types import DataType

    Fail = Callable[[exp.Expr | None, str, str | None], Exception]


def _bare(node: exp.Expr) -> exp.Expr:
    while isinstance(node, exp.Paren):
        node = node.this
    return node


@dataclass(slots=True, kw_only=True)
class QualifiedSelect:
    """A SELECT with QUALIFY: `items` are those of its SELECT, to which the condition adds the columns and window calls that it needs."""

    alias: str
    items: list[Item]
    types: dict[Column, DataType | None]
    type_of: Callable[[Scalar], DataType | None]
    fail: Fail

    def build(self, source: Source, condition: Scalar, *, at: Place | None, place: Place | None) -> Query:
        """The plan, with the columns of SELECT only: a projection of a filter of the window query, which is derived under `alias`.

            Project(shown columns, Filter(condition over alias, Derived(Window(shown columns and those of the condition, source), alias)))

        It renders as `SELECT a, r FROM (SELECT a, rank() OVER (…) AS r FROM …) AS qualified WHERE qualified.r = 1`, so that an engine
        without QUALIFY can run it. A window call of the condition that SELECT has too is computed once, as that column. DISTINCT,
        ORDER BY and LIMIT of the SELECT stand above this plan.
        """
        shown = len(self.items)
        over = self._over(condition)
        query = Window(source=source, items=tuple(self.items), at=at)
        kept = Filter(source=Derived(query=query, alias=self.alias), condition=over, at=place)
        return Project(
            source=kept,
            items=tuple(
                Item(value=column_reference(self.alias, found.name), name=found.name, type=found.type) for found in outputs(query)[:shown]
            ),
            at=at,
        )

    def _over(self, condition: Scalar) -> Scalar:
        """The condition in terms of the window query's columns."""
        plans = tuple(map_columns_below(plan, self._moved) for plan in condition.plans)

        def change(node: exp.Expr) -> exp.Expr | None:
            if any(map(is_plan, walk_expression(node))):
                return None
            column = column_of(node)
            if column is None and node.find(exp.Window) is None:
                return None
            same = next((item for item in self.items if _bare(item.value.node) == node and not item.value.plans), None)
            if same is None and isinstance(node, exp.Window):
                self._refuse_nested(node)
                same = self._add(node, "window_result")
            if same is None and column is not None and column in self.types:
                same = self._add(node, column.name)
            return None if same is None else column_reference(self.alias, same.name).node

        return Scalar(map_nodes(condition.node, change), plans)

    def _moved(self, column: Column) -> Scalar | None:
        """A correlated sub-query sees the window query's columns instead of the rows'."""
        if column not in self.types:
            return None
        node = column_reference(*column).node
        same = next((item for item in self.items if _bare(item.value.node) == node), None) or self._add(node, column.name)
        return column_reference(self.alias, same.name)

    def _add(self, node: exp.Expr, name: str) -> Item:
        value = Scalar(node.copy())
        item = Item(value=value, name=unique_name(name, {item.name.lower() for item in self.items}), type=self.type_of(value))
        self.items.append(item)
        return item

    def _refuse_nested(self, node: exp.Window) -> None:
        if any(isinstance(inner, exp.Window) for inner in walk_expression(node) if inner is not node):
            raise self.fail(node, "a window over the result of another window", "compute the inner one in a sub-query in FROM")
