"""`split_call`: an aggregate's partial aggregates, how they merge, and how its answer is computed from them.

Every stored value is merged by an aggregate of Spark's own, so that one GROUP BY merges all columns of a state at once. Sums of floats
depend on the order of addition, so results over FLOAT and DOUBLE agree with one pass over all rows to about 1e-9 relative; all others are
exact.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from platform_plugin.algebra.functions import AGGREGATES, canonical_name
from platform_plugin.algebra.plan.names import output_name
from platform_plugin.algebra.types.data_types import DataType, Decimal, Field, IntervalType, Primitive, Struct, list_of
from platform_plugin.algebra.types.infer import DOUBLE, LONG, STRING, sum_type
from platform_plugin.algebra.types.widening import to_spark_number
from platform_plugin.distribution import page
from platform_plugin.operators.group.aggregate_table import Row
from platform_plugin.operators.group.calls import Call, call_expression, cast, parse_expression
from platform_plugin.operators.group.moments import MOMENTS, PAIRS, moment_answer, moment_merge, moment_parts, pair_merge, pair_parts
from platform_plugin.operators.group.sketches import sketch, split_hll, split_kll
from platform_plugin.operators.group.splitting import NoSplit, Part, Splitting, ValueKeys, require_type, split_single_column, value_count

if TYPE_CHECKING:
    from collections.abc import Callable

    from platform_plugin.operators.group.splitting import Parts


def split_call(call: Call, argument_type: DataType | None, row_id: Callable[[], exp.Expr]) -> Splitting | ValueKeys:
    """The split of a call. `argument_type` is its first argument's type if known; `row_id` gives the column of row ids."""
    name = canonical_name(call.name)
    if call.distinct and name not in ("min", "max", "bool_and", "bool_or", "bit_and", "bit_or", "any_value"):
        return _distinct(call, name, argument_type)
    row = next((row for row in TABLE if name in row.functions), None)
    if row is None:
        raise NoSplit(
            f"aggregate {call.name} can't be kept up to date part by part",
            f"{find_similar_aggregates(name)} can, not the same: see {page('views/aggregates.md')}",
        )
    if call.order is not None and name not in ("listagg", "percentile_cont", "percentile_disc", "mode"):
        raise NoSplit(
            f"ORDER BY inside of {call.name} can't be kept up to date part by part",
            "collect struct(key, value), and sort the array above: sort_array(…).value",
        )
    return row.split(call, argument_type, row_id)


def find_similar_aggregates(name: str) -> str:
    """The aggregates that split and whose names are most like one that does not."""
    for members, found in _NEAR.items():
        if any(part in name for part in members.split()):
            return found
    return "count, sum, avg, min, max and collect_set"


_NEAR = {
    "top_k count_min": "approx_count_distinct, mode and hll_sketch_agg",
    "tuple": "theta_sketch_agg and hll_sketch_agg",
    "vector product": "sum, avg and collect_list",
    "schema": "collect_set",
}


def _count(call: Call, kind: DataType | None, row_id: Callable[[], exp.Expr]) -> Splitting:
    del kind, row_id
    value = call.filtered(call_expression(call.name, *call.args))
    name = "n" if isinstance(call.args[0], exp.Star) else f"n_{call.word()}"
    return split_single_column(name, value, "sum", LONG, lambda column: parse_expression("coalesce(_0, 0)", column))


def _sum_part(call: Call, kind: DataType) -> Part:
    summed = sum_type(kind)
    if summed is None:
        raise NoSplit(
            f"{call.name} of {kind} can't be kept up to date part by part", "sum a number, not the same: the answer is a number too"
        )

    def merge(columns: Parts) -> exp.Expr:
        # The sum of decimals gains ten digits at every level, so each merge brings it back to the type of the first.
        total = call_expression("sum", columns[0])
        return cast(total, str(summed)) if isinstance(summed, Decimal) else total

    return Part(name=f"sum_{call.word()}", value=call.filtered(call_expression("sum", call.args[0])), merge=merge, type=summed)


def _sum(call: Call, kind: DataType | None, row_id: Callable[[], exp.Expr]) -> Splitting:
    del row_id
    return Splitting(parts=(_sum_part(call, require_type(call, kind)),), answer=lambda columns: columns[0])


