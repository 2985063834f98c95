"""`estimate`: the estimates with bounds for each group of a query, from the sampled rows."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from platform_plugin.language.query.approximate import STRATUM, UNIT
from platform_plugin.relations.samples.draw.blocks import BlockDesign, block_quantile, block_ratio, block_total
from platform_plugin.relations.samples.estimate.estimators import BoundedEstimate, Design, quantile, ratio, total

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from platform_plugin.language.query.approximate import ApproximateMeasure, Approximation

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimates:
    """The estimates of each group: the groups' values, a row of bounds for each group, and its number of sampled rows."""

    plan: Approximation
    design: Design | BlockDesign
    groups: pa.Table
    rows: tuple[tuple[BoundedEstimate, ...], ...]
    matching: tuple[int, ...]

    @property
    def bounds(self) -> list[BoundedEstimate]:
        """All estimates."""
        return [one for row in self.rows for one in row]

    def table(self) -> pa.Table:
        """The answer as rows: each estimate with its bounds, and the numbers of rows that it is based on."""
        columns: dict[str, Any] = {}
        for kind, place in self.plan.order:
            if kind == "group":
                columns[self.plan.groups[place]] = self.groups.column(place)
                continue
            measure = self.plan.measures[place]
            own = [row[place] for row in self.rows]
            for suffix, values in (
                ("", [one.value for one in own]),
                ("_low", [one.low for one in own]),
                ("_high", [one.high for one in own]),
            ):
                columns[measure.name + suffix] = pa.array([None if value != value else value for value in values], pa.float64())  # noqa: PLR0124
        count = len(self.rows)
        columns["matching_rows"] = pa.array(self.matching, pa.int64())
        columns["sample_rows"] = pa.array([self.design.size] * count, pa.int64())
        columns["population_rows"] = pa.array([self.design.population] * count, pa.int64())
        return pa.table(columns)


def estimate(plan: Approximation, found: pa.Table, design: Design | BlockDesign) -> Estimates:
    """The estimates of a query, from the values that it computes of the sampled rows."""
    keys = found.select([f"_g{place}" for place in range(len(plan.groups) + plan.hidden_groups)])
    units, strata = found.column(UNIT).to_numpy(), found.column(STRATUM).to_numpy().astype(np.int64)
    values = [found.column(f"_y{place}").to_numpy(zero_copy_only=False).astype(float) for place in range(plan.values)]
    groups, parts = _grouped(keys)
    rows, matching = [], []
    for own in parts:
        group: _Group | _BlockGroup
        if isinstance(design, BlockDesign):
            group = _BlockGroup(design=design, values=tuple(value[own] for value in values), units=units[own])
        else:
            group = _Group.of(design, units[own], strata[own], tuple(value[own] for value in values))
        rows.append(tuple(_scaled(group.bound(measure, plan.confidence), measure) for measure in plan.measures))
        matching.append(group.count)
    return Estimates(plan=plan, design=design, groups=groups, rows=tuple(rows), matching=tuple(matching))


def _grouped(keys: pa.Table) -> tuple[pa.Table, Iterator[Any]]:
    """The groups, and the places of the rows of each."""
    if not keys.num_columns:
        return keys, iter([slice(None)])
    grouped = keys.append_column("_place", pa.array(np.arange(keys.num_rows))).group_by(keys.column_names).aggregate([("_place", "list")])
    lists = grouped.column("_place_list").combine_chunks()
    places, ends = lists.flatten().to_numpy(), lists.offsets.to_numpy()
    return grouped.select(keys.column_names), (places[first - ends[0] : last - ends[0]] for first, last in pairwise(ends))


def _scaled(found: BoundedEstimate, measure: ApproximateMeasure) -> BoundedEstimate:
    ends = found.low * measure.scale, found.high * measure.scale
    low, high = ends if measure.scale >= 0 else (ends[1], ends[0])
    return BoundedEstimate(value=found.value * measure.scale, low=low, high=high)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """The rows of a group: their values, the sampled row of each, and the strata of rows and of sampled rows."""

    design: Design
    values: tuple[Floats, ...]
    units: NDArray[np.intp]
    row_strata: Integers
    strata: Integers

    @classmethod
    def of(cls, design: Design, units: Integers, strata: Integers, values: tuple[Floats, ...]) -> _Group:
        if len(units) < 2 or bool((np.diff(units) > 0).all()):
            return cls(design=design, values=values, units=np.arange(len(units)), row_strata=strata, strata=strata)
        ids, where = np.unique(units, return_inverse=True)
        of = np.zeros(len(ids), dtype=np.int64)
        of[where] = strata
        return cls(design=design, values=values, units=where, row_strata=strata, strata=of)

    @property
    def count(self) -> int:
        """The number of its sampled rows."""
        return len(self.strata)

    def bound(self, measure: ApproximateMeasure, confidence: float) -> BoundedEstimate:
        """One estimate of the group. A sampled row that a join has multiplied counts once, with the sum of its rows."""
        if measure.kind == "quantile":
            held = ~np.isnan(self.values[measure.above])
            return quantile(self.values[measure.above][held], self.row_strata[held], self.design, confidence, measure.share or 0.5)
        above = self._summed(measure.above)
        if measure.kind == "ratio":
            return ratio(above, self._summed(measure.below or 0), self.strata, self.design, confidence)
        counts = measure.counts and bool((above <= 1).all())
        present = above != 0 if counts else np.ones(len(above), dtype=bool)
        return total(above[present], self.strata[present], self.design, confidence, counts=counts)

    def _summed(self, place: int) -> Floats:
        return np.bincount(self.units, weights=self.values[place], minlength=len(self.strata)).astype(np.float64)


@dataclass(frozen=True, slots=True, kw_only=True)
class _BlockGroup:
    """The rows of a group: their values, and the drawn block of each."""

    design: BlockDesign
    values: tuple[Floats, ...]
    units: Integers

    @property
    def count(self) -> int:
        """The number of its rows in the drawn blocks."""
        return len(self.units)

    def bound(self, measure: ApproximateMeasure, confidence: float) -> BoundedEstimate:
        """One estimate of the group. A block counts once, however many of its rows match."""
        if measure.kind == "quantile":
            held = ~np.isnan(self.values[measure.above])
            return block_quantile(self.values[measure.above][held], self.units[held], self.design, confidence, measure.share or 0.5)
        above = self._summed(measure.above)
        if measure.kind == "ratio":
            return block_ratio(above, self._summed(measure.below or 0), self.design, confidence)
        return block_total(above, self.design, confidence)

    def _summed(self, place: int) -> Floats:
        return np.bincount(self.units, weights=self.values[place], minlength=len(self.design.rows)).astype(np.float64)
