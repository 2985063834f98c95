"""`arrange_joins`: inner joins below a grouping are reordered to start from the stream and to look up tables.

`FROM a, b, s, c WHERE …` joins a with b first, which is their product if only the stream connects them. So the tables beside a stream are
taken out of the joins; each is filtered by the conditions on it alone; and the stream looks them up one after the other, first those that
an equation connects it with.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from sqlglot import exp

from platform_plugin.algebra.plan.filters import add_filters, conjuncts, filter_conditions, split_filters
from platform_plugin.algebra.plan.nodes import Column, Derived, Generate, Join, Project, Scalar, Scan, columns
from platform_plugin.algebra.plan.traversal import column_of, columns_in
from platform_plugin.operators.group.admission import find_ungrouped_streams


def arrange_joins(source: Any) -> Any:
    """A branch with its inner joins reordered to start from the stream."""
    below, filters = split_filters(source)
    conditions = filter_conditions(filters)
    if isinstance(below, Derived) and isinstance(below.query, Project) and find_ungrouped_streams(below):
        inner = arrange_joins(below.query.source)
        return add_filters(replace(below, query=replace(below.query, source=inner)), conditions)
    if isinstance(below, Generate) and find_ungrouped_streams(below):
        settled = [found for found in conditions if not found.plans and below.alias not in {column.alias for column in columns_in(found)}]
        inner, inside = split_filters(arrange_joins(add_filters(below.source, settled)))
        above = [found for found in conditions if found not in settled]
        return add_filters(replace(below, source=inner), [*(one.condition for one in inside), *above])
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
            if isinstance(node, exp.EQ) and (a := column_of(node.this)) is not None and (b := column_of(node.expression)) is not None:
                found += [(a, b), (b, a)]
        return found


def _wrapped(node: exp.Expr) -> exp.Expr:
    return exp.Paren(this=node.copy()) if isinstance(node, exp.Or) else node.copy()
