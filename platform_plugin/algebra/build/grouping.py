"""GROUP BY: a SELECT with aggregates is divided into its keys, its aggregate calls and the expressions over them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlglot import exp

from platform_plugin.algebra.functions import AGGREGATES, canonical_name
from platform_plugin.algebra.plan.names import unique_name
from platform_plugin.algebra.plan.nodes import Column, Item, Scalar
from platform_plugin.algebra.plan.traversal import (
    column_of,
    column_reference,
    columns_in,
    copy_tree,
    map_columns_below,
    walk_expression,
)
from platform_plugin.algebra.sessions import SESSION_WINDOW, is_session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from platform_plugin.algebra.plan.nodes import Query
    from platform_plugin.algebra.types.data_types import DataType

MOST_SETS = 4096


def call_in(node: exp.Expr) -> exp.Anonymous | None:
    """The aggregate's own call inside FILTER, WITHIN GROUP and IGNORE NULLS, or None if the node calls no aggregate."""
    while isinstance(node, (exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)):
        node = node.this
    return node if isinstance(node, exp.Anonymous) and str(node.this) in AGGREGATES else None


def has_aggregate(value: Scalar) -> bool:
    """Whether an expression calls an aggregate over the rows of a group; aggregates OVER a window don't count."""
    return not AGGREGATES.isdisjoint(value.facts.calls) and calls_aggregate(value.node)


def calls_aggregate(node: exp.Expr) -> bool:
    """The same of a tree."""
    if isinstance(node, exp.Window):
        call = call_in(node.this)
        inside = node.this if call is None else call
        around = (value for key, value in node.args.items() if key != "this")
        return any(calls_aggregate(child) for child in [*_children(inside), *_flat(around)])
    return call_in(node) is not None or any(calls_aggregate(child) for child in _children(node))


def has_window(value: Scalar) -> bool:
    """Whether an expression calls a function OVER a window."""
    return exp.Window in value.facts.kinds


def _children(node: exp.Expr) -> Iterable[exp.Expr]:
    return () if isinstance(node, exp.Query) else _flat(node.args.values())


def _flat(values: Iterable[object]) -> Iterable[exp.Expr]:
    for value in values:
        yield from (item for item in (value if isinstance(value, list) else [value]) if isinstance(item, exp.Expr))


def _own_name(node: exp.Expr) -> str:
    """The name that a key has without an alias, so that it is called alike in all views that group by it."""
    if isinstance(node, exp.Anonymous):
        return SESSION_WINDOW if is_session(node) else ""
    return node.name if isinstance(node, (exp.Column, exp.Dot)) else ""


@dataclass(slots=True, kw_only=True)
class GroupedSelect:
    """The keys and the aggregate calls of one grouped SELECT, collected while its expressions are read; `alias` names its result."""

    alias: str
    fail: Callable[[exp.Expr | None, str, str | None], Exception]
    type_of: Callable[[Scalar], DataType | None]
    keys: list[Item] = field(default_factory=list)
    calls: list[Item] = field(default_factory=list)
    names: set[str] = field(default_factory=set)

    def key(self, value: Scalar, wanted: str | None) -> int:
        """The number of a key; a key that is not there yet is added."""
        for number, item in enumerate(self.keys):
            if item.value == value:
                return number
        name = unique_name(wanted or _own_name(value.node) or "key", self.names)
        self.keys.append(Item(value=value, name=name, type=self.type_of(value)))
        return len(self.keys) - 1

    def lift(self, value: Scalar) -> Scalar:
        """The expression rewritten over the group's keys and calls."""
        plans = [self._lift_plan(plan, value.node) for plan in value.plans]
        return Scalar(self._lift(copy_tree(value.node), value, plans, None), tuple(plans))

    def _lift(self, node: exp.Expr, whole: Scalar, plans: list[Query], at: exp.Expr | None) -> exp.Expr:
        at = node if "at" in node.meta else at
        for item in self.keys:
            if item.value.node == node:
                return self._ref(item.name, node)
        call = call_in(node)
        if call is not None:
            return self._ref(self._call(node, call, whole), node)
        if (column := column_of(node)) is not None:
            hint = f"put {column.name} into GROUP BY, or write any_value({column.name})"
            raise self.fail(at or node, f'column "{column.name}" is neither a key of the group nor inside of an aggregate', hint)
        inside = call_in(node.this) if isinstance(node, exp.Window) else None
        for key, child in list(node.args.items()):
            if isinstance(child, exp.Expr):
                node.set(key, self._lift_args(child, whole, plans, at) if inside and key == "this" else self._lift(child, whole, plans, at))
            elif isinstance(child, list):
                node.set(key, [self._lift(item, whole, plans, at) if isinstance(item, exp.Expr) else item for item in child])
        return node

    def _lift_args(self, node: exp.Expr, whole: Scalar, plans: list[Query], at: exp.Expr | None) -> exp.Expr:
        """An aggregate over a window stays a call; only what it is given comes from the groups."""
        if isinstance(node, exp.Anonymous):
            node.set("expressions", [self._lift(item, whole, plans, at) for item in node.expressions])
            return node
        node.set("this", self._lift_args(node.this, whole, plans, at))
        if isinstance(node, (exp.Filter, exp.WithinGroup)):
            node.set("expression", self._lift(node.expression, whole, plans, at))
        return node

    def _ref(self, name: str, node: exp.Expr) -> exp.Expr:
        found = column_reference(self.alias, name).node
        found.meta.update({"at": node.meta["at"]} if "at" in node.meta else {})
        return found

    def _call(self, node: exp.Expr, call: exp.Anonymous, whole: Scalar) -> str:
        for inner in walk_expression(node):
            if inner is not call and call_in(inner) is not None and call_in(inner) is not call:
                raise self.fail(inner, "an aggregate inside of an aggregate", "compute the inner one in a sub-query in FROM")
            if isinstance(inner, exp.Window):
                raise self.fail(call, "a window inside of an aggregate", "compute the window in a sub-query in FROM")
        value = Scalar(copy_tree(node))
        if exp.Placeholder in value.facts.kinds:
            raise self.fail(call, "a sub-query inside of an aggregate", "compute it in a sub-query in FROM, and aggregate its column")
        for item in self.calls:
            if item.value == value:
                return item.name
        arguments = [column.name for inner in walk_expression(call) if (column := column_of(inner)) is not None]
        wanted = "_".join([canonical_name(str(call.this)), *arguments[:1]])
        item = Item(value=value, name=unique_name(wanted, self.names), type=self.type_of(value))
        self.calls.append(item)
        return item.name

    def _lift_plan(self, plan: Query, at: exp.Expr) -> Query:
        """A correlated sub-query sees the group's keys instead of the rows' columns."""
        own = {found for item in (*self.keys, *self.calls) for found in columns_in(item.value)}
        by_column = {column: item.name for item in self.keys if (column := column_of(item.value.node)) is not None}

        def change(column: Column) -> Scalar | None:
            if column in by_column:
                return column_reference(self.alias, by_column[column])
            if column in own:
                raise self.fail(at, f'a sub-query needs column "{column.name}", which is not a key of the group', None)
            return None

        found: Query = map_columns_below(plan, change)
        return found


