"""`draw_shares`: how many rows of a merged sample come from each reservoir, by the rows that each stands for.

The three methods give the same law, the multivariate hypergeometric: the draw of the thesis, one categorical draw a row over a Fenwick tree
of whole numbers; a chain of hypergeometric draws, one a reservoir; and positions drawn among all rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from platform_plugin.relations.samples.reservoir.reservoir import draw_positions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Integers = NDArray[np.int64]

Method = Literal["categorical", "chain", "positions"]

# Beyond this Numpy's hypergeometric draws refuse.
_CHAIN_POPULATION = 1_000_000_000
# Numpy draws positions without a list of all of them while they are at most a fiftieth.
_SPARSE = 50
# Measured (docs/samples.md): the chain's time grows with the reservoirs, that of positions with the rows.
_ROWS_PER_RESERVOIR = 8


def draw_shares(
    cardinalities: Sequence[int] | Integers, size: int, random: np.random.Generator, *, method: Method | None = None
) -> Integers:
    """How many rows of a uniform sample fall to each part; they add up to `size`, or to all rows if those are fewer.

    >>> draw_shares([2, 0, 3], 10, np.random.default_rng(1)).tolist()
    [2, 0, 3]
    """
    counts = np.asarray(cardinalities, dtype=np.int64)
    total = sum(counts.tolist())
    if size >= total:
        return counts.copy()
    match method or choose_method(len(counts), total, size):
        case "categorical":
            return _categorical(counts.tolist(), total, size, random)
        case "chain":
            return np.asarray(random.multivariate_hypergeometric(counts, size, method="marginals"), dtype=np.int64)
        case "positions":
            found = draw_positions(total, size, random)
            return np.bincount(np.searchsorted(np.cumsum(counts), found, side="right"), minlength=len(counts)).astype(np.int64)


def choose_method(parts: int, total: int, size: int) -> Method:
    """The fastest method for a population of this size.

    >>> choose_method(64, 10**6, 1000), choose_method(1024, 10**6, 1000), choose_method(2, 10**12, 10**4)
    ('chain', 'positions', 'positions')
    """
    sparse = size * _SPARSE <= total
    if total >= _CHAIN_POPULATION:
        return "positions" if sparse else "categorical"
    return "positions" if sparse and size <= parts * _ROWS_PER_RESERVOIR else "chain"


class Fenwick:
    """Counts whose prefix sums are found and changed in logarithmic time.

    >>> tree = Fenwick([3, 0, 2])
    >>> [tree.rank(x) for x in range(5)]
    [0, 0, 0, 2, 2]
    """

    def __init__(self, counts: Sequence[int]) -> None:
        self._sums = [0, *counts]
        for place in range(1, len(self._sums)):
            above = place + (place & -place)
            if above < len(self._sums):
                self._sums[above] += self._sums[place]
        self._top = 1 << (len(counts).bit_length() - 1) if counts else 0

    def rank(self, number: int) -> int:
        """The first count whose prefix sum, itself included, is greater than the number."""
        place, step = 0, self._top
        while step:
            if place + step < len(self._sums) and self._sums[place + step] <= number:
                place += step
                number -= self._sums[place]
            step >>= 1
        return place

    def add(self, index: int, amount: int) -> None:
        """Change a count."""
        place = index + 1
        while place < len(self._sums):
            self._sums[place] += amount
            place += place & -place


def _categorical(counts: list[int], total: int, size: int, random: np.random.Generator) -> Integers:
    """One row after the other: its reservoir is drawn by what is left of each (Winter, algorithm 5.4, its lines 10 and 8 put right)."""
    tree = Fenwick(counts)
    shares = np.zeros(len(counts), dtype=np.int64)
    # Each draw has its own bound: the population shrinks by one.
    for number in random.integers(0, total - np.arange(size)).tolist():
        chosen = tree.rank(number)
        shares[chosen] += 1
        tree.add(chosen, -1)
    return shares
