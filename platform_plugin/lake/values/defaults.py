"""Column defaults: checking them when they are declared, and the values that they give to rows."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, date, datetime, time
from decimal import Decimal as Number
from typing import Any
from uuid import UUID, uuid4

import pyarrow as pa

from platform_plugin.algebra.types.blob_text import blob_text
from platform_plugin.algebra.types.data_types import Field, Primitive
from platform_plugin.errors import InvalidValue
from platform_plugin.lake.values.assignment import arrow_array, assign_value, is_json
from platform_plugin.lake.values.default_expressions import GENERATED, convert_default, evaluate_default_expression
from platform_plugin.lake.values.duckdb_time import parse_days, parse_moment
from platform_plugin.lake.values.types import MAPPINGS, to_arrow

_PER_SECOND = {"timestamp": 1_000_000, "timestamptz": 1_000_000, "timestamp_s": 1, "timestamp_ms": 1_000, "timestamp_ns": 1_000_000_000}


def constant_column(literal: str | None, field: Field, length: int) -> pa.ChunkedArray:
    """A column of one literal in the catalogue's text form, or of NULLs."""
    kind = to_arrow(field.type, column=field.name)
    if literal is None:
        return pa.chunked_array([pa.nulls(length, kind)])
    try:
        one = arrow_array([_read(literal, field)], field)
    except (ValueError, ArithmeticError) as error:
        raise _misfit(literal, field) from error
    return pa.chunked_array([one.take(pa.repeat(pa.scalar(0), length))])


def _misfit(literal: str, field: Field) -> InvalidValue:
    return InvalidValue(
        f'"{literal}" is no value for column "{field.name}"',
        hint=f"it takes {field.type}; if it is the default, set another one or drop it",
    )


def _read(literal: str, field: Field) -> Any:
    """What a client of the format takes the text for; DuckDB keeps defaults as they were written, such as 100.0 for a BIGINT."""
    match field.type:
        case Primitive(name="float32" | "float64"):
            number = float(literal)
            return assign_value(number if "inf" in literal.lower() or math.isfinite(number) else Number(literal), field)
        case Primitive(name="varchar" | "json"):
            return literal
        case Primitive(name="uuid"):
            return UUID(literal).bytes
        case Primitive(name="date"):
            return parse_days(literal)
        case Primitive(name="time"):
            return time.fromisoformat(literal)
        case Primitive(name="timetz"):
            moment = time.fromisoformat(literal)
            return moment if moment.tzinfo is None else datetime.combine(date(2000, 1, 1), moment).astimezone(UTC).time()
        case Primitive(name="time_ns"):
            return parse_moment(f"1970-01-01 {literal}", per_second=1_000_000_000)
        case Primitive(name=name) if name in _PER_SECOND:
            return parse_moment(literal, per_second=_PER_SECOND[name])
        case _:
            return convert_default(literal, field)


def default_column(field: Field, length: int, now: datetime | None = None) -> pa.ChunkedArray:
    """The values of rows that leave the column out, in a statement that began at a time."""
    if not is_generated(field):
        return constant_column(evaluate_default(field, now), field, length)
    values = [uuid4() for _ in range(length)]
    return pa.chunked_array([arrow_array([assign_value(value, field) for value in values], field)], to_arrow(field.type))


def is_generated(field: Field) -> bool:
    """Whether the default gives each row a value of its own."""
    return field.computed_default and GENERATED.fullmatch((field.default or "").strip()) is not None


def evaluate_default(field: Field, now: datetime | None = None) -> str | None:
    """The default as a literal's text; an expression is evaluated once for all rows of a statement."""
    if field.default is None or not field.computed_default:
        return field.default
    value = evaluate_default_expression(field, now or datetime.now(UTC))
    return None if value is None else _text(value, field)


def check_default(field: Field) -> Field:
    """The column with its default in a text that every client reads alike; a default that does not fit the type is refused."""
    if field.children:
        if field.default is not None:
            raise InvalidValue(f'column "{field.name}" of type {field.type} can\'t have a default', hint="give the value with each row")
        return field.with_children(tuple(check_default(part) for part in field.children))
    if field.default is None or field.computed_default:
        return field
    if isinstance(field.type, Primitive) and MAPPINGS[field.type.name].arrow is None:
        raise InvalidValue(f'column "{field.name}" of type {field.type} can\'t have a default', hint="nobody here can check it")
    return replace(field, default=_checked(field.default, field))


def _checked(literal: str, field: Field) -> str:
    name = field.type.name if isinstance(field.type, Primitive) else ""
    if name == "json" and not is_json(literal):
        raise _misfit(literal, field)
    if name in ("date", "time", "timestamptz", "timestamp", "timestamp_s", "timestamp_ms", "uuid"):
        return _text(assign_value(literal, field), field)
    try:
        value = _read(literal, field)
    except (ValueError, ArithmeticError) as error:
        raise _misfit(literal, field) from error
    # Times of which Python has no type stay as they were written.
    return literal if name in ("timetz", "time_ns", "timestamp_ns") else _text(value, field)


def _text(value: Any, field: Field) -> str:
    """The text of a column's value as the catalogue keeps it: in UTC, with bytes as DuckDB writes them."""
    match value:
        case bool():
            return "true" if value else "false"
        case bytes() if field.type == Primitive("uuid"):
            return str(UUID(bytes=value))
        case bytes():
            return blob_text(value)
        case Number():
            return format(value, "f")
        case datetime():
            return str(value.astimezone(UTC) if value.tzinfo else value)
        case float():
            return repr(value)
    return str(value)


def default_value(field: Field, now: datetime) -> Any:
    """The value of a row that leaves the column out, in a statement that began at a time."""
    return None if field.default is None else default_column(field, 1, now)[0].as_py()
