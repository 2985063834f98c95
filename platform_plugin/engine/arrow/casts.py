"""`cast_value`: casts that certainly give the same values as in Spark; those that would be an error there are errors of Arrow."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from platform_plugin.engine.arrow.decimals import cast_decimal, to_doubles
from platform_plugin.engine.arrow.times import SECOND, has_plain_years, is_time, to_date

WHOLE = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_TYPES = {
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "STRING": pa.string(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us", tz="UTC"),
    "TIMESTAMP_NTZ": pa.timestamp("us"),
}
_DECIMAL = re.compile(r"DECIMAL\((\d+),\s*(\d+)\)")


def read_type(text: str) -> pa.DataType | None:
    """A type by its name in Spark, or None.

    >>> read_type("DECIMAL(9, 2)"), read_type("MAP<INT, INT>")
    (Decimal128Type(decimal128(9, 2)), None)
    """
    found = _DECIMAL.fullmatch(text)
    return _TYPES.get(text) if found is None else pa.decimal128(int(found[1]), int(found[2]))


def cast_value(value: Any, text: str) -> Any | None:
    """Values as a type of Spark; None for a cast that only Spark makes.

    >>> cast_value(pa.array([1, None], pa.int32()), "DECIMAL(4,2)").to_pylist()
    [Decimal('1.00'), None]
    """
    kind = read_type(text)
    if kind is None or value.type == kind:
        return value if kind is not None else None
    if value.type in WHOLE:
        return _of_whole(value, kind)
    if pa.types.is_decimal128(value.type):
        return to_doubles(value) if kind == pa.float64() else cast_decimal(value, kind) if pa.types.is_decimal(kind) else None
    if value.type == pa.float64() and kind in WHOLE:
        return pc.trunc(value).cast(kind)
    if value.type == pa.bool_() and kind in (*WHOLE, pa.string()):
        return value.cast(kind)
    return _of_time(value, kind) if value.type == pa.date32() or is_time(value.type) else None


def to_double(value: Any) -> Any | None:
    """As the JVM does it: a whole number or a decimal becomes the nearest double; None for other values."""
    if pa.types.is_decimal128(value.type):
        return to_doubles(value)
    if value.type not in WHOLE:
        return value if value.type == pa.float64() else None
    return value.cast(pa.float64()) if isinstance(value, pa.Scalar) else pc.cast(value, pa.float64(), safe=False)


def _of_whole(value: Any, kind: pa.DataType) -> Any | None:
    if kind == pa.float64():
        return to_double(value)
    if pa.types.is_decimal(kind):
        return cast_decimal(value.cast(pa.decimal128(20, 0)), kind)
    return value.cast(kind) if kind in (*WHOLE, pa.string()) else None


def _of_time(value: Any, kind: pa.DataType) -> Any | None:
    if kind == pa.date32():
        return to_date(value)
    if is_time(kind):
        return value.cast(pa.timestamp("us")).cast(kind)
    if kind == pa.int64() and value.type == pa.timestamp("us", tz="UTC"):
        seconds = pc.floor_temporal(value.cast(pa.timestamp("us")), unit="second").cast(pa.int64())
        return pc.divide(seconds, SECOND)
    return value.cast(kind) if kind == pa.string() and value.type == pa.date32() and has_plain_years(value) else None
