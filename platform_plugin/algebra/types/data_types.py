"""Data types and fields as values, named by the DuckLake 1.0 type names.

>>> str(List(element=Field(name="element", type=Decimal(precision=9, scale=2))))
'ARRAY<DECIMAL(9,2)>'
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# DuckLake name -> the word used in our SQL. The order is that of the public specification.
SQL_WORDS = {
    "boolean": "BOOLEAN",
    "int8": "TINYINT",
    "int16": "SMALLINT",
    "int32": "INT",
    "int64": "BIGINT",
    "int128": "HUGEINT",
    "uint8": "UTINYINT",
    "uint16": "USMALLINT",
    "uint32": "UINTEGER",
    "uint64": "UBIGINT",
    "uint128": "UHUGEINT",
    "float32": "FLOAT",
    "float64": "DOUBLE",
    "time": "TIME",
    "timetz": "TIMETZ",
    "time_ns": "TIME_NS",
    "date": "DATE",
    "timestamp": "TIMESTAMP_NTZ",
    "timestamptz": "TIMESTAMP",
    "timestamp_s": "TIMESTAMP_S",
    "timestamp_ms": "TIMESTAMP_MS",
    "timestamp_ns": "TIMESTAMP_NS",
    "interval": "INTERVAL",
    "varchar": "STRING",
    "blob": "BINARY",
    "json": "JSON",
    "uuid": "UUID",
    "variant": "VARIANT",
    "geometry": "GEOMETRY",
}


@dataclass(frozen=True, slots=True)
class Primitive:
    """A type without parts, by its DuckLake name."""

    name: str

    def __post_init__(self) -> None:
        if self.name not in SQL_WORDS:
            msg = f"{self.name!r} is not a DuckLake type"
            raise ValueError(msg)

    def __str__(self) -> str:
        return SQL_WORDS[self.name]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decimal:
    """An exact number of `precision` digits, `scale` of them after the point."""

    precision: int
    scale: int

    def __str__(self) -> str:
        return f"DECIMAL({self.precision},{self.scale})"


INTERVAL_UNITS = (("YEAR", "MONTH"), ("DAY", "HOUR", "MINUTE", "SECOND"))
"""The units of Spark's two kinds of intervals; one kind can't be converted to the other."""


@dataclass(frozen=True, slots=True)
class IntervalType:
    """A length of time of Spark's, from its largest unit to its smallest. A lake keeps it as a whole number: see `stored`."""

    first: str
    last: str

    def __post_init__(self) -> None:
        units = next((units for units in INTERVAL_UNITS if self.first in units), ())
        if self.last not in units or units.index(self.first) > units.index(self.last):
            msg = f"{self.first} to {self.last} is not an interval"
            raise ValueError(msg)

    @property
    def is_months(self) -> bool:
        """Whether it counts months, whose lengths differ."""
        return self.first in INTERVAL_UNITS[0]

    @property
    def stored(self) -> Primitive:
        """The type in which a lake keeps it: a number of months, or of microseconds."""
        return Primitive("int32") if self.is_months else Primitive("int64")

    def __str__(self) -> str:
        return f"INTERVAL {self.first}" + (f" TO {self.last}" if self.last != self.first else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class List:
    """A sequence of one element type."""

    element: Field

    def __str__(self) -> str:
        return f"ARRAY<{self.element.type}>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Struct:
    """Named fields in order."""

    fields: tuple[Field, ...]

    def __str__(self) -> str:
        return f"STRUCT<{', '.join(f'{quote_identifier(field.name)}: {field.type}' for field in self.fields)}>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Map:
    """Pairs of a key type and a value type."""

    key: Field
    value: Field

    def __str__(self) -> str:
        return f"MAP<{self.key.type}, {self.value.type}>"


DataType = Primitive | Decimal | IntervalType | List | Struct | Map


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A column, or a part of a nested one; `id` is its DuckLake column id once the lake has given it one.

    New rows get `default`; rows of files that are older than the column read as `initial_default`. Both are literals in text form, but a
    `computed_default` is an expression in DuckDB's SQL.
    """

    name: str
    type: DataType
    nullable: bool = True
    default: str | None = None
    initial_default: str | None = None
    computed_default: bool = False
    comment: str | None = None
    id: int | None = None

    @property
    def children(self) -> tuple[Field, ...]:
        """The direct parts of a nested field, in order."""
        match self.type:
            case List(element=element):
                return (element,)
            case Struct(fields=fields):
                return fields
            case Map(key=key, value=value):
                return (key, value)
            case _:
                return ()

    def walk(self) -> Iterator[Field]:
        """The field and all its parts, parents first: the order in which DuckLake numbers them."""
        yield self
        for child in self.children:
            yield from child.walk()

    def leaves(self) -> Iterator[Field]:
        """The parts that hold values, in Parquet's column order."""
        return (field for field in self.walk() if not field.children)

    def with_children(self, children: tuple[Field, ...]) -> Field:
        """A copy with other parts of the same shape."""
        match self.type:
            case List():
                return replace(self, type=List(element=children[0]))
            case Struct():
                return replace(self, type=Struct(fields=children))
            case Map():
                return replace(self, type=Map(key=children[0], value=children[1]))
            case _:
                return self


def quote_identifier(name: str) -> str:
    """A name between back-ticks, as a Spark SQL identifier that is valid whatever the name contains.

    >>> quote_identifier("user"), quote_identifier("od`d")
    ('`user`', '`od``d`')
    """
    return "`" + name.replace("`", "``") + "`"


def struct_of(**parts: DataType) -> Struct:
    """A struct from names and types, for short tests and examples."""
    return Struct(fields=tuple(Field(name=name, type=kind) for name, kind in parts.items()))


def list_of(element: DataType) -> List:
    """A list type whose element has the name that DuckLake gives it."""
    return List(element=Field(name="element", type=element))


def map_of(key: DataType, value: DataType) -> Map:
    """A map type whose parts have the names that DuckLake gives them."""
    return Map(key=Field(name="key", type=key, nullable=False), value=Field(name="value", type=value))


# Promotions under which every old file still reads as the same values, in DuckDB, Spark and Arrow alike.
_WIDER: dict[str, tuple[str, ...]] = {
    "int8": ("int16", "int32", "int64", "float64"),
    "int16": ("int32", "int64", "float64"),
    "int32": ("int64", "float64"),
    "uint8": ("uint16", "uint32", "uint64"),
    "uint16": ("uint32", "uint64"),
    "uint32": ("uint64",),
    "float32": ("float64",),
}


def stored_field(field: Field) -> Field:
    """A column as the files and the catalogue of a lake have it: intervals, also inside of others, are whole numbers.

    >>> str(stored_field(Field(name="stays", type=list_of(IntervalType("DAY", "SECOND")))).type)
    'ARRAY<BIGINT>'
    """
    if isinstance(field.type, IntervalType):
        return replace(field, type=field.type.stored)
    return field.with_children(tuple(stored_field(child) for child in field.children)) if field.children else field


def holds_interval(field: Field) -> bool:
    """Whether a column is an interval or has one in it."""
    return any(isinstance(part.type, IntervalType) for part in field.walk())


def can_widen(old: DataType, new: DataType) -> bool:
    """Whether every value of `old` reads as the same value of `new`, so that old files stay valid.

    >>> can_widen(Primitive("int32"), Primitive("int64")), can_widen(Primitive("int64"), Primitive("int32"))
    (True, False)
    """
    match old, new:
        case Primitive(name=before), Primitive(name=after):
            return before == after or after in _WIDER.get(before, ())
        case Decimal(precision=p, scale=s), Decimal(precision=q, scale=t):
            return t >= s and q - t >= p - s
        case _:
            return False


_SAME_IN_SPARK = frozenset(
    ["boolean", "int8", "int16", "int32", "int64", "float32", "float64", "varchar", "date", "timestamp", "timestamptz"]
)


def is_same_in_spark(kind: DataType) -> bool:
    """Whether Spark has the same type; for the others it has another one, or several.

    >>> is_same_in_spark(Primitive("int32")), is_same_in_spark(Primitive("uuid"))
    (True, False)
    """
    return isinstance(kind, Decimal) or (isinstance(kind, Primitive) and kind.name in _SAME_IN_SPARK)
