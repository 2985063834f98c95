"""One SELECT, from its WHERE to its ORDER BY, becomes a query of the plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from sqlglot import exp

from platform_plugin.algebra.build.grouping import GroupedSelect, call_in, calls_aggregate, has_aggregate, has_window, read_sets
from platform_plugin.algebra.build.qualify import QualifiedSelect
from platform_plugin.algebra.build.scope import resolve_column
from platform_plugin.algebra.functions import RANKINGS, WINDOW_COLUMNS
from platform_plugin.algebra.plan.names import output_name, unique_name
from platform_plugin.algebra.plan.nodes import (
    Aggregate,
    Derived,
    Distinct,
    Filter,
    Item,
    Project,
    Scalar,
    Sort,
    SortKey,
    Window,
    columns,
    outputs,
)
from platform_plugin.algebra.plan.traversal import column_reference, walk_expression
from platform_plugin.algebra.types.infer import type_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from platform_plugin.algebra.build.query import Builder, NamedQuery
    from platform_plugin.algebra.build.scope import Scope
    from platform_plugin.algebra.plan.nodes import Column, Place, Query, Source
    from platform_plugin.algebra.types.data_types import DataType


def sort_key(item: exp.Expr, name: str) -> SortKey:
    """A sort key for ORDER BY that names an output column."""
    descending = bool(item.args.get("desc"))
    nulls_first = item.args.get("nulls_first")
    value = Scalar(exp.Column(this=exp.to_identifier(name, quoted=True)))
    return SortKey(value=value, descending=descending, nulls_first=not descending if nulls_first is None else bool(nulls_first))


@dataclass(slots=True, kw_only=True)
class SelectBuilder:
    """The builder of one SELECT, from its WHERE to its ORDER BY."""

    builder: Builder
    node: exp.Select
    known: Mapping[str, NamedQuery]
    scope: Scope
    source: Source
    grouping: GroupedSelect | None = None
    qualified: Scalar | None = None

    def fail(self, node: exp.Expr | None, message: str, hint: str | None = None) -> Exception:
        return self.builder.fail(node, message, hint)

    def run(self) -> Query:
        self._name_windows()
        items = self._items()
        having = self.node.args.get("having")
        order = self.node.args.get("order")
        group = self.node.args.get("group")
        sorting = [(item, *self._sort_target(item, items)) for item in (order.expressions if order is not None else ())]
        condition = self._having(having.this, items) if having is not None else None
        if self.node.args.get("qualify") is not None:
            self.qualified = self._qualify(self.node.args["qualify"].this, items, grouped=group is not None)
        called = [value for _, value in items] + [value for _, _, value in sorting if value is not None] + [condition or Scalar(exp.null())]
        if group is not None or any(has_aggregate(value) for value in called) or having is not None:
            items, sorting, condition = self._group(group, items, sorting, condition)
        if condition is not None:
            self.source = Filter(source=self.source, condition=condition, at=self.builder.place(having))
        return self._finish(items, sorting)

    def _name_windows(self) -> None:
        """GROUP BY window(…) gives the rows a column `window`, as long as they have none of that name."""
        group = self.node.args.get("group")
        for node in group.expressions if group is not None else ():
            if isinstance(node, exp.Anonymous) and str(node.this).lower() in WINDOW_COLUMNS:
                self.scope.windows.setdefault(str(node.this).lower(), self.builder.scalar(node, self.known, self.scope))

    def _items(self) -> list[tuple[str, Scalar]]:
        found: list[tuple[str, Scalar]] = []
        aliases: dict[str, Scalar] = {}
        for node in self.node.expressions:
            inner = node.this if isinstance(node, exp.Alias) else node
            if isinstance(inner, exp.Star) or (isinstance(inner, exp.Column) and isinstance(inner.this, exp.Star)):
                found += self._star(inner)
                continue
            if isinstance(node, exp.Aliases):
                raise self.fail(node, "several names for one item of SELECT", "write LATERAL VIEW generator(…) t AS a, b")
            value = self.builder.scalar(inner, self.known, self.scope, aliases)
            if has_window(value):
                for call in value.node.find_all(exp.Window):
                    self._name_window(call)
                value = Scalar(value.node, value.plans)
            if isinstance(node, exp.Alias):
                aliases.setdefault(node.alias.lower(), value)
            found.append((output_name(node), value))
        names: set[str] = set()
        for name, value in found:
            if name.lower() in names and self.node is not self.builder.twins_in:
                hint = "give each column a name of its own with AS"
                raise self.fail(value.node, f'two columns are called "{name}"', hint)
            names.add(name.lower())
        self._refuse_rankings([value for _, value in found])
        return found

    def _refuse_rankings(self, values: list[Scalar]) -> None:
        for value in values:
            for call in () if RANKINGS.isdisjoint(value.facts.calls) else value.node.find_all(exp.Anonymous):
                above = call.parent
                while isinstance(above, (exp.IgnoreNulls, exp.RespectNulls)):
                    above = above.parent
                if str(call.this) in RANKINGS and not isinstance(above, exp.Window):
                    raise self.fail(call, f"{call.this} without OVER", f"write {call.this}(…) OVER (ORDER BY …)")

    def _star(self, node: exp.Expr) -> list[tuple[str, Scalar]]:
        star = node.this if isinstance(node, exp.Column) else node
        parts = [part.name for part in node.parts[:-1]] if isinstance(node, exp.Column) else []
        found = self.scope.star(parts)
        if found is None:
            raise self.fail(node, f'no relation here is called "{".".join(parts)}"', "name the fields of a struct one by one")
        if star.args.get("replace") or star.args.get("rename"):
            raise self.fail(node, "* REPLACE is not supported in views", "name the columns one by one")
        left_out = {column.name.lower() for column in star.args.get("except_") or ()}
        return [(name, value) for name, value in found if name.lower() not in left_out]

    def _name_window(self, call: exp.Window) -> None:
        name = call.args.get("alias")
        if name is None:
            return
        for window in self.node.args.get("windows") or ():
            if window.name.lower() == name.name.lower():
                for key in ("partition_by", "order", "spec"):
                    part = window.args.get(key)
                    if isinstance(part, list):
                        call.set(key, [self.builder.scalar(item, self.known, self.scope).node for item in part])
                    elif part is not None:
                        call.set(key, self.builder.scalar(part, self.known, self.scope).node)
                call.set("alias", None)
                return
        raise self.fail(call, f'window "{name.name}" is not defined')

    def _having(self, node: exp.Expr, items: list[tuple[str, Scalar]]) -> Scalar:
        value = self.builder.scalar(node, self.known, self.scope, {name.lower(): value for name, value in items})
        if has_window(value):
            raise self.fail(node, "a window in HAVING", "compute it in a sub-query in FROM, and filter around that")
        by_name = {name.lower(): found for name, found in items}
        for column in node.find_all(exp.Column):
            found = by_name.get(column.name.lower()) if column.args.get("table") is None else None
            if (
                found is not None
                and not column.find_ancestor(exp.Anonymous)
                and has_aggregate(found)
                and self._column_of_source(column) is not None
            ):
                raise self.fail(column, f'"{column.name}" in HAVING could be the column or the result', "give the result another name")
        return value

    def _qualify(self, node: exp.Expr, items: list[tuple[str, Scalar]], *, grouped: bool) -> Scalar:
        """QUALIFY sees the columns of FROM, or the keys of the grouping, and what SELECT gives a name; it holds no aggregate of its own."""
        if (call := next((inner for inner in walk_expression(node) if call_in(inner) is not None), None)) is not None and calls_aggregate(
            node
        ):
            raise self.fail(call, "an aggregate in QUALIFY", "give it a name in SELECT and use that name; or write it in HAVING")
        value = self.builder.scalar(node, self.known, self.scope, {name.lower(): value for name, value in items})
        for window in value.node.find_all(exp.Window):
            self._name_window(window)
        self._refuse_rankings([value])
        if not any(has_window(found) for found in (value, *(found for _, found in items))):
            raise self.fail(node, "QUALIFY without a window function", f"write the condition in {'HAVING' if grouped else 'WHERE'}")
        results = {name.lower(): found for name, found in items}
        for column in () if grouped else node.find_all(exp.Column):
            meant = self._column_of_source(column)
            if column.args.get("table") is None and meant is not None and results.get(column.name.lower(), meant) != meant:
                raise self.fail(column, f'"{column.name}" in QUALIFY could be the column or the result', "give the result another name")
        return value

    def _column_of_source(self, node: exp.Column) -> Scalar | None:
        found = resolve_column(node, self.scope, lambda message: self.fail(node, message))
        return None if found is None or isinstance(found.node, exp.Anonymous) else found

    def _sort_target(self, item: exp.Expr, items: list[tuple[str, Scalar]]) -> tuple[str | None, Scalar | None]:
        """The output column that a key of ORDER BY is, or the expression that it is instead."""
        key = item.this
        name = self.builder.ordinal(key, [found for found, _ in items])
        if name is None and isinstance(key, exp.Column) and key.args.get("table") is None:
            if key.name.upper() == "ALL" and not key.this.args.get("quoted"):
                raise self.fail(item, "ORDER BY ALL is not supported in views", "name the columns")
            name = next((found for found, _ in items if found.lower() == key.name.lower()), None)
        if name is not None:
            return name, None
        by_name = {found.lower(): value for found, value in items}
        value = self.builder.scalar(key, self.known, self.scope, by_name)
        same = next((found for found, inner in items if inner == value), None)
        return (same, None) if same is not None else (None, value)

    def _group(
        self,
        group: exp.Group | None,
        items: list[tuple[str, Scalar]],
        sorting: list[tuple[exp.Expr, str | None, Scalar | None]],
        condition: Scalar | None,
    ) -> tuple[list[tuple[str, Scalar]], list[tuple[exp.Expr, str | None, Scalar | None]], Scalar | None]:
        alias = self.builder.aliases.take("grouped")
        types = self._types()
        self.grouping = grouping = GroupedSelect(alias=alias, fail=self.builder.fail, type_of=lambda value: type_of(value, types))
        sets = None
        if group is not None and group.args.get("all"):
            for name, value in items:
                if not has_aggregate(value):
                    self._key(value, name)
        elif group is not None:
            sets = read_sets(group, lambda node: self._key_of(node, items), self.builder.fail)
            if sets is not None and any(isinstance(item.value.node, exp.Literal) for item in grouping.keys):
                raise self.fail(
                    group,
                    "a constant in GROUPING SETS",
                    "leave it out of GROUP BY, and write it in SELECT only; not the same: it is never NULL there",
                )
        lifted = [(name, grouping.lift(value)) for name, value in items]
        order = [(item, name, value and grouping.lift(value)) for item, name, value in sorting]
        kept = condition and grouping.lift(condition)
        self.qualified = self.qualified and grouping.lift(self.qualified)
        at = (
            self.builder.place(group) if group is not None else next((self.builder.place(call.value.node) for call in grouping.calls), None)
        )
        aggregate = Aggregate(source=self.source, keys=tuple(grouping.keys), calls=tuple(grouping.calls), sets=sets, at=at)
        self.source = Derived(query=aggregate, alias=alias)
        return lifted, order, kept

    def _key_of(self, node: exp.Expr, items: list[tuple[str, Scalar]]) -> int:
        while isinstance(node, exp.Paren):
            node = node.this
        name = self.builder.ordinal(node, [found for found, _ in items])
        if name is not None:
            return self._key(dict(items)[name], name)
        value = self.builder.scalar(node, self.known, self.scope, {found.lower(): inner for found, inner in items})
        same = next((found for found, inner in items if inner == value), None)
        return self._key(value, same)

    def _key(self, value: Scalar, name: str | None) -> int:
        node = value.node
        while isinstance(node, exp.Paren):
            node = node.this
        self.builder.refuse_calls(Scalar(node), node, "GROUP BY", None)
        if value.plans:
            raise self.fail(node, "a sub-query in GROUP BY", "compute it in a sub-query in FROM")
        return cast("GroupedSelect", self.grouping).key(Scalar(node), name)

    def _types(self) -> dict[Column, DataType | None]:
        types: dict[Column, DataType | None] = {}
        scope: Scope | None = self.scope.parent
        while scope is not None:
            types = {**scope.types, **types}
            scope = scope.parent
        return types | columns(self.source)

    def _finish(self, items: list[tuple[str, Scalar]], sorting: list[tuple[exp.Expr, str | None, Scalar | None]]) -> Query:
        node, types = self.node, self._types()
        made = [Item(value=value, name=name, type=type_of(value, types)) for name, value in items]
        names = {item.name.lower() for item in made}
        keys, hidden = [], 0
        for item, name, value in sorting:
            by = name
            if value is not None:
                by = next((found.name for found in made if found.value == value), None)
                if by is None:
                    by, hidden = unique_name("sort_key", names), hidden + 1
                    made.append(Item(value=value, name=by))
            keys.append(sort_key(item, str(by)))
        made_at = self.builder.place(node)
        query = self._project(made, types, made_at)
        if node.args.get("distinct") is not None:
            if node.args["distinct"].args.get("on"):
                raise self.fail(node.args["distinct"], "DISTINCT ON is not supported", "use a window: row_number() OVER (PARTITION BY …)")
            if hidden:
                raise self.fail(node.args["order"], "ORDER BY after DISTINCT can name the columns of the result only")
            query = Distinct(query=query, at=made_at)
        if keys:
            query = Sort(query=query, keys=tuple(keys), at=self.builder.place(node.args["order"]))
        query = self.builder.shorten(query, node, None)
        return self._hide(query, len(made) - hidden) if hidden else query

    def _project(self, made: list[Item], types: dict[Column, DataType | None], at: Place | None) -> Query:
        if self.qualified is not None:
            select = QualifiedSelect(
                alias=self.builder.aliases.take("qualified"),
                items=list(made),
                types=dict(columns(self.source)),
                type_of=lambda value: type_of(value, types),
                fail=self.builder.fail,
            )
            return select.build(self.source, self.qualified, at=at, place=self.builder.place(self.node.args["qualify"]))
        kind = Window if any(has_window(item.value) for item in made) else Project
        return kind(source=self.source, items=tuple(made), at=at)

    def _hide(self, query: Query, kept: int) -> Query:
        alias = self.builder.aliases.take("sorted")
        items = tuple(Item(value=column_reference(alias, found.name), name=found.name, type=found.type) for found in outputs(query)[:kept])
        return Project(source=Derived(query=query, alias=alias), items=items, at=getattr(query, "at", None))
