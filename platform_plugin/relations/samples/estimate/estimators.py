"""Estimators: totals, ratios and quantiles of a population from a sample, with bounds.

Totals are Horvitz and Thompson's, stratum by stratum, with the finite population's correction; ratios are linearised; quantiles are bounded
as Woodruff does; counts of few rows have the exact bounds of the hypergeometric law. What can't be bounded is NaN, never exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isnan, lgamma, nan, sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]

FEW = 30
"""With fewer rows a mean is not treated as normal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """The row count of each stratum, and the number of its rows in the sample."""

    populations: Integers
    sizes: Integers

    @property
    def population(self) -> int:
        """All rows."""
        return int(self.populations.sum())

    @property
    def size(self) -> int:
        """All rows of the sample."""
        return int(self.sizes.sum())

    @property
    def is_census(self) -> bool:
        """Whether every row is in the sample, so that the answer is exact."""
        return bool((self.populations == self.sizes).all())

    @property
    def weights(self) -> Floats:
        """How many rows a sampled row stands for, by stratum."""
        return self.populations / np.maximum(self.sizes, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundedEstimate:
    """An estimate, and bounds that contain the true value with the given confidence; NaN where they are unknown."""

    value: float
    low: float
    high: float

    @property
    def relative_error(self) -> float:
        """Half the distance of the bounds, relative to the estimate; infinite where it is unknown."""
        if self.low == self.high == self.value:
            return 0.0
        half = (self.high - self.low) / 2
        return inf if isnan(half) or self.value == 0 or isnan(self.value) else half / abs(self.value)


def total(values: Floats, strata: Integers, design: Design, confidence: float, *, counts: bool = False) -> BoundedEstimate:
    """The estimate of a sum over all rows, of values that are zero for all other sampled rows; `counts` says that each value is one.

    >>> design = Design(populations=np.array([1000]), sizes=np.array([100]))
    >>> found = total(np.ones(40), np.zeros(40, dtype=int), design, 0.95, counts=True)
    >>> found.value, round(found.low), round(found.high)
    (400.0, 306, 494)
    """
    estimate = float((values * design.weights[strata]).sum())
    if design.is_census:
        return BoundedEstimate(value=estimate, low=estimate, high=estimate)
    matching = len(values)
    if counts and (matching < FEW or design.size - matching < FEW):
        return _few(strata, design, confidence, estimate)
    if matching < FEW:
        return BoundedEstimate(value=estimate, low=nan, high=nan)
    return _around(estimate, _deviation(values, strata, design), matching, confidence)


def ratio(above: Floats, below: Floats, strata: Integers, design: Design, confidence: float) -> BoundedEstimate:
    """The estimate of the ratio of two sums over all rows."""
    weights = design.weights[strata]
    divisor = float((below * weights).sum())
    if divisor == 0:
        return BoundedEstimate(value=nan, low=nan, high=nan)
    estimate = float((above * weights).sum()) / divisor
    if design.is_census:
        return BoundedEstimate(value=estimate, low=estimate, high=estimate)
    counting = int(np.count_nonzero(below))
    if counting < FEW:
        return BoundedEstimate(value=estimate, low=nan, high=nan)
    return _around(estimate, _deviation(above - estimate * below, strata, design) / abs(divisor), counting, confidence)


def quantile(values: Floats, strata: Integers, design: Design, confidence: float, share: float) -> BoundedEstimate:
    """The estimate of the value below which this share of all rows lies."""
    if not len(values):
        return BoundedEstimate(value=nan, low=nan, high=nan)
    order = np.argsort(values, kind="stable")
    ordered, weights = values[order], design.weights[strata[order]]
    reached = (np.cumsum(weights) - weights / 2) / weights.sum()
    estimate = float(np.interp(share, reached, ordered))
    if design.is_census:
        return BoundedEstimate(value=estimate, low=estimate, high=estimate)
    if len(values) < FEW:
        return BoundedEstimate(value=estimate, low=nan, high=nan)
    below = (values <= estimate).astype(float)
    around = ratio(below, np.ones(len(values)), strata, design, confidence)
    half = (around.high - around.low) / 2
    # At the very ends the sample has no row that the bound could be.
    low = float(np.interp(share - half, reached, ordered)) if share - half > reached[0] else nan
    high = float(np.interp(share + half, reached, ordered)) if share + half < reached[-1] else nan
    return BoundedEstimate(value=estimate, low=low, high=high)


def needed_size(found: BoundedEstimate, error: float, design: Design) -> float:
    """How many rows a sample needs for this relative error; infinite where this sample can't tell."""
    reached = found.relative_error
    if reached <= error:
        return float(design.size)
    if reached == inf or error <= 0:
        return inf
    spread = max(1 / design.size - 1 / design.population, 1e-18)
    return 1 / (spread * (error / reached) ** 2 + 1 / design.population)


def student_quantile(confidence: float, freedom: int) -> float:
    """The two-sided quantile of Student's law, by its expansion around the normal one.

    >>> round(student_quantile(0.95, 29), 3), round(student_quantile(0.95, 10**6), 3)
    (2.045, 1.96)
    """
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    terms = ((z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96, (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384)
    return float(z + sum(term / freedom**power for power, term in enumerate(terms, start=1)))


def _deviation(values: Floats, strata: Integers, design: Design) -> float:
    """The standard deviation of the estimated total of a value that is zero but for these rows."""
    count = len(design.sizes)
    sums = np.bincount(strata, weights=values, minlength=count)
    squares = np.bincount(strata, weights=values * values, minlength=count)
    n, population = design.sizes.astype(float), design.populations.astype(float)
    part = n < population
    if bool((part & (n < 2)).any()):
        return nan
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = np.maximum(squares - sums * sums / n, 0) / (n - 1)
        variance = np.where(part, population**2 * (1 - n / population) * spread / n, 0.0)
    return sqrt(float(variance.sum()))


def _around(estimate: float, deviation: float, count: int, confidence: float) -> BoundedEstimate:
    half = student_quantile(confidence, max(count - 1, 1)) * deviation
    return BoundedEstimate(value=estimate, low=estimate - half, high=estimate + half)


def _few(strata: Integers, design: Design, confidence: float, estimate: float) -> BoundedEstimate:
    """Exact bounds of a count; with several strata each has its own, surer by so much that all hold together."""
    matching = np.bincount(strata, minlength=len(design.sizes))
    sampled = [place for place in range(len(design.sizes)) if design.sizes[place] < design.populations[place]]
    doubt = (1 - confidence) / 2 / max(1, len(sampled))
    low = high = 0.0
    for place, count in enumerate(matching.tolist()):
        own = int(design.populations[place]), int(design.sizes[place])
        if place not in sampled:
            low, high = low + count, high + count
            continue
        low, high = low + _fewest(*own, count, doubt), high + _most(*own, count, doubt)
    return BoundedEstimate(value=estimate, low=low, high=high)


def _most(population: int, size: int, matching: int, doubt: float) -> int:
    """The greatest number of matching rows for which a sample with so few of them is not too unlikely."""
    low, high = matching, population - (size - matching)
    while low < high:
        middle = (low + high + 1) // 2
        if _at_most(population, middle, size, matching) > doubt:
            low = middle
        else:
            high = middle - 1
    return low


def _fewest(population: int, size: int, matching: int, doubt: float) -> int:
    return population - _most(population, size, size - matching, doubt)


def _at_most(population: int, matching: int, size: int, count: int) -> float:
    """The probability that a sample has at most so many of the matching rows."""
    lowest = max(0, size - (population - matching))
    if count >= min(size, matching):
        return 1.0
    # Summed from the near end, so that few terms are needed whichever it is.
    if count - lowest <= min(size, matching) - count:
        return float(np.exp([_log_law(population, matching, size, k) for k in range(lowest, count + 1)]).sum())
    return 1 - float(np.exp([_log_law(population, matching, size, k) for k in range(count + 1, min(size, matching) + 1)]).sum())


def _log_law(population: int, matching: int, size: int, count: int) -> float:
    return _log_choose(matching, count) + _log_choose(population - matching, size - count) - _log_choose(population, size)


def _log_choose(n: int, k: int) -> float:
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)
