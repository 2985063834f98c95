"""`coerce`: a constant as it compares with the values of a column, by the conversions that Spark makes before it compares.

Spark compares numbers exactly if neither side is a double, and as doubles if one is; a text beside a date or a time is read as one. Its
sessions have the time zone UTC here, in which a time without a zone is one with it.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime
from decimal import Decimal as Number
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from platform_plugin.algebra.types.data_types import Decimal, Primitive

if TYPE_CHECKING:
    from collections.abc import Sequence

    from platform_plugin.algebra.types.data_types import DataType

_WHOLE = frozenset({"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"})
# Whole numbers that are decimals to Spark, and their digits.
_WIDE = {"uint64": 20, "int128": 38, "uint128": 38}
_NAIVE = frozenset({"timestamp", "timestamp_s", "timestamp_ms"})
# The most digits of a decimal.
_DIGITS = 38
_BIGINT_DIGITS = 20
# Up to here every whole number is a double, or a float of single precision, of its own.
_DOUBLE_EXACT, _SINGLE_EXACT = 1 << 53, 1 << 24
_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d)(:\d\d)?(?:\.(\d{1,6}))?)?(Z|[+-]\d\d:\d\d)?", re.ASCII)


class Threshold(NamedTuple):
    """Where a constant stands among a column's values: at one place, or somewhere from `low` to `high`."""

    low: Any
    high: Any
    is_exact: bool = True


def coerce(value: Any, kind: DataType) -> Threshold | None:
    """Where a constant stands among the values of a type; None if that is not known, as for a number beside texts.

    >>> coerce("2026-03-04", Primitive("date")).low, coerce("a", Primitive("int32"))
    (datetime.date(2026, 3, 4), None)
    """
    try:
        near = _coerce(value, kind)
    except (OverflowError, ValueError):
        # A moment or a number that Python has no value for.
        return None
    return near if near is None or isinstance(near, Threshold) else Threshold(near, near)


def coerce_list(values: Sequence[Any], kind: DataType) -> list[Threshold | None]:
    """The same for the values of a list, which Spark brings to one type with the column before it compares.

    >>> coerce_list([1, 0.5], Decimal(precision=9, scale=2))[0].is_exact
    False
    """
    column = _exact_places(kind)
    if column is not None:
        numbers = [value for value in values if _is_number(value)]
        if any(isinstance(value, float) for value in numbers):
            return [coerce(float(value) if _is_number(value) else value, kind) for value in values]
        if not _fit([column, *map(_places, numbers)]):
            return [None] * len(values)
    return [coerce(value, kind) for value in values]


def _coerce(value: Any, kind: DataType) -> Any:
    column = _exact_places(kind)
    if column is not None:
        return _among_exact(value, column, is_double=isinstance(kind, Primitive) and kind.name in _WHOLE)
    match kind:
        case Primitive(name="float32" | "float64"):
            return _among_floats(value, single=kind == Primitive("float32"))
        case Primitive(name="boolean"):
            return value if isinstance(value, bool) else None
        case Primitive(name="varchar"):
            return value if isinstance(value, str) else None
        case Primitive(name="uuid"):
            return str(value) if isinstance(value, str | UUID) else None
        case Primitive(name="blob"):
            return value if isinstance(value, bytes) else None
        case Primitive(name="date"):
            return _among_days(value)
        case Primitive(name=name) if name in _NAIVE:
            return _among_moments(value, zoned=False)
        case Primitive(name="timestamptz"):
            return _among_moments(value, zoned=True)
    return None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Number) and not isinstance(value, bool)


def _round_trip(value: float) -> Threshold | float:
    """The numbers that a double can be made of by rounding."""
    return value if math.isnan(value) else Threshold(math.nextafter(value, -math.inf), math.nextafter(value, math.inf), is_exact=False)


def _among_exact(value: Any, column: tuple[int, int], *, is_double: bool) -> Any:
    if not _is_number(value):
        return None
    if not isinstance(value, float):
        return value if _fit([column, _places(value)]) else None
    # Spark compares the column's values as doubles. Small whole numbers are such, others are rounded.
    is_exact = is_double and (abs(value) < _DOUBLE_EXACT or not math.isfinite(value))
    return value if is_exact else _round_trip(value)


def _exact_places(kind: DataType) -> tuple[int, int] | None:
    """The digits before and after the point of an exact number's type, as Spark has it; None for another type."""
    match kind:
        case Decimal(precision=precision, scale=scale):
            return precision - scale, scale
        case Primitive(name=name) if name in _WIDE:
            return _WIDE[name], 0
        case Primitive(name=name) if name in _WHOLE:
            return _BIGINT_DIGITS, 0
    return None


def _places(value: int | Number) -> tuple[int, int]:
    """The digits of a number before and after its point."""
    exponent = Number(value).as_tuple().exponent
    fraction = -exponent if isinstance(exponent, int) and exponent < 0 else 0
    return len(str(abs(int(value)))), fraction


def _fit(numbers: Sequence[tuple[int, int]]) -> bool:
    """Whether one type of decimals holds all these digits; if none does, Spark rounds."""
    return max(whole for whole, _ in numbers) + max(fraction for _, fraction in numbers) <= _DIGITS


def _among_floats(value: Any, *, single: bool) -> Any:
    if not _is_number(value):
        return None
    if single and isinstance(value, int) and abs(value) > _SINGLE_EXACT:
        return None
    return float(value)


def _among_days(value: Any) -> Any:
    if isinstance(value, str):
        return date.fromisoformat(value) if _DAY.fullmatch(value) else None
    if not isinstance(value, datetime):
        return value if isinstance(value, date) else None
    if value.tzinfo is None:
        return None
    moment = value.astimezone(UTC)
    day = moment.date()
    return Threshold(day, day, is_exact=moment == _midnight(day))


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def _among_moments(value: Any, *, zoned: bool) -> Any:
    if isinstance(value, str):
        value = _read_moment(value, zoned=zoned)
    elif isinstance(value, date) and not isinstance(value, datetime):
        value = _midnight(value)
    elif not zoned and isinstance(value, datetime) and value.tzinfo is None:
        return value
    if not isinstance(value, datetime) or value.tzinfo is None:
        # A caller's time without a zone becomes one with the zone of the client, which is not known here.
        return None
    moment = value.astimezone(UTC)
    return moment if zoned else moment.replace(tzinfo=None)


def _read_moment(text: str, *, zoned: bool) -> datetime | None:
    parts = _MOMENT.fullmatch(text)
    if parts is None or (parts[4] and not parts[3]) or (parts[5] and not (zoned and parts[2])):
        return None
    fraction = (parts[4] or "").ljust(6, "0")
    zone = "+00:00" if parts[5] in (None, "Z") else parts[5]
    return datetime.fromisoformat(f"{parts[1]}T{parts[2] or '00:00'}{parts[3] or ':00'}.{fraction}{zone}")
