"""`join_rows`: the rows of a join, by equal values of both sides and whatever else its condition says."""

from __future__ import annotations

from collections import ChainMap
from dataclasses import dataclass
from datetime import date
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from platform_plugin.algebra.plan.filters import split_operands
from platform_plugin.algebra.plan.nodes import Column
from platform_plugin.engine.arrow.decimals import align_decimals
from platform_plugin.engine.arrow.group_keys import encode_values
from platform_plugin.engine.arrow.positions import find_positions
from platform_plugin.engine.arrow.values import ArrowRows, NotSupportedByArrow, evaluate_node, normalize_doubles, repeat_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from platform_plugin.algebra.plan.nodes import Join, JoinKind

_JOINS = {"inner": "inner", "left": "left outer", "semi": "left semi", "anti": "left anti"}
# The types of columns that are joined by, and what stands for NULL beside a column that says where it is.
_NOTHING: dict[pa.DataType, Any] = {pa.int64(): 0, pa.string(): "", pa.date32(): date(1970, 1, 1), pa.bool_(): False, pa.float64(): 0.0}
# Pairs of rows that are looked at one by one, where no value of both sides is equal.
_PAIRS = 1_000_000


@dataclass(frozen=True, slots=True)
class _Pairs:
    """The places of the rows of both sides that meet."""

    left: Any
    right: Any

    def filter(self, mask: Any) -> _Pairs:
        return _Pairs(self.left.filter(mask), self.right.filter(mask))


def join_rows(join: Join, left: ArrowRows, right: ArrowRows) -> ArrowRows:
    """The rows of a join of two sources; `NotSupportedByArrow` if it is left to Spark."""
    if join.lateral or (join.condition is not None and join.condition.plans):
        raise NotSupportedByArrow("a lateral join, or a sub-query in a join")
    parts = [] if join.condition is None else list(split_operands(join.condition.node, exp.And))
    keys: list[tuple[exp.Expr, exp.Expr, bool]] = []
    rest: list[exp.Expr] = []
    for part in parts:
        pair = _key_pair(part, left, right)
        if pair is None:
            rest.append(part)
        else:
            keys.append(pair)
    if join.kind == "right":
        return _join("left", right, left, [(theirs, ours, null_safe) for ours, theirs, null_safe in keys], rest)
    return _join("inner" if join.kind == "cross" else join.kind, left, right, keys, rest)


def _key_pair(condition: exp.Expr, left: ArrowRows, right: ArrowRows) -> tuple[exp.Expr, exp.Expr, bool] | None:
    """What must be equal on either side, and whether NULL is equal to NULL; None for any other condition."""
    if not isinstance(condition, exp.EQ | exp.NullSafeEQ):
        return None
    null_safe = isinstance(condition, exp.NullSafeEQ)
    one, other = condition.this, condition.expression
    if _is_of(one, left) and _is_of(other, right):
        return one, other, null_safe
    if _is_of(other, left) and _is_of(one, right):
        return other, one, null_safe
    return None


def _is_of(node: exp.Expr, rows: ArrowRows) -> bool:
    """Whether an expression is of one side's columns, and of at least one."""
    found = [Column(column.table, column.name) for column in node.find_all(exp.Column)]
    return bool(found) and all(column in rows.columns for column in found)


def _join(
    kind: JoinKind, left: ArrowRows, right: ArrowRows, keys: Sequence[tuple[exp.Expr, exp.Expr, bool]], rest: Sequence[exp.Expr]
) -> ArrowRows:
    ours, theirs = _key_columns(left, right, keys)
    if kind != "full" and keys and not rest:
        if len(ours) == 1:
            looked_up = _looked_up(kind, left, ours[0], right, theirs[0])
            if looked_up is not None:
                return looked_up
        met = _meet(kind, left, ours, right, theirs)
        if kind in ("semi", "anti"):
            return left.picked(met.left)
        return _beside(left.picked(met.left), right.picked(met.right))
    met = _meet("inner", left, ours, right, theirs) if keys else _all_pairs(left, right)
    if rest:
        beside = _beside(left.picked(met.left), right.picked(met.right))
        met = met.filter(reduce(pc.and_, [_is_true(part, beside) for part in rest]))
    return _with_unmatched(kind, left, right, met)


