"""The table of aggregates that split: what each stores, how that merges, and what the answer is made of. The page shows this one."""

from __future__ import annotations

from dataclasses import dataclass

from platform_plugin.algebra.functions import AGGREGATES, canonical
from platform_plugin.operators.group.moments import MOMENTS, PAIRS


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A line of the table of aggregates: its functions, and in words what is stored, how it merges and what it answers."""

    functions: tuple[str, ...]
    stored: str
    merge: str
    answer: str


TABLE = (
    Row(functions=("count", "count_if"), stored="n", merge="sum(n)", answer="n, 0 without rows"),
    Row(functions=("sum",), stored="the sum, in Spark's result type", merge="sum", answer="the sum, NULL without values"),
    Row(functions=("try_sum",), stored="the sum, n", merge="try_sum, NULL if a part had overflowed; sum(n)", answer="the sum"),
    Row(functions=("avg", "try_avg"), stored="the sum, n", merge="sum; sum(n)", answer="sum / n in Spark's result type, rounded once"),
    Row(functions=("min", "max"), stored="the value", merge="min; max", answer="the value"),
    Row(
        functions=("bool_and", "bool_or", "bit_and", "bit_or", "bit_xor"), stored="the value", merge="the same function", answer="the value"
    ),
    Row(functions=("any_value", "first", "last"), stored="the value, its row id", merge="min_by or max_by the row id", answer="the value"),
    Row(functions=("min_by", "max_by"), stored="the value, what it is by", merge="the same function", answer="the value"),
    Row(functions=MOMENTS, stored="n, mean, M2 as one struct", merge="Chan's formula, part by part", answer="M2 / n, M2 / (n - 1), roots"),
    Row(functions=PAIRS, stored="n, both means, Sxx, Syy, Sxy as one struct", merge="Chan's formula", answer="quotients of them"),
    Row(functions=("collect_list",), stored="the list", merge="lists end to end, in no order", answer="the list"),
    Row(functions=("collect_set",), stored="the set", merge="union", answer="the set"),
    Row(functions=("listagg",), stored="the list or, with DISTINCT, the set", merge="as these", answer="joined; sorted where asked"),
    Row(functions=("approx_count_distinct",), stored="a HyperLogLog sketch of Spark's", merge="hll_union_agg", answer="its estimate"),
    Row(functions=("percentile_approx",), stored="a KLL sketch with k = 4096, n", merge="kll_merge_agg", answer="its quantile"),
    Row(
        functions=("hll_sketch_agg", "hll_union_agg", "theta_sketch_agg", "theta_union_agg", "theta_intersection_agg"),
        stored="the sketch",
        merge="hll_union_agg; theta_union_agg; theta_intersection_agg",
        answer="the sketch",
    ),
    Row(
        functions=tuple(f"kll_{what}_agg_{kind}" for what in ("sketch", "merge") for kind in ("bigint", "double", "float")),
        stored="the sketch",
        merge="kll_merge_agg of its type",
        answer="the sketch",
    ),
    Row(
        functions=("bitmap_construct_agg", "bitmap_or_agg", "bitmap_and_agg"),
        stored="the bitmap",
        merge="bitmap_or_agg; bitmap_and_agg",
        answer="the bitmap",
    ),
    Row(
        functions=("median", "percentile", "percentile_cont"),
        stored="each different value with its number of rows, in a state of its own",
        merge="sum of the numbers",
        answer="percentile over values and numbers",
    ),
    Row(
        functions=("mode",),
        stored="each different value with its number of rows, in a state of its own",
        merge="sum of the numbers",
        answer="the value of the largest number",
    ),
    Row(
        functions=("percentile_disc", "skewness", "kurtosis", "histogram_numeric"),
        stored="each different value with its number of rows, in a state of its own",
        merge="sum of the numbers",
        answer="the function over every value as often as it came: reading costs as much as there are rows",
    ),
)
"""What the table in docs/views/aggregates.md says."""

SPLIT = frozenset(name for row in TABLE for name in row.functions)
"""The aggregates that split, by their canonical names."""

REFUSED = frozenset(canonical(name) for name in AGGREGATES) - SPLIT - {"grouping", "grouping_id"}
"""The aggregates of Spark that do not split."""
