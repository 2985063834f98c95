"""Aggregates over the numbered groups of rows: moments and their merge, percentiles by how often a value is there, and bits.

Doubles are added in another order than Spark adds them, as in its own runs over other partitions: the last places may differ. Where all
values of a group are equal, its variance is exactly zero, as in Spark.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from platform_plugin.algebra.moments import MOMENT_MERGE
from platform_plugin.engine.arrow.casts import WHOLE, to_double
from platform_plugin.engine.arrow.values import NotSupportedByArrow

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Integers = NDArray[np.int64]
    Doubles = NDArray[np.float64]

_ANSWERS: dict[str, Callable[[Doubles, Doubles], Doubles]] = {
    "var_pop": lambda number, spread: spread / number,
    "var_samp": lambda number, spread: spread / (number - 1),
    "stddev_pop": lambda number, spread: np.sqrt(spread / number),
    "stddev_samp": lambda number, spread: np.sqrt(spread / (number - 1)),
}
MOMENTS = frozenset(_ANSWERS)
_BITS = {"bit_and": np.bitwise_and, "bit_or": np.bitwise_or, "bit_xor": np.bitwise_xor}
BITS = frozenset(_BITS)
_LAYOUT = re.compile(r"[\s`]+")


def find_moments(name: str, value: Any, codes: Integers, count: int) -> pa.Array:
    """The variance or standard deviation of each group; NULL for a group of too few values."""
    chosen, of = _finite(value, codes)
    number = np.bincount(of, minlength=count).astype(np.float64)
    _, spread = _spread(chosen, np.ones(len(chosen)), of, count)
    enough = number > (1 if name.endswith("samp") else 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return pa.array(_ANSWERS[name](number, spread), pa.float64(), mask=~enough)


def _finite(value: Any, codes: Integers) -> tuple[Doubles, Integers]:
    """The values that are not NULL as doubles, with the groups that they are in; what has no finite value is refused."""
    doubles = to_double(value)
    if doubles is None:
        raise NotSupportedByArrow(f"moments of values of type {value.type}")
    known = pc.is_valid(doubles).to_numpy(zero_copy_only=False)
    chosen = doubles.drop_null().to_numpy(zero_copy_only=False)
    return _refuse_infinite(chosen), codes[known]


def _refuse_infinite(values: Doubles) -> Doubles:
    if not np.isfinite(values).all():
        raise NotSupportedByArrow("NaN or an infinite number among the values", for_good=False)
    return values


def _spread(values: Doubles, weights: Doubles, codes: Integers, count: int) -> tuple[Doubles, Doubles]:
    """The mean of each group, and the sum of the squared distances from it."""
    # As distances from one of the values nothing is lost where all are large, and equal ones are all zero.
    origin = np.zeros(count)
    origin[codes] = values
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        distances = values - origin[codes]
        number = np.bincount(codes, weights=weights, minlength=count)
        shift = np.where(number > 0, np.bincount(codes, weights=weights * distances, minlength=count) / number, 0.0)
        rest = distances - shift[codes]
        spread: Doubles = np.bincount(codes, weights=weights * rest * rest, minlength=count).astype(np.float64)
        return origin + shift, _refuse_infinite(spread)


def merged_moments(node: exp.Expr) -> exp.Expr | None:
    """The column of stored moments that a call merges by Chan's formula; None for another call."""
    if not isinstance(node, exp.Anonymous) or str(node.this) != "aggregate" or not isinstance(node.expressions[0], exp.Anonymous):
        return None
    listed = node.expressions[0]
    if str(listed.this) != "collect_list" or len(listed.expressions) != 1:
        return None
    column = listed.expressions[0]
    texts = [text.sql("spark", normalize_functions=False) for text in (node, column)]
    wanted = _LAYOUT.sub("", MOMENT_MERGE).replace("_0", _LAYOUT.sub("", texts[1]))
    return column if _LAYOUT.sub("", texts[0]) == wanted else None


def merge_moments(value: Any, codes: Integers, count: int) -> pa.Array:
    """The stored moments of all parts of each group together: their number, mean and squared distances."""
    parts = [pc.struct_field(value, name) for name in ("n", "mean", "m2")]
    if [part.type for part in parts] != [pa.float64()] * 3:
        raise NotSupportedByArrow("a merge of moments that are no doubles")
    known = pc.fill_null(pc.greater(parts[0], 0.0), False).to_numpy(zero_copy_only=False)  # noqa: FBT003
    number, mean, spread = (_refuse_infinite(part.filter(pa.array(known)).to_numpy(zero_copy_only=False)) for part in parts)
    of = codes[known]
    means, between = _spread(mean, number, of, count)
    total = np.bincount(of, weights=number, minlength=count)
    within = np.bincount(of, weights=spread, minlength=count)
    found = [total, np.where(total > 0, means, 0.0), _refuse_infinite(within + between)]
    return pa.StructArray.from_arrays([pa.array(part, pa.float64()) for part in found], names=["n", "mean", "m2"])


def find_percentiles(value: Any, shares: Sequence[float], numbers: Any | None, codes: Integers, count: int) -> list[pa.Array]:
    """The percentiles of the values of each group, where a value is there as often as its number says; NULL for a group of none."""
    doubles = to_double(value)
    if doubles is None or any(not 0 <= share <= 1 for share in shares):
        raise NotSupportedByArrow(f"percentiles of values of type {value.type}")
    times = np.ones(len(codes), dtype=np.int64) if numbers is None else pc.fill_null(numbers.cast(pa.int64()), 0).to_numpy()
    if len(times) and times.min() < 0:
        raise NotSupportedByArrow("a negative number of values", for_good=False)
    known = pc.is_valid(doubles).to_numpy(zero_copy_only=False) & (times > 0)
    values = doubles.filter(pa.array(known)).to_numpy(zero_copy_only=False)
    if np.isnan(values).any():
        raise NotSupportedByArrow("NaN among the values", for_good=False)
    of = codes[known]
    order = np.lexsort((values, of))
    values, of = values[order], of[order]
    # The places of a group's values in a list of all values, each as often as it is there.
    ends = np.cumsum(times[known][order])
    sizes = np.bincount(of, weights=times[known][order].astype(np.float64), minlength=count).astype(np.int64)
    before = np.cumsum(sizes) - sizes
    some = sizes > 0

    def find(share: float) -> pa.Array:
        found = np.zeros(count)
        position = (sizes[some] - 1) * share
        low, high = np.floor(position).astype(np.int64), np.ceil(position).astype(np.int64)
        below, above = (values[np.searchsorted(ends, before[some] + place, side="right")] for place in (low, high))
        with np.errstate(invalid="ignore"):
            between = (high - position) * below + (position - low) * above
        found[some] = np.where((low == high) | (below == above), below, between)
        return pa.array(found, pa.float64(), mask=~some)

    return [find(share) for share in shares]


def find_bits(name: str, value: Any, codes: Integers, count: int) -> pa.Array:
    """The bits of all whole numbers of each group together; NULL for a group of none."""
    if value.type not in WHOLE:
        raise NotSupportedByArrow(f"{name} of values of type {value.type}")
    known = pc.is_valid(value).to_numpy(zero_copy_only=False)
    found = np.full(count, -1 if name == "bit_and" else 0, dtype=np.int64)
    _BITS[name].at(found, codes[known], value.drop_null().cast(pa.int64()).to_numpy(zero_copy_only=False))
    none = np.bincount(codes[known], minlength=count) == 0
    return pa.array(found, pa.int64(), mask=none).cast(value.type)
