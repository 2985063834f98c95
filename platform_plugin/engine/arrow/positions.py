"""`find_positions`: the positions of values in another column, for joins and for groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Numbers that lie so close together, or closer than there are values to look up, are looked up by counting from the smallest, which costs
# a fraction of hashing them.
_SPREAD = 4
_SMALL, _LARGE = 1_000, 1 << 31


def find_positions(values: Any, among: Any, *, once: bool = False) -> Any | None:
    """For each value its position among the others, or NULL if it is not there; NULL never is.

    With `once` the answer is None if a value occurs twice among the others; without it, any of its positions is given.
    """
    table = _numbered(among, max(_SPREAD * len(among), len(values)))
    if table is None:
        if once and pc.count_distinct(among, mode="only_valid").as_py() != len(among) - among.null_count:
            return None
        return pc.index_in(values, value_set=among, skip_nulls=True)
    first, places, is_unique = table
    if once and not is_unique:
        return None
    return _looked_up(values, first, places)


def _numbered(among: Any, widest: int) -> tuple[int, NDArray[np.int32], bool] | None:
    """The places of numbers, by how far they are from the smallest, and nothing before and behind them; whether each stands there once.

    None where they are too few, too far apart or no numbers.
    """
    if not _SMALL <= len(among) < _LARGE or among.null_count or not pa.types.is_integer(among.type):
        return None
    ends = pc.min_max(among)
    first, last = int(ends["min"].as_py()), int(ends["max"].as_py())
    if last - first >= widest:
        return None
    distances = _distances(among, first)
    numbers = np.arange(len(among), dtype=np.int32)
    places = np.full(last - first + 3, -1, dtype=np.int32)
    places[distances] = numbers
    return first, places, bool((places[distances] == numbers).all())


def _distances(values: Any, first: int) -> NDArray[np.int64]:
    """How far numbers are from one, which is 1 itself; a difference that is too large for 64 bits comes out as one that is no place."""
    found: NDArray[np.int64] = values.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return found - np.int64(first) + np.int64(1)


def _looked_up(values: Any, first: int, places: NDArray[np.int32]) -> Any:
    whole = pc.fill_null(values, 0) if values.null_count else values
    # What lies before or behind is taken for what stands first or last, which is nothing.
    found = places.take(_distances(whole, first), mode="clip")
    missing = found < 0
    if values.null_count:
        missing |= pc.is_null(values).to_numpy(zero_copy_only=False)
    return pa.array(found, mask=missing)
