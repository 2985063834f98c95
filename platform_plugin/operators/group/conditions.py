"""Conditions that are checked on stored groups at each read, since no arriving row can answer them: `uncorrelate` and `set_clocks_apart`.

What such a condition compares becomes a key of the state. The condition filters the merged groups, which are then merged to those that were
asked for. `(SELECT count(*) FROM posts WHERE uid = u.id)` counts by uid once, and each `u.id` looks up the counts; no group counts as 0.
`WHERE date(at) = current_date()` counts by `date(at)`, and each read adds up the counts of its day.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from platform_plugin.algebra.functions import DICE
from platform_plugin.algebra.plan.filters import add_filters, conjuncts, filter_conditions, split_filters
from platform_plugin.algebra.plan.names import unique_name
from platform_plugin.algebra.plan.nodes import Derived, Filter, Generate, Item, Join, Project, Scalar, columns
from platform_plugin.algebra.plan.traversal import (
    aliases_in,
    column_of,
    column_reference,
    columns_in,
    map_columns,
    map_nodes,
    walk_expression,
)
from platform_plugin.algebra.types.infer import type_of
from platform_plugin.algebra.volatility import volatile_name

if TYPE_CHECKING:
    from platform_plugin.algebra.plan.nodes import Aggregate

GROUPS = "the stored groups"
"""The alias of a state's keys in conditions on its groups."""
_VALUES = (exp.Column, exp.Anonymous, exp.Cast, exp.Binary, exp.Unary, exp.Between, exp.In, exp.Bracket, exp.Case)
_NO_VALUES = (exp.Kwarg, exp.PropertyEQ)
_LEFT_KEPT = ("inner", "cross", "left", "semi", "anti")
_RIGHT_KEPT = ("inner", "cross", "right")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConditions:
    """Conditions that can only be checked on stored groups, over columns of `GROUPS`, and the keys that a state has because of them."""

    keys: tuple[Item, ...] = ()
    conditions: tuple[Scalar, ...] = ()

    def __add__(self, other: GroupConditions) -> GroupConditions:
        return GroupConditions(keys=(*self.keys, *other.keys), conditions=(*self.conditions, *other.conditions))

    def over(self, source: Any, alias: str) -> Any:
        """The rows of the stored groups, called `alias`, that satisfy the conditions."""
        return add_filters(
            source,
            (
                map_columns(found, lambda column: column_reference(alias, column.name) if column.alias == GROUPS else None)
                for found in self.conditions
            ),
        )


def uncorrelate(node: Aggregate) -> tuple[Aggregate, GroupConditions]:
    """The grouping without the conditions of its WHERE that mention the outer query, with keys added for them; and these conditions."""
    own = aliases_in(node)
    base, filters = split_filters(node.source)
    every = filter_conditions(filters)
    outer = [found for found in every if not found.plans and any(column.alias not in own for column in columns_in(found))]
    if not outer or node.sets is not None:
        return node, GroupConditions()
    kinds = columns(base)
    taken = {item.name.lower() for item in (*node.keys, *node.calls)}
    inner = sorted({column for found in outer for column in columns_in(found) if column.alias in own})
    keys = tuple(Item(value=column_reference(*column), name=unique_name(column.name, taken), type=kinds.get(column)) for column in inner)
    names = {column: item.name for column, item in zip(inner, keys, strict=True)}
    conditions = tuple(
        map_columns(found, lambda column: column_reference(GROUPS, names[column]) if column in names else None) for found in outer
    )
    finer = replace(node, source=add_filters(base, (found for found in every if found not in outer)), keys=(*node.keys, *keys))
    return finer, GroupConditions(keys=keys, conditions=conditions)


