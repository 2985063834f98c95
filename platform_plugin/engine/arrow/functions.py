"""Scalar functions over Arrow: the common ones that certainly mean the same as in Spark.

Other argument types, and patterns or positions that are no literals, give None: they are left to Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from platform_plugin.algebra.functions import kernel_functions
from platform_plugin.engine.arrow import times

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_PARTS = frozenset({"year", "month", "day", "quarter", "hour", "minute", "second", "iso_week", "day_of_year"})
"""The kernel's functions of dates and times."""
_WHOLE = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_NO_SPACE = " "


def part_of_day(name: str, value: Any) -> Any | None:
    """The year, month or another part of dates and times, as whole numbers.

    >>> part_of_day("year", pa.array([9131], pa.int32()).cast(pa.date32())).to_pylist()
    [1995]
    """
    kernel = kernel_functions(name)
    # The seconds of EXTRACT have digits after the point.
    if not _PARTS.intersection(kernel) or kernel[0] == "second":
        return None
    return times.take_part(kernel[0], value)


def match_like(value: Any, pattern: Any) -> Any | None:
    """Whether texts match a literal LIKE pattern.

    >>> match_like(pa.array(["carefully", "a c", None]), pa.scalar("%c_r%")).to_pylist()
    [True, False, None]
    """
    if value.type != pa.string() or not isinstance(pattern, pa.StringScalar) or not pattern.is_valid:
        return None
    return pc.match_like(value, pattern.as_py())


def call_function(name: str, values: Sequence[Any]) -> Any | None:
    """The values of a call.

    >>> call_function("substring", [pa.array(["abc"]), pa.scalar(2), pa.scalar(9)]).to_pylist()
    ['bc']
    """
    known = kernel_functions(name)
    if len(known) == 1 and known[0] in _PARTS:
        return times.take_part(known[0], values[0]) if len(values) == 1 else None
    called = _FUNCTIONS.get("+".join(known))
    return None if called is None or len(values) not in called[0] else called[1](*values)


def _is_text(*values: Any) -> bool:
    return all(value.type == pa.string() for value in values)


def _length(value: Any) -> Any | None:
    return pc.utf8_length(value) if _is_text(value) else None


def _substring(value: Any, *places: Any) -> Any | None:
    bounds = [place.as_py() if isinstance(place, pa.Scalar) else None for place in places]
    if not _is_text(value) or len(bounds) not in (1, 2) or not isinstance(bounds[0], int) or bounds[0] < 1:
        return None
    start = bounds[0] - 1
    if len(bounds) == 1:
        return pc.utf8_slice_codeunits(value, start)
    return pc.utf8_slice_codeunits(value, start, start + bounds[1]) if isinstance(bounds[1], int) and bounds[1] > 0 else None


def _cased(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Upper or lower case of texts in ASCII; of other letters the tables of the two engines may differ."""

    def change(value: Any) -> Any | None:
        if not _is_text(value):
            return None
        plain = pc.string_is_ascii(value)
        is_plain = plain if isinstance(plain, pa.Scalar) else pc.all(plain)
        return function(value) if is_plain.as_py() is not False else None

    return change


def _trimmed(function: Callable[..., Any]) -> Callable[[Any], Any]:
    return lambda value: function(value, characters=_NO_SPACE) if _is_text(value) else None


def _replace(value: Any, search: Any, instead: Any) -> Any | None:
    if not _is_text(value) or not all(isinstance(part, pa.StringScalar) and part.is_valid for part in (search, instead)):
        return None
    return pc.replace_substring(value, search.as_py(), instead.as_py()) if search.as_py() else value


def _concat(*values: Any) -> Any | None:
    return pc.binary_join_element_wise(*values, "", null_handling="emit_null") if values and _is_text(*values) else None


def _found(function: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    """Whether texts have a literal part."""
    return lambda value, part: (
        function(value, part.as_py()) if _is_text(value) and isinstance(part, pa.StringScalar) and part.is_valid else None
    )


def _absolute(value: Any) -> Any | None:
    if value.type in (*_WHOLE, pa.float64()):
        return pc.abs_checked(value)
    return pc.abs(value) if pa.types.is_decimal128(value.type) else None


def _rounded(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The whole number below or above doubles and decimals."""

    def change(value: Any) -> Any | None:
        if value.type in _WHOLE:
            return value.cast(pa.int64())
        if value.type == pa.float64():
            return function(value).cast(pa.int64())
        if not pa.types.is_decimal128(value.type):
            return None
        digits, scale = value.type.precision, value.type.scale
        wide = value.cast(pa.decimal256(digits + 1, scale))
        return value if scale == 0 else function(wide).cast(pa.decimal256(digits + 1, 0)).cast(pa.decimal128(digits - scale + 1, 0))

    return change


def _root(value: Any) -> Any | None:
    return pc.sqrt(value) if value.type == pa.float64() else None


_ANY = range(1, 100)
_FUNCTIONS: Mapping[str, tuple[Sequence[int], Callable[..., Any]]] = {
    "utf8_length": ((1,), _length),
    "utf8_slice_codeunits": ((2, 3), _substring),
    "ascii_upper": ((1,), _cased(pc.ascii_upper)),
    "ascii_lower": ((1,), _cased(pc.ascii_lower)),
    "utf8_trim": ((1,), _trimmed(pc.utf8_trim)),
    "utf8_ltrim": ((1,), _trimmed(pc.utf8_ltrim)),
    "utf8_rtrim": ((1,), _trimmed(pc.utf8_rtrim)),
    "replace_substring": ((3,), _replace),
    "binary_join_element_wise": (_ANY, _concat),
    "starts_with": ((2,), _found(pc.starts_with)),
    "ends_with": ((2,), _found(pc.ends_with)),
    "match_substring": ((2,), _found(pc.match_substring)),
    "abs_checked": ((1,), _absolute),
    "floor": ((1,), _rounded(pc.floor)),
    "ceil": ((1,), _rounded(pc.ceil)),
    "sqrt": ((1,), _root),
    "day_of_week": ((1,), times.weekday),
    "day_of_week+add": ((1,), lambda value: times.take_part("day_of_week", value)),
    "floor_temporal": ((2,), times.date_trunc),
    "floor_temporal+cast": ((2,), times.trunc_date),
    "cast": ((1,), times.to_date),
    "strftime": ((2,), times.format_time),
    "divide": ((1,), times.count_seconds),
    "subtract": ((2,), times.count_days),
    "add": ((2,), times.add_days),
}
"""The functions of the kernel with how many arguments they take, by the functions of Arrow that the table of functions names for them."""
