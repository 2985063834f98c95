"""Keys: a random number for each row of a stream, the same for whoever asks, by which a sample is the rows whose keys are lowest.

A key is the xxHash of the row's id under the sample's seed, as Spark's `xxhash64` computes it, so that a writer, a reader and a Spark task
agree without a word. Ids that differ have keys that differ, up to the last bit, which is dropped so that no key is negative.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import numpy as np

from platform_plugin.samples.seeds import derive

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Integers = NDArray[np.int64]

EVERY = (1 << 63) - 1
"""The highest key: a reservoir that holds all keys up to this one holds every row."""

_P1, _P2, _P3, _P4, _P5 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
_MASK = (1 << 64) - 1
_SPARK_SEED = 42
# Blocks that stay in the processor's cache are twice as fast.
_BLOCK = 16_384


def sample_seed(seed: int, *words: object) -> int:
    """The literal under which Spark hashes rows: 64 bits of the sample's seed, as a signed number."""
    found = derive(seed, "rows", *words) >> 64
    return found - (1 << 64) if found >> 63 else found


def spark_key(seed: int, *columns: str) -> str:
    """The key of a row in Spark SQL."""
    return f"shiftrightunsigned(xxhash64({seed}L, {', '.join(columns)}), 1)"


def keys_between(seed: int, first: int, end: int) -> Integers:
    """The keys of the rows whose ids are from `first` up to but not including `end`.

    >>> keys_between(7, 10, 12).tolist() == keys_of_ids(7, np.array([10, 11])).tolist()
    True
    """
    found = np.empty(end - first, dtype=np.int64)
    for start, keys in _blocks(seed, first, end):
        found[start : start + len(keys)] = keys
    return found


def low_keys(seed: int, first: int, end: int, bound: int) -> tuple[Integers, Integers]:
    """Of these rows those whose keys are at most a bound: which they are, counted from `first`, and their keys.

    >>> [part.tolist() for part in low_keys(7, 10, 12, EVERY)] == [[0, 1], keys_between(7, 10, 12).tolist()]
    True
    """
    places, found = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
    for start, keys in _blocks(seed, first, end):
        inside = np.flatnonzero(keys <= bound)
        if len(inside):
            found.append(keys[inside])
            places.append(inside + start)
    return np.concatenate(places), np.concatenate(found)


def keys_of_ids(seed: int, ids: Integers) -> Integers:
    """The keys of the rows with these ids."""
    found = ids.astype(np.int64)
    _hash(found.view(np.uint64), np.empty(len(found), dtype=np.uint64), _state(seed))
    return found


def _blocks(seed: int, first: int, end: int) -> Iterator[tuple[int, Integers]]:
    """Keys in blocks, each of which is overwritten by the next: memory that is new for every block costs more than the hash."""
    if not hasattr(_SCRATCH, "ids"):
        _SCRATCH.ids, _SCRATCH.other = np.empty(_BLOCK, dtype=np.int64), np.empty(_BLOCK, dtype=np.uint64)
    state = _state(seed)
    for start in range(0, end - first, _BLOCK):
        count = min(_BLOCK, end - first - start)
        ids = _SCRATCH.ids[:count]
        np.add(_NUMBERS[:count], first + start, out=ids)
        _hash(ids.view(np.uint64), _SCRATCH.other[:count], state)
        yield start, ids


_SCRATCH = threading.local()
_NUMBERS = np.arange(_BLOCK, dtype=np.int64)


def _hash(h: NDArray[np.uint64], t: NDArray[np.uint64], state: np.uint64) -> None:
    """XXH64 of eight bytes each, in place."""
    h *= np.uint64(_P2)
    np.right_shift(h, np.uint64(33), out=t)
    h <<= np.uint64(31)
    h |= t
    h *= np.uint64(_P1)
    h ^= state
    np.right_shift(h, np.uint64(37), out=t)
    h <<= np.uint64(27)
    h |= t
    h *= np.uint64(_P1)
    h += np.uint64(_P4)
    for bits, prime in ((33, _P2), (29, _P3)):
        np.right_shift(h, np.uint64(bits), out=t)
        h ^= t
        h *= np.uint64(prime)
    np.right_shift(h, np.uint64(32), out=t)
    h ^= t
    h >>= np.uint64(1)


def _state(seed: int) -> np.uint64:
    """The hash's state once Spark's own seed and the sample's have gone in."""
    return np.uint64((_hash_one(seed & _MASK, _SPARK_SEED) + _P5 + 8) & _MASK)


def _hash_one(value: int, seed: int) -> int:
    h = (seed + _P5 + 8) & _MASK
    h ^= _rotated(value * _P2 & _MASK, 31) * _P1 & _MASK
    h = (_rotated(h, 27) * _P1 + _P4) & _MASK
    h = (h ^ h >> 33) * _P2 & _MASK
    h = (h ^ h >> 29) * _P3 & _MASK
    return h ^ h >> 32


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> (64 - bits)) & _MASK
