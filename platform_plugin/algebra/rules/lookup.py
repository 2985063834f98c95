"""`FindLookup`: a query for some columns of one relation under plain conditions, which needs no engine."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from platform_plugin.algebra.plan.filters import filter_conditions, split_filters
from platform_plugin.algebra.plan.nodes import Limit, Project, Scan
from platform_plugin.algebra.plan.traversal import column_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from platform_plugin.algebra.plan.nodes import Query
    from platform_plugin.algebra.rules.rule import Phase, PlannedQuery, RuleFacts


@dataclass(frozen=True, slots=True)
class LookupCondition:
    """`column op value`; for `in` the value is a tuple, for `null` and `not null` there is none. A value is a constant of the text."""

    column: str
    op: str
    value: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """A relation of a plan, the columns to read with their output names, the conditions and the limit."""

    relation: str
    columns: tuple[tuple[str, str], ...]
    conditions: tuple[LookupCondition, ...] = ()
    limit: int | None = None


_OPERATORS = {"EQ": "=", "NEQ": "!=", "LT": "<", "LTE": "<=", "GT": ">", "GTE": ">="}


class _NoLookup(Exception):
    """Something in a query that is no part of a look-up."""


class FindLookup:
    """Columns of one small relation under plain comparisons are answered without Spark; what Spark might read otherwise is not."""

    name = "lookup"
    phase: Phase = "names"

    def apply(self, query: PlannedQuery, facts: RuleFacts) -> PlannedQuery | None:
        """Recognise a projection of columns over plain comparisons of one relation."""
        if facts.has_hints:
            return None
        try:
            return replace(query, lookup=_read(query))
        except _NoLookup:
            return None


def _read(query: PlannedQuery) -> Lookup:
    plan: Query = query.plan
    if isinstance(plan, Limit):
        if query.limit is None:
            raise _NoLookup
        plan = plan.query
    if not isinstance(plan, Project):
        raise _NoLookup
    source, filters = split_filters(plan.source)
    if not isinstance(source, Scan):
        raise _NoLookup
    conditions = [condition for part in filter_conditions(filters) for condition in _conditions(part.node)]
    columns = tuple((_column(item.value.node), item.name) for item in plan.items)
    limit = None if query.limit is None else query.limit.rows
    return Lookup(relation=source.relation[-1], columns=columns, conditions=tuple(conditions), limit=limit)


def _column(node: exp.Expr) -> str:
    column = column_of(node)
    if column is None:
        raise _NoLookup
    return column.name


def _conditions(node: exp.Expr) -> Iterator[LookupCondition]:
    match node:
        case exp.EQ() | exp.NEQ() | exp.LT() | exp.LTE() | exp.GT() | exp.GTE():
            yield LookupCondition(_column(node.this), _OPERATORS[type(node).__name__], _value(node.expression))
        case exp.Between() if not node.args.get("symmetric"):
            column = _column(node.this)
            yield LookupCondition(column, ">=", _value(node.args["low"]))
            yield LookupCondition(column, "<=", _value(node.args["high"]))
        case exp.In() if node.expressions and not any(value for name, value in node.args.items() if name not in ("this", "expressions")):
            yield LookupCondition(_column(node.this), "in", tuple(_value(item) for item in node.expressions))
        case exp.Is() if isinstance(node.expression, exp.Null):
            yield LookupCondition(_column(node.this), "null")
        case exp.Not() if isinstance(node.this, exp.Is) and isinstance(node.this.expression, exp.Null):
            yield LookupCondition(_column(node.this.this), "not null")
        case _:
            raise _NoLookup


def _value(node: exp.Expr) -> exp.Expr:
    leaf = node.this if isinstance(node, exp.Neg) else node
    if isinstance(leaf, (exp.Literal, exp.Boolean)) or (isinstance(leaf, exp.Var) and "parameter" in leaf.meta):
        return node
    raise _NoLookup
