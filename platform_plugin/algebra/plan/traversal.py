"""Functions that return changed copies of plans and expressions, and that list the columns and aliases in them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from platform_plugin.algebra.plan.nodes import (
    INPUT_FIELDS,
    Aggregate,
    Column,
    Derived,
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
    Sort,
    SortKey,
    Window,
    scalars,
    walk,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


def column_node(column: Column) -> exp.Column:
    """A column as a node of sqlglot."""
    return exp.Column(this=exp.Identifier(this=column.name, quoted=True), table=exp.Identifier(this=column.alias, quoted=True))


def column_of(node: exp.Expr) -> Column | None:
    """The column that a node of sqlglot stands for, or None."""
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier) and node.args.get("table") is not None:
        return Column(node.table, node.name)
    return None


def column_reference(alias: str, name: str) -> Scalar:
    """A column as an expression of a plan, by its source's alias and its name."""
    return Scalar(column_node(Column(alias, name)))


def copy_tree(node: exp.Expr) -> exp.Expr:
    """A copy of a tree. It costs a quarter of sqlglot's own, which looks for whatever a tree could have; ours have no comments."""
    copied = bare_copy(node)
    copied._hash = node._hash  # noqa: SLF001
    attach_children(copied, node, copy_tree)
    return copied


def bare_copy(node: exp.Expr) -> exp.Expr:
    """A node like this one, without arguments."""
    copied: exp.Expr = _new(node.__class__)
    copied.args = {}
    copied.parent = copied.arg_key = copied.index = copied.comments = copied._hash = None  # noqa: SLF001
    copied._type = node._type  # noqa: SLF001
    meta = node._meta  # noqa: SLF001
    copied._meta = None if meta is None else meta.__class__(meta)  # noqa: SLF001
    return copied


_new: Any = object.__new__


def bare_leaf(node: exp.Expr) -> exp.Expr:
    """A copy of a node without children."""
    copied = bare_copy(node)
    copied.args = dict(node.args)
    return copied


def attach_children(node: exp.Expr, like: exp.Expr, change: Callable[[exp.Expr], exp.Expr]) -> None:
    """Give a node the arguments of another one, with its children changed."""
    args = node.args
    for key, value in like.args.items():
        if isinstance(value, exp.Expr):
            child = change(value)
            child.parent, child.arg_key, child.index = node, key, None
            args[key] = child
        elif value.__class__ is list:
            children: list[Any] = []
            for item in value:
                if isinstance(item, exp.Expr):
                    child = change(item)
                    child.parent, child.arg_key, child.index = node, key, len(children)
                    children.append(child)
                else:
                    children.append(item)
            args[key] = children
        else:
            args[key] = value


def map_nodes(root: exp.Expr, change: Callable[[exp.Expr], exp.Expr | None], *, are_own: bool = False) -> exp.Expr:
    """A copy in which each node is replaced for which `change` has a replacement; what stands inside a replaced node is not visited.

    A replacement is copied too, unless all of them `are_own`, trees that nobody else has.
    """

    def visit(node: exp.Expr) -> exp.Expr:
        found = change(node)
        if found is not None:
            return found if are_own else copy_tree(found)
        copied = bare_copy(node)
        attach_children(copied, node, visit)
        return copied

    return visit(root)


def list_nodes(root: exp.Expr) -> list[exp.Expr]:
    """A node and the nodes in it, each before those in it."""
    found = [root]
    for node in found:
        for value in node.args.values():
            if isinstance(value, exp.Expr):
                found.append(value)
            elif value.__class__ is list:
                found += [item for item in value if isinstance(item, exp.Expr)]
    return found


def walk_expression(root: exp.Expr, *, below: Callable[[exp.Expr], bool] | None = None) -> Iterator[exp.Expr]:
    """A node and the nodes in it, parents first and in the order of the text; inside one for which `below` is false none are."""
    stack = [root]
    while stack:
        node = stack.pop()
        yield node
        if below is None or below(node):
            for value in reversed(node.args.values()):
                if isinstance(value, exp.Expr):
                    stack.append(value)
                elif value.__class__ is list:
                    stack += [item for item in reversed(value) if isinstance(item, exp.Expr)]


