"""Approximate aggregates, stored as Spark's own sketches, which Spark merges."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from platform_plugin.algebra.types.data_types import DataType, Decimal, Primitive
from platform_plugin.algebra.types.infer import DOUBLE, INT, LONG, STRING
from platform_plugin.algebra.types.widening import decimal_type_of
from platform_plugin.operators.group.calls import Call, call_expression, cast, parse_expression
from platform_plugin.operators.group.splitting import NoSplit, Part, Splitting, require_type, split_single_column, value_count

if TYPE_CHECKING:
    from collections.abc import Callable

    from platform_plugin.operators.group.splitting import Parts


def split_hll(call: Call, kind: DataType | None, row_id: Callable[[], exp.Expr]) -> Splitting:
    """The split of approx_count_distinct as an HLL sketch.

    2 to the power of `size` buckets give a relative error of 1.04 / sqrt(2 ^ size); Spark's own default is 0.05.
    """
    del row_id
    size = 12
    if len(call.args) > 1:
        try:
            error = float(str(call.args[1].sql()).rstrip("dDbB"))
            size = next(bits for bits in range(4, 22) if 1.04 / 2 ** (bits / 2) <= error)
        except (ValueError, StopIteration):
            raise NoSplit(
                "the error of approx_count_distinct must be a constant of 0.0008 or more", "write approx_count_distinct(x, 0.01)"
            ) from None
    counted = call.args[0] if kind in (INT, LONG, STRING, Primitive("blob")) else cast(call.args[0], "STRING")
    part = Part(
        name=f"hll{size}_{call.word()}",
        value=call.filtered(call_expression("hll_sketch_agg", counted, exp.Literal.number(size))),
        merge=lambda columns: call_expression("hll_union_agg", columns[0]),
        type=Primitive("blob"),
    )
    return Splitting(parts=(part,), answer=lambda columns: parse_expression("coalesce(hll_sketch_estimate(_0), 0)", columns[0]))


def split_kll(call: Call, kind: DataType | None, row_id: Callable[[], exp.Expr]) -> Splitting:
    """The split of approximate percentiles as a KLL sketch.

    A sketch with k = 4096 is right to within 0.13 % of the rows; the answer has the argument's own type, as in Spark.
    """
    del row_id
    found = require_type(call, kind)
    if not isinstance(found, (Primitive, Decimal)) or (decimal_type_of(found) is None and found not in (DOUBLE, Primitive("float32"))):
        raise NoSplit(
            f"{call.name} of {found} can't be kept up to date part by part",
            "make a number of it, for instance unix_micros(at), and a time of the answer: timestamp_micros(…)",
        )
    if len(call.args) < 2:
        raise NoSplit(f"{call.name} needs a percentage", f"write {call.name}({call.shown()}, 0.5)")
    whole = isinstance(found, Primitive) and found.name.startswith("int")
    word, wide = ("bigint", "BIGINT") if whole else ("double", "DOUBLE")
    sketch = Part(
        name=f"kll_{call.word()}",
        value=call.filtered(call_expression(f"kll_sketch_agg_{word}", cast(call.args[0], wide), exp.Literal.number(4096))),
        merge=lambda columns: call_expression(f"kll_merge_agg_{word}", columns[0]),
        type=Primitive("blob"),
    )
    number = value_count(call)
    share = call.args[1]
    many = isinstance(share, exp.Anonymous) and str(share.this) == "array"

    def answer(columns: Parts) -> exp.Expr:
        wanted = cast(share, "ARRAY<DOUBLE>" if many else "DOUBLE")
        value = cast(call_expression(f"kll_sketch_get_quantile_{word}", columns[0], wanted), f"ARRAY<{found}>" if many else str(found))
        return parse_expression("CASE WHEN _0 > 0 THEN _1 END", columns[1], value)

    return Splitting(parts=(sketch, number), answer=answer)


def sketch(merge: str) -> Callable[[Call, DataType | None, Callable[[], exp.Expr]], Splitting]:
    """The split of calls that make or merge sketches: the sketch is stored, and merged by the function with this name."""

    def make(call: Call, kind: DataType | None, row_id: Callable[[], exp.Expr]) -> Splitting:
        del kind, row_id
        return split_single_column(
            f"{call.name}_{call.word()}", call.filtered(call_expression(call.name, *call.args)), merge, Primitive("blob")
        )

    return make
