"""`run_plan`: runs a plan over Arrow tables with Spark's answer, or raises `NotSupportedByArrow`."""

from __future__ import annotations

from collections import ChainMap
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

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
    columns,
    outputs,
)
from platform_plugin.algebra.plan.traversal import column_of
from platform_plugin.engine.arrow.calls import aggregate
from platform_plugin.engine.arrow.positions import find_positions
from platform_plugin.engine.arrow.values import ArrowRows, NotSupportedByArrow, evaluate, evaluate_node, sortable_values

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from platform_plugin.algebra.plan.nodes import Item, Query, SortKey, Source

_JOINS = {"inner": "inner", "left": "left outer", "semi": "left semi", "anti": "left anti"}
# The types of columns that are joined by, and what stands for NULL beside a column that says where it is.
_NOTHING: dict[pa.DataType, Any] = {pa.int64(): 0, pa.string(): "", pa.date32(): date(1970, 1, 1), pa.bool_(): False}
_PAIRS = 1_000_000


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
            return _joined(source, known)
    raise NotSupportedByArrow(f"the operator {type(source).__name__}")


def _named(found: pa.Table, alias: str) -> ArrowRows:
    if not found.column_names:
        raise NotSupportedByArrow("a relation without columns")
    return ArrowRows(
        columns={Column(alias, name): found.column(name).combine_chunks() for name in found.column_names}, count=found.num_rows
    )


def _joined(join: Join, known: ArrowTables) -> ArrowRows:
    """A join by equal columns: the places of the rows that meet, then the rows."""
    if join.lateral or (join.condition is not None and join.condition.plans):
        raise NotSupportedByArrow("a lateral join, or a sub-query in a join")
    left, right = _rows(join.left, known), _rows(join.right, known)
    if join.kind == "cross" and join.condition is None and left.count * right.count <= _PAIRS:
        ours = pa.array(np.repeat(np.arange(left.count), right.count))
        theirs = pa.array(np.tile(np.arange(right.count), left.count))
        return _beside(left.picked(ours), right.picked(theirs))
    if join.kind not in _JOINS or join.condition is None:
        raise NotSupportedByArrow(f"a {join.kind} join")
    pairs = [_pair(part, join) for part in conjuncts(join.condition.node)]
    ours = [key for pair in pairs for key in _keys(left.columns[pair[0]], null_safe=pair[2])]
    theirs = [key for pair in pairs for key in _keys(right.columns[pair[1]], null_safe=pair[2])]
    if any(a.type != b.type for a, b in zip(ours, theirs, strict=True)):
        raise NotSupportedByArrow("a join of keys of different types")
    if len(ours) == 1 and len(pairs) == 1:
        looked_up = _looked_up(join.kind, left, ours[0], right, theirs[0])
        if looked_up is not None:
            return looked_up
    names = [f"k{place}" for place in range(len(ours))]
    one = pa.table([*ours, pa.array(range(left.count), pa.int64())], names=[*names, "left"])
    other = pa.table([*theirs, pa.array(range(right.count), pa.int64())], names=[*names, "right"])
    met = one.join(other, keys=names, join_type=_JOINS[join.kind])
    kept = left.picked(met.column("left").combine_chunks())
    if join.kind in ("semi", "anti"):
        return kept
    return _beside(kept, right.picked(met.column("right").combine_chunks()))


def _looked_up(kind: str, left: ArrowRows, ours: Any, right: ArrowRows, theirs: Any) -> ArrowRows | None:
    """A join by one column whose values are unique on one side, as a lookup, which is many times cheaper; None where they are not."""
    if kind == "inner" and left.count < right.count:
        swapped = _looked_up_in(kind, right, theirs, left, ours)
        return swapped if swapped is not None else _looked_up_in(kind, left, ours, right, theirs)
    return _looked_up_in(kind, left, ours, right, theirs)


def _looked_up_in(kind: str, rows: ArrowRows, keys: Any, found: ArrowRows, among: Any) -> ArrowRows | None:
    places = find_positions(keys, among, once=kind in ("inner", "left"))
    if places is None:
        return None
    if kind == "left":
        return _beside(rows, found.picked(places))
    met = pc.is_valid(places)
    kept = rows.picked(pc.invert(met) if kind == "anti" else met)
    return _beside(kept, found.picked(places.drop_null())) if kind == "inner" else kept


def _beside(left: ArrowRows, right: ArrowRows) -> ArrowRows:
    # Neither is written to, and none of their columns is touched here.
    return ArrowRows(columns=ChainMap(left.columns, right.columns), count=left.count)  # type: ignore[arg-type]


def conjuncts(condition: exp.Expr) -> Iterator[exp.Expr]:
    """The parts of a condition that AND joins."""
    while isinstance(condition, exp.Paren):
        condition = condition.this
    if isinstance(condition, exp.And):
        yield from conjuncts(condition.this)
        yield from conjuncts(condition.expression)
    else:
        yield condition


def _pair(condition: exp.Expr, join: Join) -> tuple[Column, Column, bool]:
    """The columns of either side that must be equal, and whether NULL is equal to NULL."""
    if not isinstance(condition, exp.EQ | exp.NullSafeEQ):
        raise NotSupportedByArrow("a join by more than equal columns")
    null_safe = isinstance(condition, exp.NullSafeEQ)
    ours, theirs = columns(join.left), columns(join.right)
    one, other = column_of(condition.this), column_of(condition.expression)
    if one is None or other is None:
        raise NotSupportedByArrow("a join by more than equal columns")
    if one in ours and other in theirs:
        return one, other, null_safe
    if other in ours and one in theirs:
        return other, one, null_safe
    raise NotSupportedByArrow("a join by more than equal columns")


def _keys(found: Any, *, null_safe: bool) -> list[Any]:
    """A column as what Arrow joins by, where NULL never meets NULL."""
    if pa.types.is_integer(found.type):
        found = found.cast(pa.int64())
    if found.type not in _NOTHING:
        raise NotSupportedByArrow(f"a join key of type {found.type}")
    return [pc.is_null(found), pc.fill_null(found, _NOTHING[found.type])] if null_safe else [found]