def _try_sum(call: Call, kind: DataType | None, row_id: Callable[[], exp.Expr]) -> Splitting:
    """NULL says both no rows and overflow, so the number of rows tells them apart."""
    del row_id
    summed = sum_type(require_type(call, kind))
    total = f"TRY_CAST(try_sum(_0) AS {summed})" if isinstance(summed, Decimal) else "try_sum(_0)"

    def merge(columns: Parts) -> exp.Expr:
        return parse_expression(f"CASE WHEN count_if(_0 IS NULL AND _1 > 0) = 0 THEN {total} END", *columns)

    value = Part(name=f"try_sum_{call.word()}", value=call.filtered(call_expression("try_sum", call.args[0])), merge=merge, type=summed)
    number = value_count(call)
    return Splitting(parts=(value, number), answer=lambda columns: columns[0])


def _avg(call: Call, kind: DataType | None, row_id: Callable[[], exp.Expr]) -> Splitting:
    del row_id
    found = to_spark_number(require_type(call, kind))
    if isinstance(found, Decimal):
        return _decimal_avg(call, found)
    if isinstance(found, IntervalType):
        # As Spark does it: the quotient is rounded to a microsecond or a month.
        parts = (_sum_part(call, found), value_count(call))
        return Splitting(parts=parts, answer=lambda columns: parse_expression("CASE WHEN _1 > 0 THEN _0 / _1 END", *columns))
    if found == LONG:
        call = call.of(cast(call.args[0], "DOUBLE"))
        found = DOUBLE

    def answer(columns: Parts) -> exp.Expr:
        return parse_expression("CASE WHEN _1 > 0 THEN CAST(_0 AS DOUBLE) / _1 END", *columns)

    return Splitting(parts=(_sum_part(call, found), value_count(call)), answer=answer)


def _decimal_avg(call: Call, kind: Decimal) -> Splitting:
    """Spark divides with 38 digits and rounds once; a quotient with fewer places than that would round twice."""
    if call.name == "try_avg" or kind.precision > WIDEST_AVG:
        raise NoSplit(
            f"{call.name} of {kind} can't be split without rounding twice",
            f"write avg(CAST({call.shown()} AS DECIMAL({WIDEST_AVG},{min(kind.scale, WIDEST_AVG)}))), "
            "not the same for values that do not fit",
        )
    result = Decimal(precision=kind.precision + 4, scale=kind.scale + 4)

    def answer(columns: Parts) -> exp.Expr:
        return parse_expression(f"CASE WHEN _1 > 0 THEN CAST(_0 / CAST(_1 AS DECIMAL(20,0)) AS {result}) END", *columns)

    return Splitting(parts=(_sum_part(call, kind), value_count(call)), answer=answer)


# Up to here the quotient of the sum has at least four places more than the argument.
WIDEST_AVG = 24


def _same(call: Call, kind: DataType | None, row_id: Callable[[], exp.Expr]) -> Splitting:
    del row_id
    name = canonical_name(call.name)
    kept = Primitive("boolean") if name.startswith("bool") else kind
    return split_single_column(f"{name}_{call.word()}", call.filtered(call_expression(name, *call.args)), name, kept)


def _by_row(call: Call, kind: DataType | None, row_id: Callable[[], exp.Expr]) -> Splitting:
    """The first or last by the row id, so that every reader sees the same one, whatever was merged with what."""
    pick, bound = ("max_by", "max") if canonical_name(call.name) == "last" else ("min_by", "min")
    value, rows = call.args[0], row_id()
    if call.ignores_nulls:
        rows = parse_expression("CASE WHEN _0 IS NOT NULL THEN _1 END", value, rows)
    word = f"{canonical_name(call.name)}_{call.word()}" + ("_set" if call.ignores_nulls else "")
    chosen = Part(
        name=word,
        value=call.filtered(call_expression(pick, value, rows)),
        merge=lambda columns: call_expression(pick, columns[0], columns[1]),
        type=kind,
    )
    place = Part(
        name=f"{word}_row",
        value=call.filtered(call_expression(bound, rows)),
        merge=lambda columns: call_expression(bound, columns[1]),
        type=LONG,
    )
    return Splitting(parts=(chosen, place), answer=lambda columns: columns[0])


