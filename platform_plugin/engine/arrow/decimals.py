"""Decimals over Arrow: arithmetic in the types that Spark's rules give, and conversion to doubles.

None is returned for what Spark would round or Arrow can't hold; it is left to Spark.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from platform_plugin.algebra.types.widening import adjusted_decimal
from platform_plugin.engine.refusal import RefusedByEngine

if TYPE_CHECKING:
    from collections.abc import Sequence

_MOST_DIGITS = 38
_WIDEST = 76
# The digits after the point that Spark keeps of a quotient of long decimals.
_LEAST_SCALE = 6
CHECKED: dict[type[exp.Expr], Any] = {exp.Add: pc.add_checked, exp.Sub: pc.subtract_checked, exp.Mul: pc.multiply_checked}
"""Arithmetic that fails on an overflow instead of returning a wrong number."""
# How many digits Spark gives a whole number beside a decimal.
_DIGITS_OF = {pa.int8(): 3, pa.int16(): 5, pa.int32(): 10, pa.int64(): 20}
# Up to here a double holds every whole number, and every power of ten: one division then rounds once, as the JVM does.
_EXACT = 1 << 53
_EXACT_TENS = 22


def parse_decimal(text: str) -> pa.Scalar:
    """A literal with a point as a decimal, with as many digits as Spark counts.

    >>> str(parse_decimal("0.05").type), str(parse_decimal("1.50").type)
    ('decimal128(2, 2)', 'decimal128(3, 2)')
    """
    value = Decimal(text)
    scale = -int(value.as_tuple().exponent)
    return pa.scalar(value, pa.decimal128(max(len(value.as_tuple().digits), scale), scale))


def calculate_decimals(operator: type[exp.Expr], left: Any, right: Any) -> Any | None:
    """The sum, difference or product of two decimals, in Spark's type for it.

    >>> price, share = pa.array([Decimal("10.00")]), pa.array([Decimal("0.05")], pa.decimal128(15, 2))
    >>> calculate_decimals(exp.Mul, price, share).to_pylist(), str(calculate_decimals(exp.Mul, price, share).type)
    ([Decimal('0.5000')], 'decimal128(20, 4)')
    """
    one, other = left.type, right.type
    if operator is exp.Mul:
        digits, scale = one.precision + other.precision + 1, one.scale + other.scale
    else:
        scale = max(one.scale, other.scale)
        digits = max(one.precision - one.scale, other.precision - other.scale) + scale + 1
    if digits > _MOST_DIGITS:
        return _calculate_wide(operator, left, right, digits, scale)
    found = CHECKED[operator](left, right)
    return found if found.type == pa.decimal128(digits, scale) else None


def _calculate_wide(operator: type[exp.Expr], left: Any, right: Any, digits: int, scale: int) -> Any | None:
    """The same where the type would have more digits than there are: Spark keeps those before the point, and rounds away others."""
    if digits > _WIDEST:
        return None
    found = CHECKED[operator](*(part.cast(pa.decimal256(part.type.precision, part.type.scale)) for part in (left, right)))
    kind = adjusted_decimal(digits, scale)
    try:
        return cast_decimal(found, pa.decimal128(kind.precision, kind.scale))
    except pa.ArrowInvalid as error:
        raise RefusedByEngine("a number of more digits than there are", for_good=False) from error


def divide_decimals(left: Any, right: Any) -> Any | None:
    """The quotient of two decimals, none of the second of which is zero, in Spark's type for it and rounded as Spark rounds.

    >>> found = divide_decimals(pa.array([Decimal("2.00")], pa.decimal128(9, 2)), pa.array([Decimal(3)], pa.decimal128(20, 0)))
    >>> found.to_pylist(), str(found.type)
    ([Decimal('0.66666666666666666666667')], 'decimal128(30, 23)')
    """
    one, other = left.type, right.type
    before = one.precision - one.scale + other.scale
    scale = max(_LEAST_SCALE, one.scale + other.precision + 1)
    if before + scale > _MOST_DIGITS:
        scale = max(_MOST_DIGITS - before, min(scale, _LEAST_SCALE))
    return divide_to(left, right, pa.decimal128(min(before + scale, _MOST_DIGITS), scale))


def divide_to(left: Any, right: Any, kind: pa.DataType) -> Any | None:
    """The quotient of two decimals as a type: of half a unit of its last digit and more it is rounded away from zero."""
    one, other = left.type, right.type
    # Arrow leaves out the digits beyond these; one more than are kept decides how to round.
    digits = one.scale + other.precision - other.scale + 1
    more = max(0, kind.scale + 1 - digits)
    if max(one.precision + more, one.precision - one.scale + other.scale + max(4, digits + more)) > _WIDEST:
        return None
    wide = left.cast(pa.decimal256(one.precision + more, one.scale + more))
    found = pc.divide(wide, right.cast(pa.decimal256(other.precision, other.scale)))
    return cast_decimal(found, kind)


def cast_decimal(value: Any, kind: pa.DataType) -> Any:
    """A decimal as one of another scale, rounded away from zero from half a unit on; an error where it does not fit.

    >>> cast_decimal(pa.array([Decimal("0.125"), Decimal("-0.125")]), pa.decimal128(4, 2)).to_pylist()
    [Decimal('0.13'), Decimal('-0.13')]
    """
    if kind.scale < value.type.scale:
        # A digit more, for what is rounded up.
        wider = pa.decimal256(min(value.type.precision + 1, _WIDEST), value.type.scale)
        value = pc.round(value.cast(wider), ndigits=kind.scale, round_mode="half_towards_infinity")
    elif not pa.types.is_decimal256(value.type):
        value = value.cast(pa.decimal256(value.type.precision + kind.scale - value.type.scale, kind.scale))
    return value.cast(pa.decimal256(_WIDEST - 1, kind.scale)).cast(kind)


def operand_decimal(node: exp.Expr, value: Any) -> Any | None:
    """An operand as the decimal that Spark calculates with; a whole number in the text gets exactly its own digits."""
    if pa.types.is_decimal128(value.type):
        return value
    if value.type not in _DIGITS_OF:
        return None
    written = isinstance(node, exp.Literal) and isinstance(value, pa.Scalar)
    return value.cast(pa.decimal128(20, 0)).cast(pa.decimal128(len(str(value.as_py())) if written else _DIGITS_OF[value.type], 0))


def widest_decimal(kinds: Sequence[pa.DataType]) -> pa.DataType | None:
    """The decimal that Spark converts values of these types to, such as those of a CASE.

    >>> str(widest_decimal([pa.decimal128(15, 2), pa.int32()]))
    'decimal128(15, 2)'
    """
    if not all(pa.types.is_decimal128(kind) or kind in _DIGITS_OF for kind in kinds):
        return None
    scale = max(kind.scale for kind in kinds if pa.types.is_decimal128(kind))
    before = max(kind.precision - kind.scale if pa.types.is_decimal128(kind) else _DIGITS_OF[kind] for kind in kinds)
    return pa.decimal128(before + scale, scale) if before + scale <= _MOST_DIGITS else None


def align_decimals(left: Any, right: Any) -> tuple[Any, Any]:
    """Two exact numbers, at least one of them a decimal, as decimals of one type for a comparison."""
    scale = max(kind.scale if pa.types.is_decimal(kind) else 0 for kind in (left.type, right.type))
    for one, other, turned in ((left, right, False), (right, left, True)):
        # A written value takes the column's type where it fits: to bring a column to another takes twenty times as long as to compare it.
        if isinstance(other, pa.Scalar) and not isinstance(one, pa.Scalar) and pa.types.is_decimal(one.type) and one.type.scale == scale:
            try:
                same = other.cast(pa.decimal128(_MOST_DIGITS, scale)).cast(one.type)
            except pa.ArrowInvalid:
                continue
            return (same, one) if turned else (one, same)
    return left.cast(pa.decimal128(_MOST_DIGITS, scale)), right.cast(pa.decimal128(_MOST_DIGITS, scale))


def to_doubles(found: Any) -> Any | None:
    """Decimals as the nearest doubles; None where that needs more than one division of two exact ones.

    >>> to_doubles(pa.array([Decimal("0.3"), None])).to_pylist()
    [0.3, None]
    """
    if isinstance(found, pa.Scalar):
        return pa.scalar(None if found.as_py() is None else float(found.as_py()), pa.float64())
    scale = found.type.scale
    if not 0 <= scale <= _EXACT_TENS:
        return None
    column = found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
    if isinstance(column, pa.ChunkedArray):  # of no chunks at all
        return pa.array([], pa.float64())
    if not len(column):
        return pa.array([], pa.float64())
    words = np.frombuffer(column.buffers()[1], dtype=np.int64)[2 * column.offset : 2 * (column.offset + len(column))].reshape(-1, 2)
    low, high = words[:, 0], words[:, 1]
    valid = None if not column.null_count else column.is_valid().to_numpy(zero_copy_only=False)
    fits = (high == low >> 63) & (low < _EXACT) & (low > -_EXACT)
    if not (fits if valid is None else fits | ~valid).all():
        return None
    return pa.array(low / np.float64(10**scale), mask=None if valid is None else ~valid)
