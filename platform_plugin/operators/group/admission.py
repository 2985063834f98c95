"""The rules that a continuous view's query must keep, and the error for a query that breaks one."""

from __future__ import annotations

from dataclasses import dataclass
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
    Project,
    Scan,
    SetOperation,
    Sort,
    Window,
    inputs,
    outputs,
    scalars,
    scans,
    subqueries,
    walk,
)
from platform_plugin.algebra.plan.traversal import walk_expression
from platform_plugin.algebra.sessions import SESSION_WINDOW, is_session
from platform_plugin.algebra.volatility import volatile_name
from platform_plugin.errors import RefusedView
from platform_plugin.language.text.places import Span, locate_offset
from platform_plugin.operators.group.rewrites import (
    NOT_ROWS,
    advise_call_above,
    advise_different_sides,
    advise_grouped_rows,
    advise_grouped_subquery,
    advise_grouping_first,
    advise_joined_groups,
    advise_kept_side,
    advise_sessions,
)

if TYPE_CHECKING:
    from platform_plugin.algebra.plan.nodes import Item, Node, Place, Query, Scalar

RULES = {
    "R1": "a stream is grouped before anything that would have to keep its rows",
    "R2": "between a stream and its grouping stand only filters, projections and look-ups",
    "R3": "a stream is joined with what else changes only after it is grouped",
    "R4": "in a join below the grouping all rows of the result come from the stream's rows",
    "R7": "ORDER BY … LIMIT stands only above the grouping",
    "R9": "a continuous view groups the rows of a stream",
    "R10": "the text of a view is fixed",
    "H1": "what is stored does not depend on when it was stored",
    "A1": "every aggregate over a stream has parts that merge",
}
"""The rules by name. R5, R6 and R8 refuse nothing: tables may do anything among themselves, and ORDER BY without LIMIT is dropped."""

CHANGING = ("stream", "continuous", "sample")


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuser:
    """Makes the errors of one view, with places in its text."""

    source: str

    def __call__(self, rule: str, operator: str, message: str, place: Place | None, hint: str) -> RefusedView:
        """The error, ready to raise."""
        error = RefusedView(message, detail=f"rule {rule}: {RULES[rule]}", hint=hint)
        error.rule, error.operator = rule, operator
        start, end = place or (0, 0)
        return locate_offset(Span(self.source, start, end)).attach(error)


def find_ungrouped_streams(node: Node) -> tuple[Scan, ...]:
    """The streams in a plan that have no grouping above them."""
    if isinstance(node, Scan):
        return (node,) if node.kind == "stream" else ()
    if isinstance(node, (Aggregate, Distinct)) or (isinstance(node, SetOperation) and not node.all and node.kind == "union"):
        return ()
    return tuple(found for below in (*inputs(node), *subqueries(node)) for found in find_ungrouped_streams(below))


def groups_streams(query: Query) -> bool:
    """Whether a query groups rows of streams anywhere: by GROUP BY or an aggregate, by DISTINCT, or by UNION without ALL."""
    return any(
        (isinstance(found, (Aggregate, Distinct)) or (isinstance(found, SetOperation) and found.kind == "union" and not found.all))
        and any(find_ungrouped_streams(below) for below in inputs(found))
        for found in walk(query)
    )


def find_changing_relations(node: Node) -> tuple[Scan, ...]:
    """The relations in a plan that change by themselves: streams, continuous views, samples and states."""
    return tuple(found for found in scans(node) if found.kind in (*CHANGING, "state"))


def name_of(scan: Scan) -> str:
    """A relation's name as the user would write it."""
    return scan.relation[-1]


def check_below(node: Node, grouping: str, refuse: Refuser) -> None:
    """Refuse operators that may not stand between a stream and the grouping above it."""
    stream = next((name_of(found) for found in find_ungrouped_streams(node)), "…")
    for found in walk(node):
        if not isinstance(found, (Scan,)):
            _check_settled(found, stream, refuse)
    _check(node, grouping, refuse)


