"""`rank_keys`: the keys of weighted rows; with twice the weight a row is twice as likely to have the lower key.

A row's rank is exponential with its weight as the rate, -ln(1 - v) / w, of which v is the row's key of unweighted samples as a fraction
(Efraimidis and Spirakis 2006; Cohen and Kaplan 2007). It is stored as its binary logarithm, so that weights which grow with time neither
overflow nor ever have to be changed: a decayed weight adds to the logarithm the row's time in half-lives. The logarithm is made of the four
operations that every processor rounds alike, not by a library that may differ in the last bit, so that all agree on the lowest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Integers = NDArray[np.int64]
    Floats = NDArray[np.float64]

_BLOCK = 8_192
_MIDDLE = 1 << 62
_FLIP = np.int64((1 << 63) - 1)
_LOG2E, _ROOT = 1.4426950408889634, 0.7071067811865476
# More terms of the series than change anything for arguments up to (√2 - 1) / (√2 + 1).
_TERMS = 12
# The key below which v is less than a quarter, so that 1 - v would lose digits of it.
_QUARTER = 1 << 61


def exact_log2(values: Floats) -> Floats:
    """The binary logarithm of positive numbers, the same to the last bit on every machine.

    >>> exact_log2(np.array([1.0, 8.0, 0.25])).tolist()
    [0.0, 3.0, -2.0]
    """
    fraction, exponent = np.frexp(values)
    low = fraction < _ROOT
    fraction = np.where(low, fraction * 2.0, fraction)
    return np.asarray((exponent - low) + _series((fraction - 1.0) / (fraction + 1.0)) * _LOG2E, dtype=np.float64)


def _series(s: Floats) -> Floats:
    """ln((1 + s) / (1 - s))."""
    square = s * s
    found = np.full_like(s, 1.0 / (2 * _TERMS + 1))
    for term in range(_TERMS - 1, -1, -1):
        found *= square
        found += 1.0 / (2 * term + 1)
    return 2.0 * s * found


def exponentials(keys: Integers) -> Floats:
    """-ln(1 - v) of keys as fractions v, exact to the last digit for small v, so that rows of one weight keep the order of their keys."""
    v = (keys.astype(np.float64) + 0.5) * 2.0**-63
    small = _series(v / (2.0 - v))
    if keys.max(initial=0) < _QUARTER:
        return small
    rest = 1.0 - np.minimum(v, 1.0 - 2.0**-53)
    return np.where(keys < _QUARTER, small, -exact_log2(rest) / _LOG2E)


def rank_keys(keys: Integers, log_weights: Floats) -> Integers:
    """The keys of weighted rows, from those of unweighted ones and the binary logarithms of the weights.

    >>> keys = np.array([10**18, 2 * 10**18, 3 * 10**18])
    >>> np.argsort(rank_keys(keys, np.zeros(3))).tolist(), np.argsort(rank_keys(keys, np.array([0.0, 0.0, 9.0]))).tolist()
    ([0, 1, 2], [2, 0, 1])
    """
    found = np.empty(len(keys), dtype=np.int64)
    for start in range(0, len(keys), _BLOCK):
        block = slice(start, start + _BLOCK)
        found[block] = _as_keys(exact_log2(exponentials(keys[block])) - log_weights[block])
    return found


def _as_keys(numbers: Floats) -> Integers:
    """Whole numbers from zero on in the order of these, which may be negative."""
    bits = (numbers + 0.0).view(np.int64)
    return (np.where(bits < 0, bits ^ _FLIP, bits) >> 1) + _MIDDLE


def key_number(key: int) -> float:
    """The smallest binary logarithm of a rank that has this key or a higher one."""
    bits = np.array([(key - _MIDDLE) << 1], dtype=np.int64)
    return float(np.where(bits < 0, bits ^ _FLIP, bits).view(np.float64)[0])


def inclusion_probability(log_weights: Floats, threshold: int) -> Floats:
    """The probability that rows with these weights have a key below a threshold that does not depend on them.

    With the lowest key that is not in a sample as threshold, it is the probability of each sampled row.

    >>> inclusion_probability(np.array([0.0, 1.0]), int(rank_keys(np.array([1 << 62]), np.zeros(1))[0])).round(6).tolist()
    [0.5, 0.75]
    """
    exponents = np.minimum(log_weights + key_number(threshold), 1000.0)
    found: NDArray[Any] = -np.expm1(-np.exp2(exponents))
    return np.asarray(found, dtype=np.float64)
