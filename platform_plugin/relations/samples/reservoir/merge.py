"""Merging reservoirs: a uniform sample of a population from uniform samples of its parts.

Exact whatever rows are in which part, as long as that does not depend on the reservoirs' own random numbers: a part's share has the
hypergeometric law, and a uniform subset of a uniform subset is one (Winter, section 5.2.3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from platform_plugin.relations.samples.reservoir.shares import draw_shares

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class UniformDraw:
    """Rows drawn uniformly from `cardinality` rows."""

    rows: pa.Table
    cardinality: int


def merge_samples(parts: Sequence[UniformDraw], size: int, random: np.random.Generator) -> UniformDraw:
    """A uniform sample of at most `size` rows of all that the parts stand for; each part must hold `size` rows, or all it stands for.

    >>> parts = [UniformDraw(rows=pa.table({"id": [1, 2]}), cardinality=20), UniformDraw(rows=pa.table({"id": [3]}), cardinality=1)]
    >>> merge_samples(parts, 2, np.random.default_rng(1)).cardinality
    21
    """
    picks = draw_picks([part.rows.num_rows for part in parts], [part.cardinality for part in parts], size, random)
    rows = pa.concat_tables([part.rows for part in parts]).take(pa.array(picks))
    return UniformDraw(rows=rows, cardinality=sum(part.cardinality for part in parts))


def draw_picks(held: Sequence[int] | Integers, cardinalities: Sequence[int] | Integers, size: int, random: np.random.Generator) -> Integers:
    """The rows of the merged sample, by their places among the rows of all reservoirs in a row."""
    counts = np.asarray(held, dtype=np.int64)
    shares = draw_shares(cardinalities, size, random)
    if (shares > counts).any():
        worst = int(np.argmax(shares - counts))
        message = f"reservoir {worst} holds {counts[worst]} rows, the sample needs {shares[worst]} of it"
        raise ValueError(message)
    return pick_positions(counts, shares, random)


def pick_positions(counts: Integers, shares: Integers, random: np.random.Generator) -> Integers:
    """A number of rows of each reservoir, drawn uniformly, by their places among all rows."""
    starts = np.cumsum(counts) - counts
    full = shares == counts
    many = ~full & (2 * shares > counts)
    found = [np.arange(starts[index], starts[index] + counts[index]) for index in np.flatnonzero(full & (shares > 0))]
    found += [starts[index] + random.choice(counts[index], shares[index], replace=False, shuffle=False) for index in np.flatnonzero(many)]
    few = np.flatnonzero(~full & ~many & (shares > 0))
    found.append(_pick_few(starts[few], counts[few], shares[few], random))
    return np.concatenate(found).astype(np.int64)


def _pick_few(starts: Integers, counts: Integers, shares: Integers, random: np.random.Generator) -> Integers:
    """All reservoirs at once: what was drawn twice is drawn again until each has its share, so the first that differ count."""
    missing = shares
    chosen = np.empty(0, dtype=np.int64)
    while missing.any():
        owners = np.repeat(np.arange(len(missing)), missing)
        drawn = starts[owners] + (random.random(len(owners)) * counts[owners]).astype(np.int64)
        chosen = np.unique(np.concatenate([chosen, drawn]))
        held = np.bincount(np.searchsorted(starts, chosen, side="right") - 1, minlength=len(starts))
        missing = shares - held
    return chosen