def _check(node: Node, grouping: str, refuse: Refuser) -> None:
    streams = find_ungrouped_streams(node)
    if not streams:
        return
    stream = name_of(streams[0])
    for plan in subqueries(node):
        if others := (find_ungrouped_streams(plan) or find_changing_relations(plan)):
            raise refuse(
                "R3",
                "sub-query",
                f'a condition on stream "{stream}" looks into "{_what(others[0])}", which changes',
                others[0].at,
                advise_grouping_first(stream, "compare in a query around that")
                + (f"; and read SELECT DISTINCT … FROM {_what(others[0])} there" if find_ungrouped_streams(plan) else ""),
            )
    match node:
        case Join():
            _check_join(node, stream, refuse)
        case Window():
            raise refuse(
                "R2",
                "window",
                f'a window looks at rows of stream "{stream}" before they are grouped',
                node.at,
                f"group first, and let the window look at the groups: SELECT …, rank() OVER (ORDER BY n) FROM (SELECT …, count(*) AS n "
                f"FROM {stream} GROUP BY …), {NOT_ROWS}",
            )
        case Limit(query=Sort()):
            raise refuse(
                "R7",
                "ORDER BY … LIMIT",
                f'ORDER BY … LIMIT picks rows of stream "{stream}" before they are grouped',
                node.query.at if isinstance(node.query, Sort) else node.at,
                f"use max_by(value, key) for the value of the greatest key; or put it after the GROUP BY, {NOT_ROWS}",
            )
        case Limit():
            raise refuse(
                "R7",
                "LIMIT",
                f'LIMIT picks rows of stream "{stream}" before they are grouped',
                node.at,
                f"put it after the GROUP BY, {NOT_ROWS}",
            )
        case SetOperation(kind="intersect" | "except"):
            word = f"{node.kind.upper()} ALL"
            raise refuse(
                "R2",
                word,
                f'{word} would have to keep the rows of stream "{stream}"',
                node.at,
                advise_different_sides(node, stream),
            )
        case SetOperation():
            _check_union(node, stream, refuse)
        case Filter() | Generate() | Project() | Derived() | Sort() | Scan():
            pass
        case _:
            raise refuse("R2", type(node).__name__.lower(), f'stream "{stream}" is not grouped', streams[0].at, "group it first")
    for below in inputs(node):
        _check(below, grouping, refuse)


def _what(scan: Scan) -> str:
    return "the groups of another stream" if scan.kind == "state" else name_of(scan)


def _check_union(node: SetOperation, stream: str, refuse: Refuser) -> None:
    for side in (node.left, node.right):
        if not find_ungrouped_streams(side) and (others := find_changing_relations(side)):
            raise refuse(
                "R3",
                "UNION ALL",
                f'rows of stream "{stream}" are put together with groups',
                others[0].at,
                advise_grouping_first(stream, "put the groups together with the others, which have 1 AS n"),
            )


def _check_join(node: Join, stream: str, refuse: Refuser, *, grouped: bool = True) -> None:
    left, right = find_ungrouped_streams(node.left), find_ungrouped_streams(node.right)
    if left and right:
        a, b = name_of(left[0]), name_of(right[0])
        message = f'streams "{a}" and "{b}" are joined, but stream "{a}" must be grouped first, and so must "{b}"'
        if a == b:
            message = f'stream "{a}" is joined with itself, but it must be grouped first, on both sides'
        raise refuse("R3", "join", message, node.at, advise_joined_groups(node, left[0], right[0], grouped=grouped))
    other = node.right if left else node.left
    if others := find_changing_relations(other):
        kept = advise_grouping_first(stream, "join the groups")
        raise refuse(
            "R3",
            "join",
            f'stream "{stream}" is joined with "{_what(others[0])}", which changes too, before it is grouped',
            node.at,
            kept if grouped else f"make the groups a view of their own, and join that; or group {stream} first, {NOT_ROWS}",
        )
    kept_kinds = ("inner", "cross", "left", "semi", "anti") if left else ("inner", "cross", "right")
    if node.kind not in kept_kinds or (right and node.lateral):
        _refuse_side(node, (left or right)[0], other, refuse, grouped=grouped)


