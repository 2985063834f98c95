"""`to_literal`: Python values as Spark literals, so that parameters are bound and never become text."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

from pyspark.sql import types as t
from pyspark.sql.connect import functions as f
from pyspark.sql.connect.column import Column as ConnectColumn
from pyspark.sql.connect.expressions import LiteralExpression

from platform_plugin.errors import InvalidValue

if TYPE_CHECKING:
    from pyspark.sql import Column

_LONG = 1 << 63
_MOST_DIGITS = 38


def to_literal(value: Any, name: str) -> Column:
    """A value as a column: whole numbers beyond BIGINT as decimals, times without a zone in the session's zone, UUIDs as text.

    >>> to_literal(10**20, "n")
    Column<'100000000000000000000'>
    """
    match value:
        case bool():
            return f.lit(value)
        case int() if not -_LONG <= value < _LONG:
            return f.lit(_decimal(Decimal(value), name))
        case Decimal():
            return f.lit(_decimal(value, name))
        case datetime() if value.tzinfo is None:
            # Spark's client would take it to be in the zone of this machine.
            return f.lit(value.replace(tzinfo=UTC))
        case UUID():
            return f.lit(str(value))
        case list():
            return f.array(*(_of_kind(part, _kind(value), name) for part in value))
        case Mapping():
            return f.create_map(*(to_literal(part, name) for pair in value.items() for part in pair))
    return f.lit(value)


def _kind(parts: list[Any]) -> t.DataType | None:
    """The one type that numbers and gaps in a list need; Spark takes no list of different ones as an argument."""
    known = [part for part in parts if part is not None and not isinstance(part, list | Mapping)]
    if not known:
        return None
    if all(isinstance(part, int) and not isinstance(part, bool) for part in known):
        return t.LongType() if any(not -(1 << 31) <= part < 1 << 31 for part in known) else t.IntegerType()
    if all(isinstance(part, int | float) and not isinstance(part, bool) for part in known):
        return t.DoubleType()
    return LiteralExpression._infer_type(str(known[0]) if isinstance(known[0], UUID) else known[0])  # noqa: SLF001  it has no public name


def _of_kind(part: Any, kind: t.DataType | None, name: str) -> Column:
    if part is None and kind is not None:
        return cast("Column", ConnectColumn(LiteralExpression(None, kind)))
    if isinstance(kind, t.DoubleType):
        return f.lit(float(part))
    if isinstance(kind, t.LongType) and -_LONG <= part < _LONG:
        return cast("Column", ConnectColumn(LiteralExpression(part, kind)))
    return to_literal(part, name)


def _decimal(value: Decimal, name: str) -> Decimal:
    if not value.is_finite():
        raise InvalidValue(f'parameter "{name}" is {value}, which no DECIMAL holds', hint="give it as a float")
    _, digits, exponent = value.as_tuple()
    places = cast("int", exponent)
    if max(len(digits) + max(places, 0), -places) > _MOST_DIGITS:
        raise InvalidValue(f'parameter "{name}" has more than {_MOST_DIGITS} digits', hint="round it, or give it as a float or as text")
    return value
