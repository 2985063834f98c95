"""`Groupings`: runs the stream parts of many views over the same rows on the Arrow kernel, with shared work done once.

Parts with equal filters and keys are one grouping with all of their aggregates; parts with the same source share its joins and filters.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from platform_plugin.algebra.plan.filters import add_filters, conjuncts
from platform_plugin.algebra.plan.nodes import Item, Scalar
from platform_plugin.algebra.plan.traversal import columns_in
from platform_plugin.engine.arrow.plans import run_grouping
from platform_plugin.engine.arrow.values import NotSupportedByArrow
from platform_plugin.operators.group.sharing import prepare_part

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Executor, Future

    from platform_plugin.engine.arrow.plans import ArrowTables
    from platform_plugin.operators.group.parts import StreamPart
    from platform_plugin.operators.group.sharing import ComparablePart, ViewParts

    Alike = tuple[Any, tuple[Scalar, ...]]


class Groupings:
    """The stream parts of some views over one stream, by what they group. It depends on plans alone, so many runs use the same value."""

    def __init__(self, views: Sequence[ViewParts], stream: str) -> None:
        self.alike: dict[Alike, list[ComparablePart]] = {}
        self.prepared: dict[tuple[str, str], tuple[Alike, ComparablePart]] = {}
        self.columns: frozenset[str] = frozenset()
        """The names of all columns that are looked at."""
        for view in views:
            for part in view.plan.streams:
                if part.stream == stream:
                    self._add(view, part)

    def _add(self, view: ViewParts, part: StreamPart) -> None:
        found = prepare_part(view, part)
        alike = (_filtered(found), tuple(key.value for key in found.keys))
        self.alike.setdefault(alike, []).append(found)
        self.prepared[view.view, part.name] = alike, found
        self.columns |= {column.name for column in columns_in(part.query)}

    def begin(self, known: ArrowTables, pool: Executor) -> Grouped:
        """Start every grouping of these rows, several at a time."""
        return Grouped(self, known, {alike: pool.submit(_grouped, alike[0], parts, known) for alike, parts in self.alike.items()})


class Grouped:
    """The results of some rows for each grouping."""

    def __init__(self, groupings: Groupings, known: ArrowTables, made: dict[Alike, Future[pa.Table | None]]) -> None:
        self._groupings, self._known, self._made = groupings, known, made

    def rows_of(self, view: str, part: str) -> pa.Table:
        """What the rows add to a part's state, once its grouping is computed; `NotSupportedByArrow` where it is left to Spark."""
        alike, found = self._groupings.prepared[view, part]
        rows = self._made[alike].result()
        if rows is None:
            return run_grouping(alike[0], found.keys, found.calls, self._known)
        places = {value: number for number, value in enumerate((*alike[1], *_calls(self._groupings.alike[alike])))}
        items = (*found.keys, *found.calls)
        return pa.table([rows.column(places[item.value]) for item in items], names=[item.name for item in items])


def _filtered(part: ComparablePart) -> Any:
    """A part's source under its filters, one by one, so that filters that begin alike are alike that far."""
    return add_filters(part.base, [one for condition in part.conditions for one in conjuncts(condition)])


def _calls(parts: Sequence[ComparablePart]) -> list[Scalar]:
    """Every different aggregate of some parts."""
    return list(dict.fromkeys(call.value for part in parts for call in part.calls))


def _grouped(source: Any, parts: Sequence[ComparablePart], known: ArrowTables) -> pa.Table | None:
    """All that parts that group alike want, in columns by number; None where some of it is Spark's, so that each must ask for itself."""
    calls = [Item(value=value, name=f"p{number}") for number, value in enumerate(_calls(parts))]
    keys = [replace(key, name=f"k{number}") for number, key in enumerate(parts[0].keys)]
    try:
        return run_grouping(source, keys, calls, known)
    except NotSupportedByArrow:
        return None
