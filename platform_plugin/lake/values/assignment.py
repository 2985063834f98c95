"""The assignment rule: which Python values a column accepts and how they are converted, for all writers but Spark.

It is Spark's ANSI store assignment, with lossy conversions refused; docs/sql/types.md has it as a table. A query's values follow the same
rule in `engine/spark/frames/assignment.py`.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from datetime import UTC, date, datetime, time
from decimal import ROUND_HALF_UP, Context
from decimal import Decimal as Number
from typing import TYPE_CHECKING, Any, NoReturn, cast
from uuid import UUID

import pyarrow as pa

from platform_plugin.algebra.types.data_types import Decimal, Field, List, Map, Primitive, Struct
from platform_plugin.errors import InvalidValue
from platform_plugin.lake.values.types import to_arrow

if TYPE_CHECKING:
    from collections.abc import Sequence

_LARGEST = 10**38 - 1
_LARGEST_FLOAT = 3.4028235677973366e38  # beyond, rounding gives infinity
_RANGES = {f"int{bits}": (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) for bits in (8, 16, 32, 64)} | {
    f"uint{bits}": (0, (1 << bits) - 1) for bits in (8, 16, 32, 64)
}
_EXACT = Context(prec=500, rounding=ROUND_HALF_UP)
LOCAL_TIMESTAMPS = ("timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns")

# Texts of days and times, the same for everybody: no zones by name, no years of five digits, no digit that would be cut.
DATE_FORM = r"\d{4}-\d\d-\d\d"
TIME_FORM = r"\d\d:\d\d(:\d\d(\.\d{1,6}0*)?)?"
ZONE_FORM = r"(Z|[+-](0\d|1[0-7]):[0-5]\d|[+-]18:00)"
LOCAL_FORM = rf"{DATE_FORM}([ T]{TIME_FORM})?"
MOMENT_FORM = rf"{DATE_FORM}([ T]{TIME_FORM}{ZONE_FORM}?)?"


def assign_value(value: Any, field: Field) -> Any:
    """A Python value converted to a column's type; a lossy or senseless conversion is an error."""
    if value is None:
        return None
    converted = _converted(value, field)
    if converted is None:
        raise InvalidValue(f'{value_text(value)} is no value for column "{field.name}"', hint=f"it takes {field.type}")
    return converted


def arrow_array(values: list[Any], field: Field) -> pa.Array:
    """Values that have a column's type already, as Arrow."""
    kind = to_arrow(field.type, column=field.name)
    try:
        return pa.array(values, kind)
    except pa.ArrowNotImplementedError:
        # Arrow makes no UUIDs inside of nested values; rows are fitted to their files from sixteen bytes each.
        return pa.array(values, _without_uuids(kind))
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise InvalidValue(f'a value does not fit column "{field.name}"', detail=str(error), hint=f"it takes {field.type}") from error


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


def value_text(value: Any) -> str:
    """A value as errors quote it."""
    text = str(value) if isinstance(value, Number) else repr(value)
    return text if len(text) <= 60 else text[:57] + "…"


def _converted(value: Any, field: Field) -> Any:
    match field.type:
        case Primitive(name="boolean"):
            return value if isinstance(value, bool) else None
        case Primitive(name=name) if name in _RANGES:
            return _whole(value, *_RANGES[name], field)
        case Primitive(name="int128" | "uint128" as name):
            number = _whole(value, 0 if name == "uint128" else -_LARGEST, _LARGEST, field)
            return None if number is None else Number(number)
        case Primitive(name="float32" | "float64"):
            return _float(value, field)
        case Decimal(precision=precision, scale=scale):
            return _decimal(value, precision, scale, field)
        case Primitive(name="varchar"):
            return value if isinstance(value, str) else to_spark_text(value)
        case Primitive(name="json"):
            return value if isinstance(value, str) and is_json(value) else None
        case Primitive(name="blob"):
            return bytes(value) if isinstance(value, bytes | bytearray | memoryview) else None
        case Primitive(name="uuid"):
            return _uuid(value)
        case Primitive(name="date"):
            return _day(value, field)
        case Primitive(name="time"):
            return _time(value, field)
        case Primitive(name="timestamptz"):
            moment = _moment(value, MOMENT_FORM, field)
            return moment.replace(tzinfo=UTC) if moment is not None and moment.tzinfo is None else moment
        case Primitive(name=name) if name in LOCAL_TIMESTAMPS:
            return _unrounded(_local(value, field), field)
        case List(element=element):
            return [_part(part, element, field) for part in value] if isinstance(value, list | tuple) else None
        case Struct(fields=parts):
            return _struct(value, parts, field)
        case Map(key=key, value=content):
            return _map(value, key, content, field)
    raise InvalidValue(f'values of column "{field.name}" can\'t be written', detail=f"its type is {field.type}", hint="leave it out")


