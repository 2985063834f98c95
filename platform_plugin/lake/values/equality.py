"""`equal_rows`: which rows of two Arrow tables have the same values, NULL and NaN included; the two zeros differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Flags = NDArray[np.bool_]

_BITS = {16: np.uint16, 32: np.uint32, 64: np.uint64}


def equal_rows(left: pa.Table, right: pa.Table) -> Flags:
    """For each place, whether the row there is the same in both tables, which have the same columns and as many rows.

    >>> rows = pa.table({"n": [1, None, 3], "x": [float("nan"), 0.0, 1.0]})
    >>> equal_rows(rows, pa.table({"n": [1, None, 4], "x": [float("nan"), -0.0, 1.0]})).tolist()
    [True, False, False]
    """
    same = np.ones(left.num_rows, dtype=np.bool_)
    for mine, other in zip(left.columns, right.columns, strict=True):
        same &= equal_values(mine, other)
    return same


def equal_values(left: pa.Array | pa.ChunkedArray, right: pa.Array | pa.ChunkedArray) -> Flags:
    """The same for two arrays of one type."""
    mine, other = _plain(left), _plain(right)
    if not len(mine):
        return np.zeros(0, dtype=np.bool_)
    mine_valid, other_valid = _valid(mine), _valid(other)
    both = mine_valid & other_valid
    same = ~(mine_valid | other_valid)
    if both.all():
        return _equal_present(mine, other)
    places = np.flatnonzero(both)
    if len(places):
        same[places] = _equal_present(mine.take(pa.array(places)), other.take(pa.array(places)))
    return same


def _valid(array: pa.Array) -> Flags:
    return np.asarray(array.is_valid(), dtype=np.bool_)


def _plain(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """One array without dictionaries or extension types."""
    whole = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    if isinstance(whole, pa.ChunkedArray):  # where there are no chunks, or too many values for one
        whole = pa.concat_arrays(whole.chunks) if whole.num_chunks else pa.array([], whole.type)
    if isinstance(whole.type, pa.BaseExtensionType):
        whole = whole.storage
    return whole.dictionary_decode() if pa.types.is_dictionary(whole.type) else whole


def _equal_present(mine: pa.Array, other: pa.Array) -> Flags:
    """The same where no value is NULL."""
    kind = mine.type
    if pa.types.is_floating(kind):
        bits = _BITS[kind.bit_width]
        ours, theirs = (array.to_numpy(zero_copy_only=False) for array in (mine, other))
        return np.asarray((ours.view(bits) == theirs.view(bits)) | (np.isnan(ours) & np.isnan(theirs)))
    if pa.types.is_struct(kind):
        same = np.ones(len(mine), dtype=np.bool_)
        for part, counterpart in zip(mine.flatten(), other.flatten(), strict=True):
            same &= equal_values(part, counterpart)
        return same
    if pa.types.is_map(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _equal_lists(mine, other)
    return np.asarray(pc.equal(mine, other).to_numpy(zero_copy_only=False))


def _equal_lists(mine: pa.Array, other: pa.Array) -> Flags:
    """Lists are equal if their values are, in their order; maps are lists of pairs."""
    ours, theirs = _lengths(mine), _lengths(other)
    same: Flags = ours == theirs
    places = np.flatnonzero(same & (ours > 0))
    if not len(places):
        return same
    parts = [_values(array.take(pa.array(places))) for array in (mine, other)]
    values = np.logical_and.reduce([equal_values(left, right) for left, right in zip(*parts, strict=True)])
    starts = np.concatenate([[0], np.cumsum(ours[places])[:-1]])
    same[places] = np.logical_and.reduceat(values, starts)
    return same


def _lengths(array: pa.Array) -> Any:
    return np.diff(array.offsets.to_numpy(zero_copy_only=False))


def _values(array: pa.Array) -> list[pa.Array]:
    """The values of all lists after one another; of maps the keys and the items."""
    first, last = array.offsets[0].as_py(), array.offsets[-1].as_py()
    parts = [array.keys, array.items] if pa.types.is_map(array.type) else [array.values]
    return [part.slice(first, last - first) for part in parts]
