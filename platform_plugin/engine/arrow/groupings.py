"""`Groupings`: several aggregations of the same rows, with shared work done once.

Aggregations with equal filters and keys are one grouping with all of their aggregates; those with the same source share its joins and
filters.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from platform_plugin.algebra.plan.filters import add_filters, filter_conditions, split_filters
from platform_plugin.algebra.plan.nodes import Item, Scalar
from platform_plugin.engine.arrow.plans import run_grouping
from platform_plugin.engine.arrow.values import NotSupportedByArrow

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Executor, Future

    from platform_plugin.algebra.plan.nodes import Aggregate
    from platform_plugin.engine.arrow.plans import ArrowTables

    Alike = tuple[Any, tuple[Scalar, ...]]


class Groupings:
    """Aggregations by what they group. It depends on plans alone, so many runs use the same value."""

    def __init__(self, aggregates: Sequence[Aggregate]) -> None:
        self.alike: dict[Alike, list[Aggregate]] = {}
        self.places: list[tuple[Alike, Aggregate]] = []
        for aggregate in aggregates:
            alike = (_filtered(aggregate.source), tuple(key.value for key in aggregate.keys))
            self.alike.setdefault(alike, []).append(aggregate)
            self.places.append((alike, aggregate))

    def begin(self, tables: ArrowTables, pool: Executor) -> RunningGroupings:
        """Start every grouping of these rows, several at a time."""
        return RunningGroupings(
            self, tables, {alike: pool.submit(_grouped, alike[0], alone, tables) for alike, alone in self.alike.items()}
        )


class RunningGroupings:
    """The results of some rows for each grouping."""

    def __init__(self, groupings: Groupings, tables: ArrowTables, made: dict[Alike, Future[pa.Table | None]]) -> None:
        self._groupings, self._tables, self._made = groupings, tables, made

    def rows_of(self, place: int) -> pa.Table:
        """The rows of an aggregation, once its grouping is computed; `NotSupportedByArrow` where it is left to Spark."""
        alike, aggregate = self._groupings.places[place]
        rows = self._made[alike].result()
        if rows is None:
            return run_grouping(alike[0], aggregate.keys, aggregate.calls, self._tables)
        columns = {value: number for number, value in enumerate((*alike[1], *_calls(self._groupings.alike[alike])))}
        items = (*aggregate.keys, *aggregate.calls)
        return pa.table([rows.column(columns[item.value]) for item in items], names=[item.name for item in items])


def _filtered(source: Any) -> Any:
    """A source under its conditions one by one, so that filters that begin alike are alike that far."""
    below, filters = split_filters(source)
    return add_filters(below, filter_conditions(filters))


def _calls(aggregates: Sequence[Aggregate]) -> list[Scalar]:
    """Every different aggregate."""
    return list(dict.fromkeys(call.value for aggregate in aggregates for call in aggregate.calls))


def _grouped(source: Any, aggregates: Sequence[Aggregate], tables: ArrowTables) -> pa.Table | None:
    """What aggregations that group alike want, in columns by number; None where some of it is Spark's, so that each is run alone."""
    calls = [Item(value=value, name=f"p{number}") for number, value in enumerate(_calls(aggregates))]
    keys = [replace(key, name=f"k{number}") for number, key in enumerate(aggregates[0].keys)]
    try:
        return run_grouping(source, keys, calls, tables)
    except NotSupportedByArrow:
        return None
