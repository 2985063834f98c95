"""The common type to which Spark converts values of several types, for numbers and decimals."""

from __future__ import annotations

from platform_plugin.algebra.types.data_types import DataType, Decimal, Primitive

DIGITS = 38
RANKS = ("int8", "int16", "int32", "int64", "float32", "float64")
WHOLE = {"int8": (3, 0), "int16": (5, 0), "int32": (10, 0), "int64": (20, 0)}
_DOUBLE = Primitive("float64")
_LEAST_SCALE = 6


# What Spark makes of the whole numbers that it has no type for.
_AS_SPARK: dict[str, DataType] = {
    "uint8": Primitive("int16"),
    "uint16": Primitive("int32"),
    "uint32": Primitive("int64"),
    "uint64": Decimal(precision=20, scale=0),
    "int128": Decimal(precision=DIGITS, scale=0),
    "uint128": Decimal(precision=DIGITS, scale=0),
}


def to_spark_number(kind: DataType) -> DataType:
    """The type in which Spark calculates with values of a type: unsigned and huge whole numbers are wider ones or decimals there.

    >>> str(to_spark_number(Primitive("uint32"))), str(to_spark_number(Primitive("uint64")))
    ('BIGINT', 'DECIMAL(20,0)')
    """
    return _AS_SPARK.get(kind.name, kind) if isinstance(kind, Primitive) else kind


def common_type(found: list[DataType | None]) -> DataType | None:
    """The type that values of all these types are converted to, as in CASE and coalesce."""
    result: DataType | None = None
    for index, kind in enumerate(found):
        if kind is None:
            return None
        result = kind if index == 0 else wider_type(result, kind)
        if result is None:
            return None
    return result


def wider_type(a: DataType | None, b: DataType) -> DataType | None:
    """The common type of two types; None where Spark's decision depends on more than these types, or where Spark refuses."""
    if a == b:
        return a
    if isinstance(a, Primitive) and isinstance(b, Primitive):
        if a.name in RANKS and b.name in RANKS:
            top = max(a.name, b.name, key=RANKS.index)
            # A whole number next to FLOAT becomes FLOAT or DOUBLE, depending on its width and on the place.
            return Primitive(top) if "float32" not in (a.name, b.name) or top == "float64" else None
        return None
    left, right = decimal_type_of(a), decimal_type_of(b)
    if left is not None and right is not None:
        scale = max(left.scale, right.scale)
        whole = max(left.precision - left.scale, right.precision - right.scale)
        return Decimal(precision=whole + scale, scale=scale) if whole + scale <= DIGITS else None
    return _DOUBLE if _DOUBLE in (a, b) and (left or right) else None


def decimal_type_of(kind: DataType | None) -> Decimal | None:
    """The decimal type that holds all values of an exact type."""
    if isinstance(kind, Decimal):
        return kind
    if isinstance(kind, Primitive) and kind.name in WHOLE:
        return Decimal(precision=WHOLE[kind.name][0], scale=0)
    return None


def adjusted_decimal(precision: int, scale: int) -> Decimal:
    """A decimal type reduced to 38 digits as Spark does it: places after the point go first, but six of them stay."""
    if precision <= DIGITS:
        return Decimal(precision=precision, scale=scale)
    kept = max(DIGITS - (precision - scale), min(scale, _LEAST_SCALE))
    return Decimal(precision=DIGITS, scale=kept)


def bounded_decimal(precision: int, scale: int) -> Decimal:
    """A decimal type reduced to 38 digits with all its places after the point, as in aggregates."""
    return Decimal(precision=min(precision, DIGITS), scale=min(scale, DIGITS))