def map_scalars(node: Any, change: Callable[[Scalar], Scalar]) -> Any:
    """A node with its own expressions changed, and what is below it as it is; the node itself if no expression has changed."""

    def items(found: tuple[Item, ...]) -> tuple[Item, ...]:
        changed = [(item, change(item.value)) for item in found]
        if all(value is item.value for item, value in changed):
            return found
        return tuple([item if value is item.value else replace(item, value=value) for item, value in changed])

    def keys(found: tuple[SortKey, ...]) -> tuple[SortKey, ...]:
        changed = [(key, change(key.value)) for key in found]
        if all(value is key.value for key, value in changed):
            return found
        return tuple([replace(key, value=value) for key, value in changed])

    def rows(found: tuple[tuple[Scalar, ...], ...]) -> tuple[tuple[Scalar, ...], ...]:
        changed = tuple([tuple([change(value) for value in row]) for row in found])
        pairs = ((old, new) for row, other in zip(found, changed, strict=True) for old, new in zip(row, other, strict=True))
        return found if all(old is new for old, new in pairs) else changed

    def optional(found: Scalar | None) -> Scalar | None:
        return None if found is None else change(found)

    match node:
        case Filter():
            return _with(node, condition=change(node.condition))
        case Join():
            return _with(node, condition=optional(node.condition))
        case Generate():
            return _with(node, call=change(node.call))
        case Project() | Window():
            return _with(node, items=items(node.items))
        case Aggregate():
            return _with(node, keys=items(node.keys), calls=items(node.calls))
        case Sort():
            return _with(node, keys=keys(node.keys))
        case Limit():
            return _with(node, count=optional(node.count), offset=optional(node.offset))
        case LiteralRows():
            return _with(node, rows=rows(node.rows))
        case _:
            return node


def _with(node: Any, **values: Any) -> Any:
    """A node with other values; the node itself if they are the same."""
    return node if all(getattr(node, name) is value for name, value in values.items()) else replace(node, **values)


def map_inputs(node: Any, change: Callable[[Any], Any]) -> Any:
    """A node over changed inputs, with the plans of its sub-queries changed too; the node itself if nothing has changed."""

    def inside(value: Scalar) -> Scalar:
        if not value.plans:
            return value
        plans = tuple([change(plan) for plan in value.plans])
        return value if all(old is new for old, new in zip(value.plans, plans, strict=True)) else Scalar(value.node, plans)

    for value in scalars(node):
        if value.plans:
            node = map_scalars(node, inside)
            break
    changed = {}
    for name in INPUT_FIELDS[node.__class__]:
        old = getattr(node, name)
        new = change(old)
        if new is not old:
            changed[name] = new
    return replace(node, **changed) if changed else node


def map_columns(value: Scalar, change: Callable[[Column], Scalar | None]) -> Scalar:
    """The expression with columns replaced by expressions, in its sub-queries too."""
    plans = [map_columns_below(plan, change) for plan in value.plans]
    if not plans and all(change(column) is None for column in value.facts.columns):
        return value
    return _map_own_columns(value, plans, change)


def map_columns_below(node: Any, change: Callable[[Column], Scalar | None]) -> Any:
    """The node with columns replaced by expressions, wherever it and the nodes below it mention them."""
    inner = map_inputs(node, lambda below: map_columns_below(below, change))

    def flat(value: Scalar) -> Scalar:
        if all(change(column) is None for column in value.facts.columns):
            return value
        return _map_own_columns(value, list(value.plans), change)

    return map_scalars(inner, flat)


def _map_own_columns(value: Scalar, plans: list[Query], change: Callable[[Column], Scalar | None]) -> Scalar:
    def visit(node: exp.Expr) -> exp.Expr | None:
        column = column_of(node)
        found = None if column is None else change(column)
        return None if found is None else absorb_plans(found, plans)

    return Scalar(map_nodes(value.node, visit), tuple(plans))


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
        return set(node.facts.columns).union(*(columns_in(plan) for plan in node.plans))
    return set().union(*(value.facts.columns for below in walk(node) for value in scalars(below)))


def aliases_in(node: Node) -> set[str]:
    """The aliases of all sources in a plan."""
    return {found.alias for found in walk(node) if isinstance(found, (Scan, LiteralRows, Derived, Generate))}