def _by_other(call: Call, kind: DataType | None, row_id: Callable[[], exp.Expr]) -> Splitting:
    del row_id
    if len(call.args) != 2:
        raise NoSplit(
            f"{call.name} of {len(call.args)} arguments can't be kept up to date part by part",
            f"write {call.name}(x, y), not the same: one value, not several",
        )
    name, bound = canonical_name(call.name), canonical_name(call.name)[:3]
    word = f"{name}_{call.word()}_{call.word(1)}"
    chosen = Part(
        name=word,
        value=call.filtered(call_expression(name, *call.args)),
        merge=lambda columns: call_expression(name, columns[0], columns[1]),
        type=kind,
    )
    by = Part(
        name=f"{word}_by",
        value=call.filtered(call_expression(bound, call.args[1])),
        merge=lambda columns: call_expression(bound, columns[1]),
        type=None,
    )
    return Splitting(parts=(chosen, by), answer=lambda columns: columns[0])


def _list(call: Call, kind: DataType | None, row_id: Callable[[], exp.Expr]) -> Splitting:
    del row_id
    stored = None if kind is None else list_of(kind)
    part = Part(
        name=f"list_{call.word()}",
        value=call.filtered(call_expression("collect_list", call.args[0])),
        merge=lambda columns: call_expression("flatten", call_expression("collect_list", columns[0])),
        type=stored,
    )
    return Splitting(parts=(part,), answer=lambda columns: columns[0])


def _set(call: Call, kind: DataType | None, row_id: Callable[[], exp.Expr] | None = None) -> Splitting:
    del row_id
    part = Part(
        name=f"set_{call.word()}",
        value=call.filtered(call_expression("collect_set", call.args[0])),
        merge=lambda columns: call_expression("array_distinct", call_expression("flatten", call_expression("collect_list", columns[0]))),
        type=None if kind is None else list_of(kind),
    )
    return Splitting(parts=(part,), answer=lambda columns: columns[0])


def _joined(call: Call, kind: DataType | None, row_id: Callable[[], exp.Expr]) -> Splitting:
    found = require_type(call, kind)
    separator = call.args[1] if len(call.args) > 1 else exp.Literal.number("''")
    sorted_by = _own_order(call)
    if found == Primitive("blob") or (sorted_by is not None and found != STRING):
        hint = (
            _sorted_list(call) if sorted_by is not None else f"write {call.name}(CAST({call.shown()} AS STRING), …), not the same: a STRING"
        )
        raise NoSplit(f"{call.name} of {found} can't be kept up to date part by part", hint)
    texts = call.of(call.args[0] if found == STRING else cast(call.args[0], "STRING"))
    stored = _set(texts, STRING) if call.distinct else _list(texts, STRING, row_id)

    def answer(columns: Parts) -> exp.Expr:
        values = columns[0] if sorted_by is None else call_expression("sort_array", columns[0], exp.Boolean(this=not sorted_by))
        return parse_expression("CASE WHEN size(_0) > 0 THEN array_join(_1, _2) END", columns[0], values, separator)

    return Splitting(parts=stored.parts, answer=answer)


def _sorted_list(call: Call) -> str:
    """Values joined in the order of something, of what can be kept."""
    keys = [] if call.order is None else call.order.expressions
    down = {bool(key.args.get("desc")) for key in keys}
    if len(down) != 1:
        return "collect struct(keys, value), and sort that: array_sort(…, (a, b) -> …)"
    value, separator = call.shown(), output_name(call.args[1]) if len(call.args) > 1 else "''"
    parts = ", ".join([*(f"{output_name(key.this)} AS k{number}" for number, key in enumerate(keys)), f"{value} AS v"])
    collected = f"sort_array(collect_list(struct({parts})){', false' if down == {True} else ''})"
    joined = f"array_join(transform({collected}, e -> string(e.v)), {separator})"
    return f"write CASE WHEN count({value}) > 0 THEN {joined} END"


def _own_order(call: Call) -> bool | None:
    """Whether WITHIN GROUP sorts by the argument itself, and then whether downwards; None without it."""
    if call.order is None:
        return None
    keys = call.order.expressions
    if len(keys) != 1 or keys[0].this != call.args[0]:
        raise NoSplit(
            f"{call.name} in the order of something else can't be kept up to date part by part",
            _sorted_list(call),
        )
    return bool(keys[0].args.get("desc"))


def _moments(call: Call, kind: DataType | None, row_id: Callable[[], exp.Expr]) -> Splitting:
    del kind, row_id
    part = Part(
        name=f"moments_{call.word()}", value=moment_parts(call), merge=lambda columns: moment_merge(columns[0]), type=_doubles("n mean m2")
    )
    return Splitting(parts=(part,), answer=lambda columns: moment_answer(canonical_name(call.name), columns[0]))


