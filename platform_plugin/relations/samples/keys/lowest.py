"""`choose_lowest`: the rows with the lowest keys among several parts, which are a uniform sample of all of them.

A part need not hold as many rows as the sample: it holds those of its rows whose keys are at most its bound, and the number of rows that it
stands for. Of several bounds the lowest counts; all rows below it are there, whatever was merged before and in which order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isqrt
from typing import TYPE_CHECKING

import numpy as np

from platform_plugin.relations.samples.keys.keys import EVERY, hash_bound
from platform_plugin.relations.samples.strata import stratum_sort_key

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from platform_plugin.relations.samples.definition import Key

    Integers = NDArray[np.int64]

_NONE = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class LowestRows:
    """A part's rows of a stratum: all rows with keys at most `bound`, by their places, and the number of rows that they stand for."""

    cardinality: int
    bound: int
    keys: Integers
    places: Integers

    def lowest(self, size: int) -> LowestRows:
        """The same with at most `size` rows, in their order."""
        if len(self.keys) <= size:
            return self
        chosen = np.sort(np.argpartition(self.keys, size - 1)[:size])
        keys = self.keys[chosen]
        return replace(self, bound=int(keys.max()), keys=keys, places=self.places[chosen])

    def up_to(self, bound: int) -> LowestRows:
        """The same with a lower bound."""
        if bound >= self.bound:
            return self
        inside = self.keys <= bound
        return replace(self, bound=bound, keys=self.keys[inside], places=self.places[inside])


def expected_margin(size: int) -> int:
    """How many rows must be expected below a bound so that there are almost surely `size` of them."""
    return size + 8 * isqrt(size) + 48


def key_bound(size: int, count: int) -> int:
    """The key up to which there are almost surely `size` of `count` rows."""
    return hash_bound(expected_margin(size), count)


def whole_sample(cardinality: int, keys: Integers, places: Integers) -> LowestRows:
    """A stratum of a sample, which has all its rows or whose highest key is the bound."""
    bound = EVERY if len(keys) >= cardinality else int(keys.max()) if len(keys) else -1
    return LowestRows(cardinality=cardinality, bound=bound, keys=keys, places=places)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lowest:
    """The rows of a sample by their places in each part, and the number of rows that each stratum stands for.

    The strata in `short` need more rows than the parts hold.
    """

    places: tuple[Integers, ...]
    cardinalities: Mapping[Key, int]
    short: frozenset[Key]


def choose_lowest(parts: Sequence[Mapping[Key, LowestRows]], cap: Callable[[int], int]) -> Lowest:
    """A uniform sample of all that the parts stand for, stratum by stratum; `cap` gives the size of each from their number."""
    counts: dict[Key, int] = {}
    for part in parts:
        for key, held in part.items():
            counts[key] = counts.get(key, 0) + held.cardinality
    size = cap(len(counts))
    places: list[list[Integers]] = [[] for _ in parts]
    short = set()
    for key in sorted(counts, key=stratum_sort_key):
        own = [(number, part[key]) for number, part in enumerate(parts) if key in part]
        bound = min(held.bound for _, held in own)
        own = [(number, held.up_to(bound)) for number, held in own]
        keys = np.concatenate([held.keys for _, held in own])
        if len(keys) < min(size, counts[key]):
            short.add(key)
        last = bound if len(keys) <= size else int(np.partition(keys, size - 1)[size - 1])
        for number, held in own:
            places[number].append(held.up_to(last).places)
    return Lowest(
        places=tuple(np.sort(np.concatenate(own)) if own else _NONE for own in places), cardinalities=counts, short=frozenset(short)
    )