def read_sets(
    group: exp.Group, key: Callable[[exp.Expr], int], fail: Callable[[exp.Expr | None, str, str | None], Exception]
) -> tuple[tuple[int, ...], ...] | None:
    """Which keys each grouping set of a GROUP BY has, or None for plain keys; `key` gives an expression's number."""
    plain = [item for item in group.expressions if not isinstance(item, (exp.Rollup, exp.Cube, exp.GroupingSets))]
    every = [key(item) for item in plain]
    if group.args.get("rollup") and not any(item.expressions for item in group.args["rollup"]):
        return _checked(_prefixes([(number,) for number in every]), group, fail)
    if group.args.get("cube") and not any(item.expressions for item in group.args["cube"]):
        return _checked(_subsets([(number,) for number in every]), group, fail)
    if group.args.get("grouping_sets"):
        return _checked([found for item in group.args["grouping_sets"] for found in _element(item, key)], group, fail)
    if len(plain) == len(group.expressions):
        return None
    parts = [_element(item, key) for item in group.expressions]
    return _checked([tuple(dict.fromkeys(itertools.chain(*chosen))) for chosen in itertools.product(*parts)], group, fail)


def _checked(
    sets: Sequence[tuple[int, ...]], group: exp.Group, fail: Callable[[exp.Expr | None, str, str | None], Exception]
) -> tuple[tuple[int, ...], ...]:
    if len(sets) > MOST_SETS:
        raise fail(group, f"more than {MOST_SETS} grouping sets", "divide them between the sides of a UNION ALL")
    ordered = tuple(tuple(sorted(found)) for found in sets)
    if len(set(ordered)) < len(ordered):
        raise fail(group, "a grouping set is there twice", "name each set once, not the same: its rows come once")
    return ordered


def _element(item: exp.Expr, key: Callable[[exp.Expr], int]) -> list[tuple[int, ...]]:
    if isinstance(item, exp.Rollup):
        return _prefixes([_numbers(part, key) for part in item.expressions])
    if isinstance(item, exp.Cube):
        return _subsets([_numbers(part, key) for part in item.expressions])
    if isinstance(item, exp.GroupingSets):
        return [found for part in item.expressions for found in _element(part, key)]
    return [_numbers(item, key)]


def _numbers(item: exp.Expr, key: Callable[[exp.Expr], int]) -> tuple[int, ...]:
    return tuple(key(part) for part in item.expressions) if isinstance(item, exp.Tuple) else (key(item),)


def _prefixes(parts: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    return [tuple(itertools.chain(*parts[:length])) for length in range(len(parts), -1, -1)]


def _subsets(parts: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    return [tuple(itertools.chain(*chosen)) for length in range(len(parts), -1, -1) for chosen in itertools.combinations(parts, length)]
