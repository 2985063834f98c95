"""Predicates for pruning: the conjuncts of a WHERE that compare one column with constants."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, tzinfo
from decimal import Decimal
from typing import TYPE_CHECKING

from sqlglot import exp

from platform_plugin.algebra.plan.predicates import Comparison, IsNotNull, IsNull, OneOf, Operator, Predicate
from platform_plugin.language.text.leaves import read_constant
from platform_plugin.language.text.values import Literal, Parameter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from platform_plugin.language.query.scopes import Node
    from platform_plugin.language.text.values import Cell

_OPERATORS: dict[type[exp.Expr], Operator] = {
    exp.EQ: "=",
    exp.NullSafeEQ: "=",
    exp.NEQ: "!=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_PLAIN = (bool, int, float, Decimal, str, date)
_FLIPPED: dict[Operator, Operator] = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def read_predicates(conditions: Iterable[Node], column_of: Callable[[Node], str | None]) -> Iterator[Predicate]:
    """The predicates that every row must meet; `column_of` gives the relation's column that a node stands for, or None."""
    for node in conditions:
        match node:
            case exp.Between():
                column, low, high = column_of(node.this), read_constant(node.args["low"]), read_constant(node.args["high"])
                if column and not node.args.get("symmetric"):
                    if low is not None and not _null(low):
                        yield Comparison(column, ">=", low)
                    if high is not None and not _null(high):
                        yield Comparison(column, "<=", high)
            case exp.In() if node.expressions and not any(node.args.get(key) for key in ("query", "unnest", "field")):
                column = column_of(node.this)
                values = [read_constant(item) for item in node.expressions]
                if column and all(value is not None for value in values):
                    # NULL among the items never makes IN true.
                    yield OneOf(column, tuple(value for value in values if value is not None and not _null(value)))
            case exp.Is() if isinstance(node.expression, exp.Null):
                column = column_of(node.this)
                if column:
                    yield IsNull(column)
            case exp.Not() if isinstance(node.this, exp.Is) and isinstance(node.this.expression, exp.Null):
                column = column_of(node.this.this)
                if column:
                    yield IsNotNull(column)
            case _ if type(node) in _OPERATORS:
                yield from _comparison(node, _OPERATORS[type(node)], column_of)
            case _:
                pass


def _comparison(node: Node, operator: Operator, column_of: Callable[[Node], str | None]) -> Iterator[Predicate]:
    column, value = column_of(node.this), read_constant(node.args["expression"])
    if column is None:
        column, value = column_of(node.args["expression"]), read_constant(node.this)
        operator = _FLIPPED.get(operator, operator)
    # A bound NULL makes `<=>` true for NULLs, and then `=` would be wrong; only literals are safe there.
    safe = not isinstance(node, exp.NullSafeEQ) or isinstance(value, Literal)
    if column and value is not None and not _null(value) and safe:
        yield Comparison(column, operator, value)


def _null(value: Cell) -> bool:
    return isinstance(value, Literal) and value.kind in ("null", "default")


def bind_predicates(
    predicates: Iterable[Predicate], arguments: Mapping[str, object] | Sequence[object] = (), zone: tzinfo = UTC
) -> tuple[Predicate, ...]:
    """The predicates with Python values bound; those that can't be bound are left out.

    Integers, decimals, floats, strings, booleans, dates and datetimes; timestamps without a zone get `zone`.
    """
    bound = (_bind(predicate, arguments, zone) for predicate in predicates)
    return tuple(predicate for predicate in bound if predicate is not None)


def _bind(predicate: Predicate, arguments: Mapping[str, object] | Sequence[object], zone: tzinfo) -> Predicate | None:
    match predicate:
        case Comparison(value=value):
            plain = _plain(value, arguments, zone)
            return None if plain is None else replace(predicate, value=plain)
        case OneOf(values=values):
            plains = tuple(_plain(value, arguments, zone) for value in values)
            return None if any(plain is None for plain in plains) else replace(predicate, values=plains)
        case IsNull() | IsNotNull():
            return predicate


def _plain(value: object, arguments: Mapping[str, object] | Sequence[object], zone: tzinfo) -> object:
    match value:
        case Parameter(name=str(name)) if not isinstance(arguments, (list, tuple)):
            found: object = arguments.get(name)  # type: ignore[union-attr]
        case Parameter(index=int(index)) if isinstance(arguments, (list, tuple)):
            found = arguments[index] if index < len(arguments) else None
        case Literal(kind="timestamp", value=datetime() as moment):
            found = moment if moment.tzinfo else moment.replace(tzinfo=zone)
        case Literal(value=inner):
            found = inner
        case _:
            found = None
    # NaN compares unlike any statistics say, so it prunes nothing.
    return found if isinstance(found, _PLAIN) and found == found else None  # noqa: PLR0124
