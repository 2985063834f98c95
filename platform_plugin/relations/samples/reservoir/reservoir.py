"""`Reservoir`: a uniform sample of at most n rows of a sequence of any length, in one pass.

Algorithm L (K.-H. Li, 1994): it draws how many rows to skip, so a batch from which no row is taken costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Integers = NDArray[np.int64]

_DRAWN_AT_ONCE = 512
# A thousand of these still fit into 64 bits, and no stream is so long.
_FARTHEST = float(1 << 52)
_WAITING_PER_SLOT = 4


class Skips:
    """The items of an endless sequence that enter a full reservoir, and the slots that they take."""

    def __init__(self, size: int, random: np.random.Generator) -> None:
        self._size = size
        self._random = random
        self._log_weight = 0.0
        self._reached = size - 1
        self.draws = 0
        """Random numbers drawn so far."""
        self._items: Integers = np.empty(0, dtype=np.int64)
        self._slots: Integers = np.empty(0, dtype=np.int64)

    def until(self, end: int) -> tuple[Integers, Integers]:
        """The next items below `end`, by their places in the sequence, and the slot that each takes."""
        while self._reached < end:
            self._draw()
        count = int(np.searchsorted(self._items, end))
        items, slots = self._items[:count], self._slots[:count]
        self._items, self._slots = self._items[count:], self._slots[count:]
        return items, slots

    def _draw(self) -> None:
        # 1 - random() is never zero, so that no logarithm is of nothing; the weights of a block are a running product.
        weights = self._log_weight + np.cumsum(np.log(1.0 - self._random.random(_DRAWN_AT_ONCE))) / self._size
        self._log_weight = float(weights[-1])
        with np.errstate(divide="ignore", over="ignore"):
            passed = np.log(1.0 - self._random.random(_DRAWN_AT_ONCE)) / np.log1p(-np.exp(weights))
        steps = np.minimum(np.nan_to_num(passed, nan=0.0, posinf=_FARTHEST), _FARTHEST).astype(np.int64) + 1
        found = self._reached + np.cumsum(steps)
        self._reached = int(found[-1])
        self._items = np.concatenate([self._items, found])
        self._slots = np.concatenate([self._slots, self._random.integers(0, self._size, _DRAWN_AT_ONCE)])
        self.draws += 3 * _DRAWN_AT_ONCE


class Reservoir:
    """A uniform sample of at most `size` of the rows that were added, and the number of these.

    >>> reservoir = Reservoir(3, np.random.default_rng(1))
    >>> for start in range(0, 100, 10):
    ...     reservoir.add(pa.record_batch({"id": list(range(start, start + 10))}))
    >>> reservoir.cardinality, reservoir.rows().num_rows
    (100, 3)
    """

    def __init__(self, size: int, random: np.random.Generator) -> None:
        self.size = size
        self.cardinality = 0
        self.skips = Skips(size, random)
        self._parts: list[pa.Table] = []
        self._part_rows = 0
        self._places: Integers = np.empty(0, dtype=np.int64)

    def add(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Offer rows to the sample."""
        items, slots = self.pass_by(batch.num_rows)
        if len(items):
            self.put(batch.take(pa.array(items)), slots)
        elif not self._parts:
            self._parts.append(_table(batch.slice(0, 0)))

    def pass_by(self, count: int) -> tuple[Integers, Integers]:
        """Of the next `count` rows, the places of those to pass to `put`, and the slots that they take."""
        start, self.cardinality = self.cardinality, self.cardinality + count
        filling = np.arange(start, min(self.size, self.cardinality), dtype=np.int64)
        if self.cardinality <= self.size:
            return filling - start, filling
        items, slots = self.skips.until(self.cardinality)
        items, slots = np.concatenate([filling, items]), np.concatenate([filling, slots])
        # Of several that take one place in turn only the last stays.
        _, last = np.unique(slots[::-1], return_index=True)
        chosen = np.sort(len(slots) - 1 - last)
        return items[chosen] - start, slots[chosen]

    def put(self, rows: pa.RecordBatch | pa.Table, slots: Integers) -> None:
        """Store rows in slots."""
        if len(self._places) <= (highest := int(slots.max())):
            self._places = np.concatenate([self._places, np.zeros(highest + 1 - len(self._places), dtype=np.int64)])
        self._places[slots] = self._part_rows + np.arange(len(slots))
        self._parts.append(_table(rows))
        self._part_rows += rows.num_rows
        if self._part_rows > _WAITING_PER_SLOT * self.size + 1024:
            kept = self.rows()
            self._parts, self._part_rows = [kept], kept.num_rows
            self._places = np.arange(kept.num_rows, dtype=np.int64)

    def rows(self) -> pa.Table:
        """The sample, in no particular order."""
        if not self._parts:
            return pa.table({})
        return pa.concat_tables(self._parts).take(pa.array(self._places))


def _table(rows: pa.RecordBatch | pa.Table) -> pa.Table:
    return rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])


def draw_positions(count: int, size: int, random: np.random.Generator) -> NDArray[Any]:
    """At most `size` of the numbers below `count`, drawn uniformly, in ascending order.

    >>> draw_positions(3, 5, np.random.default_rng(1)).tolist()
    [0, 1, 2]
    """
    if size >= count:
        return np.arange(count, dtype=np.int64)
    # Numpy keeps a list of all numbers where it draws more than a fiftieth of them.
    return np.sort(random.choice(count, size, replace=False, shuffle=False))
