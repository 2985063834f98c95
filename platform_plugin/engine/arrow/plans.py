"""`run_plan`: runs a plan over Arrow tables with Spark's answer, or raises `NotSupportedByArrow`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from platform_plugin.algebra.plan.nodes import (
    Aggregate,
    Column,
    Derived,
    Distinct,
    Filter,
    Join,
    Limit,
    Project,
    Scan,
    SetOperation,
    Sort,
    outputs,
)
from platform_plugin.engine.arrow.calls import aggregate
from platform_plugin.engine.arrow.joins import join_rows
from platform_plugin.engine.arrow.values import ArrowRows, NotSupportedByArrow, evaluate, evaluate_node, sortable_values

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from platform_plugin.algebra.plan.nodes import Item, Query, SortKey, Source


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrowTables:
    """Tables by their full names, and a cache of the sources that several plans over them share."""

    tables: dict[str, pa.Table]
    made: dict[Source, ArrowRows] = field(default_factory=dict)


def is_lasting(error: Exception) -> bool:
    """Whether Arrow fails on a plan whatever the rows are."""
    return isinstance(error, (pa.ArrowNotImplementedError, pa.ArrowTypeError, pa.ArrowKeyError, RecursionError))


def run_plan(query: Query, tables: Mapping[str, pa.Table]) -> pa.Table:
    """The result of a query over tables by their full names; `NotSupportedByArrow` if it is left to Spark."""
    if not outputs(query):
        raise NotSupportedByArrow("a query without columns")  # without a column an Arrow table forgets how many rows it has
    try:
        return _query(query, ArrowTables(tables=dict(tables)))
    except (pa.ArrowException, OverflowError, RecursionError) as error:
        raise NotSupportedByArrow(f"{error}", for_good=is_lasting(error)) from error


def run_grouping(source: Source, keys: Sequence[Item], calls: Sequence[Item], known: ArrowTables) -> pa.Table:
    """One row for each group of a source; `NotSupportedByArrow` if it is left to Spark."""
    try:
        return aggregate(_rows(source, known), keys, calls)
    except (pa.ArrowException, OverflowError, RecursionError) as error:
        raise NotSupportedByArrow(f"{error}", for_good=is_lasting(error)) from error


def _query(query: Query, known: ArrowTables) -> pa.Table:
    match query:
        case Project(source=source, items=items):
            rows = _rows(source, known)
            return pa.table([evaluate(item.value, rows) for item in items], names=[item.name for item in items])
        case Aggregate(source=source, keys=keys, calls=calls, sets=None):
            return aggregate(_rows(source, known), keys, calls)
        case Distinct(query=inner):
            found = _query(inner, known)
            if any(pa.types.is_floating(kind) or pa.types.is_nested(kind) for kind in found.schema.types):
                raise NotSupportedByArrow("DISTINCT of fractions or nested values")
            return found.group_by(found.column_names).aggregate([])
        case SetOperation(left=left, right=right, kind="union", all=all_of) if all_of:
            before, after = _query(left, known), _query(right, known)
            if before.schema.types != after.schema.types:
                raise NotSupportedByArrow("UNION ALL of columns of different types")
            return pa.concat_tables([before, after.rename_columns(before.column_names)])
        case Limit(query=Sort() as inner, count=count, offset=None) if count is not None:
            number = evaluate_node(count.node, ArrowRows(columns={}, count=1))
            return _query(inner, known).slice(0, number.as_py())
        case Sort(query=inner, keys=by):
            return _sorted(_query(inner, known), by)
    raise NotSupportedByArrow(f"the operator {type(query).__name__}")


def _sorted(found: pa.Table, by: tuple[SortKey, ...]) -> pa.Table:
    rows = _named(found, "")
    keys: list[tuple[str, str]] = []
    values: list[Any] = []
    for key in by:
        value = sortable_values(evaluate(key.value, rows))
        keys += [(f"n{len(values)}", "descending" if key.nulls_first else "ascending")]
        values.append(pc.is_null(value))
        keys += [(f"n{len(values)}", "descending" if key.descending else "ascending")]
        values.append(value)
    table = pa.table(values, names=[f"n{place}" for place in range(len(values))])
    return found.take(pc.sort_indices(table, sort_keys=keys))


def _rows(source: Source, known: ArrowTables) -> ArrowRows:
    found = known.made.get(source)
    if found is None:
        found = known.made[source] = _make_rows(source, known)
    return found


def _make_rows(source: Source, known: ArrowTables) -> ArrowRows:
    match source:
        case Scan(relation=relation, alias=alias):
            found = known.tables.get(".".join(relation))
            if found is None:
                raise NotSupportedByArrow(f"relation {'.'.join(relation)}, which was not read")
            return _named(found, alias)
        case Derived(query=query, alias=alias):
            found = _query(query, known)
            return _named(found, alias)
        case Filter(source=inner, condition=condition):
            rows = _rows(inner, known)
            kept = evaluate(condition, rows)
            if not pa.types.is_boolean(kept.type):
                raise NotSupportedByArrow(f"a filter of type {kept.type}")
            return rows.picked(pc.fill_null(kept, False))  # noqa: FBT003
        case Join():
            return join_rows(source, _rows(source.left, known), _rows(source.right, known))
    raise NotSupportedByArrow(f"the operator {type(source).__name__}")


def _named(found: pa.Table, alias: str) -> ArrowRows:
    if not found.column_names:
        raise NotSupportedByArrow("a relation without columns")
    return ArrowRows(
        columns={Column(alias, name): found.column(name).combine_chunks() for name in found.column_names}, count=found.num_rows
    )
