"""Groupings: the stream parts of many views over the same rows, where what they have in common is made once.

Parts that filter and group alike are one grouping with all of their aggregates; parts of one source share what is joined and filtered.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from platform_plugin.algebra.plan.copies import columns_in
from platform_plugin.algebra.plan.nodes import Filter, Item, Scalar
from platform_plugin.engine.arrow.plans import conjuncts, run_grouping
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
    """The parts over one stream of some views, by what they group. It depends on nothing but plans, so it is made once for many runs."""

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
        """Make every grouping of these rows, several at a time."""
        return Grouped(self, known, {alike: pool.submit(_grouped, alike[0], parts, known) for alike, parts in self.alike.items()})


class Grouped:
    """What some rows give in each grouping."""

    def __init__(self, groupings: Groupings, known: ArrowTables, made: dict[Alike, Future[pa.Table | None]]) -> None:
        self._groupings, self._known, self._made = groupings, known, made

    def rows_of(self, view: str, part: str) -> pa.Table:
        """What the rows add to a part's state, once its grouping is made; `NotSupportedByArrow` where that is Spark's to say."""
        alike, found = self._groupings.prepared[view, part]
        rows = self._made[alike].result()
        if rows is None:
            return run_grouping(alike[0], found.keys, found.calls, self._known)
        places = {value: number for number, value in enumerate((*alike[1], *_calls(self._groupings.alike[alike])))}
        items = (*found.keys, *found.calls)
        return pa.table([rows.column(places[item.value]) for item in items], names=[item.name for item in items])


def _filtered(part: ComparablePart) -> Any:
    """A part's source under its filters, one by one, so that filters that begin alike are alike that far."""
    source = part.base
    for condition in part.conditions:
        if condition.plans:
            source = Filter(source=source, condition=condition)
        else:
            for node in conjuncts(condition.node):
                source = Filter(source=source, condition=Scalar(node))
    return source


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
