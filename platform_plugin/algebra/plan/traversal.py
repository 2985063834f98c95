"""Functions that return changed copies of plans and expressions, and that list the columns and aliases in them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from platform_plugin.algebra.plan.nodes import (
    Aggregate,
    Column,
    Derived,
    Distinct,
    Filter,
    Generate,
    Item,
    Join,
    Limit,
    LiteralRows,
    Node,
    Project,
    Query,
    Scalar,
    Scan,
    SetOperation,
    Sort,
    Window,
    walk,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


def column_node(column: Column) -> exp.Column:
    """A column as a node of sqlglot."""
    return exp.Column(this=exp.to_identifier(column.name, quoted=True), table=exp.to_identifier(column.alias, quoted=True))


def column_of(node: exp.Expr) -> Column | None:
    """The column that a node of sqlglot stands for, or None."""
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier) and node.args.get("table") is not None:
        return Column(node.table, node.name)
    return None


def column_reference(alias: str, name: str) -> Scalar:
    """A column as an expression of a plan, by its source's alias and its name."""
    return Scalar(column_node(Column(alias, name)))


def map_nodes(root: exp.Expr, change: Callable[[exp.Expr], exp.Expr | None]) -> exp.Expr:
    """A copy in which each node is replaced for which `change` has a replacement; what stands inside a replaced node is not visited."""

    def visit(node: exp.Expr) -> exp.Expr:
        found = change(node)
        if found is not None:
            return found.copy()
        for key, value in list(node.args.items()):
            if isinstance(value, exp.Expr):
                node.set(key, visit(value))
            elif isinstance(value, list):
                node.set(key, [visit(item) if isinstance(item, exp.Expr) else item for item in value])
        return node

    return visit(root.copy())


def walk_expression(root: exp.Expr, *, below: Callable[[exp.Expr], bool] = lambda _: True) -> Iterator[exp.Expr]:
    """A node and the nodes in it, parents first; nodes inside one for which `below` is false are left out."""
    stack = [root]
    while stack:
        node = stack.pop()
        yield node
        if below(node):
            for value in reversed(list(node.args.values())):
                stack.extend(item for item in (reversed(value) if isinstance(value, list) else (value,)) if isinstance(item, exp.Expr))


def map_scalars(node: Any, change: Callable[[Scalar], Scalar]) -> Any:
    """A copy of a node with its own expressions changed; what is below it stays as it is."""

    def items(found: tuple[Item, ...]) -> tuple[Item, ...]:
        return tuple(replace(item, value=change(item.value)) for item in found)

    match node:
        case Filter(condition=condition):
            return replace(node, condition=change(condition))
        case Join(condition=on):
            return node if on is None else replace(node, condition=change(on))
        case Generate(call=call):
            return replace(node, call=change(call))
        case Project() | Window():
            return replace(node, items=items(node.items))
        case Aggregate():
            return replace(node, keys=items(node.keys), calls=items(node.calls))
        case Sort(keys=by):
            return replace(node, keys=tuple(replace(key, value=change(key.value)) for key in by))
        case Limit(count=count, offset=offset):
            return replace(node, count=count and change(count), offset=offset and change(offset))
        case LiteralRows(rows=rows):
            return replace(node, rows=tuple(tuple(change(value) for value in row) for row in rows))
        case _:
            return node


def map_inputs(node: Any, change: Callable[[Any], Any]) -> Any:
    """A copy of a node over changed inputs; the plans of its sub-queries are changed too."""

    def inside(value: Scalar) -> Scalar:
        return Scalar(value.node, tuple(change(plan) for plan in value.plans)) if value.plans else value

    node = map_scalars(node, inside)
    match node:
        case Derived() | Distinct() | Sort() | Limit():
            return replace(node, query=change(node.query))
        case Filter() | Generate() | Project() | Window() | Aggregate():
            return replace(node, source=change(node.source))
        case Join() | SetOperation():
            return replace(node, left=change(node.left), right=change(node.right))
        case _:
            return node


def map_columns(value: Scalar, change: Callable[[Column], Scalar | None]) -> Scalar:
    """The expression with columns replaced by expressions, in its sub-queries too."""
    plans = [map_columns_below(plan, change) for plan in value.plans]

    def visit(node: exp.Expr) -> exp.Expr | None:
        column = column_of(node)
        found = None if column is None else change(column)
        return None if found is None else absorb_plans(found, plans)

    return Scalar(map_nodes(value.node, visit), tuple(plans))


def map_columns_below(node: Any, change: Callable[[Column], Scalar | None]) -> Any:
    """The node with columns replaced by expressions, wherever it and the nodes below it mention them."""
    inner = map_inputs(node, lambda below: map_columns_below(below, change))

    def flat(value: Scalar) -> Scalar:
        plans = list(value.plans)

        def visit(found: exp.Expr) -> exp.Expr | None:
            column = column_of(found)
            new = None if column is None else change(column)
            return None if new is None else absorb_plans(new, plans)

        return Scalar(map_nodes(value.node, visit), tuple(plans))

    return map_scalars(inner, flat)


def absorb_plans(value: Scalar, plans: list[Query]) -> exp.Expr:
    """The tree of an expression that is to be put into another one; its plans are appended to `plans`, the other's list."""
    if not value.plans:
        return value.node
    shift = len(plans)
    plans.extend(value.plans)
    return map_nodes(value.node, lambda node: exp.Placeholder(this=str(int(node.name) + shift)) if is_plan(node) else None)


def is_plan(node: exp.Expr) -> bool:
    """Whether a node stands for a sub-query's plan."""
    return isinstance(node, exp.Placeholder)


def rename_aliases(node: Any, names: Mapping[str, str]) -> Any:
    """A copy with other aliases of sources, in all columns too."""
    moved = map_columns_below(node, lambda column: column_reference(names[column.alias], column.name) if column.alias in names else None)
    return _rename(moved, names)


def _rename(node: Any, names: Mapping[str, str]) -> Any:
    inner = map_inputs(node, lambda below: _rename(below, names))
    return replace(inner, alias=names.get(inner.alias, inner.alias)) if isinstance(inner, (Scan, LiteralRows, Derived, Generate)) else inner


def number_aliases(node: Node) -> Any:
    """A copy whose aliases are numbered, so that two plans that differ only in aliases are equal."""
    aliases = [found.alias for found in walk(node) if isinstance(found, (Scan, LiteralRows, Derived, Generate))]
    return rename_aliases(node, {alias: f"r{number}" for number, alias in enumerate(dict.fromkeys(aliases))})


def columns_in(node: Node | Scalar) -> set[Column]:
    """Every column that a plan or an expression mentions, in sub-queries too."""
    if isinstance(node, Scalar):
        found = {column for inner in walk_expression(node.node) if (column := column_of(inner)) is not None}
        return found.union(*(columns_in(plan) for plan in node.plans))
    return set().union(*(_own_columns(below) for below in walk(node)))


def _own_columns(node: Node) -> set[Column]:
    from platform_plugin.algebra.plan.nodes import scalars

    return {column for value in scalars(node) for inner in walk_expression(value.node) if (column := column_of(inner)) is not None}


def aliases_in(node: Node) -> set[str]:
    """The aliases of all sources in a plan."""
    return {found.alias for found in walk(node) if isinstance(found, (Scan, LiteralRows, Derived, Generate))}
