"""Approximate answers: a query is asked of a sample, and every number comes with its bounds, or with the size that would do."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil, inf
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from platform_plugin.algebra.types import Field, Primitive
from platform_plugin.errors import InvalidValue
from platform_plugin.language.approximate import STRATUM, UNIT, plan_approximation
from platform_plugin.language.places import Span, at
from platform_plugin.language.query import analyse_query
from platform_plugin.queries.arguments import check_arguments, used_arguments
from platform_plugin.queries.bind import lake_name, new_name, pointing_at, read_named
from platform_plugin.queries.result import Result
from platform_plugin.samples.estimators import Bounded, Design, needed_size, quantile, ratio, total
from platform_plugin.samples.population import PILOT, find_source

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from numpy.typing import NDArray
    from pyspark.sql import DataFrame

    from platform_plugin.lake.tables import Snapshot
    from platform_plugin.language.approximate import Approximation, Measure
    from platform_plugin.language.query import Query
    from platform_plugin.language.relations import Reference
    from platform_plugin.queries.arguments import Arguments
    from platform_plugin.samples.population import Drawn, Source
    from platform_plugin.spark.job import ProgressHandler
    from platform_plugin.spark.workspace import Workspace

MOST_ROWS = 500_000
"""Rows that are drawn at most for one answer."""
_MARGIN = 1.15
_ATTEMPTS = 3


def run_approximation(
    work: Workspace,
    query: Span,
    arguments: Arguments,
    *,
    timeout: timedelta | None = None,
    progress: ProgressHandler | None = None,
) -> Result:
    """Estimate a query within the bounds that it asks for, or refuse and name the sample that could."""
    plan = plan_approximation(query)
    if not isinstance(arguments, Mapping):
        arguments = {f"_positional_{place}": value for place, value in enumerate(arguments)}
    with work.lake.lease(holder="estimate") as lease:
        asked = analyse_query(plan.text)
        check_arguments(asked.parameters, arguments)
        source = find_source(work, _as_written(query, asked.relations[0]), lease.snapshot)
        size: int | None = PILOT
        attempt = 0
        while True:
            drawn = source.draw(work, size or PILOT, attempt)
            found = _ask(work, asked, drawn, lease.snapshot, arguments, query=query, timeout=timeout, progress=progress)
            answer = estimate(plan, found, drawn.design)
            wanted = max((needed_size(one, plan.error, drawn.design) for one in answer.bounds), default=0.0)
            if wanted <= drawn.design.size or drawn.design.is_census:
                return Result(answer.table(drawn.design), snapshot=lease.snapshot)
            size, attempt = _next_size(wanted, drawn.design), attempt + 1
            if source.pieces is None or size is None or attempt == _ATTEMPTS:
                raise at(query).attach(_refusal(source, plan, answer, wanted, drawn.design))


def explain_approximation(work: Workspace, query: Span, snapshot: Snapshot) -> list[str]:
    """Where the sample of a query would come from, and what it would be asked."""
    plan = plan_approximation(query)
    source = find_source(work, _as_written(query, analyse_query(plan.text).relations[0]), snapshot)
    said = f"estimates {', '.join(measure.name for measure in plan.measures)} within {plan.error:g} at a confidence of {plan.confidence:g}"
    begun = [said, f'samples "{source.name}"']
    if source.fixed is not None:
        begun.append(f"has a sample of {source.fixed.design.size} of {source.fixed.design.population} rows at hand")
    if source.pieces is not None:
        count = source.pieces.row_count
        begun.append(f"can draw up to {min(count, MOST_ROWS)} of {count} rows, {min(count, PILOT)} of them at first")
    return [*begun, "asks of each sampled row:", plan.text]


def _next_size(wanted: float, design: Design) -> int | None:
    """How many rows to draw next; None where no sample that may be drawn is large enough."""
    population, most = design.population, min(design.population, MOST_ROWS)
    # Where too few rows match to tell, ten times as many may.
    size = design.size * 10 if wanted == inf else ceil(wanted * _MARGIN)
    if size >= population / 2 and population <= MOST_ROWS:
        return population
    if size > most:
        return most if wanted == inf and design.size < most else None
    return size


def _refusal(source: Source, plan: Approximation, answer: Answer, wanted: float, design: Design) -> InvalidValue:
    reached = max((one.relative_error for one in answer.bounds), default=inf)
    said = "no bound is known" if reached == inf else f"the error is {reached:.3g}"
    would = "too few rows match for any bound" if wanted == inf else f"a sample of {min(ceil(wanted), design.population)} rows would do"
    allow = "" if reached == inf else f", or allow error = {reached * 1.05:.2g}"
    make = "ask without WITH SAMPLE" if source.pieces is not None or wanted == inf else "make a larger sample"
    return InvalidValue(
        f'"{source.name}" can\'t be estimated with an error of {plan.error:g} at a confidence of {plan.confidence:g}',
        detail=f"with {design.size} sampled of {design.population} rows {said}; {would}",
        hint=make + allow,
    )


def _as_written(query: Span, reference: Reference) -> Reference:
    """A relation of the query that is asked, at its place in what the user wrote."""
    found = re.search(rf"(?i)\b(?:FROM|JOIN)\s+({re.escape(reference.span.text)})", query.text)
    start, end = found.span(1) if found else (0, len(query.text))
    return replace(reference, span=Span(query.source, query.start + start, query.start + end))


def _ask(
    work: Workspace,
    asked: Query,
    drawn: Drawn,
    snapshot: Snapshot,
    arguments: Arguments,
    *,
    query: Span,
    timeout: timedelta | None,
    progress: ProgressHandler | None,
) -> pa.Table:
    """What the query asks of each sampled row, asked by Spark of all of them."""
    from platform_plugin.queries.select import placed
    from platform_plugin.spark.relation import query_relations

    names = {reference: new_name() for reference in asked.relations}
    frames = {}
    for reference, name in list(names.items())[1:]:
        with pointing_at(_as_written(query, reference).span):
            with work.lake.reading() as connection:
                found = work.lake.find_relation(connection, lake_name(reference.name), snapshot)
            frames[name] = read_named(work, (found.name.schema, found.name.relation), snapshot)
    frames[names[asked.relations[0]]] = _frame_of(work, drawn)
    rendered = asked.render(names)
    frame = query_relations(work.session, rendered.text, frames, used_arguments(asked.parameters, arguments))
    with placed(rendered), work.session.arrow(frame, timeout=timeout, progress=progress) as stream:
        return stream.read_all()


def _frame_of(work: Workspace, drawn: Drawn) -> DataFrame:
    """The sampled rows, each with its number and its stratum."""
    from platform_plugin.spark.relation import frame_of, query_relations, read_relation

    if drawn.scan is not None:
        name = new_name()
        rows = read_relation(work.session, work.lake, drawn.scan, columns=[field.name for field in drawn.fields])
        text = f"SELECT *, monotonically_increasing_id() AS {UNIT}, CAST(0 AS BIGINT) AS {STRATUM} FROM {name}"
        return query_relations(work.session, text, {name: rows})
    if drawn.rows is None:
        message = "a sample without rows"
        raise ValueError(message)
    marks = (Field(name=UNIT, type=Primitive("int64")), Field(name=STRATUM, type=Primitive("int64")))
    columns = (pa.array(np.arange(drawn.rows.num_rows)), pa.array(drawn.strata, pa.int64()))
    taken = drawn.rows.append_column(UNIT, columns[0]).append_column(STRATUM, columns[1])
    return frame_of(work.session, [*drawn.fields, *marks], taken)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The estimates of each group: the groups' values, one row of bounds a group, and how many sampled rows each has."""

    plan: Approximation
    groups: pa.Table
    rows: tuple[tuple[Bounded, ...], ...]
    matching: tuple[int, ...]

    @property
    def bounds(self) -> list[Bounded]:
        """All estimates."""
        return [one for row in self.rows for one in row]

    def table(self, design: Design) -> pa.Table:
        """The answer as rows: each estimate with its bounds, and beside them what they rest on."""
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
        columns["sample_rows"] = pa.array([design.size] * count, pa.int64())
        columns["population_rows"] = pa.array([design.population] * count, pa.int64())
        return pa.table(columns)


