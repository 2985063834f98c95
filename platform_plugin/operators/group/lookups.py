"""`arrange_joins`: inner joins below a grouping are reordered to start from the stream and to look up tables.

`FROM a, b, s, c WHERE …` joins a with b first, which is their product if only the stream connects them. So the tables beside a stream are
taken out of the joins; each is filtered by the conditions on it alone; and the stream looks them up one after the other, first those that
an equation connects it with.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from platform_plugin.algebra.plan.nodes import Column, Derived, Filter, Generate, Join, Project, Scalar, Scan, columns
from platform_plugin.algebra.plan.traversal import column_of, columns_in, is_plan, map_nodes, walk_expression
from platform_plugin.operators.group.admission import find_ungrouped_streams

if TYPE_CHECKING:
    from collections.abc import Iterable

    from platform_plugin.algebra.plan.nodes import Query


def conjuncts(value: Scalar) -> tuple[Scalar, ...]:
    """The parts of a condition that AND joins, each with its own sub-queries."""
    stack, found = [value.node], []
    while stack:
        node = stack.pop()
        inner = node
        while isinstance(inner, exp.Paren):
            inner = inner.this
        if isinstance(inner, exp.And):
            stack += [inner.expression, inner.this]
        else:
            found.append(_alone(node, value.plans))
    return tuple(found)


def _alone(node: exp.Expr, plans: tuple[Query, ...]) -> Scalar:
    used = list(dict.fromkeys(int(inner.name) for inner in walk_expression(node) if is_plan(inner)))
    numbered = map_nodes(node, lambda inner: exp.Placeholder(this=str(used.index(int(inner.name)))) if is_plan(inner) else None)
    return Scalar(numbered, tuple(plans[number] for number in used))


def add_filters(source: Any, conditions: Iterable[Scalar]) -> Any:
    """A source with one filter for each condition."""
    return reduce(lambda below, condition: Filter(source=below, condition=condition), conditions, source)


def arrange_joins(source: Any) -> Any:
    """A branch with its inner joins reordered to start from the stream."""
    conditions: list[Scalar] = []
    below = source
    while isinstance(below, Filter):
        conditions = [*conjuncts(below.condition), *conditions]
        below = below.source
    if isinstance(below, Derived) and isinstance(below.query, Project) and find_ungrouped_streams(below):
        inner = arrange_joins(below.query.source)
        return add_filters(replace(below, query=replace(below.query, source=inner)), conditions)
    if isinstance(below, Generate) and find_ungrouped_streams(below):
        settled = [found for found in conditions if not found.plans and below.alias not in {column.alias for column in columns_in(found)}]
        inner = arrange_joins(add_filters(below.source, settled))
        above = [found for found in conditions if found not in settled]
        while isinstance(inner, Filter):
            above.insert(0, inner.condition)
            inner = inner.source
        return add_filters(replace(below, source=inner), above)
    if not _is_inner(below):
        return source
    region = _Region()
    region.take(below)
    region.conditions += conditions
    return region.arranged()


def _is_inner(source: Any) -> bool:
    return isinstance(source, Join) and source.kind in ("inner", "cross") and not source.lateral


@dataclass(slots=True, kw_only=True)
class _Table:
    """A table that the stream looks up, and the conditions on it alone."""

    source: Any
    conditions: list[Scalar] = field(default_factory=list)

    @property
    def columns(self) -> set[Column]:
        return set(columns(self.source))


@dataclass(slots=True, kw_only=True)
class _Region:
    stream: Any = None
    tables: list[_Table] = field(default_factory=list)
    conditions: list[Scalar] = field(default_factory=list)

    def take(self, source: Any) -> None:
        """Collect the parts of a tree of inner joins; a join of tables with a condition stays whole, as its author wrote it."""
        if _is_inner(source) and (find_ungrouped_streams(source) or source.condition is None):
            self.take(source.left)
            self.take(source.right)
            if source.condition is not None:
                self.conditions += conjuncts(source.condition)
        elif find_ungrouped_streams(source):
            self.stream = source
        else:
            self.tables.append(_Table(source=source))

    def arranged(self) -> Any:
        self._settle_own()
        source, seen, left = self.stream, set(columns(self.stream)), list(self.tables)
        while left:
            table = next((found for found in left if self._links(seen, found)), left[0])
            left.remove(table)
            seen |= table.columns
            on = [condition for condition in self.conditions if not condition.plans and self._crosses(condition, table, seen)]
            self.conditions = [condition for condition in self.conditions if condition not in on]
            both = Scalar(exp.and_(*(_wrapped(condition.node) for condition in on))) if on else None
            source = Join(left=source, right=add_filters(table.source, table.conditions), kind="inner" if on else "cross", condition=both)
        return add_filters(source, self.conditions)

    def _settle_own(self) -> None:
        """What concerns one table alone is asked when that table is read."""
        for table in self.tables:
            if not isinstance(table.source, (Scan, Derived)):
                continue
            own = [condition for condition in self.conditions if self._concerns(condition, table.columns)]
            table.conditions += own
            self.conditions = [condition for condition in self.conditions if condition not in own]

    @staticmethod
    def _concerns(condition: Scalar, known: set[Column]) -> bool:
        mentioned = columns_in(condition)
        return not condition.plans and bool(mentioned) and mentioned <= known

    def _crosses(self, condition: Scalar, table: _Table, seen: set[Column]) -> bool:
        mentioned = columns_in(condition)
        return bool(mentioned & table.columns) and mentioned <= seen

    def _links(self, seen: set[Column], table: _Table) -> bool:
        return any(a in seen and b in table.columns for a, b in self._equal())

    def _equal(self) -> list[tuple[Column, Column]]:
        found = []
        for condition in self.conditions:
            node = condition.node
            while isinstance(node, exp.Paren):
                node = node.this
            if isinstance(node, exp.EQ) and (a := column_of(node.this)) is not None and (b := column_of(node.expression)) is not None:
                found += [(a, b), (b, a)]
        return found


def _wrapped(node: exp.Expr) -> exp.Expr:
    return exp.Paren(this=node.copy()) if isinstance(node, exp.Or) else node.copy()
