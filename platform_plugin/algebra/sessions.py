"""Session windows: the call, and the grouping by which the sessions of different rows that meet are joined.

A row's time and its gap are a stretch of time, and a session is what stretches that meet cover together. So the sessions of any parts of
the rows are stretches that make the same sessions again, whatever the parts are: those of a range, of one value of a DISTINCT, of one day.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from platform_plugin.algebra.plan.names import unique_name
from platform_plugin.algebra.plan.nodes import Derived, Item, Project, Scalar
from platform_plugin.algebra.plan.traversal import column_reference

if TYPE_CHECKING:
    from collections.abc import Sequence

    from platform_plugin.algebra.plan.nodes import Aggregate, Query

SESSION_WINDOW = "session_window"
"""The function that puts rows near to each other into one window, whatever their number."""
_MICROSECONDS = "1000000BD"
_INTERVAL = re.compile(r"INTERVAL\s+(\d+\s+[A-Z]+(\s+\d+\s+[A-Z]+)*)", re.IGNORECASE)


def is_session(node: exp.Expr) -> bool:
    """Whether an expression is a call of session_window."""
    return isinstance(node, exp.Anonymous) and str(node.this) == SESSION_WINDOW and len(node.expressions) == 2


def gap_text(node: exp.Expr) -> str | None:
    """The gap of a session that is written as an INTERVAL, as the text that Spark takes in its place; None for other gaps.

    >>> call = exp.Anonymous(
    ...     this="session_window", expressions=[exp.column("at"), exp.Literal(this="INTERVAL '5' MINUTE", is_string=False)]
    ... )
    >>> gap_text(call)
    "'5 MINUTE'"
    """
    gap = node.expressions[1] if is_session(node) else None
    if not isinstance(gap, exp.Literal):
        return None
    found = _INTERVAL.fullmatch(str(gap.this).replace("'", "").replace('"', ""))
    return None if found is None else f"'{found[1]}'"


def join_sessions(stored: exp.Expr) -> exp.Anonymous:
    """The call that joins stored sessions which meet: each lasts from its start for as long as it is.

    >>> join_sessions(exp.column("w")).sql("spark", normalize_functions=False)
    'session_window(w.start, make_interval(0, 0, 0, 0, 0, 0, timestampdiff(MICROSECOND, w.start, w.end) / 1000000BD))'
    """
    start, end = _part(stored, "start"), _part(stored, "end")
    # Spark takes no difference of two times as a gap, but an interval of the calendar, which here has seconds only.
    length = _call("timestampdiff", exp.Var(this="MICROSECOND"), start, end)
    seconds = exp.Div(this=length, expression=exp.Literal.number(_MICROSECONDS))
    return _call(SESSION_WINDOW, start, _call("make_interval", *(exp.Literal.number(0) for _ in range(6)), seconds))


def _part(stored: exp.Expr, name: str) -> exp.Dot:
    return exp.Dot(this=stored.copy(), expression=exp.to_identifier(name))


def _call(name: str, *arguments: exp.Expr) -> exp.Anonymous:
    return exp.Anonymous(this=name, expressions=[argument.copy() for argument in arguments])


def stored_session(node: exp.Expr) -> exp.Expr | None:
    """The stored sessions that a call joins; None for a call over rows."""
    first = node.expressions[0] if is_session(node) else None
    return first.this if isinstance(first, exp.Dot) and node == join_sessions(first.this) else None


def find_session(keys: Sequence[Item]) -> Item | None:
    """The key of a grouping that is a session window."""
    return next((key for key in keys if is_session(key.value.node)), None)


def stored_keys(keys: Sequence[Item], alias: str) -> tuple[Item, ...]:
    """The keys of a grouping as it groups stored rows, called `alias`: columns, and for a session what joins those that meet."""

    def stored(key: Item) -> Scalar:
        column = column_reference(alias, key.name)
        return Scalar(join_sessions(column.node)) if is_session(key.value.node) else column

    return tuple(replace(key, value=stored(key)) for key in keys)


def bound_sessions(query: Aggregate, alias: str) -> Query:
    """A grouping of stored sessions that gives each session as the first start and the last end of what it is made of.

    Without that a condition on its result could be moved below it, since a session is one of its keys, and would leave out stored sessions
    before they are joined.
    """
    session = find_session(query.keys)
    stored = None if session is None else stored_session(session.value.node)
    if session is None or stored is None:
        return query
    names = {item.name.lower() for item in (*query.keys, *query.calls)}
    bounds = [
        Item(value=Scalar(_call(name, _part(stored, part))), name=unique_name(f"session_{part}", names))
        for name, part in (("min", "start"), ("max", "end"))
    ]
    whole = replace(query, calls=(*query.calls, *bounds))
    ends = [column_reference(alias, item.name).node for item in bounds]
    words = [exp.Literal(this=f"'{part}'", is_string=False) for part in ("start", "end")]
    made = {session.name: Scalar(_call("named_struct", words[0], ends[0], words[1], ends[1]))}
    items = tuple(
        Item(value=made.get(item.name) or column_reference(alias, item.name), name=item.name, type=item.type)
        for item in (*query.keys, *query.calls)
    )
    return Project(source=Derived(query=whole, alias=alias), items=items, at=query.at)