def estimate(plan: Approximation, found: pa.Table, design: Design) -> Answer:
    """The estimates of a query from what it asked of the sampled rows."""
    width = len(plan.groups) + plan.hidden_groups
    keys = found.select([f"_g{place}" for place in range(width)])
    if width:
        grouped = (
            keys.append_column("_place", pa.array(np.arange(found.num_rows))).group_by(keys.column_names).aggregate([("_place", "list")])
        )
        groups, places = grouped.select(keys.column_names), [np.array(own) for own in grouped.column("_place_list").to_pylist()]
    else:
        groups, places = keys, [np.arange(found.num_rows)]
    units, strata = found.column(UNIT).to_numpy(), found.column(STRATUM).to_numpy().astype(np.int64)
    values = [found.column(f"_y{place}").to_numpy(zero_copy_only=False).astype(float) for place in range(plan.values)]
    rows, matching = [], []
    for own in places:
        group = _Group.of(units[own], strata[own], [value[own] for value in values])
        rows.append(tuple(group.bound(measure, design, plan.confidence) for measure in plan.measures))
        matching.append(len(group.strata))
    return Answer(plan=plan, groups=groups, rows=tuple(rows), matching=tuple(matching))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """The rows of a group: their values, which sampled row each is of, and the strata of rows and of sampled rows."""

    values: tuple[NDArray[np.float64], ...]
    units: NDArray[np.intp]
    row_strata: NDArray[np.int64]
    strata: NDArray[np.int64]

    @classmethod
    def of(cls, units: NDArray[np.int64], strata: NDArray[np.int64], values: Sequence[NDArray[np.float64]]) -> _Group:
        ids, where = np.unique(units, return_inverse=True)
        of = np.zeros(len(ids), dtype=np.int64)
        of[where] = strata
        return cls(values=tuple(values), units=where, row_strata=strata, strata=of)

    def bound(self, measure: Measure, design: Design, confidence: float) -> Bounded:
        """One estimate of the group. A sampled row that a join has made several of counts once, with the sum of them."""
        if measure.kind == "quantile":
            held = ~np.isnan(self.values[measure.above])
            return quantile(self.values[measure.above][held], self.row_strata[held], design, confidence, measure.share or 0.5)
        above = self._summed(measure.above)
        if measure.kind == "ratio":
            found = ratio(above, self._summed(measure.below or 0), self.strata, design, confidence)
        else:
            counts = measure.counts and bool((above <= 1).all())
            present = above != 0 if counts else np.ones(len(above), dtype=bool)
            found = total(above[present], self.strata[present], design, confidence, counts=counts)
        ends = found.low * measure.scale, found.high * measure.scale
        low, high = ends if measure.scale >= 0 else (ends[1], ends[0])
        return Bounded(value=found.value * measure.scale, low=low, high=high)

    def _summed(self, place: int) -> NDArray[np.float64]:
        return np.bincount(self.units, weights=self.values[place], minlength=len(self.strata)).astype(np.float64)
