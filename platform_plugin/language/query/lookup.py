"""`plan_lookup`: a query that reads some columns of one relation under plain conditions, and so needs no engine.

A query that might mean something else to Spark is no lookup.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from platform_plugin.cache import Cache

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlglot import exp

    from platform_plugin.algebra.plan.predicates import Operator


@dataclass(frozen=True, slots=True)
class BoundValue:
    """A value that the caller binds, by its name or by its place among the question marks."""

    key: str | int


@dataclass(frozen=True, slots=True)
class LookupCondition:
    """`column op value`; for `in` the value is a tuple, for `null` and `not null` there is none."""

    column: str
    op: Operator | str
    value: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """A relation by the parts of its name, the columns to read with their output names (None for all), the conditions and the limit."""

    relation: tuple[str, ...]
    columns: tuple[tuple[str, str], ...] | None
    conditions: tuple[LookupCondition, ...] = ()
    limit: int | None = None
    staleness: str | BoundValue | None = None


# Where no quote comes before it, it stands in no string.
_STALE = re.compile(r"""^([^'"`]*)\bAT\s*\(\s*STALENESS\s*=>\s*(?:'([^'\\]*)'|:([A-Za-z_]\w*))\s*\)""", re.IGNORECASE)


_LOOKUPS: Cache[str, Lookup | None] = Cache("plans of lookups", weigh=lambda lookup: 0 if lookup is None else 3_000)


def plan_lookup(text: str) -> Lookup | None:
    """The lookup that a query is, or None if it needs an engine.

    >>> plan_lookup("SELECT uid, score AS s FROM impact WHERE uid = :uid LIMIT 2").conditions
    (LookupCondition(column='uid', op='=', value=BoundValue(key='uid')),)
    >>> plan_lookup("SELECT upper(name) FROM users") is None
    True
    """
    return _LOOKUPS.find(text, lambda: _plan_lookup(text))


def _plan_lookup(text: str) -> Lookup | None:
    # sqlglot is loaded with the first query, not with the package.
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    if len(text) > 10_000 or "--" in text or "/*" in text or "{" in text:
        return None
    stale = _STALE.match(text)
    if stale is not None:
        text = stale[1] + text[stale.end() :]
    try:
        tree = sqlglot.parse_one(text, read="spark")
    except (SqlglotError, RecursionError):
        return None
    if not isinstance(tree, exp.Select) or any(
        value for name, value in tree.args.items() if name not in ("expressions", "from_", "where", "limit", "kind", "hint") and value
    ):
        return None
    if tree.args.get("kind") or tree.args.get("hint"):
        return None
    try:
        found = _LookupReader(exp).read(tree)
    except _NoLookup:
        return None
    if stale is None:
        return found
    return replace(found, staleness=stale[2] if stale[3] is None else BoundValue(stale[3]))


class _NoLookup(Exception):
    """Something in a query that is no part of a lookup."""


class _LookupReader:
    def __init__(self, exp: Any) -> None:
        self.exp = exp
        self.marks = 0
        self.names: set[str] = set()

    def read(self, tree: exp.Select) -> Lookup:
        exp = self.exp
        source = tree.args.get("from_")
        table = source.this if source is not None else None
        if not isinstance(table, exp.Table) or {name for name, value in table.args.items() if value} - {"this", "db", "alias"}:
            raise _NoLookup
        if not all(isinstance(part, exp.Identifier) for part in table.parts):
            raise _NoLookup
        alias = table.args.get("alias")
        if alias is not None and alias.args.get("columns"):
            raise _NoLookup
        parts = tuple(part.name for part in table.parts)
        self.names = {(alias.name if alias is not None else parts[-1]).lower()}
        columns = self._columns(tree.expressions)
        where = tree.args.get("where")
        conditions = tuple(self._conditions(where.this)) if where is not None else ()
        limit = tree.args.get("limit")
        return Lookup(relation=parts, columns=columns, conditions=conditions, limit=None if limit is None else self._limit(limit))

    def _columns(self, items: list[Any]) -> tuple[tuple[str, str], ...] | None:
        exp = self.exp
        if len(items) == 1 and isinstance(items[0], exp.Star) and not any(items[0].args.values()):
            return None
        found = []
        for item in items:
            name = item.alias if isinstance(item, exp.Alias) else None
            column = self._column(item.this if isinstance(item, exp.Alias) else item)
            found.append((column, name or column))
        return tuple(found)

    def _column(self, node: Any) -> str:
        exp = self.exp
        if not isinstance(node, exp.Column) or not isinstance(node.this, exp.Identifier) or node.args.get("db"):
            raise _NoLookup
        if node.table and node.table.lower() not in self.names:
            raise _NoLookup
        return str(node.name)

    def _limit(self, node: Any) -> int:
        value = node.expression
        if not isinstance(value, self.exp.Literal) or value.is_string or not value.this.isdigit():
            raise _NoLookup
        return int(value.this)

    def _conditions(self, node: Any) -> Iterator[LookupCondition]:
        exp = self.exp
        match node:
            case exp.Paren():
                yield from self._conditions(node.this)
            case exp.And():
                yield from self._conditions(node.this)
                yield from self._conditions(node.expression)
            case exp.EQ() | exp.NEQ() | exp.LT() | exp.LTE() | exp.GT() | exp.GTE():
                yield LookupCondition(self._column(node.this), _OPERATORS[type(node).__name__], self._value(node.expression))
            case exp.Between():
                column = self._column(node.this)
                yield LookupCondition(column, ">=", self._value(node.args["low"]))
                yield LookupCondition(column, "<=", self._value(node.args["high"]))
            case exp.In() if node.expressions and not any(
                value for name, value in node.args.items() if name not in ("this", "expressions")
            ):
                column = self._column(node.this)
                yield LookupCondition(column, "in", tuple(self._value(item) for item in node.expressions))
            case exp.Is() if isinstance(node.expression, exp.Null):
                yield LookupCondition(self._column(node.this), "null")
            case exp.Not() if isinstance(node.this, exp.Is) and isinstance(node.this.expression, exp.Null):
                yield LookupCondition(self._column(node.this.this), "not null")
            case _:
                raise _NoLookup

    def _value(self, node: Any) -> Any:
        exp = self.exp
        match node:
            case exp.Placeholder():
                if isinstance(node.this, str) and node.this:
                    return BoundValue(node.this)
                self.marks += 1
                return BoundValue(self.marks - 1)
            case exp.Literal() if node.is_string:
                # Escapes are Spark's matter.
                if "\\" in node.this:
                    raise _NoLookup
                return str(node.this)
            case exp.Literal():
                return _number(str(node.this))
            case exp.Neg() if isinstance(node.this, exp.Literal) and not node.this.is_string:
                return -_number(str(node.this.this))
            case exp.Boolean():
                return bool(node.this)
            case exp.Cast() if isinstance(node.this, exp.Literal) and node.this.is_string and node.to.is_type("date"):
                try:
                    return date.fromisoformat(node.this.this)
                except ValueError:
                    raise _NoLookup from None
            case _:
                raise _NoLookup


_OPERATORS = {"EQ": "=", "NEQ": "!=", "LT": "<", "LTE": "<=", "GT": ">", "GTE": ">="}


def _number(text: str) -> int | Decimal:
    if text.isdigit():
        return int(text)
    # 1e3 is a double and 1L a bigint: Spark's matter too.
    if not text.replace(".", "", 1).isdigit():
        raise _NoLookup
    return Decimal(text)
