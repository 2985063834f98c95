"""`Formula`: a condition as AND and OR over tests of one column, before its parameters have values and its columns have types.

A formula has no NOT: what NOT stands before is read as what is true where it is false. `describe` makes a `Condition` of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING, Any, Literal

from platform_plugin.algebra.predicates.coercion import Threshold, coerce, coerce_list
from platform_plugin.algebra.predicates.conditions import ALWAYS, MAYBE, NEVER, Condition, comparison, within
from platform_plugin.algebra.predicates.patterns import match_domain
from platform_plugin.algebra.predicates.ranges import EVERYTHING, NOT_NULL, NOTHING, ONLY_NULL, Domain, above, below, between, points, union
from platform_plugin.algebra.types.data_types import Primitive

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from platform_plugin.algebra.types.data_types import DataType

Comparing = Literal["=", "<>", "<", "<=", ">", ">="]
Testing = Comparing | Literal["<=>", "not <=>", "in", "not in", "like", "not like", "is null", "is not null"]
Truth = Literal["is true", "is false", "is not true", "is not false"]


class Unbound(Enum):
    """The value of a constant that is not known yet; it may be NULL."""

    UNBOUND = "unbound"


UNBOUND = Unbound.UNBOUND


@dataclass(frozen=True, slots=True)
class ColumnTest:
    """A test of one column, by constants in whatever form the reader's caller gives them."""

    column: str
    operator: Testing | Truth
    constants: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class AllOf:
    """AND; of no formula it is true."""

    formulas: tuple[Formula, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """OR; of no formula it is never true."""

    formulas: tuple[Formula, ...]


@dataclass(frozen=True, slots=True)
class Opaque:
    """A condition that no tests of single columns can stand for."""


Formula = ColumnTest | AllOf | AnyOf | Opaque
TRUE = AllOf(())
FALSE = AnyOf(())


def describe(
    formula: Formula, type_of: Callable[[str], DataType | None], value_of: Callable[[Any], Any] = lambda value: value
) -> Condition:
    """The rows for which a formula is true.

    `type_of` gives a column's type, or None for a column of which nothing is to be said; `value_of` gives the Python value of a constant,
    None for NULL and `UNBOUND` where it is not known.

    >>> either = AnyOf((ColumnTest("x", "=", (1,)), ColumnTest("x", ">", (7.5,))))
    >>> str(describe(either, lambda column: Primitive("int32")))
    'x: {1}, (7.5, inf)'
    """
    match formula:
        case AllOf(formulas):
            return reduce(and_, (describe(one, type_of, value_of) for one in formulas), ALWAYS)
        case AnyOf(formulas):
            return reduce(or_, (describe(one, type_of, value_of) for one in formulas), NEVER)
        case Opaque():
            return MAYBE
        case ColumnTest(column, operator, constants):
            kind = type_of(column)
            if kind is None:
                return MAYBE
            domain, is_exact = _test(operator, [value_of(constant) for constant in constants], kind)
            condition = within(column, domain)
            return condition if is_exact else condition.inexact()


def _test(operator: Testing | Truth, values: Sequence[Any], kind: DataType) -> tuple[Domain, bool]:
    """The values of a column that pass a test, and whether that is exact."""
    match operator:
        case "is null":
            return ONLY_NULL, True
        case "is not null":
            return NOT_NULL, True
        case "is true" | "is false" | "is not true" | "is not false":
            return _truth(operator, kind)
        case "in" | "not in":
            return _membership(values, kind, negated=operator == "not in")
        case "like" | "not like":
            return _match(values[0], kind, negated=operator == "not like")
        case "<=>" | "not <=>":
            return _same(values[0], kind, negated=operator == "not <=>")
        case _:
            return _comparison(operator, values[0], kind)


def _truth(operator: Truth, kind: DataType) -> tuple[Domain, bool]:
    if kind != Primitive("boolean"):
        return EVERYTHING, False
    truth = operator in ("is true", "is not false")
    return points([truth], null=operator.startswith("is not")), True


def _threshold(value: Any, kind: DataType) -> Threshold | None:
    return None if value is UNBOUND else coerce(value, kind)


def _comparison(operator: Comparing, value: Any, kind: DataType) -> tuple[Domain, bool]:
    if value is None:
        return NOTHING, True
    threshold = _threshold(value, kind)
    if threshold is None or (operator == "<>" and not threshold.is_exact):
        return NOT_NULL, False
    if threshold.is_exact:
        return comparison(operator, threshold.low), True
    if operator == "=":
        return between(threshold.low, threshold.high), False
    return (below(threshold.high, closed=True) if operator in ("<", "<=") else above(threshold.low, closed=True)), False


def _same(value: Any, kind: DataType, *, negated: bool) -> tuple[Domain, bool]:
    """`<=>`, which is true or false of NULL too."""
    if value is UNBOUND:
        return EVERYTHING, False
    domain, is_exact = (ONLY_NULL, True) if value is None else _comparison("=", value, kind)
    if not negated:
        return domain, is_exact
    return (~domain, True) if is_exact else (EVERYTHING, False)


def _membership(values: Sequence[Any], kind: DataType, *, negated: bool) -> tuple[Domain, bool]:
    """IN; a NULL in the list makes it true of no further value, and false of none."""
    listed = [value for value in values if value is not None]
    if UNBOUND in listed:
        thresholds: list[Threshold | None] = [None] * len(listed)
    else:
        thresholds = coerce_list(listed, kind)
    exact = points(threshold.low for threshold in thresholds if threshold is not None and threshold.is_exact)
    is_exact = all(threshold is not None and threshold.is_exact for threshold in thresholds)
    if negated:
        return (NOTHING, True) if len(listed) < len(values) else ((~exact).without_null(), is_exact)
    if any(threshold is None for threshold in thresholds):
        return NOT_NULL, False
    near = (between(threshold.low, threshold.high) for threshold in thresholds if threshold is not None and not threshold.is_exact)
    return union([exact, *near]), is_exact


def _match(pattern: Any, kind: DataType, *, negated: bool) -> tuple[Domain, bool]:
    if pattern is None:
        return NOTHING, True
    domain, is_exact = match_domain(pattern) if isinstance(pattern, str) and kind == Primitive("varchar") else (NOT_NULL, False)
    if not negated:
        return domain, is_exact
    return ((~domain).without_null(), True) if is_exact else (NOT_NULL, False)
