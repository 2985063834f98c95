"""Bounds of files in the catalogue, which are texts, as expressions that the database compares like the values."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from platform_plugin.algebra.types.data_types import DataType, Decimal, Primitive

_WHOLE = frozenset({"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"})
_FLOATS = frozenset({"float32", "float64"})


def bound_of(column: sa.Column[str], kind: DataType, *, sqlite: bool) -> sa.ColumnElement[Any]:
    """A bound of a file, as the database compares it with values of its type."""
    match kind:
        case Decimal():
            return sa.cast(column, sa.Double if sqlite else sa.Numeric)
        case Primitive(name=name) if name in _FLOATS:
            number = sa.cast(column, sa.REAL if sqlite else sa.Double)
            # SQLite reads 'inf' as zero.
            return sa.case((column.in_(("inf", "-inf", "nan")), None), else_=number) if sqlite else number
        case Primitive(name=name) if name in _WHOLE:
            return sa.cast(column, sa.BigInteger if sqlite else sa.Numeric)
        case Primitive(name="boolean"):
            return sa.case((column.in_(("1", "true")), "1"), else_="0")
        case Primitive(name="varchar" | "uuid"):
            return column if sqlite else sa.collate(column, "C")
        case _:
            # Years before 1 and after 9999 have another width, and then text order is not time order.
            usual = sa.and_(column.like("____-__-__%"), column.not_like("%BC%"))
            return sa.case((usual, column if sqlite else sa.collate(column, "C")), else_=None)
