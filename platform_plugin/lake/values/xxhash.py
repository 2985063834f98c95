"""XXH64, as Spark's `xxhash64` computes it: of one whole number or text in Python, and of whole columns with numpy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Words = NDArray[np.uint64]

P1, P2, P3, P4, P5 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
MASK = (1 << 64) - 1
SPARK_SEED = 42
"""The seed of Spark's `xxhash64`; it is also the hash of NULL."""
# Blocks that stay in the processor's cache are twice as fast.
_BLOCK = 16_384
_STRIPE = 32


def rotate(value: int, bits: int) -> int:
    """A number of 64 bits, rotated to the left."""
    return (value << bits | value >> (64 - bits)) & MASK


def hash_long(value: int, seed: int = SPARK_SEED) -> int:
    """The hash of a whole number of 64 bits, as a number without sign.

    >>> hash_long(1) - (1 << 64)  # SELECT xxhash64(1L)
    -7001672635703045582
    """
    return _finish(_add_word((seed + P5 + 8) & MASK, value & MASK))


def hash_bytes(data: bytes, seed: int = SPARK_SEED) -> int:
    """The hash of some bytes, as a number without sign.

    >>> hash_bytes(b"")  # SELECT xxhash64('')
    11002672306508523268
    """
    place, size = 0, len(data)
    if size >= _STRIPE:
        sums = [(seed + P1 + P2) & MASK, (seed + P2) & MASK, seed & MASK, (seed - P1) & MASK]
        while place + _STRIPE <= size:
            for lane in range(4):
                sums[lane] = _round(sums[lane], _word(data, place + 8 * lane, 8))
            place += _STRIPE
        found = sum(rotate(lane, bits) for lane, bits in zip(sums, (1, 7, 12, 18), strict=True)) & MASK
        for lane in sums:
            found = ((found ^ _round(0, lane)) * P1 + P4) & MASK
    else:
        found = (seed + P5) & MASK
    found = (found + size) & MASK
    while place + 8 <= size:
        found = _add_word(found, _word(data, place, 8))
        place += 8
    if place + 4 <= size:
        found = (rotate(found ^ _word(data, place, 4) * P1 & MASK, 23) * P2 + P3) & MASK
        place += 4
    for byte in data[place:]:
        found = rotate(found ^ byte * P5 & MASK, 11) * P1 & MASK
    return _finish(found)


def _word(data: bytes, place: int, size: int) -> int:
    return int.from_bytes(data[place : place + size], "little")


def _round(total: int, word: int) -> int:
    return rotate((total + word * P2) & MASK, 31) * P1 & MASK


def _add_word(found: int, word: int) -> int:
    return (rotate(found ^ _round(0, word), 27) * P1 + P4) & MASK


def _finish(found: int) -> int:
    found = (found ^ found >> 33) * P2 & MASK
    found = (found ^ found >> 29) * P3 & MASK
    return found ^ found >> 32


def hash_longs(values: Words, seeds: Words | int = SPARK_SEED) -> Words:
    """The hashes of whole numbers of 64 bits, each under a seed of its own or all under one."""
    found = np.empty(len(values), dtype=np.uint64)
    for start in range(0, len(values), _BLOCK):
        block = slice(start, start + _BLOCK)
        state = (seeds[block] if isinstance(seeds, np.ndarray) else np.uint64(seeds & MASK)) + np.uint64(P5 + 8 & MASK)
        found[block] = _finish_all(_add_words(state, values[block]))
    return found


def hash_texts(data: NDArray[np.uint8], starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> Words:
    """The hashes of parts of a buffer, given by their offsets and sizes."""
    # Eight bytes can be read from any place on, also from the last one.
    padded = np.zeros(len(data) + 8, dtype=np.uint8)
    padded[: len(data)] = data
    words: Words = np.ndarray((len(data) + 1,), dtype="<u8", buffer=padded, strides=(1,))
    found = np.empty(len(starts), dtype=np.uint64)
    for start in range(0, len(starts), _BLOCK):
        block = slice(start, start + _BLOCK)
        found[block] = _hash_parts(words, starts[block].astype(np.int64), sizes[block])
    return found


def _hash_parts(words: Words, places: NDArray[np.int64], sizes: NDArray[np.int64]) -> Words:
    found = np.full(len(places), np.uint64(SPARK_SEED + P5 & MASK))
    ends = places + sizes
    long = np.flatnonzero(sizes >= _STRIPE)
    if len(long):
        found[long] = _hash_stripes(words, places, ends, long)
    found += sizes.astype(np.uint64)
    left = np.flatnonzero(places + 8 <= ends)
    while len(left):
        found[left] = _add_words(found[left], words[places[left]])
        places[left] += 8
        left = left[places[left] + 8 <= ends[left]]
    # What is left is less than a word, which is read once.
    rest = ends - places
    left = np.flatnonzero(rest)
    last, rest = words[places[left]], rest[left]
    short = found[left]
    half = np.flatnonzero(rest >= 4)
    if len(half):
        added = short[half] ^ (last[half] & np.uint64(0xFFFFFFFF)) * np.uint64(P1)
        short[half] = _rotate_all(added, 23) * np.uint64(P2) + np.uint64(P3)
        last[half] >>= np.uint64(32)
        rest[half] -= 4
    for number in range(3):
        some = np.flatnonzero(rest > number)
        byte = last[some] >> np.uint64(8 * number) & np.uint64(0xFF)
        short[some] = _rotate_all(short[some] ^ byte * np.uint64(P5), 11) * np.uint64(P1)
    found[left] = short
    return _finish_all(found)


def _hash_stripes(words: Words, places: NDArray[np.int64], ends: NDArray[np.int64], rows: NDArray[np.int64]) -> Words:
    """The sums of texts of 32 bytes and more, whose `places` move behind their last whole stripe."""
    begin = (SPARK_SEED + P1 + P2, SPARK_SEED + P2, SPARK_SEED, SPARK_SEED - P1)
    sums = np.array([[number & MASK] for number in begin], dtype=np.uint64).repeat(len(rows), axis=1)
    left = np.arange(len(rows))
    while len(left):
        at = places[rows[left]]
        for lane in range(4):
            sums[lane, left] = _round_all(sums[lane, left], words[at + 8 * lane])
        places[rows[left]] += _STRIPE
        left = left[places[rows[left]] + _STRIPE <= ends[rows[left]]]
    found = _rotate_all(sums[0], 1) + _rotate_all(sums[1], 7) + _rotate_all(sums[2], 12) + _rotate_all(sums[3], 18)
    for lane in sums:
        found = (found ^ _round_all(np.uint64(0), lane)) * np.uint64(P1) + np.uint64(P4)
    return found


def _rotate_all(values: Words, bits: int) -> Words:
    return values << np.uint64(bits) | values >> np.uint64(64 - bits)


def _round_all(totals: Words | np.uint64, words: Words) -> Words:
    return _rotate_all(totals + words * np.uint64(P2), 31) * np.uint64(P1)


def _add_words(found: Words | np.uint64, words: Words) -> Words:
    return _rotate_all(found ^ _round_all(np.uint64(0), words), 27) * np.uint64(P1) + np.uint64(P4)


def _finish_all(found: Words) -> Words:
    found = (found ^ found >> np.uint64(33)) * np.uint64(P2)
    found = (found ^ found >> np.uint64(29)) * np.uint64(P3)
    return found ^ found >> np.uint64(32)