def _key_columns(left: ArrowRows, right: ArrowRows, keys: Sequence[tuple[exp.Expr, exp.Expr, bool]]) -> tuple[list[Any], list[Any]]:
    ours: list[Any] = []
    theirs: list[Any] = []
    for one, other, null_safe in keys:
        pair = [repeat_value(evaluate_node(node, rows), rows.count) for node, rows in ((one, left), (other, right))]
        if any(pa.types.is_decimal(value.type) for value in pair):
            if not all(pa.types.is_decimal(value.type) or pa.types.is_integer(value.type) for value in pair):
                raise NotSupportedByArrow("a join of keys of different types")
            pair = list(align_decimals(pair[0], pair[1]))
        if all(pa.types.is_struct(value.type) for value in pair) and pair[0].type == pair[1].type:
            pair = _number_structs(pair)
        ours += _as_keys(pair[0], null_safe=null_safe)
        theirs += _as_keys(pair[1], null_safe=null_safe)
    if any(a.type != b.type for a, b in zip(ours, theirs, strict=True)):
        raise NotSupportedByArrow("a join of keys of different types")
    return ours, theirs


def _number_structs(pair: Sequence[Any]) -> list[Any]:
    """The structs of both sides as numbers that are equal where they are; parts that are NULL are equal, as in Spark."""
    both = pa.chunked_array([chunk for side in pair for chunk in (side.chunks if isinstance(side, pa.ChunkedArray) else [side])])
    numbers, _ = encode_values(both)
    known = pc.if_else(pc.is_valid(both.combine_chunks()), numbers, pa.scalar(None, pa.int64()))
    return [known.slice(0, len(pair[0])), known.slice(len(pair[0]))]


def _as_keys(found: Any, *, null_safe: bool) -> list[Any]:
    """A column as what Arrow joins by, where NULL never meets NULL."""
    if pa.types.is_integer(found.type):
        found = found.cast(pa.int64())
    elif found.type == pa.float64():
        found = normalize_doubles(found)
    elif pa.types.is_decimal(found.type) or pa.types.is_timestamp(found.type):
        return [pc.is_null(found), pc.fill_null(found, _nothing(found.type))] if null_safe else [found]
    if found.type not in _NOTHING:
        raise NotSupportedByArrow(f"a join key of type {found.type}")
    return [pc.is_null(found), pc.fill_null(found, _NOTHING[found.type])] if null_safe else [found]


def _nothing(kind: pa.DataType) -> pa.Scalar:
    return pa.scalar(0, pa.int64()).cast(kind) if pa.types.is_timestamp(kind) else pa.scalar(0, kind)


def _meet(kind: str, left: ArrowRows, ours: Sequence[Any], right: ArrowRows, theirs: Sequence[Any]) -> _Pairs:
    names = [f"k{place}" for place in range(len(ours))]
    one = pa.table([*ours, pa.array(range(left.count), pa.int64())], names=[*names, "left"])
    other = pa.table([*theirs, pa.array(range(right.count), pa.int64())], names=[*names, "right"])
    met = one.join(other, keys=names, join_type=_JOINS[kind])
    places = met.column("left").combine_chunks()
    return _Pairs(places, places if kind in ("semi", "anti") else met.column("right").combine_chunks())


def _all_pairs(left: ArrowRows, right: ArrowRows) -> _Pairs:
    if left.count * right.count > _PAIRS:
        raise NotSupportedByArrow("a join without equal values, of many pairs of rows", for_good=False)
    return _Pairs(pa.array(np.repeat(np.arange(left.count), right.count)), pa.array(np.tile(np.arange(right.count), left.count)))


def _is_true(condition: exp.Expr, rows: ArrowRows) -> Any:
    found = repeat_value(evaluate_node(condition, rows), rows.count)
    if not pa.types.is_boolean(found.type):
        raise NotSupportedByArrow(f"a join by a condition of type {found.type}")
    return pc.fill_null(found, False)  # noqa: FBT003


def _with_unmatched(kind: JoinKind, left: ArrowRows, right: ArrowRows, met: _Pairs) -> ArrowRows:
    """The pairs that meet, and what a kind of join adds of the rows that met none, or leaves out."""
    alone = {side: np.ones(rows.count, dtype=bool) for side, rows in (("left", left), ("right", right))}
    alone["left"][met.left.to_numpy(zero_copy_only=False)] = False
    alone["right"][met.right.to_numpy(zero_copy_only=False)] = False
    if kind in ("semi", "anti"):
        return left.picked(pa.array(alone["left"] if kind == "anti" else ~alone["left"]))
    ours = [met.left.cast(pa.int64())]
    theirs = [met.right.cast(pa.int64())]
    if kind in ("left", "full"):
        ours.append(pa.array(np.flatnonzero(alone["left"]), pa.int64()))
        theirs.append(pa.nulls(len(ours[-1]), pa.int64()))
    if kind == "full":
        theirs.append(pa.array(np.flatnonzero(alone["right"]), pa.int64()))
        ours.append(pa.nulls(len(theirs[-1]), pa.int64()))
    return _beside(left.picked(pa.concat_arrays(ours)), right.picked(pa.concat_arrays(theirs)))


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
