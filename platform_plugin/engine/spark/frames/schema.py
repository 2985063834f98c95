"""Columns of the lake as Spark's schema values, with the field ids and defaults that its Parquet reader uses."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from pyspark.sql import types as t

from platform_plugin.algebra.types.blob_text import parse_blob
from platform_plugin.algebra.types.data_types import INTERVAL_UNITS, Decimal, Field, IntervalType, List, Map, Primitive, Struct
from platform_plugin.errors import UnsupportedType
from platform_plugin.lake.values.defaults import evaluate_default, is_generated
from platform_plugin.lake.values.types import MAPPINGS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

from platform_plugin.algebra.types.data_types import DataType

_WORDS = {
    kind.simpleString().upper(): kind
    for kind in (
        t.BooleanType(),
        t.ByteType(),
        t.ShortType(),
        t.IntegerType(),
        t.LongType(),
        t.DecimalType(20, 0),
        t.DecimalType(38, 0),
        t.FloatType(),
        t.DoubleType(),
        t.DateType(),
        t.TimeType(6),
        t.TimestampNTZType(),
        t.TimestampType(),
        t.StringType(),
        t.BinaryType(),
    )
}
_PRIMITIVES: dict[str, t.DataType] = {
    **{name: _WORDS[mapping.spark] for name, mapping in MAPPINGS.items() if mapping.spark is not None},
    # Files hold sixteen bytes, which Spark's reader gives out as they are; relations turn them into text.
    "uuid": t.BinaryType(),
}

# Spark writes these in a form that the files of a lake do not have.
NOT_WRITTEN_BY_SPARK = frozenset({"uuid", "time", "uint8", "uint16", "uint32", "uint64", "int128", "uint128"})


def to_spark_type(kind: DataType, *, column: str = "") -> t.DataType:
    """Spark's type for a column's type; a type that Spark can't hold is an error that names the column."""
    match kind:
        case Primitive(name=name) if name in _PRIMITIVES:
            return _PRIMITIVES[name]
        case Decimal(precision=precision, scale=scale):
            return t.DecimalType(precision, scale)
        case IntervalType(first=first, last=last):
            return _interval_type(first, last)
        case List(element=element):
            return t.ArrayType(to_spark_type(element.type, column=column), element.nullable)
        case Struct(fields=fields):
            return t.StructType([to_spark_field(field, column=column) for field in fields])
        case Map(key=key, value=value):
            return t.MapType(to_spark_type(key.type, column=column), to_spark_type(value.type, column=column), value.nullable)
    in_arrow = MAPPINGS[kind.name].arrow is not None
    raise UnsupportedType(
        f'column "{column}" has the type {kind}, which Spark can\'t hold',
        hint=f"leave the column out of the query, or read it {'through Arrow' if in_arrow else 'with DuckDB, as Arrow can not either'}",
    )


def _interval_type(first: str, last: str) -> t.DataType:
    units = next(units for units in INTERVAL_UNITS if first in units)
    ends = units.index(first), units.index(last)
    return t.YearMonthIntervalType(*ends) if units is INTERVAL_UNITS[0] else t.DayTimeIntervalType(*ends)


def has_spark_type(kind: DataType) -> bool:
    """Whether Spark has a type for values of this type."""
    try:
        to_spark_type(kind)
    except UnsupportedType:
        return False
    return True


def to_spark_field(field: Field, *, column: str = "") -> t.StructField:
    """Spark's field, which is matched in files by its id; rows of files without it read as its initial default."""
    metadata: dict[str, object] = {} if field.id is None else {"parquet.field.id": field.id}
    if field.initial_default is not None:
        if column:
            raise UnsupportedType(
                f'part "{field.name}" of column "{column}" has a default for older rows, which Spark can\'t fill in',
                hint="merge the table's files, which writes the default into them",
            )
        metadata["EXISTS_DEFAULT"] = default_sql(field, field.initial_default)
    return t.StructField(field.name, to_spark_type(field.type, column=field.name), nullable=True, metadata=metadata)


def to_spark_schema(fields: Sequence[Field]) -> t.StructType:
    """Spark's schema for columns, in their order."""
    return t.StructType([to_spark_field(field) for field in fields])


def default_value_sql(field: Field, now: datetime) -> str:
    """The default of a column, in a statement that began at a time, as a Spark SQL expression."""
    if is_generated(field):
        return "uuid()"
    settled = evaluate_default(field, now)
    if settled is None:
        return "NULL"
    return f"'{UUID(settled)}'" if field.type == Primitive("uuid") else default_sql(field, settled)


def default_sql(field: Field, default: str | None) -> str:
    """A literal default as a Spark SQL expression of the column's type."""
    if field.type == Primitive("blob"):
        return f"X'{parse_blob(str(default)).hex()}'"
    literal = "'" + str(default).replace("\\", "\\\\").replace("'", "\\'") + "'"
    return f"CAST({literal} AS {to_spark_type(field.type, column=field.name).simpleString()})"


# Where Spark has one type for several of ours, the table's first is meant.
_FROM_SPARK = {type(kind): name for name, kind in reversed(_PRIMITIVES.items())} | {t.NullType: "int32"}


def from_spark_type(kind: t.DataType, *, column: str) -> DataType:
    """The column type for a type of a query's result."""
    match kind:
        case t.StringType():
            return Primitive("varchar")
        case t.DecimalType():
            return Decimal(precision=kind.precision, scale=kind.scale)
        case t.YearMonthIntervalType() | t.DayTimeIntervalType():
            units = INTERVAL_UNITS[isinstance(kind, t.DayTimeIntervalType)]
            return IntervalType(units[kind.startField], units[kind.endField])
        case t.ArrayType():
            return List(element=Field(name="element", type=from_spark_type(kind.elementType, column=column)))
        case t.MapType():
            key = Field(name="key", type=from_spark_type(kind.keyType, column=column), nullable=False)
            return Map(key=key, value=Field(name="value", type=from_spark_type(kind.valueType, column=column)))
        case t.StructType():
            return Struct(fields=tuple(Field(name=part.name, type=from_spark_type(part.dataType, column=column)) for part in kind.fields))
    name = _FROM_SPARK.get(type(kind))
    if name is None:
        raise UnsupportedType(
            f'column "{column}" has the Spark type {kind.simpleString()}, which a lake can\'t hold', hint="cast it in the query"
        )
    return Primitive(name)
