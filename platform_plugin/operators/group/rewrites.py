"""Hints for refused views: what to write instead, with the same rows, or with "not the same" and the difference."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from platform_plugin.algebra.functions import CLOCKS, DICE
from platform_plugin.algebra.plan.names import output_name
from platform_plugin.algebra.plan.nodes import Scan, scalars, scans
from platform_plugin.algebra.plan.traversal import columns_in, is_plan, walk_expression

if TYPE_CHECKING:
    from platform_plugin.algebra.plan.nodes import Join, Node, Query, Scalar, SetOperation

COUNTED = "count for its rows: count(*) is coalesce(sum(n), 0), sum(x) is sum(x * n)"
"""How aggregates over rows are written over groups."""
NOT_ROWS = "not the same: it gives groups, not rows"


def user_name(scan: Scan) -> str:
    """A relation's name as the user would write it."""
    return scan.relation[-1]


def find_join_columns(node: Join, stream: Scan) -> str:
    """The columns of a stream that a join compares."""
    mentioned = columns_in(node.condition) if node.condition is not None else set()
    return ", ".join(sorted({column.name for column in mentioned if column.alias == stream.alias})) or "key"


def advise_joined_groups(node: Join, left: Scan, right: Scan, *, grouped: bool) -> str:
    """The hint for a join of two streams, or of one with itself."""
    x, y = find_join_columns(node, left), find_join_columns(node, right)
    both = "ON …" if "," in x + y else f"USING ({x})" if x == y else f"ON a.{x} = b.{y}"
    one = f"(SELECT {x}, count(*) AS n FROM {user_name(left)} GROUP BY {x})"
    if node.kind in ("semi", "anti"):
        joined = f"{one} AS a LEFT {node.kind.upper()} JOIN (SELECT {y} FROM {user_name(right)} GROUP BY {y}) AS b {both}"
        pairs, weight = "a group", "n"
    else:
        words = {"inner": "", "cross": ""}.get(node.kind, f"{node.kind.upper()} ")
        joined = f"{one} AS a {words}JOIN (SELECT {y}, count(*) AS m FROM {user_name(right)} GROUP BY {y}) AS b {both}"
        n, m = (
            f"coalesce({name}, 1)" if node.kind in kinds else name for name, kinds in (("n", ("right", "full")), ("m", ("left", "full")))
        )
        pairs, weight = "a pair of groups", f"{n} * {m}"
    if not grouped:
        return f"join groups: {joined}; not the same: {pairs} comes once, for {weight} rows"
    return (
        f"join groups: {joined}; group each side by every column that is used, and let {pairs} count for its rows: "
        f"count(*) is coalesce(sum({weight}), 0), sum(x) is sum(x * {weight})"
    )


def advise_grouping_first(stream: str, then: str) -> str:
    """The hint for a stream beside another relation that changes."""
    return f"group {stream} first, by every column that is used and with count(*) AS n, {then}, and let each group {COUNTED}"


def advise_kept_side(node: Join, scan: Scan, other: Node, *, grouped: bool) -> str:
    """The hint for a join that keeps rows without a match in the stream."""
    stream, key = user_name(scan), find_join_columns(node, scan)
    table = next((user_name(found) for found in scans(other)), "the table")
    if node.lateral:
        words, weight = ("LEFT JOIN", "sum(coalesce(n, 1))") if node.kind == "left" else ("JOIN", "coalesce(sum(n), 0)")
        return f"group {stream} by the columns that are compared, with count(*) AS n, in FROM, and {words} the groups: count(*) is {weight}"
    if node.kind in ("semi", "anti"):
        return f"write {table} LEFT {node.kind.upper()} JOIN (SELECT {key} FROM {stream} GROUP BY {key}) AS g ON … = g.{key}"
    word = "FULL" if node.kind == "full" else "LEFT"
    written = f"write {table} {word} JOIN (SELECT {key}, count(*) AS n FROM {stream} GROUP BY {key}) AS g ON … = g.{key}"
    if not grouped:
        return f"{written}; not the same: each group comes once, for n rows"
    return (
        f"{written}, and group above as before: count(*) is sum(coalesce(n, 1)), "
        f"count({key}) is coalesce(sum(n) FILTER (WHERE g.{key} IS NOT NULL), 0)"
    )


def advise_different_sides(node: SetOperation, stream: str) -> str:
    """The hint for INTERSECT ALL or EXCEPT ALL of a stream's rows."""
    word = node.kind.upper()
    return f"leave out ALL: SELECT … FROM {stream} {word} SELECT …; not the same: equal rows come once"


def advise_grouped_subquery(found: Node, plan: Query, stream: Scan, column: str) -> str:
    """The hint for a sub-query that reads rows of a stream."""
    name = user_name(stream)
    own = {inner.alias for inner in _sources(plan)}
    outer = {used for used in columns_in(plan) if used.alias not in own}
    if outer:
        used = sorted({inner.name for inner in columns_in(plan) if inner.alias == stream.alias})
        keys = ", ".join(used) or "key"
        return (
            f"join with the groups: LEFT SEMI JOIN (SELECT {keys} FROM {name} GROUP BY {keys}) AS g ON …, or LEFT ANTI JOIN for NOT EXISTS"
        )
    if _is_scalar(found, plan):
        return f"write an aggregate in it: (SELECT max({column}) FROM {name}), the same where it gives one row"
    return f"write DISTINCT in it, which changes nothing for IN and EXISTS: (SELECT DISTINCT {column} FROM {name})"


def _sources(plan: Query) -> list[Scan]:
    return list(scans(plan))


def _is_scalar(found: Node, plan: Query) -> bool:
    for value in scalars(found):
        for node in walk_expression(value.node):
            if is_plan(node) and value.plans[int(node.name)] is plan:
                return not isinstance(node.parent, (exp.In, exp.Exists))
    return False


def advise_call_above(name: str, value: Scalar) -> str:
    """The hint for a volatile function below a grouping."""
    if name in DICE or name.startswith("input_file"):
        return (
            f"store its value as a column of the stream; or use {name}() above the GROUP BY, "
            "not the same: it is asked for each group, not for each row"
        )
    keys = ", ".join(sorted({column.name for column in columns_in(value)}))
    if not keys:
        return f"leave it out of the grouping and use it above: SELECT {name}(), n FROM (SELECT count(*) AS n FROM …) WHERE n > 0"
    above = (
        f"put {keys} into GROUP BY, and use {name}() above: SELECT … FROM (SELECT {keys}, count(*) AS n FROM … GROUP BY {keys}) WHERE …, "
        f"where each group shall {COUNTED}"
    )
    if name in CLOCKS and "date" not in name and "," not in keys:
        above += f". With date_trunc('HOUR', {keys}) in its place less is kept, not the same: it is right to the hour"
    return above


def advise_sessions(call: exp.Anonymous) -> str:
    """The hint for a session window that is not a key of its own."""
    written = output_name(call)
    return f"write GROUP BY {written} where it is computed: SELECT {written} AS w, … FROM … GROUP BY {written}, …"


def advise_grouped_rows(name: str, column: str) -> str:
    """The hint for a stream that has no grouping above it."""
    return (
        f"read the rows with a plain SELECT, or in a view without CONTINUOUS; "
        f"or group them: SELECT {column}, count(*) AS n FROM {name} GROUP BY {column}, {NOT_ROWS}"
    )
