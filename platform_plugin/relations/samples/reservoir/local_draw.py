"""`LocalDraw`: what a process draws of the rows that it reads, be it the client's or an executor's: the lowest keys of each stratum."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from platform_plugin.errors import InvalidValue
from platform_plugin.relations.samples.keys.keys import EVERY, keys_of_ids
from platform_plugin.relations.samples.keys.lowest import LowestRows, key_bound
from platform_plugin.relations.samples.keys.weights import low_weighted_keys
from platform_plugin.relations.samples.strata import group_positions, strata_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import NDArray

    from platform_plugin.algebra.types.data_types import Field
    from platform_plugin.lake.catalogue.tables import Table
    from platform_plugin.relations.samples.definition import Key, SampleDefinition
    from platform_plugin.relations.samples.reservoir.condition import RowCondition

    Integers = NDArray[np.int64]

_BLOCK = 1 << 16
_NONE = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalDraw:
    """A draw of at most `size` rows of each stratum with keys up to the bound of the stratum. It is sent to tasks by pickle."""

    definition: SampleDefinition
    condition: RowCondition | None
    size: int
    seed: int
    bounds: Mapping[Key, int] = field(default_factory=dict)

    def fields(self, table: Table) -> list[Field]:
        """The columns that have to be read; never none, or nobody would know how many rows there are."""
        definition = self.definition
        weighing = [name for name in (definition.weight, definition.time) if name is not None]
        passing = self.condition.columns if self.condition is not None else ()
        names = {name.lower() for name in (*definition.strata, *weighing, *passing)}
        found = [field for field in table.fields if field.name.lower() in names]
        if definition.is_weighted:
            for name in sorted(names - {field.name.lower() for field in found}):
                raise InvalidValue(f'column "{name}" of "{table.name}" is gone', hint="make the sample anew with another column")
        return found or list(table.fields[:1])

    def most(self, strata: int) -> int:
        """How many rows of each of so many strata are needed: of a window more than the sample has, since its rows leave one by one."""
        return self.size if self.definition.is_windowed else min(self.size, self.definition.cap(max(1, strata)))

    def draw(self, rows: pa.Table, ids: Integers, held: Mapping[Key, LowestRows] | None = None) -> dict[Key, LowestRows]:
        """The local reservoirs of rows with these ids, by their numbers among them; no keys above those of full ones in `held`."""
        if self.definition.is_weighted:
            found = self._weigh(rows, ids, self._bound((), held))
            return {(): found} if found.cardinality else {}
        if self.condition is None:
            keys, inside = keys_of_ids(self.seed, ids), None
        else:
            inside = np.flatnonzero(self.condition.mask(rows))
            keys = keys_of_ids(self.seed, ids[inside])
            rows = rows.take(pa.array(inside)) if self.definition.strata else rows.slice(0, len(inside))
        drawn = lowest_of_rows(rows, keys, self.definition, lambda key, count: min(key_bound(self.size, count), self._bound(key, held)))
        return drawn if inside is None else {key: replace(own, places=inside[own.places]) for key, own in drawn.items()}

    def _bound(self, key: Key, held: Mapping[Key, LowestRows] | None) -> int:
        bound = self.bounds.get(key, EVERY)
        own = None if held is None else held.get(key)
        return bound if own is None or len(own.keys) < self.size else min(bound, own.bound)

    def _weigh(self, rows: pa.Table, ids: Integers, bound: int) -> LowestRows:
        found = LowestRows(cardinality=0, bound=bound, keys=_NONE, places=_NONE)
        for start in range(0, rows.num_rows, _BLOCK):
            block, own = rows.slice(start, _BLOCK), ids[start : start + _BLOCK]
            inside = None if self.condition is None else np.flatnonzero(self.condition.mask(block))
            if inside is not None:
                block, own = block.take(pa.array(inside)), own[inside]
            count, places, keys = low_weighted_keys(self.definition, self.seed, own, block, found.bound)
            found = LowestRows(
                cardinality=found.cardinality + count,
                bound=found.bound,
                keys=np.concatenate([found.keys, keys]),
                places=np.concatenate([found.places, (places if inside is None else inside[places]) + start]),
            )
            if len(found.keys) > 2 * self.size:
                found = found.lowest(self.size)
        return found.lowest(self.size)


def join_reservoirs(one: LowestRows | None, other: LowestRows, size: int) -> LowestRows:
    """Two reservoirs of a stratum as one of at most `size` rows."""
    if one is None:
        return other.lowest(size)
    bound = min(one.bound, other.bound)
    left, right = one.up_to(bound), other.up_to(bound)
    return LowestRows(
        cardinality=one.cardinality + other.cardinality,
        bound=bound,
        keys=np.concatenate([left.keys, right.keys]),
        places=np.concatenate([left.places, right.places]),
    ).lowest(size)


def lowest_of_rows(rows: pa.Table, keys: Integers, definition: SampleDefinition, bound: Callable[[Key, int], int]) -> dict[Key, LowestRows]:
    """Of rows in memory those whose keys are at most the bound of their stratum, which depends on its row count."""
    if not len(keys):
        return {}
    return {
        key: LowestRows(cardinality=count, bound=limit, keys=keys[places], places=places)
        for key, count, limit, places in _low_places(rows, keys, definition, bound)
    }


def _low_places(
    rows: pa.Table, keys: Integers, definition: SampleDefinition, bound: Callable[[Key, int], int]
) -> Iterator[tuple[Key, int, int, Integers]]:
    if not definition.strata:
        limit = bound((), len(keys))
        yield (), len(keys), limit, np.flatnonzero(keys <= limit)
        return
    numbers, strata = strata_of(rows, definition.strata)
    counts = np.bincount(numbers, minlength=len(strata)).tolist()
    limits = np.array([bound(key, count) for key, count in zip(strata, counts, strict=True)], dtype=np.int64)
    low = np.flatnonzero(keys <= limits[numbers])
    by_number = group_positions(pa.table({"n": numbers[low]}), ["n"]) if len(low) else {}
    for number, (key, count) in enumerate(zip(strata, counts, strict=True)):
        places = by_number.get((str(number),), _NONE)
        yield key, count, int(limits[number]), low[places]
