"""`run_approximation`: answers WITH SAMPLE from a sample of sufficient size, or refuses and names that size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, inf
from typing import TYPE_CHECKING

from platform_plugin.errors import InvalidValue
from platform_plugin.lake.files.files import PAGE_ROWS
from platform_plugin.language.query.approximate import STRATUM, UNIT, plan_approximation
from platform_plugin.language.query.query import Query, analyse_query
from platform_plugin.language.text.places import Span, locate_offset
from platform_plugin.relations.arguments import check_arguments
from platform_plugin.relations.bind.plans import find_query_plan
from platform_plugin.relations.bind.resolve import Resolver
from platform_plugin.relations.result import Result
from platform_plugin.relations.samples.draw.blocks import BlockDesign
from platform_plugin.relations.samples.estimate.answer import Estimates, estimate
from platform_plugin.relations.samples.estimate.estimators import Design, needed_size
from platform_plugin.relations.samples.estimate.sample_query import SampleQuery, written_relation
from platform_plugin.relations.samples.population import PILOT, find_source

if TYPE_CHECKING:
    from datetime import timedelta

    from platform_plugin.engine.spark.session.job import ProgressHandler
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot
    from platform_plugin.language.query.approximate import Approximation
    from platform_plugin.language.query.plan import QueryPlan
    from platform_plugin.relations.arguments import Arguments
    from platform_plugin.relations.samples.population import DrawnRows, PopulationSource

_MARGIN = 1.15
_ATTEMPTS = 3
_FIRST_BLOCKS = 64
# Of fewer blocks too large a part would have to be read before anything can be said.
_ENOUGH_BLOCKS = 4 * _FIRST_BLOCKS


def run_approximation(
    work: Workspace,
    query: Span,
    arguments: Arguments,
    *,
    timeout: timedelta | None = None,
    progress: ProgressHandler | None = None,
) -> Result:
    """Estimate a query within its bounds, or refuse and name the sample that could."""
    plan = plan_approximation(query)
    if not isinstance(arguments, Mapping):
        arguments = {f"_positional_{place}": value for place, value in enumerate(arguments)}
    with work.lake.lease(holder="estimate") as lease:
        asked = analyse_query(plan.text)
        check_arguments(asked.parameters, arguments)
        rows_plan = _find_rows_plan(work, asked, lease.snapshot)
        asking = SampleQuery(
            work=work,
            written=query,
            asked=asked,
            plan=rows_plan,
            arguments=arguments,
            snapshot=lease.snapshot,
            timeout=timeout,
            progress=progress,
        )
        written = asking.as_written(asked.relations[0])
        source = find_source(work, written, lease.snapshot, rows_plan.columns_of(asked, written), rows_plan.formula_of(written, arguments))
        answer = _Estimating(plan=plan, asking=asking, source=source).answer()
        return Result(answer.table(), snapshot=lease.snapshot)


def explain_approximation(work: Workspace, query: Span, snapshot: Snapshot) -> list[str]:
    """The source of the sample for a query, and the query over the sampled rows."""
    plan = plan_approximation(query)
    asked = analyse_query(plan.text)
    rows_plan, written = _find_rows_plan(work, asked, snapshot), written_relation(query, asked.relations[0])
    source = find_source(work, written, snapshot, rows_plan.columns_of(asked, written), rows_plan.formula_of(written, ()))
    said = f"estimates {', '.join(measure.name for measure in plan.measures)} within {plan.error:g} at a confidence of {plan.confidence:g}"
    begun = [said, f'samples "{source.name}"']
    if source.fixed is not None:
        begun.append(f"has a stored sample of {source.fixed.design.size} of {source.fixed.design.population} rows")
    if source.pieces is not None:
        count = source.pieces.row_count
        if source.block_count >= _ENOUGH_BLOCKS:
            begun.append(f"can draw whole blocks of {PAGE_ROWS} rows, {_FIRST_BLOCKS} of {source.block_count} at first")
        begun.append(f"can draw up to {min(count, work.limits.estimate_rows)} of {count} rows, {min(count, PILOT)} of them at first")
    return [*begun, "asks of each sampled row:", plan.text]


def _find_rows_plan(work: Workspace, asked: Query, snapshot: Snapshot) -> QueryPlan:
    """The plan of the query over the sampled rows, which have marks beside their columns."""
    return find_query_plan(work, asked, snapshot, Resolver(work, snapshot), marks=(UNIT, STRATUM))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Estimating:
    """One query, and the steps to a sample that is large enough for it."""

    plan: Approximation
    asking: SampleQuery
    source: PopulationSource

    def answer(self) -> Estimates:
        """The estimates from a stored sample, else from blocks, else from single rows; the error names the size that would be needed."""
        source, size = self.source, PILOT
        if source.fixed is not None:
            found = self._estimate(source.fixed)
            wanted = self._wanted(found)
            if wanted <= found.design.size or found.design.is_census:
                return found
            if source.pieces is None:
                raise self._refusal(found, wanted)
            size = self._next_size(wanted, found.design) or PILOT
        return self._from_blocks() or self._from_rows(size)

    def _estimate(self, drawn: DrawnRows) -> Estimates:
        return estimate(self.plan, self.asking.ask(drawn), drawn.design)

    def _from_blocks(self) -> Estimates | None:
        """None where rows are too few, or too unevenly spread over them."""
        count = self.source.block_count
        if count < _ENOUGH_BLOCKS:
            return None
        limits = self.asking.work.limits
        rows = limits.estimate_block_rows if self.asking.is_local(self.source.fields) else limits.estimate_rows
        most = min(count // 2, rows // PAGE_ROWS)
        size = _FIRST_BLOCKS
        for attempt in range(_ATTEMPTS):
            found = self._estimate(self.source.draw_blocks(self.asking.work, size, attempt))
            design = found.design
            if not isinstance(design, BlockDesign):
                raise TypeError(design)
            wanted = max((design.needed(one, self.plan.error) for one in found.bounds), default=0.0)
            if wanted <= size:
                return found
            # Where too few blocks match to tell, eight times as many may.
            size = size * 8 if wanted == inf else ceil(wanted * _MARGIN)
            if size > most:
                break
        return None

    def _from_rows(self, size: int) -> Estimates:
        attempt = 0
        while True:
            found = self._estimate(self.source.draw(self.asking.work, size, attempt))
            wanted = self._wanted(found)
            if wanted <= found.design.size or found.design.is_census:
                return found
            following, attempt = self._next_size(wanted, found.design), attempt + 1
            if following is None or attempt == _ATTEMPTS:
                raise self._refusal(found, wanted)
            size = following

    def _wanted(self, found: Estimates) -> float:
        """How many rows a sample must have for all estimates to be as good as was asked for."""
        if not isinstance(found.design, Design):
            raise TypeError(found.design)
        return max((needed_size(one, self.plan.error, found.design) for one in found.bounds), default=0.0)

    def _next_size(self, wanted: float, design: Design | BlockDesign) -> int | None:
        """How many rows to draw next; None where no sample that may be drawn is large enough."""
        largest = self.asking.work.limits.estimate_rows
        population, most = design.population, min(design.population, largest)
        # Where too few rows match to tell, ten times as many may.
        size = design.size * 10 if wanted == inf else ceil(wanted * _MARGIN)
        if size >= population / 2 and population <= largest:
            return population
        if size > most:
            return most if wanted == inf and design.size < most else None
        return size

    def _refusal(self, answer: Estimates, wanted: float) -> InvalidValue:
        source, plan, design = self.source, self.plan, answer.design
        reached = max((one.relative_error for one in answer.bounds), default=inf)
        said = "no bound is known" if reached == inf else f"the error is {reached:.3g}"
        would = "too few rows match for any bound" if wanted == inf else f"a sample of {min(ceil(wanted), design.population)} rows would do"
        allow = "" if reached == inf else f", or allow error = {reached * 1.05:.2g}"
        make = "ask without WITH SAMPLE" if source.pieces is not None or wanted == inf else "make a larger sample"
        refusal = InvalidValue(
            f'"{source.name}" can\'t be estimated with an error of {plan.error:g} at a confidence of {plan.confidence:g}',
            detail=f"with {design.size} sampled of {design.population} rows {said}; {would}",
            hint=make + allow,
        )
        locate_offset(self.asking.written).attach(refusal)
        return refusal
