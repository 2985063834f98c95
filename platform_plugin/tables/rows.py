"""Literal rows of a statement as Arrow in the shape of a table, without an engine."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from datetime import UTC, date, datetime, time
from decimal import Decimal as Number
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

import pyarrow as pa

from platform_plugin.algebra.types import Decimal, Field, List, Map, Primitive, Struct
from platform_plugin.errors import InvalidValue, PlatformError
from platform_plugin.lake.files import constant
from platform_plugin.lake.types import arrow_field, to_arrow
from platform_plugin.language.places import at
from platform_plugin.language.values import Literal, Parameter
from platform_plugin.queries.arguments import Arguments, argument

if TYPE_CHECKING:
    from collections.abc import Sequence

    from platform_plugin.language.places import Span
    from platform_plugin.language.values import Cell

_LARGEST = 10**38 - 1
_LARGEST_FLOAT = 3.4028235677973366e38  # beyond, rounding gives infinity
_RANGES = {f"int{bits}": (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) for bits in (8, 16, 32, 64)} | {
    f"uint{bits}": (0, (1 << bits) - 1) for bits in (8, 16, 32, 64)
}


def literal_rows(rows: Sequence[Sequence[Cell]], fields: Sequence[Field], arguments: Arguments, source: Span) -> pa.Table:
    """Rows of cells as the columns they are meant for; a value that does not fit is pointed at."""
    columns = []
    for index, field in enumerate(fields):
        values = [_value(row[index], field, arguments, source) for row in rows]
        columns.append(arrow_array(values, field))
    shape = [arrow_field(field).with_nullable(nullable=True).with_type(column.type) for field, column in zip(fields, columns, strict=True)]
    return pa.Table.from_arrays(columns, schema=pa.schema(shape))


def arrow_array(values: list[Any], field: Field) -> pa.Array:
    """Values that are fitted to a column, as Arrow."""
    kind = to_arrow(field.type, column=field.name)
    try:
        return pa.array(values, kind)
    except pa.ArrowNotImplementedError:
        # Arrow makes no UUIDs inside of nested values; rows are fitted to their files from sixteen bytes each.
        return pa.array(values, _without_uuids(kind))
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise InvalidValue(f'a value does not fit column "{field.name}"', detail=str(error), hint=f"it takes {field.type}") from error


def default_value(field: Field) -> Any:
    """What a row holds that leaves the column out."""
    return constant(field.default, to_arrow(field.type), 1)[0].as_py()


def _without_uuids(kind: pa.DataType) -> pa.DataType:
    if isinstance(kind, pa.UuidType):
        return pa.binary(16)
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_without_uuids(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_field.with_type(_without_uuids(kind.key_type)), kind.item_field.with_type(_without_uuids(kind.item_type)))
    if pa.types.is_struct(kind):
        return pa.struct([part.with_type(_without_uuids(part.type)) for part in kind])
    return kind


def _value(cell: Cell, field: Field, arguments: Arguments, source: Span) -> Any:
    try:
        match cell:
            case Literal(kind="default"):
                return default_value(field)
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
            return _huge(value, field)
        case Primitive(name="float32" | "float64"):
            return _float(value, field)
        case Decimal(precision=precision, scale=scale):
            return _decimal(value, precision, scale, field)
        case Primitive(name="varchar"):
            return value if isinstance(value, str) else None
        case Primitive(name="json"):
            return _parsed(lambda: value if json.loads(value) is not Ellipsis else None, value)
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
            return _unrounded(_local(value), field)
        case List(element=element):
            return [_part(part, element, field) for part in value] if isinstance(value, list | tuple) else None
        case Struct(fields=parts):
            return _struct(value, parts, field)
        case Map(key=key, value=content):
            return _map(value, key, content, field)
    raise InvalidValue(f'values of column "{field.name}" can\'t be written', detail=f"its type is {field.type}", hint="leave it out")


def _part(value: Any, part: Field, whole: Field) -> Any:
    return fitted(value, replace(part, name=f"{whole.name}.{part.name}"))


def _struct(value: Any, parts: Sequence[Field], field: Field) -> dict[str, Any] | None:
    """Parts by name; those left out are NULL, but one that is not known is no part of it."""
    if not isinstance(value, dict):
        return None
    given = {str(name).lower(): part for name, part in value.items()}
    if len(given) < len(value) or given.keys() - {part.name.lower() for part in parts}:
        return None
    return {part.name: _part(given.get(part.name.lower()), part, field) for part in parts}


def _map(value: Any, key: Field, content: Field, field: Field) -> list[tuple[Any, Any]] | None:
    """Pairs, from a dict or from pairs, as a map is read; keys are there and each only once."""
    pairs = list(value.items()) if isinstance(value, dict) else value
    if not isinstance(pairs, list | tuple) or not all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in pairs):
        return None
    found = [(_part(name, key, field), _part(part, content, field)) for name, part in pairs]
    names = [name for name, _ in found]
    if any(name is None for name in names) or any(name in names[:place] for place, name in enumerate(names)):
        raise InvalidValue(f'a map for column "{field.name}" has a key twice, or NULL as one', hint="a key is there once")
    return found


def _huge(value: Any, field: Field) -> Number | None:
    if isinstance(value, Number) and value == value.to_integral_value():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    if not (0 if field.type == Primitive("uint128") else -_LARGEST) <= value <= _LARGEST:
        raise InvalidValue(f'{_shown(value)} is out of range for column "{field.name}"', hint="Spark keeps 38 digits of it")
    return Number(value)


def _float(value: Any, field: Field) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | Number):
        return None
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    is_new = math.isinf(number) and not (isinstance(value, float) or (isinstance(value, Number) and value.is_infinite()))
    if is_new or (field.type == Primitive("float32") and math.isfinite(number) and abs(number) > _LARGEST_FLOAT):
        raise InvalidValue(f'{_shown(value)} is out of range for column "{field.name}"', hint=f"it takes {field.type}")
    return number


def _unrounded(moment: datetime | None, field: Field) -> datetime | None:
    """A time that keeps what it has in a column of coarser times."""
    unit = {Primitive("timestamp_s"): 1_000_000, Primitive("timestamp_ms"): 1000}.get(cast("Primitive", field.type), 1)
    if moment is not None and moment.microsecond % unit:
        raise InvalidValue(f'{moment} has a finer time than column "{field.name}" keeps', hint=f"it takes {field.type}; round it")
    return moment


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