def _pairs(call: Call, kind: DataType | None, row_id: Callable[[], exp.Expr]) -> Splitting:
    del kind, row_id
    name = f"moments_{call.word()}_{call.word(1)}"
    part = Part(name=name, value=pair_parts(call), merge=lambda columns: pair_merge(columns[0]), type=_doubles("n mx my sxx syy sxy"))
    return Splitting(parts=(part,), answer=lambda columns: moment_answer(canonical_name(call.name), columns[0]))


def _doubles(names: str) -> Struct:
    return Struct(fields=tuple(Field(name=name, type=DOUBLE) for name in names.split()))


def _percentile(call: Call, kind: DataType | None, row_id: Callable[[], exp.Expr]) -> ValueKeys:
    del kind, row_id
    name = canonical_name(call.name)
    if name == "median":
        return ValueKeys(
            values=call.args[:1], answer=lambda values, number: parse_expression("percentile(_0, 0.5D, _1)", values[0], number)
        )
    if name == "percentile_cont":
        order = _sorted_column(call)
        if order.args.get("desc"):
            return _expanded((order.this,), call)
        share = call.args[0]
        return ValueKeys(values=(order.this,), answer=lambda values, number: call_expression("percentile", values[0], share, number))
    if len(call.args) == 3:
        share = call.args[1]
        return ValueKeys(
            values=(call.args[0], call.args[2]),
            answer=lambda values, number: parse_expression("percentile(_0, _1, _2 * _3)", values[0], share, values[1], number),
        )
    return ValueKeys(values=call.args[:1], answer=lambda values, number: call_expression("percentile", values[0], *call.args[1:], number))


def _sorted_column(call: Call) -> exp.Expr:
    if call.order is None or len(call.order.expressions) != 1:
        raise NoSplit(f"{call.name} needs WITHIN GROUP (ORDER BY one column)", f"write {call.name}(0.5) WITHIN GROUP (ORDER BY x)")
    found: exp.Expr = call.order.expressions[0]
    return found


def _whole(call: Call, kind: DataType | None, row_id: Callable[[], exp.Expr]) -> ValueKeys:
    """Aggregates of which nothing smaller than the values with their numbers is enough."""
    del kind, row_id
    if canonical_name(call.name) == "mode" and call.order is None and len(call.args) == 1:
        return ValueKeys(
            values=call.args,
            answer=lambda values, number: parse_expression("max_by(_0, CASE WHEN _0 IS NOT NULL THEN _1 END)", values[0], number),
        )
    values = tuple(item.this for item in call.order.expressions) if call.order is not None else call.args[:1]
    return _expanded(values, call)


def _expanded(values: tuple[exp.Expr, ...], call: Call) -> ValueKeys:
    return ValueKeys(values=values, answer=lambda columns, _: call.over(values, columns), expand=True)


def _distinct(call: Call, name: str, kind: DataType | None) -> Splitting | ValueKeys:
    if name in ("collect_list", "collect_set"):
        return _set(call, kind)
    if name == "listagg":
        return _joined(call, kind, exp.null)
    if name not in ("count", "sum", "avg", "try_sum", "try_avg", "count_if", "var_samp", "var_pop", "stddev_samp", "stddev_pop"):
        raise NoSplit(
            f"{call.name}(DISTINCT …) can't be kept up to date part by part",
            "only count, sum and avg can: "
            f"write SELECT …, {call.name}({call.shown()}) FROM (SELECT DISTINCT …, {call.shown()} FROM …) GROUP BY …",
        )
    return ValueKeys(values=call.args, answer=lambda values, _: call.over(call.args, values))


def _sketch(call: Call, kind: DataType | None, row_id: Callable[[], exp.Expr]) -> Splitting:
    name = canonical_name(call.name)
    family = next(family for family in _SKETCH_MERGES if name.startswith(family))
    return sketch(_SKETCH_MERGES[family] + name.rpartition("_agg")[2])(call, kind, row_id)


# Sketches by the beginnings of the names of what makes or merges them, and what merges them.
_SKETCH_MERGES = {
    "bitmap_and": "bitmap_and_agg",
    "bitmap": "bitmap_or_agg",
    "hll": "hll_union_agg",
    "kll": "kll_merge_agg",
    "theta_intersection": "theta_intersection_agg",
    "theta": "theta_union_agg",
}
_VALUES = "each different value with its number of rows, in a state of its own"

