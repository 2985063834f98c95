"""Column statistics of files and tables, in the catalogue's text form.

A bound may be looser than the data, never tighter; None means unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal as Number
from typing import TYPE_CHECKING, Any
from uuid import UUID

from platform_plugin.algebra.types.data_types import DataType, Decimal, Primitive

if TYPE_CHECKING:
    from collections.abc import Iterable

# Longer texts are not worth a catalogue row, and their Parquet bounds may be cut off.
MAX_BOUND_LENGTH = 1024

_INTEGERS = frozenset({"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"})
_FLOATS = frozenset({"float32", "float64"})
_TEXTS = frozenset({"varchar", "json"})
_TIMESTAMPS = frozenset({"timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns", "timestamptz"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnStatistics:
    """The statistics of one leaf column in a file or table; `value_count` counts the values that are not NULL."""

    column_id: int
    size_bytes: int | None = None
    value_count: int | None = None
    null_count: int | None = None
    min_value: str | None = None
    max_value: str | None = None
    contains_nan: bool | None = None


def encode(value: Any, kind: DataType) -> str | None:
    r"""A bound in the catalogue's text form, or None where readers could not rely on it.

    >>> encode(True, Primitive("boolean")), encode(b"\xaa", Primitive("blob")), encode(date(2020, 1, 2), Primitive("date"))
    ('1', 'AA', '2020-01-02')
    """
    if value is None:
        return None
    match kind:
        case Decimal():
            return format(value, "f") if isinstance(value, Number) else None
        case Primitive(name="boolean"):
            return str(int(value))
        case Primitive(name=name) if name in _INTEGERS:
            return str(int(value))
        case Primitive(name=name) if name in _FLOATS:
            return None if value != value else repr(float(value))  # noqa: PLR0124  NaN is the value that differs from itself
        case Primitive(name=name) if name in _TEXTS:
            text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
            return text if len(text) <= MAX_BOUND_LENGTH and "\0" not in text and "\ufffd" not in text else None
        case Primitive(name="blob"):
            return value.hex().upper() if len(value) <= MAX_BOUND_LENGTH else None
        case Primitive(name="uuid"):
            return str(UUID(bytes=value)) if isinstance(value, bytes) else str(value)
        case Primitive(name="date" | "time"):
            return value.isoformat() if isinstance(value, date | time) else None
        case Primitive(name=name) if name in _TIMESTAMPS:
            return _encode_timestamp(value, zoned=name == "timestamptz")
        case _:
            return None


def _encode_timestamp(value: Any, *, zoned: bool) -> str | None:
    if not isinstance(value, datetime) or getattr(value, "nanosecond", False):
        return None
    if value.tzinfo is not None:
        value = value.astimezone(UTC)
    # Without trailing zeros, as the reference reader writes it: then equal times are equal texts, and text order is time order.
    text = value.strftime("%Y-%m-%d %H:%M:%S") + (f".{value.microsecond:06d}".rstrip("0") if value.microsecond else "")
    # strftime does not pad years below 1000.
    return None if value.year < 1000 else text + ("+00" if zoned else "")


def decode(text: str, kind: DataType) -> Any:
    """A bound as a value that compares with others of its type; None where the text is not reliable."""
    try:
        return _decode(text, kind)
    except (ValueError, ArithmeticError):
        return None


def _decode(text: str, kind: DataType) -> Any:
    match kind:
        case Decimal():
            return Number(text)
        case Primitive(name="boolean"):
            return text in ("1", "true")
        case Primitive(name=name) if name in _INTEGERS:
            return int(text)
        case Primitive(name=name) if name in _FLOATS:
            value = float(text)
            return None if value != value else value  # noqa: PLR0124
        case Primitive(name=name) if name in _TEXTS:
            return text
        case Primitive(name="blob"):
            return bytes.fromhex(text)
        case Primitive(name="uuid"):
            return UUID(text)
        case Primitive(name="date"):
            return date.fromisoformat(text)
        case Primitive(name="time"):
            return time.fromisoformat(text)
        case Primitive(name="timestamptz"):
            moment = datetime.fromisoformat(text)
            return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        case Primitive(name=name) if name in _TIMESTAMPS:
            # Nanoseconds are beyond datetime: a bound cut short would be tighter than the data.
            return None if name == "timestamp_ns" else datetime.fromisoformat(text)
        case _:
            return None


def lower_bound(a: str | None, b: str | None, kind: DataType) -> str | None:
    """The smaller of two lower bounds; None if either is unknown."""
    return _outer(a, b, kind, smaller=True)


def upper_bound(a: str | None, b: str | None, kind: DataType) -> str | None:
    """The larger of two upper bounds; None if either is unknown."""
    return _outer(a, b, kind, smaller=False)


def _outer(a: str | None, b: str | None, kind: DataType, *, smaller: bool) -> str | None:
    if a is None or b is None:
        return None
    x = decode(a, kind)
    y = x if a == b else decode(b, kind)
    if x is None or y is None:
        return None
    return a if (x <= y) == smaller else b


def merge(parts: Iterable[ColumnStatistics], kind: DataType) -> ColumnStatistics:
    """The statistics of several row groups or files as one; parts without values do not change the bounds."""
    parts = list(parts)
    if len(parts) == 1:
        return parts[0]
    bounded = [part for part in parts if part.value_count != 0]
    result = bounded[0] if bounded else parts[0]
    low, high = result.min_value, result.max_value
    for part in bounded[1:]:
        low, high = lower_bound(low, part.min_value, kind), upper_bound(high, part.max_value, kind)
    return ColumnStatistics(
        column_id=result.column_id,
        size_bytes=_total(part.size_bytes for part in parts),
        value_count=_total(part.value_count for part in parts),
        null_count=_total(part.null_count for part in parts),
        min_value=low,
        max_value=high,
        contains_nan=or_unknown(*(part.contains_nan for part in parts)),
    )


def _total(numbers: Iterable[int | None]) -> int | None:
    total = 0
    for number in numbers:
        if number is None:
            return None
        total += number
    return total


def or_unknown(*flags: bool | None) -> bool | None:
    """True if any flag is true, else None if any is unknown, else False."""
    known: bool | None = False
    for flag in flags:
        if flag:
            return True
        if flag is None:
            known = None
    return known
