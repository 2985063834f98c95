"""`answer_correlated`: a sub-query that depends on the row of the query around it, computed for all of these rows at once by a join.

EXISTS over rows is a semi join. A scalar sub-query that aggregates is an aggregation of the joined rows by the row around it, and for rows
without any the aggregation of nothing. Other forms, such as LIMIT or sub-queries within, are left to Spark.
"""

from __future__ import annotations

from collections import ChainMap
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from sqlglot import exp

from platform_plugin.algebra.plan.filters import add_filters, all_of, filter_conditions, split_filters
from platform_plugin.algebra.plan.nodes import (
    Aggregate,
    Column,
    Derived,
    Generate,
    Item,
    Join,
    LiteralRows,
    Project,
    Scalar,
    Scan,
    Single,
    columns,
    scalars,
    walk,
)
from platform_plugin.engine.arrow.calls import aggregate
from platform_plugin.engine.arrow.joins import join_rows
from platform_plugin.engine.arrow.values import ArrowRows, NotSupportedByArrow, RowAnswers, TableColumns, evaluate

if TYPE_CHECKING:
    from collections.abc import Callable

    from platform_plugin.algebra.plan.nodes import JoinKind, Query, Source

    Read = Callable[[Source], ArrowRows]

_ROW = Column("", "row around")
"""The number of the row of the query around."""


def is_correlated(plan: Query) -> bool:
    """Whether a sub-query has columns of the query around it."""
    own: set[Column] = set()
    named: set[Column] = set()
    for node in walk(plan):
        if isinstance(node, Scan | LiteralRows | Derived | Generate):
            own.update(columns(node))
        for value in scalars(node):
            # Keys of a sort are written without an alias.
            named |= {column for column in value.facts.columns if column.alias}
    return not named <= own


def answer_correlated(plan: Query, rows: ArrowRows, read: Read, *, asks_for_rows: bool) -> RowAnswers:
    """The value of a sub-query for each row of the query around it; with `asks_for_rows` whether it has any row."""
    numbered = _beside(rows, pa.array(np.arange(rows.count, dtype=np.int64)))
    if asks_for_rows:
        if not isinstance(plan, Project):
            raise NotSupportedByArrow("EXISTS over what is no plain selection, and depends on the row")
        met = _join(plan.source, numbered, read, "semi").columns[_ROW]
        return RowAnswers(values=pa.array(np.isin(np.arange(rows.count), met.to_numpy(zero_copy_only=False))))
    found = _rows_of(plan, numbered, read)
    if found.num_columns != 1:
        raise NotSupportedByArrow("a sub-query of several columns")
    return RowAnswers(values=found.column(0).combine_chunks())


def _beside(rows: ArrowRows, numbers: Any) -> ArrowRows:
    return ArrowRows(columns=ChainMap({_ROW: numbers}, rows.columns), count=rows.count)  # type: ignore[arg-type]


def _rows_of(plan: Query, rows: ArrowRows, read: Read) -> pa.Table:
    """The single row of a sub-query for each row around it, in their order."""
    match plan:
        case Project(source=Derived(query=inner, alias=alias), items=items) if not any(item.value.plans for item in items):
            found = _rows_of(inner, rows, read)
            below = ArrowRows(columns=TableColumns(found, alias), count=found.num_rows)
            return pa.table([evaluate(item.value, below) for item in items], names=[item.name for item in items])
        case Aggregate(source=source, keys=(), calls=calls, sets=None):
            return _aggregate(_join(source, rows, read, "inner"), calls, rows.count)
    raise NotSupportedByArrow("a sub-query that depends on the row, and is no aggregation")


def _aggregate(joined: ArrowRows, calls: tuple[Item, ...], count: int) -> pa.Table:
    names = [f"call {place}" for place in range(len(calls))]
    named = [replace(call, name=name) for call, name in zip(calls, names, strict=True)]
    key = Item(value=Scalar(exp.column(_ROW.name, quoted=True)), name=_ROW.name)
    found = aggregate(joined, [key], named)
    # Rows that met none have what the aggregates give of no rows.
    nothing = aggregate(joined.picked(pa.array(np.zeros(joined.count, dtype=bool))), [], named)
    places = np.full(count, found.num_rows, dtype=np.int64)
    places[found.column(_ROW.name).to_numpy()] = np.arange(found.num_rows)
    whole = pa.concat_tables([found.select(names), nothing.cast(found.select(names).schema)])
    return whole.take(pa.array(places)).rename_columns([call.name for call in calls])


def _join(source: Source, rows: ArrowRows, read: Read, kind: JoinKind) -> ArrowRows:
    """The rows around, joined with those of a source by the conditions on it that are about both."""
    below, filters = split_filters(source)
    own = frozenset(columns(below))
    mine: list[Scalar] = []
    both: list[Scalar] = []
    for condition in filter_conditions(filters):
        if condition.plans:
            raise NotSupportedByArrow("a sub-query within one that depends on the row")
        (mine if condition.facts.columns <= own else both).append(condition)
    found = read(add_filters(below, mine))
    on = all_of(both)
    if on is None and kind == "inner":
        kind = "cross"
    return join_rows(Join(left=Single(), right=Single(), kind=kind, condition=on), rows, found)


def asks_for_rows(node: exp.Expr, place: int) -> bool | None:
    """Whether an expression only asks if a sub-query has rows (EXISTS); None where it looks for a value among them (IN)."""
    for inner in node.find_all(exp.Exists, exp.In):
        asked = inner.this if isinstance(inner, exp.Exists) else inner.args.get("query")
        if isinstance(asked, exp.Placeholder) and str(asked.this) == str(place):
            return True if isinstance(inner, exp.Exists) else None
    return False
