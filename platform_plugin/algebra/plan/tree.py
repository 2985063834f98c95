"""`draw_plan`: a plan as an indented tree of lines, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from platform_plugin.algebra.plan.nodes import (
    Aggregate,
    Derived,
    Distinct,
    Filter,
    Generate,
    Join,
    Limit,
    LiteralRows,
    Project,
    Scan,
    SetOperation,
    Single,
    Sort,
    Window,
    inputs,
    subqueries,
)
from platform_plugin.algebra.plan.render import sql_of
from platform_plugin.algebra.plan.traversal import is_plan, map_nodes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from platform_plugin.algebra.plan.nodes import Item, Node, Scalar


def draw_plan(node: Node) -> str:
    """The operators of a plan, each below the operator that it feeds.

    >>> from platform_plugin.algebra.plan.traversal import column_reference
    >>> from platform_plugin.algebra.plan.nodes import Item, Output, Project, Scan
    >>> scan = Scan(relation=("main", "posts"), kind="stream", alias="posts", fields=(Output(name="uid"),))
    >>> print(draw_plan(Project(source=scan, items=(Item(value=column_reference("posts", "uid"), name="uid"),))))
    project uid
    └─ scan stream main.posts
    """
    return "\n".join(_lines(node, "", ""))


def _lines(node: Node, first: str, rest: str) -> Iterator[str]:
    yield first + _title(node)
    below = [*inputs(node), *subqueries(node)]
    for number, inner in enumerate(below):
        last = number == len(below) - 1
        yield from _lines(inner, rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  "))


def _title(node: Node) -> str:
    match node:
        case Scan(relation=relation, kind=kind, alias=alias):
            return f"scan {kind} {'.'.join(relation)}" + (f" as {alias}" if alias != relation[-1] else "")
        case Single():
            return "one row"
        case LiteralRows(rows=rows, alias=alias):
            return f"{len(rows)} rows as {alias}"
        case Derived(alias=alias):
            return f"as {alias}"
        case Filter(condition=condition):
            return f"filter {_shown(condition)}"
        case Join(kind=kind, condition=condition, lateral=lateral):
            return f"{kind} join" + (" lateral" if lateral else "") + (f" on {_shown(condition)}" if condition else "")
        case Generate(call=call, alias=alias):
            return f"generate {_shown(call)} as {alias}"
        case Project(items=items):
            return f"project {_items(items)}"
        case Window(items=items):
            return f"window {_items(items)}"
        case Aggregate(keys=keys, calls=calls, sets=sets):
            by = f" by {_items(keys)}" if keys else ""
            some = f" in {len(sets)} grouping sets" if sets is not None else ""
            return f"group{by}{some}" + (f" into {_items(calls)}" if calls else "")
        case Distinct():
            return "distinct"
        case Sort(keys=by):
            return "sort by " + ", ".join(_shown(key.value) + (" desc" if key.descending else "") for key in by)
        case Limit(count=count, offset=offset):
            return "limit" + (f" {_shown(count)}" if count else "") + (f" after {_shown(offset)}" if offset else "")
        case SetOperation(kind=kind, all=every):
            return kind + (" all" if every else "")


def _shown(value: Scalar) -> str:
    """An expression, with … for the sub-queries that are drawn below."""
    return sql_of(map_nodes(value.node, lambda node: exp.Var(this="(…)") if is_plan(node) else None))


def _items(items: tuple[Item, ...]) -> str:
    return ", ".join(_item(item) for item in items)


def _item(item: Item) -> str:
    shown = _shown(item.value)
    return item.name if shown.split(".")[-1].strip("`") == item.name else f"{shown} as {item.name}"