TABLE = [
    Row(functions=("count", "count_if"), split=_count, stored="n", merge="sum(n)", answer="n, 0 without rows"),
    Row(functions=("sum",), split=_sum, stored="the sum, in Spark's result type", merge="sum", answer="the sum, NULL without values"),
    Row(
        functions=("try_sum",),
        split=_try_sum,
        stored="the sum, n",
        merge="try_sum, NULL if a part had overflowed; sum(n)",
        answer="the sum",
    ),
    Row(
        functions=("avg", "try_avg"),
        split=_avg,
        stored="the sum, n",
        merge="sum; sum(n)",
        answer="sum / n in Spark's result type, rounded once",
    ),
    Row(functions=("min", "max"), split=_same, stored="the value", merge="min; max", answer="the value"),
    Row(
        functions=("bool_and", "bool_or", "bit_and", "bit_or", "bit_xor"),
        split=_same,
        stored="the value",
        merge="the same function",
        answer="the value",
    ),
    Row(
        functions=("any_value", "first", "last"),
        split=_by_row,
        stored="the value, its row id",
        merge="min_by or max_by the row id",
        answer="the value",
    ),
    Row(
        functions=("min_by", "max_by"),
        split=_by_other,
        stored="the value, what it is by",
        merge="the same function",
        answer="the value",
    ),
    Row(
        functions=MOMENTS,
        split=_moments,
        stored="n, mean, M2 as one struct",
        merge="Chan's formula, part by part",
        answer="M2 / n, M2 / (n - 1), roots",
    ),
    Row(
        functions=PAIRS,
        split=_pairs,
        stored="n, both means, Sxx, Syy, Sxy as one struct",
        merge="Chan's formula",
        answer="quotients of them",
    ),
    Row(functions=("collect_list",), split=_list, stored="the list", merge="lists end to end, in no order", answer="the list"),
    Row(functions=("collect_set",), split=_set, stored="the set", merge="union", answer="the set"),
    Row(
        functions=("listagg",),
        split=_joined,
        stored="the list or, with DISTINCT, the set",
        merge="as these",
        answer="joined; sorted where asked",
    ),
    Row(
        functions=("approx_count_distinct",),
        split=split_hll,
        stored="a HyperLogLog sketch of Spark's",
        merge="hll_union_agg",
        answer="its estimate",
    ),
    Row(
        functions=("percentile_approx",),
        split=split_kll,
        stored="a KLL sketch with k = 4096, n",
        merge="kll_merge_agg",
        answer="its quantile",
    ),
    Row(
        functions=("hll_sketch_agg", "hll_union_agg", "theta_sketch_agg", "theta_union_agg", "theta_intersection_agg"),
        split=_sketch,
        stored="the sketch",
        merge="hll_union_agg; theta_union_agg; theta_intersection_agg",
        answer="the sketch",
    ),
    Row(
        functions=tuple(f"kll_{what}_agg_{kind}" for what in ("sketch", "merge") for kind in ("bigint", "double", "float")),
        split=_sketch,
        stored="the sketch",
        merge="kll_merge_agg of its type",
        answer="the sketch",
    ),
    Row(
        functions=("bitmap_construct_agg", "bitmap_or_agg", "bitmap_and_agg"),
        split=_sketch,
        stored="the bitmap",
        merge="bitmap_or_agg; bitmap_and_agg",
        answer="the bitmap",
    ),
    Row(
        functions=("median", "percentile", "percentile_cont"),
        split=_percentile,
        stored=_VALUES,
        merge="sum of the numbers",
        answer="percentile over values and numbers",
    ),
    Row(functions=("mode",), split=_whole, stored=_VALUES, merge="sum of the numbers", answer="the value of the largest number"),
    Row(
        functions=("percentile_disc", "skewness", "kurtosis", "histogram_numeric"),
        split=_whole,
        stored=_VALUES,
        merge="sum of the numbers",
        answer="the function over every value as often as it came: reading costs as much as there are rows",
    ),
]
"""The table in docs/views/aggregates.md. A new aggregate is a function that splits its calls, and a row here."""

SPLIT = frozenset(name for row in TABLE for name in row.functions)
"""The aggregates that split, by their canonical names."""

REFUSED = frozenset(canonical_name(name) for name in AGGREGATES) - SPLIT - {"grouping", "grouping_id"}
"""The aggregates of Spark that do not split."""
