"""`HashedKeys`: the key of a row as a hash of its id, which writers, readers and Spark tasks compute alike.

Where rows are read, a key is the xxHash of the row's id under the sample's seed, as Spark's `xxhash64` computes it. Different ids have
different keys, up to the last bit, which is dropped so that no key is negative. Where rows are only counted, `ladders` has other keys, of
which the lowest are found faster.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from platform_plugin.cache import Cache
from platform_plugin.lake.values.xxhash import MASK, P1, P2, P3, P4, P5, hash_long
from platform_plugin.relations.samples.keys.seeds import derive_seed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Integers = NDArray[np.int64]

EVERY = (1 << 63) - 1
"""The highest key: a reservoir with all keys up to this one holds every row."""

# Blocks that stay in the processor's cache are twice as fast.
_BLOCK = 16_384


@dataclass(frozen=True, slots=True)
class HashedKeys:
    """The keys of a sample whose rows are read."""

    seed: int
    at_once: ClassVar[int] = 1 << 20
    """The number of rows that are worth a task of their own."""
    ahead: ClassVar[int] = 1 << 17
    """The number of rows whose keys are computed at once for several appends, which is cheaper for each than its own rows alone."""
    neighbours: ClassVar[int] = 1
    """The number of rows, from a multiple of it on, whose keys cost as much as that of one of them."""

    def below(self, first: int, end: int, bound: int) -> tuple[Integers, Integers]:
        """The rows from one id up to another with keys at most `bound`: their distances from `first`, and their keys."""
        return low_keys(self.seed, first, end, bound)

    def of(self, ids: Integers) -> Integers:
        """The keys of the rows with these ids."""
        return keys_of_ids(self.seed, ids)

    def bound_for(self, wanted: int, count: int) -> int:
        """The key up to which `wanted` of `count` rows are expected."""
        return hash_bound(wanted, count)

    def rows_for(self, wanted: int, bound: int) -> int:
        """The number of rows of which `wanted` are expected to have keys up to `bound`."""
        return wanted * EVERY // max(1, bound)


def hash_bound(wanted: int, count: int) -> int:
    """The hash up to which `wanted` of `count` rows are expected."""
    return EVERY if wanted >= count else min(EVERY, ceil(wanted / count * EVERY))


def sample_seed(seed: int, *words: object) -> int:
    """The seed of Spark's hash of rows, as a literal: 64 bits of the sample's seed, as a signed number."""
    found = derive_seed(seed, "rows", *words) >> 64
    return found - (1 << 64) if found >> 63 else found


def spark_key(seed: int, *columns: str) -> str:
    """The key of a row as a Spark SQL expression."""
    return f"shiftrightunsigned(xxhash64({seed}L, {', '.join(columns)}), 1)"


def keys_between(seed: int, first: int, end: int) -> Integers:
    """The keys of the rows whose ids are from `first` up to but not including `end`.

    >>> keys_between(7, 10, 12).tolist() == keys_of_ids(7, np.array([10, 11])).tolist()
    True
    """
    found = np.empty(end - first, dtype=np.uint64)
    for start, mixed in _blocks(seed, first, end):
        _fold(mixed, found[start : start + len(mixed)])
    return found.view(np.int64)


def low_keys(seed: int, first: int, end: int, bound: int, *, step: int = 1) -> tuple[Integers, Integers]:
    """The rows, or the first of each `step`, with keys at most `bound`: their distances from `first`, and their keys.

    >>> [part.tolist() for part in low_keys(7, 10, 12, EVERY)] == [[0, 1], keys_between(7, 10, 12).tolist()]
    True
    """
    if bound < 0:  # no row is wanted, as of an append none of whose rows passes a condition
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    places, found = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.uint64)]
    # Its last step leaves the upper half of a hash as it is, so that it is taken only of those that can be low enough.
    limit = np.uint64((bound << 1 | 1) | 0xFFFFFFFF)
    for start, mixed in _blocks(seed, first, end, step):
        inside = np.flatnonzero(mixed <= limit)
        if len(inside):
            found.append(mixed[inside])
            places.append(inside + start)
    rows, mixed = np.concatenate(places), np.concatenate(found)
    keys = _fold(mixed, np.empty_like(mixed)).view(np.int64)
    low = keys <= bound
    return (rows, keys) if low.all() else (rows[low], keys[low])


def keys_of_ids(seed: int, ids: Integers) -> Integers:
    """The keys of the rows with these ids."""
    found = ids.astype(np.int64).view(np.uint64)
    found *= np.uint64(P2)
    scratch = np.empty_like(found)
    _mix(found, scratch, _state(seed))
    return _fold(found, scratch).view(np.int64)


def _blocks(seed: int, first: int, end: int, step: int = 1) -> Iterator[tuple[int, NDArray[np.uint64]]]:
    """Hashes but for their last step, in blocks that each overwrite the one before: new memory for each would cost more than the hash."""
    if not hasattr(_SCRATCH, "blocks"):
        _SCRATCH.blocks = np.empty((2, _BLOCK), dtype=np.uint64)
    state, steps, count = _state(seed), _steps(step), -(-(end - first) // step)
    for start in range(0, count, _BLOCK):
        mixed, scratch = _SCRATCH.blocks[:, : min(_BLOCK, count - start)]
        np.add(steps[: len(mixed)], np.uint64((first + start * step) * P2 & MASK), out=mixed)
        _mix(mixed, scratch, state)
        yield start, mixed


_SCRATCH = threading.local()


_STEPS: Cache[int, NDArray[np.uint64]] = Cache("steps of sample keys", weigh=lambda steps: steps.nbytes)


def _steps(step: int) -> NDArray[np.uint64]:
    """Ids that are equally far apart are so too after the hash's first multiplication."""
    return _STEPS.find(step, lambda: np.arange(_BLOCK, dtype=np.uint64) * np.uint64(step * P2 & MASK))


def _mix(h: NDArray[np.uint64], t: NDArray[np.uint64], state: np.uint64) -> None:
    """XXH64 of eight bytes each, in place, from after its first step to before its last."""
    np.right_shift(h, np.uint64(33), out=t)
    h <<= np.uint64(31)
    h |= t
    h *= np.uint64(P1)
    h ^= state
    np.right_shift(h, np.uint64(37), out=t)
    h <<= np.uint64(27)
    h |= t
    h *= np.uint64(P1)
    h += np.uint64(P4)
    for bits, prime in ((33, P2), (29, P3)):
        np.right_shift(h, np.uint64(bits), out=t)
        h ^= t
        h *= np.uint64(prime)


def _fold(h: NDArray[np.uint64], out: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The last step of the hash, and the bit that is dropped."""
    np.right_shift(h, np.uint64(32), out=out)
    out ^= h
    out >>= np.uint64(1)
    return out


def _state(seed: int) -> np.uint64:
    """The hash's state once Spark's own seed and the sample's have gone in."""
    return np.uint64((hash_long(seed) + P5 + 8) & MASK)
