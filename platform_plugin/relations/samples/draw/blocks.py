"""Blocks: runs of neighbouring rows that are drawn whole for an estimate, since a page is read as a whole.

Neighbours may be alike: the estimators treat the block as the unit that was drawn, never its rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, nan, sqrt
from typing import TYPE_CHECKING

import numpy as np

from platform_plugin.lake.files.files import PAGE_ROWS
from platform_plugin.relations.samples.estimate.estimators import FEW, BoundedEstimate, student_quantile
from platform_plugin.relations.samples.reservoir.reservoir import draw_positions

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockDesign:
    """The design of a draw of blocks: the number of blocks, the rows of the population, and the rows of each drawn block."""

    block_count: int
    population: int
    rows: Integers

    @property
    def size(self) -> int:
        """The rows of all drawn blocks."""
        return int(self.rows.sum())

    @property
    def is_census(self) -> bool:
        """Whether every block was drawn, so that the answer is exact."""
        return len(self.rows) == self.block_count

    def needed(self, found: BoundedEstimate, error: float) -> float:
        """How many blocks would give this relative error; infinite where these blocks can't tell."""
        reached = found.relative_error
        if reached <= error:
            return float(len(self.rows))
        if reached == inf:
            return inf
        spread = max(1 / len(self.rows) - 1 / self.block_count, 1e-18)
        return 1 / (spread * (error / reached) ** 2 + 1 / self.block_count)


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnBlocks:
    """The numbers of all rows of the drawn blocks, ascending, the block of each, and the design."""

    places: Integers
    units: Integers
    design: BlockDesign


def count_blocks(counts: Integers) -> int:
    """The number of blocks in pieces with these row counts.

    >>> count_blocks(np.array([1, PAGE_ROWS, PAGE_ROWS + 1]))
    4
    """
    return int((-(-counts // PAGE_ROWS)).sum())


def draw_blocks(counts: Integers, size: int, random: np.random.Generator) -> DrawnBlocks:
    """A number of blocks drawn uniformly from the rows of pieces; each block lies in one piece."""
    own = -(-counts // PAGE_ROWS)
    ends = np.cumsum(own)
    total = int(ends[-1]) if len(ends) else 0
    chosen = draw_positions(total, size, random)
    piece = np.searchsorted(ends, chosen, side="right")
    inside = (chosen - (ends - own)[piece]) * PAGE_ROWS
    rows = np.minimum(counts[piece] - inside, PAGE_ROWS)
    begins = (np.cumsum(counts) - counts)[piece] + inside
    units = np.repeat(np.arange(len(chosen)), rows)
    places = np.arange(len(units)) + np.repeat(begins - (np.cumsum(rows) - rows), rows)
    return DrawnBlocks(places=places, units=units, design=BlockDesign(block_count=total, population=int(counts.sum()), rows=rows))


def block_total(sums: Floats, design: BlockDesign, confidence: float) -> BoundedEstimate:
    """The estimate of a sum over all rows, from the sums of the drawn blocks."""
    found = block_ratio(sums, design.rows.astype(float), design, confidence, telling=_telling(sums))
    scale = design.population
    return BoundedEstimate(value=found.value * scale, low=found.low * scale, high=found.high * scale)


def block_ratio(above: Floats, below: Floats, design: BlockDesign, confidence: float, *, telling: float | None = None) -> BoundedEstimate:
    """The estimate of the ratio of two sums over all rows, from the sums of each drawn block."""
    divisor = float(below.sum())
    if divisor == 0:
        return BoundedEstimate(value=nan, low=nan, high=nan)
    estimate = float(above.sum()) / divisor
    if design.is_census:
        return BoundedEstimate(value=estimate, low=estimate, high=estimate)
    telling = _telling(below) if telling is None else telling
    if telling < FEW:
        return BoundedEstimate(value=estimate, low=nan, high=nan)
    count = len(design.rows)
    spread = float(((above - estimate * below) ** 2).sum()) / (count - 1)
    deviation = sqrt((1 - count / design.block_count) * spread * count) / abs(divisor)
    half = student_quantile(confidence, int(telling) - 1) * deviation
    return BoundedEstimate(value=estimate, low=estimate - half, high=estimate + half)


def _telling(sums: Floats) -> float:
    """The effective number of blocks with these sums: one block with nearly all of the total tells little about the others."""
    squares = float((sums * sums).sum())
    return float(np.abs(sums).sum()) ** 2 / squares if squares else 0.0


def block_quantile(values: Floats, units: Integers, design: BlockDesign, confidence: float, share: float) -> BoundedEstimate:
    """The estimate of the value below which this share of all rows lies, with Woodruff's bounds."""
    if not len(values):
        return BoundedEstimate(value=nan, low=nan, high=nan)
    ordered = np.sort(values)
    reached = (np.arange(len(ordered)) + 0.5) / len(ordered)
    estimate = float(np.interp(share, reached, ordered))
    count = len(design.rows)
    below = np.bincount(units, weights=values <= estimate, minlength=count).astype(float)
    around = block_ratio(below, np.bincount(units, minlength=count).astype(float), design, confidence)
    half = (around.high - around.low) / 2
    low = float(np.interp(share - half, reached, ordered)) if share - half >= reached[0] else nan
    high = float(np.interp(share + half, reached, ordered)) if share + half <= reached[-1] else nan
    return BoundedEstimate(value=estimate, low=estimate if design.is_census else low, high=estimate if design.is_census else high)
