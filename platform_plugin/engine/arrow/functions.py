"""Scalar functions over Arrow: the common ones that certainly mean the same as in Spark.

Other argument types, and patterns or positions that are no literals, give None: they are left to Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from platform_plugin.algebra.functions import kernel_functions

if TYPE_CHECKING:
    from collections.abc import Sequence

_PARTS = frozenset({"year", "month", "day", "quarter"})
"""The kernel's functions of dates."""


def part_of_day(name: str, value: Any) -> Any | None:
    """The year, month or day of dates, as whole numbers.

    >>> part_of_day("year", pa.array([9131], pa.int32()).cast(pa.date32())).to_pylist()
    [1995]
    """
    kernel = kernel_functions(name)
    if not _PARTS.intersection(kernel) or value.type != pa.date32():
        return None
    return pc.call_function(kernel[0], [value]).cast(pa.int32())


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
    match kernel_functions(name), [value.type for value in values]:
        case (part,), [_] if part in _PARTS:
            return part_of_day(name, values[0])
        case ("utf8_length",), [kind] if kind == pa.string():
            return pc.utf8_length(values[0])
        case ("utf8_slice_codeunits",), [kind, *_] if kind == pa.string():
            places = [value.as_py() if isinstance(value, pa.Scalar) else None for value in values[1:]]
            if len(places) not in (1, 2) or not isinstance(places[0], int) or places[0] < 1:
                return None
            start = places[0] - 1
            if len(places) == 1:
                return pc.utf8_slice_codeunits(values[0], start)
            return pc.utf8_slice_codeunits(values[0], start, start + places[1]) if isinstance(places[1], int) and places[1] > 0 else None
    return None
