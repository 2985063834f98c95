"""`fit_domain`: a domain with ends that are values of a type, so that whoever compares in that type compares exactly."""

from __future__ import annotations

import math
from datetime import date, datetime, time
from decimal import Decimal as Number
from fractions import Fraction
from typing import TYPE_CHECKING, Any
from uuid import UUID

from platform_plugin.algebra.predicates.ranges import Domain, Interval, join_intervals
from platform_plugin.algebra.types.data_types import Decimal, Primitive

if TYPE_CHECKING:
    from collections.abc import Callable

    from platform_plugin.algebra.types.data_types import DataType

_WHOLE = {
    f"{sign}int{bits}": (0 if sign else -(1 << bits - 1), 1 << (bits if sign else bits - 1))
    for bits in (8, 16, 32, 64)
    for sign in ("", "u")
}
_FLOATS = frozenset({"float32", "float64"})
_NAIVE = frozenset({"timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns"})


def fit_domain(domain: Domain, kind: DataType) -> Domain:
    """A domain that has the same values of a type, and whose ends are such values; a `TypeError` where an end is no value like them.

    Whole numbers and decimals have closed ends within the range of their type, floats have ends of double precision.

    >>> from platform_plugin.algebra.predicates.ranges import below
    >>> str(fit_domain(below(2.5, closed=True), Primitive("int8"))), str(fit_domain(below(1000, closed=True), Primitive("int8")))
    ('(-inf, 2]', '(-inf, inf)')
    """
    fit = _fitter(kind)
    intervals = (fit(interval) for interval in domain.intervals)
    return join_intervals((interval for interval in intervals if interval is not None), null=domain.null)


def _fitter(kind: DataType) -> Callable[[Interval], Interval | None]:
    match kind:
        case Decimal(precision=precision, scale=scale):
            return lambda interval: _fit_steps(interval, scale, 1 - 10**precision, 10**precision)
        case Primitive(name=name) if name in _WHOLE:
            return lambda interval: _fit_steps(interval, 0, *_WHOLE[name])
        case Primitive(name=name) if name in _FLOATS:
            return _fit_floats
        case _:
            return lambda interval: interval._replace(low=_own_value(interval.low, kind), high=_own_value(interval.high, kind))


def _fit_steps(interval: Interval, scale: int, first: int, end: int) -> Interval | None:
    """An interval of numbers that are whole after so many places of the point are shifted."""
    low, high = _shift(interval.low, scale), _shift(interval.high, scale)
    if low == math.inf or high == -math.inf:
        return None
    least, most = first, end - 1
    if isinstance(low, Fraction):
        least = max(first, math.ceil(low) + int(not interval.low_closed and low.denominator == 1))
    if isinstance(high, Fraction):
        most = min(end - 1, math.floor(high) - int(not interval.high_closed and high.denominator == 1))
    if least > most:
        return None
    bottom = None if least == first else _unshift(least, scale)
    top = None if most == end - 1 else _unshift(most, scale)
    return Interval(bottom, top, bottom is not None, top is not None)


def _shift(value: Any, scale: int) -> Fraction | float | None:
    """A number before its point is shifted back; infinite ones and NaN are infinite."""
    if value is None:
        return None
    _check_number(value)
    if math.isnan(value):
        return math.inf
    return float(value) if math.isinf(value) else Fraction(value) * 10**scale


def _unshift(value: int, scale: int) -> int | Number:
    return Number(f"{value}E-{scale}") if scale else value


def _fit_floats(interval: Interval) -> Interval | None:
    low, high = _double(interval.low), _double(interval.high)
    fitted = Interval(
        low,
        high,
        interval.low_closed if low is None or low == interval.low or math.isnan(low) else low > interval.low,
        interval.high_closed if high is None or high == interval.high or math.isnan(high) else high < interval.high,
    )
    is_empty = low is not None and low == high and not (fitted.low_closed and fitted.high_closed)
    return None if is_empty else fitted


def _double(value: Any) -> float | None:
    """The double nearest to a number."""
    if value is None:
        return None
    _check_number(value)
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _check_number(value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float | Number):
        raise _unlike(value)


def _own_value(value: Any, kind: DataType) -> Any:
    name = kind.name if isinstance(kind, Primitive) else ""
    match value:
        case None:
            return None
        case bool() if name == "boolean":
            return value
        case str() if name in ("varchar", "json"):
            return value
        case str() | UUID() if name == "uuid":
            return str(value)
        case bytes() if name == "blob":
            return value
        case datetime() if name in (_NAIVE if value.tzinfo is None else ("timestamptz",)):
            return value
        case date() if name == "date" and not isinstance(value, datetime):
            return value
        case time() if name == "time":
            return value
    raise _unlike(value)


def _unlike(value: Any) -> TypeError:
    return TypeError(f"{value!r} is no value of the column's type or like one")
