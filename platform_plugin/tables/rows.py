"""Literal rows of a statement as Arrow in the shape of a table, without an engine."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal as Number
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pyarrow as pa

from platform_plugin.algebra.types import Decimal, Field, Primitive
from platform_plugin.errors import InvalidValue, PlatformError
from platform_plugin.lake.files import constant
from platform_plugin.lake.types import arrow_field, to_arrow
from platform_plugin.language.places import at
from platform_plugin.language.values import Literal, Parameter
from platform_plugin.queries.bind import Arguments, argument

if TYPE_CHECKING:
    from collections.abc import Sequence

    from platform_plugin.language.places import Span
    from platform_plugin.language.values import Cell

_RANGES = {f"int{bits}": (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) for bits in (8, 16, 32, 64)} | {
    f"uint{bits}": (0, (1 << bits) - 1) for bits in (8, 16, 32, 64)
}


def literal_rows(rows: Sequence[Sequence[Cell]], fields: Sequence[Field], arguments: Arguments, source: Span) -> pa.Table:
    """Rows of cells as the columns they are meant for; a value that does not fit is pointed at."""
    columns = []
    for index, field in enumerate(fields):
        values = [_value(row[index], field, arguments, source) for row in rows]
        columns.append(pa.array(values, to_arrow(field.type, column=field.name)))
    return pa.Table.from_arrays(columns, schema=pa.schema([arrow_field(field).with_nullable(nullable=True) for field in fields]))


def _value(cell: Cell, field: Field, arguments: Arguments, source: Span) -> Any:
    try:
        match cell:
            case Literal(kind="default"):
                return constant(field.default, to_arrow(field.type), 1)[0].as_py()
            case Literal(kind="timestamp", value=datetime() as moment):
                return fitted(moment if moment.tzinfo else moment.replace(tzinfo=UTC), field)
            case Literal(value=value):
                return fitted(value, field)
            case Parameter():
                return fitted(argument(cell, arguments), field)
    except PlatformError as error:
        place = at(source.source, cell.offset) if isinstance(cell, Literal) else at(cell.span, 0, len(cell.span.text))
        raise place.attach(error) from error


def fitted(value: Any, field: Field) -> Any:
    """A Python value as one of a column's type; a lossy or senseless conversion is an error."""
    if value is None:
        return None
    converted = _converted(value, field)
    if converted is None:
        raise InvalidValue(f'{_shown(value)} is no value for column "{field.name}"', hint=f"it takes {field.type}")
    return converted


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"


def _converted(value: Any, field: Field) -> Any:
    match field.type:
        case Primitive(name="boolean"):
            return value if isinstance(value, bool) else None
        case Primitive(name=name) if name in _RANGES:
            return _whole(value, name, field)
        case Primitive(name="int128" | "uint128"):
            return Number(value) if isinstance(value, int) and not isinstance(value, bool) else None
        case Primitive(name="float32" | "float64"):
            return float(value) if isinstance(value, int | float | Number) and not isinstance(value, bool) else None
        case Decimal(precision=precision, scale=scale):
            return _decimal(value, precision, scale, field)
        case Primitive(name="varchar" | "json"):
            return value if isinstance(value, str) else None
        case Primitive(name="blob"):
            return bytes(value) if isinstance(value, bytes | bytearray | memoryview) else None
        case Primitive(name="uuid"):
            return _parsed(lambda: (value if isinstance(value, UUID) else UUID(value)).bytes, value, UUID)
        case Primitive(name="date"):
            return (
                value if isinstance(value, date) and not isinstance(value, datetime) else _parsed(lambda: date.fromisoformat(value), value)
            )
        case Primitive(name="time"):
            return value if isinstance(value, time) else _parsed(lambda: time.fromisoformat(value), value)
        case Primitive(name="timestamptz"):
            return _zoned(value)
        case Primitive(name="timestamp" | "timestamp_s" | "timestamp_ms" | "timestamp_ns"):
            return _local(value)
        case _:
            return value if isinstance(value, list | tuple | dict) else None


def _parsed(read: Any, value: Any, *also: type) -> Any:
    if not isinstance(value, (str, *also)):
        return None
    try:
        return read()
    except ValueError:
        return None


def _whole(value: Any, name: str, field: Field) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    low, high = _RANGES[name]
    if not low <= value <= high:
        raise InvalidValue(f'{value} is out of range for column "{field.name}"', hint=f"{field.type} holds {low} to {high}")
    return value


def _decimal(value: Any, precision: int, scale: int, field: Field) -> Number | None:
    if isinstance(value, bool) or not isinstance(value, int | Number):
        return None
    number = Number(value)
    _, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int):
        return None
    whole_digits = len(digits) + exponent
    if -exponent > scale and any(digits[len(digits) + exponent + scale :] if -exponent - scale < len(digits) else digits):
        raise InvalidValue(
            f'{value} has more digits after the point than column "{field.name}" keeps', hint=f"it takes {field.type}; round it"
        )
    if whole_digits > precision - scale and number != 0:
        raise InvalidValue(f'{value} is out of range for column "{field.name}"', hint=f"it takes {field.type}")
    return number


def _zoned(value: Any) -> datetime | None:
    moment = _parsed(lambda: datetime.fromisoformat(value), value) if isinstance(value, str) else value
    if not isinstance(moment, datetime):
        return datetime(moment.year, moment.month, moment.day, tzinfo=UTC) if isinstance(moment, date) else None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _local(value: Any) -> datetime | None:
    moment = _parsed(lambda: datetime.fromisoformat(value), value) if isinstance(value, str) else value
    if not isinstance(moment, datetime):
        return datetime(moment.year, moment.month, moment.day) if isinstance(moment, date) else None  # noqa: DTZ001  the column has no zone
    return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment
