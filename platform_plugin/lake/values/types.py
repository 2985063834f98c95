"""The table of types: what each DuckLake type is in Arrow, in Spark and in SQLAlchemy, with the conversions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import sqlalchemy as sa

from platform_plugin.algebra.types.data_types import (
    DataType,
    Decimal,
    Field,
    IntervalType,
    List,
    Map,
    Primitive,
    Struct,
    list_of,
    quote_identifier,
)
from platform_plugin.errors import UnsupportedType

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sqlalchemy.types import TypeEngine

FIELD_ID = b"PARQUET:field_id"


@dataclass(frozen=True, slots=True)
class Mapping:
    """The counterparts of one DuckLake type; None where there is none."""

    arrow: pa.DataType | None
    spark: str | None
    sqlalchemy: TypeEngine[Any] | type[TypeEngine[Any]] | None


# Unsigned 64-bit and 128-bit integers are decimals in Spark, as its own Parquet reader has it.
MAPPINGS: dict[str, Mapping] = {
    "boolean": Mapping(pa.bool_(), "BOOLEAN", sa.Boolean),
    "int8": Mapping(pa.int8(), "TINYINT", sa.SmallInteger),
    "int16": Mapping(pa.int16(), "SMALLINT", sa.SmallInteger),
    "int32": Mapping(pa.int32(), "INT", sa.Integer),
    "int64": Mapping(pa.int64(), "BIGINT", sa.BigInteger),
    "int128": Mapping(pa.decimal128(38, 0), "DECIMAL(38,0)", sa.Numeric(38, 0)),
    "uint8": Mapping(pa.uint8(), "SMALLINT", sa.SmallInteger),
    "uint16": Mapping(pa.uint16(), "INT", sa.Integer),
    "uint32": Mapping(pa.uint32(), "BIGINT", sa.BigInteger),
    "uint64": Mapping(pa.uint64(), "DECIMAL(20,0)", sa.Numeric(20, 0)),
    "uint128": Mapping(pa.decimal128(38, 0), "DECIMAL(38,0)", sa.Numeric(38, 0)),
    "float32": Mapping(pa.float32(), "FLOAT", sa.REAL),
    "float64": Mapping(pa.float64(), "DOUBLE", sa.Double),
    "time": Mapping(pa.time64("us"), "TIME(6)", sa.Time),
    "timetz": Mapping(pa.time64("us"), None, sa.Time(timezone=True)),
    "time_ns": Mapping(pa.time64("ns"), None, sa.Time),
    "date": Mapping(pa.date32(), "DATE", sa.Date),
    "timestamp": Mapping(pa.timestamp("us"), "TIMESTAMP_NTZ", sa.DateTime),
    "timestamptz": Mapping(pa.timestamp("us", tz="UTC"), "TIMESTAMP", sa.DateTime(timezone=True)),
    "timestamp_s": Mapping(pa.timestamp("s"), "TIMESTAMP_NTZ", sa.DateTime),
    "timestamp_ms": Mapping(pa.timestamp("ms"), "TIMESTAMP_NTZ", sa.DateTime),
    "timestamp_ns": Mapping(pa.timestamp("ns"), None, sa.DateTime),
    "interval": Mapping(None, None, sa.Interval),
    "varchar": Mapping(pa.string(), "STRING", sa.String),
    "blob": Mapping(pa.binary(), "BINARY", sa.LargeBinary),
    "json": Mapping(pa.string(), "STRING", sa.JSON),
    "uuid": Mapping(pa.uuid(), "STRING", sa.Uuid),
    "variant": Mapping(None, None, None),
    "geometry": Mapping(None, None, None),
}

_FROM_ARROW: tuple[tuple[pa.DataType, str], ...] = (
    *(
        (mapping.arrow, name)
        for name, mapping in MAPPINGS.items()
        if mapping.arrow is not None and name not in ("int128", "uint128", "timetz", "json")
    ),
    (pa.large_string(), "varchar"),
    (pa.string_view(), "varchar"),
    (pa.large_binary(), "blob"),
    (pa.binary_view(), "blob"),
    (pa.time32("s"), "time"),
    (pa.time32("ms"), "time"),
    (pa.date64(), "date"),
    (pa.float16(), "float32"),
    (pa.null(), "int32"),
)


def catalogue_name(kind: DataType) -> str:
    """The text of a type in the catalogue's `column_type`.

    >>> catalogue_name(Decimal(precision=9, scale=2))
    'decimal(9,2)'
    """
    match kind:
        case Primitive(name=name):
            return name
        case Decimal(precision=precision, scale=scale):
            return f"decimal({precision},{scale})"
        case IntervalType():
            return kind.stored.name
        case List():
            return "list"
        case Struct():
            return "struct"
        case Map():
            return "map"


def from_catalogue(word: str, children: Sequence[Field], *, column: str) -> DataType:
    """The type for a catalogue's `column_type` and child columns."""
    if word.startswith("decimal"):
        precision, scale = word.removeprefix("decimal").strip("() ").split(",")
        return Decimal(precision=int(precision), scale=int(scale))
    match word, children:
        case "list", [element]:
            return List(element=element)
        case "map", [key, value]:
            return Map(key=key, value=value)
        case "struct", _:
            return Struct(fields=tuple(children))
    if word not in MAPPINGS:
        raise UnsupportedType(f'column "{column}" has the type "{word}", which this version does not know', hint="upgrade platform-plugin")
    return Primitive(word)


def to_arrow(kind: DataType, *, column: str = "") -> pa.DataType:
    """The Arrow type of a DuckLake type, with field ids on nested parts."""
    match kind:
        case Primitive(name=name):
            arrow = MAPPINGS[name].arrow
            if arrow is None:
                raise _unmapped(column, kind, "Arrow")
            return arrow
        case Decimal(precision=precision, scale=scale):
            return pa.decimal128(precision, scale)
        case IntervalType():
            return pa.month_day_nano_interval() if kind.is_months else pa.duration("us")
        case List(element=element):
            return pa.list_(arrow_field(element))
        case Struct(fields=fields):
            return pa.struct([arrow_field(field) for field in fields])
        case Map(key=key, value=value):
            return pa.map_(arrow_field(replace(key, nullable=False)), arrow_field(value))


def arrow_field(field: Field) -> pa.Field:
    """An Arrow field that carries the column id where the column has one."""
    metadata = {} if field.id is None else {FIELD_ID: str(field.id).encode()}
    return pa.field(field.name, to_arrow(field.type, column=field.name), nullable=field.nullable, metadata=metadata)


def arrow_schema(fields: Iterable[Field]) -> pa.Schema:
    """The Arrow schema of columns, with their ids as Parquet field ids."""
    return pa.schema([arrow_field(field) for field in fields])


def from_arrow(schema: pa.Schema) -> tuple[Field, ...]:
    """Columns for an Arrow schema, without ids, which the lake gives."""
    return tuple(_field_from_arrow(field) for field in schema)


def _field_from_arrow(field: pa.Field) -> Field:
    return Field(name=field.name, type=_type_from_arrow(field.type, field.name), nullable=field.nullable)


def _type_from_arrow(arrow: pa.DataType, column: str) -> DataType:
    if pa.types.is_dictionary(arrow):
        return _type_from_arrow(arrow.value_type, column)
    if pa.types.is_decimal(arrow) and arrow.precision <= _MAX_DECIMAL:
        return Decimal(precision=arrow.precision, scale=arrow.scale)
    if pa.types.is_map(arrow):
        key, value = _field_from_arrow(arrow.key_field), _field_from_arrow(arrow.item_field)
        return Map(key=replace(key, name="key", nullable=False), value=replace(value, name="value"))
    if pa.types.is_list(arrow) or pa.types.is_large_list(arrow) or pa.types.is_fixed_size_list(arrow) or pa.types.is_list_view(arrow):
        return list_of(_type_from_arrow(arrow.value_type, column))
    if pa.types.is_struct(arrow):
        return Struct(fields=tuple(_field_from_arrow(part) for part in arrow))
    if pa.types.is_timestamp(arrow) and arrow.tz is not None:
        return Primitive("timestamptz")
    for known, name in _FROM_ARROW:
        if arrow == known:
            return Primitive(name)
    raise UnsupportedType(f'column "{column}" has the Arrow type "{arrow}", which a lake can\'t hold', hint="cast it before writing")


_MAX_DECIMAL = 38


def to_spark(kind: DataType, *, column: str = "") -> str:
    """The Spark DDL text of a type.

    >>> to_spark(list_of(Primitive("uint8")))
    'ARRAY<SMALLINT>'
    """
    match kind:
        case Primitive(name=name):
            spark = MAPPINGS[name].spark
            if spark is None:
                raise _unmapped(column, kind, "Spark")
            return spark
        case Decimal() | IntervalType():
            return str(kind)
        case List(element=element):
            return f"ARRAY<{to_spark(element.type, column=column)}>"
        case Struct(fields=fields):
            return f"STRUCT<{', '.join(f'{quote_identifier(part.name)}: {to_spark(part.type, column=column)}' for part in fields)}>"
        case Map(key=key, value=value):
            return f"MAP<{to_spark(key.type, column=column)}, {to_spark(value.type, column=column)}>"


def to_sqlalchemy(kind: DataType, *, column: str = "") -> TypeEngine[Any]:
    """The SQLAlchemy type of a DuckLake type; structs and maps are JSON documents there."""
    match kind:
        case Primitive(name=name):
            mapped = MAPPINGS[name].sqlalchemy
            if mapped is None:
                raise _unmapped(column, kind, "SQLAlchemy")
            return sa.types.to_instance(mapped)
        case Decimal(precision=precision, scale=scale):
            return sa.Numeric(precision, scale)
        case IntervalType():
            return sa.Interval()
        case List(element=element):
            inner, dimensions = element.type, 1
            while isinstance(inner, List):
                inner, dimensions = inner.element.type, dimensions + 1
            return sa.ARRAY(to_sqlalchemy(inner, column=column), dimensions=dimensions)
        case Struct() | Map():
            return sa.JSON()


def _unmapped(column: str, kind: DataType, side: str) -> UnsupportedType:
    named = f'column "{column}"' if column else "a column"
    return UnsupportedType(f"{named} has the type {kind}, which {side} can't hold", hint="leave the column out; DuckDB reads and writes it")
