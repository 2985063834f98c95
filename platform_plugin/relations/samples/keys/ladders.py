"""`LadderKeys`: keys of rows that are only counted, made from the lowest up, so that a billion rows need not be hashed.

Sixty-four neighbouring row ids share a ladder. How far apart its steps are, and which id is on which step, is determined by hashes under
the sample's seed, so that every process computes the same keys. One hash tells whether any of the sixty-four is low enough; mostly none is.

The steps are the order statistics of sixty-four exponential numbers, which are sums of independent gaps (Rényi 1953), and the ids are put
on them in random order. So every row's key is an exponential number that is independent of all others, as if each had been drawn by itself.
Gaps are made of the four operations that every processor rounds alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, expm1, log1p
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from platform_plugin.relations.samples.keys.keys import EVERY, HashedKeys, keys_of_ids, low_keys, sample_seed
from platform_plugin.relations.samples.keys.ranks import exponentials

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from platform_plugin.relations.samples.definition import SampleDefinition

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]
    Words = NDArray[np.uint64]

_BITS = 6
_STEPS = 1 << _BITS
_LAST = _STEPS - 1
_PLACES = np.arange(_STEPS, dtype=np.uint64)
# From this step on a place is chosen among those that are left; before, one that is taken is drawn again, which is mostly not needed.
_FEW_LEFT = 24
# A key is an exponential number times this; one beyond 64 comes once in 10^28 rows.
_SCALE = 2.0**57
# By so much, as a share and at least, are the limits of hashes too high, which is put right when gaps are made.
_SLACK = 1e-9
_LEAST = 2.0**-56


def row_keys(definition: SampleDefinition) -> LadderKeys | HashedKeys:
    """The keys of the rows of a sample, by their ids."""
    climbs = definition.has_ladders and definition.is_counted
    return (LadderKeys if climbs else HashedKeys)(sample_seed(definition.seed))


@dataclass(frozen=True, slots=True)
class LadderKeys:
    """The keys of a sample whose rows are only counted, with the same methods as `HashedKeys`."""

    seed: int
    at_once: ClassVar[int] = 1 << 26
    ahead: ClassVar[int] = 1 << 21
    neighbours: ClassVar[int] = _STEPS

    def below(self, first: int, end: int, bound: int) -> tuple[Integers, Integers]:
        """The rows from one id up to another with keys at most `bound`: their distances from `first`, and their keys.

        >>> keys = LadderKeys(7)
        >>> rows, found = keys.below(0, 1_000_000_000, keys.bound_for(3, 1_000_000_000))
        >>> rows.tolist(), bool((keys.of(rows) == found).all())
        ([173249286], True)
        """
        if bound < 0 or first >= end:
            return _NONE, _NONE
        lowest = first >> _BITS
        numbers, hashes = low_keys(self.seed, lowest << _BITS, ((end - 1) >> _BITS << _BITS) + 1, _hash_limit(bound), step=_STEPS)
        climb = _Climb(self.seed, numbers + lowest, hashes)
        ids, keys = [_NONE], [_NONE]
        while climb.up_to(bound):
            ids.append(climb.ids)
            keys.append(climb.keys)
            climb.go_on()
        found, own = np.concatenate(ids), np.concatenate(keys)
        inside = np.flatnonzero((found >= first) & (found < end))
        inside = inside[np.argsort(found[inside])]
        return found[inside] - first, own[inside]

    def of(self, ids: Integers) -> Integers:
        """The keys of the rows with these ids."""
        if not len(ids):
            return _NONE
        ladders, places = np.unique(ids >> _BITS, return_inverse=True)
        wanted = np.zeros(len(ladders), dtype=np.uint64)
        np.bitwise_or.at(wanted, places, _bit(ids & _LAST))
        climb = _Climb(self.seed, ladders, keys_of_ids(self.seed, ladders << _BITS))
        found, keys = [], []
        while len(climb.ladders):
            climb.up_to(EVERY)
            bits = _bit(climb.ids & _LAST)
            there = (wanted & bits) != 0
            found.append(climb.ids[there])
            keys.append(climb.keys[there])
            wanted &= ~bits
            more = wanted != 0
            wanted = wanted[more]
            climb.go_on(more)
        known = np.concatenate(found)
        order = np.argsort(known)
        return np.concatenate(keys)[order[np.searchsorted(known, ids, sorter=order)]]

    def bound_for(self, wanted: int, count: int) -> int:
        """The key up to which `wanted` of `count` rows are expected."""
        return EVERY if wanted >= count else min(EVERY, ceil(-log1p(-wanted / count) * _SCALE))

    def rows_for(self, wanted: int, bound: int) -> int:
        """The number of rows of which `wanted` are expected to have keys up to `bound`."""
        return int(wanted / -expm1(-max(1, bound) / _SCALE))


class _Climb:
    """Ladders at the same step: the row that is on it, and its key."""

    def __init__(self, seed: int, ladders: Integers, hashes: Integers) -> None:
        self.ladders = ladders
        self.ids = self.keys = _NONE
        self._seed = seed
        self._hashes = hashes
        self._step = 0
        self._height: Floats = np.zeros(len(ladders))
        self._taken: Words = np.zeros(len(ladders), dtype=np.uint64)

    def up_to(self, bound: int) -> bool:
        """Take the step on ladders where it is at most `bound`, and drop the others; whether any is left."""
        # No gap is smaller than its hash says, so that few have to be made.
        room = (bound / _SCALE * (1 + _SLACK) - self._height) * (_STEPS - self._step) + _LEAST
        self._keep(self._hashes * 2.0**-63 <= room)
        if not len(self.ladders):
            return False
        self._height = self._height + exponentials(self._hashes & ~_LAST) / (_STEPS - self._step)
        keys = np.minimum(self._height * _SCALE, float(EVERY - 1023)).astype(np.int64)
        low = keys <= bound
        self._keep(low)
        self.keys = keys if low.all() else keys[low]
        if not len(self.keys):
            return False
        places = self._free_places()
        self._taken |= _bit(places)
        self.ids = (self.ladders << _BITS) + places
        return True

    def go_on(self, which: NDArray[np.bool_] | None = None) -> None:
        """Move to the next step, on some ladders only if `which` is given."""
        if which is not None:
            self._keep(which)
        self._step += 1
        if self._step == _STEPS:
            self._keep(np.zeros(len(self.ladders), dtype=bool))
        self._hashes = keys_of_ids(self._seed, (self.ladders << _BITS) + self._step)

    def _keep(self, which: NDArray[np.bool_]) -> None:
        if which.all():
            return
        self.ladders, self._hashes = self.ladders[which], self._hashes[which]
        self._height, self._taken = self._height[which], self._taken[which]

    def _free_places(self) -> Integers:
        """One place of each ladder on which nobody is yet: drawn again if it is taken, or one of those that are left once they are few."""
        if self._step >= _FEW_LEFT:
            left = ((self._taken[:, None] >> _PLACES) & np.uint64(1)) == 0
            which = keys_of_ids(self._seed, self._hashes) >> 31
            which = which * (_STEPS - self._step) >> 32
            return np.asarray(np.argmax(np.cumsum(left, axis=1) > which[:, None], axis=1), dtype=np.int64)
        places = self._hashes & _LAST
        again = np.flatnonzero((self._taken & _bit(places)) != 0) if self._step else _NONE
        hashes = self._hashes[again]
        while len(again):
            hashes = keys_of_ids(self._seed, hashes)
            places[again] = hashes & _LAST
            still = (self._taken[again] & _bit(places[again])) != 0
            again, hashes = again[still], hashes[still]
        return places


def _bit(places: Integers) -> Words:
    return np.left_shift(np.uint64(1), places.astype(np.uint64))


def _hash_limit(bound: int) -> int:
    """The highest hash with which a ladder's first step may be at most a bound."""
    share = -expm1(-(bound + 1) / _SCALE * _STEPS) * (1 + _SLACK)
    return EVERY if share >= 1 else min(EVERY, ceil(share * 2.0**63) | _LAST)


_NONE = np.empty(0, dtype=np.int64)