def set_clocks_apart(node: Aggregate) -> tuple[Aggregate, GroupConditions]:
    """The grouping without the conditions that ask for the time or the user, with keys for what they compare; and these conditions."""
    conditions, source = _take(node.source)
    if not conditions:
        return node, GroupConditions()
    own, types = aliases_in(source), columns(source)
    keys = list(node.keys)
    taken = {item.name.lower() for item in (*node.keys, *node.calls)}

    def key(found: exp.Expr) -> exp.Expr:
        same = next((item for item in keys if item.value.node == found), None)
        if same is None:
            named = [inner.name for inner in walk_expression(found) if column_of(inner) is not None]
            same = Item(value=Scalar(found.copy()), name=unique_name(named[0], taken), type=type_of(Scalar(found), types))
            keys.append(same)
        return column_reference(GROUPS, same.name).node

    def change(found: exp.Expr) -> exp.Expr | None:
        mentioned = {column for inner in walk_expression(found) if (column := column_of(inner)) is not None}
        whole = isinstance(found, _VALUES) and not isinstance(found, _NO_VALUES) and _volatile(found) == set()
        inside = found.find_ancestor(exp.Lambda) is not None and column_of(found) is None
        return key(found) if mentioned and whole and not inside and all(column.alias in own for column in mentioned) else None

    moved = tuple(Scalar(map_nodes(condition.node, change)) for condition in conditions)
    return replace(node, source=source, keys=tuple(keys)), GroupConditions(keys=tuple(keys[len(node.keys) :]), conditions=moved)


def _volatile(node: exp.Expr) -> set[str]:
    return {name for inner in walk_expression(node) if (name := volatile_name(inner)) is not None}


def _asks_the_time(condition: Scalar) -> bool:
    """Whether a condition is the same for all rows of a group at one read, and another at the next read."""
    names = _volatile(condition.node)
    return bool(names) and not condition.plans and not any(name in DICE or name.startswith("input_file") for name in names)


def _take(source: Any) -> tuple[list[Scalar], Any]:
    """The conditions of a source that ask the time, in terms of its columns, and the source without them."""
    match source:
        case Filter(source=below, condition=condition):
            found, inner = _take(below)
            every = conjuncts(condition)
            mine = [part for part in every if _asks_the_time(part)]
            if not mine:
                return found, replace(source, source=inner)
            return [*found, *mine], add_filters(inner, (part for part in every if part not in mine))
        case Generate():
            found, inner = _take(source.source)
            return found, replace(source, source=inner)
        case Derived(query=Project() as query, alias=alias):
            found, inner = _take(query.source)
            return _through(found, replace(query, source=inner), alias) if found else ([], source)
        case Join():
            return _take_from_join(source)
        case _:
            return [], source


def _through(found: list[Scalar], query: Project, alias: str) -> tuple[list[Scalar], Derived]:
    """Conditions above a projection, which gives the columns that they compare under further names."""
    types = columns(query.source)
    taken = {item.name.lower() for item in query.items}
    added = {
        column: Item(value=column_reference(*column), name=unique_name(column.name, taken), type=types[column])
        for column in sorted({column for condition in found for column in columns_in(condition) if column in types})
    }
    moved = [
        map_columns(condition, lambda column: column_reference(alias, added[column].name) if column in added else None)
        for condition in found
    ]
    return moved, Derived(query=replace(query, items=(*query.items, *added.values())), alias=alias)


def _take_from_join(node: Join) -> tuple[list[Scalar], Join]:
    found: list[Scalar] = []
    left, right, on = node.left, node.right, node.condition
    if node.kind in _LEFT_KEPT:
        taken, left = _take(left)
        found += taken
    if node.kind in _RIGHT_KEPT and not node.lateral:
        taken, right = _take(right)
        found += taken
    if node.kind == "inner" and on is not None and (mine := [part for part in conjuncts(on) if _asks_the_time(part)]):
        rest = [part for part in conjuncts(on) if part not in mine]
        joined = exp.and_(*(part.node for part in rest)) if rest else exp.true()
        on = Scalar(joined) if not any(part.plans for part in rest) else on
        found += mine if on is not node.condition else []
    return found, replace(node, left=left, right=right, condition=on)