def _part(value: Any, part: Field, whole: Field) -> Any:
    return assign_value(value, replace(part, name=f"{whole.name}.{part.name}"))


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


def _out_of_range(value: Any, field: Field, hint: str | None = None) -> NoReturn:
    raise InvalidValue(f'{value_text(value)} is out of range for column "{field.name}"', hint=hint or f"it takes {field.type}")


def _exact(value: Any) -> Number | None:
    """A number by its digits, a binary one by the fewest that name it; None for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float | Number):
        return None
    number = Number(repr(value)) if isinstance(value, float) else Number(value)
    return number if number.is_finite() else None


def _whole(value: Any, low: int, high: int, field: Field) -> int | None:
    if isinstance(value, int):
        number = None if isinstance(value, bool) else value
    else:
        exact = _exact(value)
        if exact is not None and exact.adjusted() > len(str(high)):
            _out_of_range(value, field)
        if exact is not None and exact != exact.to_integral_value(context=_EXACT):
            raise InvalidValue(
                f'{value_text(value)} has a fraction, column "{field.name}" takes whole numbers', hint=f"it takes {field.type}; round it"
            )
        number = None if exact is None else int(exact)
    if number is not None and not low <= number <= high:
        _out_of_range(value, field, f"{field.type} holds {low} to {high}")
    return number


def _float(value: Any, field: Field) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | Number):
        return None
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    is_new = math.isinf(number) and not (isinstance(value, float) or (isinstance(value, Number) and value.is_infinite()))
    if is_new or (field.type == Primitive("float32") and math.isfinite(number) and abs(number) > _LARGEST_FLOAT):
        _out_of_range(value, field)
    return number


def _decimal(value: Any, precision: int, scale: int, field: Field) -> Number | None:
    """A number with as many digits after the point as the column keeps, rounded half up as in every SQL."""
    number = _exact(value)
    if number is None:
        return None
    if number.adjusted() >= precision - scale and number:
        _out_of_range(value, field)
    rounded = number.quantize(Number(1).scaleb(-scale), context=_EXACT)
    if rounded and rounded.adjusted() >= precision - scale:
        _out_of_range(value, field)
    return rounded


def to_spark_text(value: Any) -> str | None:
    """The text that Spark's cast gives for a number, boolean, date or time; None for other values.

    >>> to_spark_text(1e10), to_spark_text(0.5), to_spark_text(True), to_spark_text(datetime(2026, 1, 2, 3, 4, 5, 600000))
    ('1.0E10', '0.5', 'true', '2026-01-02 03:04:05.6')
    """
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return _java_text(value)
        case Number() if value.is_finite():
            return format(value, "f")
        case datetime():
            moment = value.astimezone(UTC) if value.tzinfo else value
            return f"{moment:%Y-%m-%d}".rjust(10, "0") + f" {_clock(moment.time())}"
        case date():
            return value.isoformat()
        case time() if value.tzinfo is None:
            return _clock(value)
        case UUID():
            return str(value)
    return None


def _clock(value: time) -> str:
    text = value.replace(tzinfo=None).isoformat()
    return text.rstrip("0") if value.microsecond else text


def _java_text(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    sign = "-" if math.copysign(1, value) < 0 else ""
    if not value:
        return f"{sign}0.0"
    _, digits, exponent = Number(repr(abs(value))).normalize().as_tuple()
    written = "".join(map(str, digits))
    place = len(written) + int(exponent)  # of the point, from the first digit on
    if -2 <= place <= 7:
        text = format(Number(repr(abs(value))).normalize(), "f")
        return sign + (text if "." in text else f"{text}.0")
    return f"{sign}{written[0]}.{written[1:] or '0'}E{place - 1}"


def is_json(text: str) -> bool:
    """Whether a text is one JSON document by the standard: no NaN, no repeated key, nothing after it."""

    def refuse(word: str) -> NoReturn:
        raise ValueError(word)

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        return found if len(found) == len(pairs) else refuse("a key is there twice")

    try:
        json.loads(text, parse_constant=refuse, object_pairs_hook=once)
    except (ValueError, RecursionError):
        return False
    return True


def _uuid(value: Any) -> bytes | None:
    if isinstance(value, UUID):
        return value.bytes
    try:
        return UUID(value).bytes if isinstance(value, str) else None
    except ValueError:
        return None


def _finer(value: Any, field: Field) -> NoReturn:
    raise InvalidValue(f'{value_text(value)} has a finer time than column "{field.name}" keeps', hint=f"it takes {field.type}; round it")


def _parsed(text: str, form: str, read: Any, field: Field) -> Any:
    """What a text of one of the forms says; digits of a second that would be cut are told from other misfits."""
    if not re.fullmatch(form, text, re.ASCII):
        if re.fullmatch(form.replace(r"\.\d{1,6}0*", r"\.\d+"), text, re.ASCII):
            _finer(text, field)
        return None
    whole = re.sub(r"\.(\d+)", lambda found: "." + found[1][:6].ljust(6, "0"), text)
    try:
        return read(whole)
    except ValueError:
        return None


def _moment(value: Any, form: str, field: Field) -> datetime | None:
    if isinstance(value, str):
        return cast("datetime | None", _parsed(value, form, datetime.fromisoformat, field))
    if isinstance(value, date) and not isinstance(value, datetime):
        return datetime(value.year, value.month, value.day)  # noqa: DTZ001  whoever asks gives it a zone
    return value if isinstance(value, datetime) else None


def _local(value: Any, field: Field) -> datetime | None:
    if isinstance(value, str) and re.fullmatch(MOMENT_FORM, value, re.ASCII) and not re.fullmatch(LOCAL_FORM, value, re.ASCII):
        raise InvalidValue(
            f'{value_text(value)} has a zone, column "{field.name}" keeps none',
            hint=f"it takes {field.type}; leave the zone out, or use TIMESTAMP",
        )
    moment = _moment(value, LOCAL_FORM, field)
    return moment.astimezone(UTC).replace(tzinfo=None) if moment is not None and moment.tzinfo else moment


def _unrounded(moment: datetime | None, field: Field) -> datetime | None:
    """A time that keeps what it has in a column of coarser times."""
    unit = {Primitive("timestamp_s"): 1_000_000, Primitive("timestamp_ms"): 1000}.get(cast("Primitive", field.type), 1)
    if moment is not None and moment.microsecond % unit:
        _finer(str(moment), field)
    return moment


def _day(value: Any, field: Field) -> date | None:
    if isinstance(value, str):
        return cast("date | None", _parsed(value, DATE_FORM, date.fromisoformat, field))
    if isinstance(value, datetime):
        moment = value.astimezone(UTC) if value.tzinfo else value
        if moment.time() != time():
            raise InvalidValue(
                f'{to_spark_text(value)} has a time of day, column "{field.name}" takes dates', hint="cast it to DATE to leave it out"
            )
        return moment.date()
    return value if isinstance(value, date) else None


def _time(value: Any, field: Field) -> time | None:
    if isinstance(value, str):
        return cast("time | None", _parsed(value, TIME_FORM, time.fromisoformat, field))
    return value if isinstance(value, time) and value.tzinfo is None else None
