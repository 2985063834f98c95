"""PEP 249's type objects and constructors, and the description of a result's columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from datetime import date, datetime, time

Description = tuple[str, str, None, None, int | None, int | None, bool]


class TypeCode:
    """A family of types; equal to the type code of every column of the family."""

    def __init__(self, name: str, *prefixes: str) -> None:
        self.name = name
        self.prefixes = prefixes

    def __eq__(self, other: object) -> bool:
        return other.startswith(self.prefixes) if isinstance(other, str) else self is other

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return self.name


STRING = TypeCode("STRING", "string", "large_string")
BINARY = TypeCode("BINARY", "binary", "large_binary", "fixed_size_binary")
NUMBER = TypeCode("NUMBER", "int", "uint", "float", "double", "halffloat", "decimal", "bool")
DATETIME = TypeCode("DATETIME", "timestamp", "date", "time", "duration")
ROWID = TypeCode("ROWID", "rowid")


def describe_columns(schema: pa.Schema) -> list[Description] | None:
    """A result's columns in PEP 249's form, or None without rows. The type code is the Arrow type's name.

    >>> describe_columns(pa.schema({"price": pa.decimal128(9, 2)}))
    [('price', 'decimal128(9, 2)', None, None, 9, 2, True)]
    """
    return [_described(field) for field in schema] or None


def _described(field: pa.Field) -> Description:
    precision, scale = (field.type.precision, field.type.scale) if pa.types.is_decimal(field.type) else (None, None)
    return field.name, str(field.type), None, None, precision, scale, bool(field.nullable)


def date_from_ticks(ticks: float) -> date:
    """The date in UTC, from seconds since 1970."""
    return timestamp_from_ticks(ticks).date()


def time_from_ticks(ticks: float) -> time:
    """The time of day in UTC, from seconds since 1970."""
    return timestamp_from_ticks(ticks).time()


def timestamp_from_ticks(ticks: float) -> datetime:
    """The timestamp, from seconds since 1970."""
    from datetime import UTC, datetime

    return datetime.fromtimestamp(ticks, UTC)


def to_binary(value: Any) -> bytes:
    """A value's bytes."""
    return bytes(value)
