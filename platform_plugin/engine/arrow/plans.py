"""`run_plan`: runs a plan over Arrow tables with Spark's answer, or raises `NotSupportedByArrow`."""

from __future__ import annotations

from collections import ChainMap
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from platform_plugin.algebra.plan.nodes import (
    Aggregate,
    Column,
    Derived,
    Distinct,
    Filter,
    Generate,
    Join,
    Limit,
    Project,
    Scan,
    SetOperation,
    Single,
    Sort,
    Window,
    outputs,
)
from platform_plugin.engine.arrow.calls import aggregate, aggregate_sets
from platform_plugin.engine.arrow.correlated import answer_correlated, asks_for_rows, is_correlated
from platform_plugin.engine.arrow.generators import generate
from platform_plugin.engine.arrow.group_keys import group_key
from platform_plugin.engine.arrow.joins import join_rows
from platform_plugin.engine.arrow.sets import combine_sets
from platform_plugin.engine.arrow.values import (
    ArrowRows,
    NotSupportedByArrow,
    RowAnswers,
    TableColumns,
    evaluate,
    evaluate_node,
    sortable_values,
)
from platform_plugin.engine.arrow.windows import evaluate_windows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from platform_plugin.algebra.plan.nodes import Item, Query, Scalar, SortKey, Source


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
    return run_query(query, ArrowTables(tables=dict(tables)))


def run_query(query: Query, known: ArrowTables) -> pa.Table:
    """The same over tables whose joins and filters other queries share."""
    if not outputs(query):
        raise NotSupportedByArrow("a query without columns")  # without a column an Arrow table forgets how many rows it has
    try:
        return _query(query, known)
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
            return pa.table([_evaluate(item.value, rows, known) for item in items], names=[item.name for item in items])
        case Window(source=source, items=items):
            rows = _rows(source, known)
            return pa.table([evaluate_windows(item.value, rows) for item in items], names=[item.name for item in items])
        case Aggregate(source=source, keys=keys, calls=calls, sets=None):
            return aggregate(_rows(source, known), keys, calls)
        case Aggregate(source=source, keys=keys, calls=calls, sets=sets) if sets is not None:
            return aggregate_sets(_rows(source, known), keys, calls, sets)
        case Distinct(query=inner):
            found = _query(inner, known)
            # Columns may be called alike.
            named = pa.table([group_key(column) for column in found.columns], names=[str(place) for place in range(found.num_columns)])
            return named.group_by(named.column_names).aggregate([]).rename_columns(found.column_names)
        case SetOperation(left=left, right=right):
            before, after = _query(left, known), _query(right, known)
            if before.schema.types != after.schema.types:
                raise NotSupportedByArrow(f"{query.kind.upper()} of columns of different types")
            return combine_sets(before, after, query.kind, all_of=query.all)
        case Limit(query=inner, count=count, offset=offset):
            first = 0 if offset is None else _row_number(offset)
            found = _query(inner, known)
            if not isinstance(inner, Sort) and (first or count is None or _row_number(count) < found.num_rows):
                raise NotSupportedByArrow("LIMIT over rows without an order", for_good=False)
            return found.slice(first, None if count is None else _row_number(count))
        case Sort(query=inner, keys=by):
            return _sorted(_query(inner, known), by)
    raise NotSupportedByArrow(f"the operator {type(query).__name__}")


def _evaluate(value: Scalar, rows: ArrowRows, known: ArrowTables) -> Any:
    """The values of an expression, whose sub-queries are answered first."""
    if not value.plans:
        return evaluate(value, rows)
    answers = tuple(_answer(value.node, place, plan, rows, known) for place, plan in enumerate(value.plans))
    return evaluate(value, replace(rows, answers=answers))


def _answer(node: Any, place: int, plan: Query, rows: ArrowRows, known: ArrowTables) -> pa.Table | RowAnswers:
    """The rows of a sub-query, or its value for each row where it depends on the row."""
    if not is_correlated(plan):
        return _query(plan, known)
    asks = asks_for_rows(node, place)
    if asks is None:
        raise NotSupportedByArrow("IN over a sub-query that depends on the row")
    return answer_correlated(plan, rows, lambda source: _rows(source, known), asks_for_rows=asks)


def _row_number(value: Scalar) -> int:
    number = evaluate_node(value.node, ArrowRows(columns={}, count=1)).as_py()
    if not isinstance(number, int) or number < 0:
        raise NotSupportedByArrow("a LIMIT that is no number of rows")
    return number


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
        case Single():
            return ArrowRows(columns={}, count=1)
        case Derived(query=query, alias=alias):
            found = _query(query, known)
            return _named(found, alias)
        case Filter(source=inner, condition=condition):
            rows = _rows(inner, known)
            kept = _evaluate(condition, rows, known)
            if not pa.types.is_boolean(kept.type):
                raise NotSupportedByArrow(f"a filter of type {kept.type}")
            return rows.picked(pc.fill_null(kept, False))  # noqa: FBT003
        case Generate(source=inner, call=call, alias=alias, names=names, outer=outer):
            rows = _rows(inner, known)
            parents, *made = generate(call.node, rows, names, outer=outer)
            beside = {Column(alias, name): column for name, column in zip(names, made, strict=True)}
            return ArrowRows(columns=ChainMap(beside, rows.picked(parents).columns), count=len(parents))  # type: ignore[arg-type]
        case Join():
            return join_rows(source, _rows(source.left, known), _rows(source.right, known))
    raise NotSupportedByArrow(f"the operator {type(source).__name__}")


def _named(found: pa.Table, alias: str) -> ArrowRows:
    if not found.column_names:
        raise NotSupportedByArrow("a relation without columns")
    return ArrowRows(columns=TableColumns(found, alias), count=found.num_rows)
