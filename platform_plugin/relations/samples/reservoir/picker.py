"""`Picker`: which of the rows that a writer appends a sample takes, by what the process knows of the sample.

It knows the lowest keys that it has seen committed. A row with a higher key is not in the sample, whatever others have added meanwhile, so
writers need not agree: at worst a writer picks too many rows.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from platform_plugin.engine.refusal import RefusedByEngine
from platform_plugin.errors import PlatformError
from platform_plugin.lake.values.types import arrow_schema
from platform_plugin.relations.samples.keys.keys import EVERY
from platform_plugin.relations.samples.keys.ladders import row_keys
from platform_plugin.relations.samples.keys.lowest import LowestRows, expected_margin
from platform_plugin.relations.samples.keys.weights import low_weighted_keys
from platform_plugin.relations.samples.reservoir.picks import LARGEST_BYTES, ROW, encode_batch
from platform_plugin.relations.samples.sources import shape_sample_rows
from platform_plugin.relations.samples.strata import strata_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from platform_plugin.relations.samples.definition import Key
    from platform_plugin.relations.samples.record import SampleRecord
    from platform_plugin.relations.samples.reservoir.condition import RowCondition

    Integers = NDArray[np.int64]

# Of fewer rows of a stratum nobody can say how many of them a window has.
_TELLING_ROWS = 100
_NONE = np.empty(0, dtype=np.int64)
_ROW_FIELD = pa.field(ROW, pa.int64())


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendPick:
    """The rows of an append that a sample picks."""

    picker: Picker
    strata: Mapping[Key, LowestRows]
    data: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ahead:
    """The rows with low keys in a range of ids, whether or not these rows exist yet.

    They are few, and in lists: the processor has just written an append, and each of numpy's calls is as slow as a first one.
    """

    first: int = 0
    end: int = 0
    bound: int = -1
    row_ids: Sequence[int] = ()
    keys: Sequence[int] = ()


class Picker:
    """What a process knows of a sample: the lowest keys of each stratum that are committed, or the size of its window."""

    def __init__(self, sample: SampleRecord, condition: RowCondition | None) -> None:
        self.sample = sample
        self.window_rows = 0
        self._condition = condition
        self._keys = row_keys(sample.definition)
        self._shape = arrow_schema(sample.table.fields)
        self._lowest: dict[Key, Integers] = {}
        self._bounds: dict[Key, int] = {}
        self._waiting: dict[Key, list[Integers]] = {}
        self._ahead = _Ahead()

    def pick(self, rows: pa.Table, first: int) -> AppendPick | None:
        """The rows that the sample takes of rows that begin with a row id; None where a run must do it."""
        definition = self.sample.definition
        try:
            found = self._low_rows(rows, first)
            size = definition.cap(max(1, len(self._lowest.keys() | found.keys())))
            most = expected_margin(size) if definition.is_windowed else size
            strata = {key: held.lowest(most) for key, held in found.items()}
            data = self._encoded(rows, first, strata)
        except (PlatformError, RefusedByEngine):
            # A value that the sample's column can't hold or a column that is gone, of which the run will tell, or what Spark has to judge.
            return None
        return None if data is not None and len(data) > LARGEST_BYTES else AppendPick(picker=self, strata=strata, data=data)

    def learn(self, key: Key, keys: Integers) -> None:
        """Record that keys of a stratum were committed."""
        definition = self.sample.definition
        if definition.is_windowed:
            self._lowest.setdefault(key, _NONE)
            return
        size = definition.cap(max(1, len(self._lowest) + (key not in self._lowest)))
        own = self._waiting.setdefault(key, [])
        own.append(keys)
        # Sorting out a large sample's keys costs more than a few picks too many.
        if key in self._bounds and sum(map(len, own)) < size // 16:
            return
        found = np.concatenate([self._lowest.get(key, _NONE), *own])
        own.clear()
        if len(found) >= size:
            found = np.partition(found, size - 1)[:size] if len(found) > size else found
            self._bounds[key] = int(found.max())
        self._lowest[key] = found

    def _low_rows(self, rows: pa.Table, first: int) -> dict[Key, LowestRows]:
        """Of each stratum how many rows pass, and those of them whose keys may be among the lowest."""
        definition = self.sample.definition
        if definition.is_counted:
            bound = self._bound((), rows.num_rows, rows.num_rows)
            places, keys = self._low_keys(first, first + rows.num_rows, bound)
            return {(): LowestRows(cardinality=rows.num_rows, bound=bound, keys=keys, places=places)}
        passing = None if self._condition is None else self._condition.mask(rows)
        if definition.is_weighted:
            return self._weighed(rows, first, np.arange(rows.num_rows) if passing is None else np.flatnonzero(passing))
        numbers: Integers | None = None
        strata: list[Key] = [()]
        counts = np.array([rows.num_rows if passing is None else np.count_nonzero(passing)])
        if definition.strata:
            numbers, strata = strata_of(rows, definition.strata)
            counts = np.bincount(numbers if passing is None else numbers[passing], minlength=len(strata))
        limits = np.array([self._bound(key, count, rows.num_rows) for key, count in zip(strata, counts.tolist(), strict=True)])
        places, keys = self._low_keys(first, first + rows.num_rows, int(limits[counts > 0].max(initial=-1)))
        own = np.zeros(len(places), dtype=np.int64) if numbers is None else numbers[places]
        low = keys <= limits[own] if passing is None else (keys <= limits[own]) & passing[places]
        order = np.flatnonzero(low)
        order = order[np.argsort(own[order], kind="stable")]
        ends = np.searchsorted(own[order], np.arange(len(strata) + 1)).tolist()
        return {
            key: LowestRows(cardinality=count, bound=limit, keys=keys[order[start:end]], places=places[order[start:end]])
            for key, count, limit, start, end in zip(strata, counts.tolist(), limits.tolist(), ends[:-1], ends[1:], strict=True)
            if count
        }

    def _weighed(self, rows: pa.Table, first: int, passing: Integers) -> dict[Key, LowestRows]:
        """How many of the rows that pass can be drawn, and those whose weighted keys may be among the lowest."""
        inside = rows if len(passing) == rows.num_rows else rows.take(pa.array(passing))
        bound = self._bounds.get((), EVERY)
        count, places, keys = low_weighted_keys(self.sample.definition, self._keys.seed, passing + first, inside, bound)
        return {(): LowestRows(cardinality=count, bound=bound, keys=keys, places=passing[places])} if count else {}

    def _bound(self, key: Key, count: int, rows: int) -> int:
        """Up to which key rows of a stratum are picked, of which an append of so many rows has a number."""
        definition = self.sample.definition
        if not definition.is_windowed:
            return self._bounds.get(key, EVERY)
        size = definition.cap(max(1, len(self._lowest)))
        window = self.window_rows + rows if definition.window_rows is None else min(self.window_rows + rows, definition.window_rows)
        if definition.is_counted:
            return self._keys.bound_for(expected_margin(size), window)
        return self._keys.bound_for(expected_margin(size), window * count // rows) if count >= _TELLING_ROWS else EVERY

    def _low_keys(self, first: int, end: int, bound: int) -> tuple[Integers, Integers]:
        """Of a range those whose keys are at most a bound: which they are, counted from `first`, and their keys."""
        ahead = self._ahead
        if not (ahead.first <= first and end <= ahead.end and bound <= ahead.bound):
            # Until the stream is a quarter longer, when its bound is hardly lower.
            ahead_rows = self._keys.rows_for(max(1, self.sample.definition.size // 4), bound)
            far = -(-end // self._keys.neighbours) * self._keys.neighbours
            if bound != EVERY:
                far = max(far, first + min(self._keys.ahead, ahead_rows))
            if far - first < 4 * (end - first):
                return self._keys.below(first, end, bound)
            places, found = self._keys.below(first, far, bound)
            ahead = self._ahead = _Ahead(first=first, end=far, bound=bound, row_ids=(places + first).tolist(), keys=found.tolist())
        low = [
            (ahead.row_ids[place] - first, ahead.keys[place])
            for place in range(bisect_left(ahead.row_ids, first), bisect_left(ahead.row_ids, end))
            if ahead.keys[place] <= bound
        ]
        pairs = np.array(low, dtype=np.int64).reshape(-1, 2)
        return pairs[:, 0], pairs[:, 1]

    def _encoded(self, rows: pa.Table, first: int, strata: Mapping[Key, LowestRows]) -> bytes | None:
        """The rows that were picked as the catalogue keeps them, in the columns of the sample."""
        found = [held.places for held in strata.values() if len(held.places)]
        places = found[0] if len(found) == 1 else np.sort(np.concatenate([_NONE, *found]))
        if not len(places):
            return None
        if rows.schema.equals(self._shape):
            taken = _take(rows, places)
        else:
            there = set(rows.column_names)
            whole = pa.Table.from_batches([_take(rows.select([name for name in self._shape.names if name in there]), places)])
            (taken,) = shape_sample_rows(self.sample, whole).combine_chunks().to_batches()
        return encode_batch(taken.append_column(_ROW_FIELD, _as_arrow(places + first)))


def _as_arrow(numbers: Integers) -> pa.Array:
    """What `pa.array` makes of them, which takes as long as all the rest if there are ten."""
    whole = np.ascontiguousarray(numbers, dtype=np.int64)
    return pa.Array.from_buffers(pa.int64(), len(whole), [None, pa.py_buffer(whole)])


def _take(rows: pa.Table, places: Integers) -> pa.RecordBatch:
    """Like Arrow's own, which puts all rows into one piece first where they are in several."""
    batches = rows.to_batches()
    if len(batches) == 1:
        return batches[0].take(_as_arrow(places))
    taken, start = [], 0
    for batch in batches:
        low, high = np.searchsorted(places, (start, start + batch.num_rows))
        if high > low:
            taken.append(batch.take(_as_arrow(places[low:high] - start)))
        start += batch.num_rows
    return pa.concat_batches(taken)
