"""Strata: the stratum of each row, by the values of the columns in STRATIFIED BY."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from platform_plugin.errors import UnknownObject

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from platform_plugin.relations.samples.definition import Key

    Integers = NDArray[np.int64]


def strata_of(rows: pa.Table | pa.RecordBatch, strata: Sequence[str]) -> tuple[Integers, list[Key]]:
    """The number of each row's stratum, and the keys of the strata by number."""
    if not strata:
        return np.zeros(rows.num_rows, dtype=np.int64), [()] if rows.num_rows else []
    codes: Integers = np.zeros(1, dtype=np.int64)
    names: list[list[str | None]] = []
    for column in strata:
        if column not in rows.schema.names:
            raise UnknownObject(
                f'column "{column}", which tells the strata of a sample apart, is gone', hint="rename it back, or make the sample anew"
            )
        values = rows.column(column)
        chunk = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
        encoded = pc.dictionary_encode(chunk, null_encoding="encode")
        if isinstance(encoded, pa.ChunkedArray):
            encoded = encoded.combine_chunks()
        names.append(pc.cast(encoded.dictionary, pa.string()).to_pylist())
        if len(strata) == 1 and not pa.types.is_dictionary(chunk.type):
            # Each of its codes is there, which nobody knows of a dictionary that came with the rows.
            return encoded.indices.to_numpy(zero_copy_only=False), [(value,) for value in names[0]]
        codes = codes * max(1, len(names[-1])) + encoded.indices.to_numpy(zero_copy_only=False)
    total = int(np.prod([max(1, len(values)) for values in names], dtype=np.float64))
    if total <= 4 * rows.num_rows + 1000:
        # To count is a tenth of the time that it takes to sort.
        found = np.flatnonzero(np.bincount(codes, minlength=total))
        places = np.zeros(total, dtype=np.int64)
        places[found] = np.arange(len(found))
        numbers = places[codes]
    else:
        found, numbers = np.unique(codes, return_inverse=True)
    keys = []
    for code in found.tolist():
        rest, key = code, []
        for values in reversed(names):
            rest, place = divmod(rest, len(values))
            key.append(values[place])
        keys.append(tuple(reversed(key)))
    return numbers, keys


def group_positions(rows: pa.Table | pa.RecordBatch, strata: Sequence[str]) -> dict[Key, Integers]:
    """The places of each stratum's rows."""
    if not strata:
        return {(): np.arange(rows.num_rows, dtype=np.int64)} if rows.num_rows else {}
    numbers, keys = strata_of(rows, strata)
    order = np.argsort(numbers, kind="stable")
    ends = np.cumsum(np.bincount(numbers, minlength=len(keys)))
    return {key: order[(ends[place - 1] if place else 0) : ends[place]] for place, key in enumerate(keys)}


def stratum_sort_key(key: Key) -> tuple[tuple[bool, str], ...]:
    """A sort key for strata, so that the same strata get the same draws."""
    return tuple((value is None, value or "") for value in key)