def _refuse_side(node: Join, scan: Scan, other: Node, refuse: Refuser, *, grouped: bool) -> None:
    table = next((name_of(found) for found in scans(other)), "the table")
    words = "LATERAL" if node.lateral else {"semi": "LEFT SEMI", "anti": "LEFT ANTI"}.get(node.kind, node.kind.upper())
    side = "right" if other is node.right else "left"
    message = f'{words} JOIN keeps rows of "{table}", on its {side}, for which stream "{name_of(scan)}" has no row yet'
    raise refuse("R4", f"{words} JOIN", message, node.at, advise_kept_side(node, scan, other, grouped=grouped))


def _check_settled(node: Node, stream: str, refuse: Refuser) -> None:
    for value in scalars(node):
        for call in walk_expression(value.node):
            if isinstance(call, exp.Anonymous) and is_session(call):
                message = f'session_window looks at rows of stream "{stream}" before they are grouped by it'
                raise refuse("R2", SESSION_WINDOW, message, _place(call, value), advise_sessions(call))
            name = volatile_name(call)
            if name is not None:
                raise refuse(
                    "H1",
                    name,
                    f"{name} is asked before the grouping, so stored groups would keep old answers",
                    _place(call, value),
                    advise_call_above(name, value),
                )


def refuse_session_sets(node: Aggregate, session: Item, refuse: Refuser) -> None:
    """Refuse sessions of several groupings at once, which are different ones for each of them."""
    if node.sets is not None:
        call = session.value.node
        hint = "write a query with GROUP BY for each set, and UNION ALL between them"
        raise refuse("R2", SESSION_WINDOW, "session_window in GROUPING SETS", _place(call, session.value), hint)


def _place(call: exp.Expr, value: Scalar) -> Place | None:
    found = [call.meta["at"]] if "at" in call.meta else [inner.meta["at"] for inner in walk_expression(value.node) if "at" in inner.meta]
    return min(found) if found else None


def is_volatile(query: Query) -> bool:
    """Whether a plan's answer depends on the time, on the user, or on chance."""
    return any(volatile_name(call) for found in walk(query) for value in scalars(found) for call in walk_expression(value.node))


def refuse_loose(query: Query, refuse: Refuser) -> None:
    """Refuse a query in which a stream has no grouping above it."""
    streams = find_ungrouped_streams(query)
    if not streams:
        return
    for found in walk(query):
        if isinstance(found, Join) and find_ungrouped_streams(found):
            _check_join(found, name_of(find_ungrouped_streams(found)[0]), refuse, grouped=False)
    for found in walk(query):
        for plan in subqueries(found):
            if inner := find_ungrouped_streams(plan):
                column = next((output.name for output in outputs(plan)), "key")
                raise refuse(
                    "R1",
                    "sub-query",
                    f'stream "{name_of(inner[0])}" must be grouped in the sub-query that reads it',
                    inner[0].at,
                    advise_grouped_subquery(found, plan, inner[0], column),
                )
    stream = streams[0]
    name = name_of(stream)
    whole = any(isinstance(found, Aggregate) or (isinstance(found, Scan) and found.kind == "state") for found in walk(query))
    rule, message = (
        ("R1", f'stream "{name}" must be grouped') if whole else ("R9", f'stream "{name}" must be grouped: a view keeps groups, not rows')
    )
    column = stream.fields[0].name if stream.fields else "key"
    raise refuse(rule, "stream", message, stream.at, advise_grouped_rows(name, column))
