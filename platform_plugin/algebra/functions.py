"""Lists of Spark SQL's functions by what they mean for a plan: aggregates, rankings, generators and volatile functions."""

from __future__ import annotations

import re

_AGGREGATES = """
    any any_value approx_count_distinct approx_percentile approx_top_k approx_top_k_accumulate approx_top_k_combine array_agg avg bit_and
    bit_or bit_xor bitmap_and_agg bitmap_construct_agg bitmap_or_agg bool_and bool_or collect_list collect_set collect_union corr count
    count_if count_min_sketch covar_pop covar_samp every first first_value grouping grouping_id histogram_numeric hll_sketch_agg
    hll_union_agg kll_merge_agg_bigint kll_merge_agg_double kll_merge_agg_float kll_sketch_agg_bigint kll_sketch_agg_double
    kll_sketch_agg_float kurtosis last last_value listagg max max_by mean measure median min min_by mode percentile percentile_approx
    percentile_cont percentile_disc regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy
    schema_of_variant_agg skewness some std stddev stddev_pop stddev_samp string_agg sum theta_intersection_agg theta_sketch_agg
    theta_union_agg try_avg try_sum tuple_intersection_agg_double tuple_intersection_agg_integer tuple_sketch_agg_double
    tuple_sketch_agg_integer tuple_union_agg_double tuple_union_agg_integer var_pop var_samp variance vector_avg vector_sum
"""
_RANKINGS = "counter_diff cume_dist dense_rank lag lead nth_value ntile percent_rank rank row_number"
_WINDOW_COLUMNS = "session_window window"
_CLOCKS = "curdate current_date current_time current_timestamp localtime localtimestamp now"
_CIRCUMSTANCES = """
    current_catalog current_database current_path current_schema current_timezone current_user session_user user input_file_block_length
    input_file_block_start input_file_name version
"""
_DICE = "monotonically_increasing_id rand randn random randstr shuffle spark_partition_id uniform uuid"
_GENERATORS = "explode explode_outer inline inline_outer posexplode posexplode_outer stack json_tuple variant_explode variant_explode_outer"
_UNITS = """
    year years quarter quarters month months week weeks day days dayofyear hour hours minute minutes second seconds millisecond milliseconds
    microsecond microseconds nanosecond nanoseconds
"""
_SYNONYMS = {
    "any": "bool_or",
    "approx_percentile": "percentile_approx",
    "array_agg": "collect_list",
    "every": "bool_and",
    "first_value": "first",
    "last_value": "last",
    "mean": "avg",
    "some": "bool_or",
    "std": "stddev_samp",
    "stddev": "stddev_samp",
    "string_agg": "listagg",
    "variance": "var_samp",
}

AGGREGATES = frozenset(_AGGREGATES.split())
"""Functions that make one value from the rows of a group; a test compares them with those that PySpark lists."""
RANKINGS = frozenset(_RANKINGS.split())
"""Functions that are defined only OVER a window."""
WINDOW_COLUMNS = frozenset(_WINDOW_COLUMNS.split())
"""Functions whose value, as a key of GROUP BY, is also a column of that name."""
CLOCKS = frozenset(_CLOCKS.split())
"""Functions of the time at which a query runs."""
SETTINGS = frozenset(_CIRCUMSTANCES.split())
"""Functions that depend on who runs a query, and where."""
DICE = frozenset(_DICE.split())
"""Random functions: their answers differ from row to row or from run to run."""
VOLATILE = CLOCKS | SETTINGS | DICE
"""Functions whose answer depends on more than their arguments: the one list of them, which a test compares with Spark's own functions."""
NOW_IF_EMPTY = frozenset(("unix_timestamp",))
"""Functions that convert a time, and that return the time of the query when they have no argument."""
GENERATORS = frozenset(_GENERATORS.split())
"""Functions that make several rows from one."""
UNITS = frozenset(_UNITS.split())
"""Words that name a unit of time where a column could stand, as in timestampadd(DAY, 1, at)."""
UNIT_FIRST = frozenset(("timestampadd", "timestampdiff", "dateadd", "datediff", "date_add", "date_diff", "timestamp_add", "timestamp_diff"))
"""Functions whose first argument may be such a unit."""


def canonical_name(name: str) -> str:
    """The canonical name of an aggregate that has several names.

    >>> canonical_name("STDDEV"), canonical_name("count")
    ('stddev_samp', 'count')
    """
    return _SYNONYMS.get(name.lower(), name.lower())


MAKE_MOMENTS = frozenset(
    ("date", "timestamp", "to_date", "to_timestamp", "to_timestamp_ltz", "to_timestamp_ntz", "try_to_date", "try_to_timestamp")
)
"""Functions that read a text as a date or a time."""
_MOMENT_WORD = re.compile(r"""(?:[A-Z_]+\s*)?['"]\s*(now|today|tomorrow|yesterday)\b[^'"]*['"]""", re.IGNORECASE)


def moment_word(literal: str) -> str | None:
    """The volatile function that a literal such as TIMESTAMP 'now' stands for where its text is read as a time.

    >>> moment_word("DATE 'Today'"), moment_word("'now UTC'"), moment_word("'nowhere'")
    ('current_date', 'now', None)
    """
    found = _MOMENT_WORD.fullmatch(literal)
    return None if found is None else "now" if found[1].lower() == "now" else "current_date"


def is_volatile_call(name: str, *, has_arguments: bool) -> bool:
    """Whether the answer of a call depends on more than its arguments.

    >>> is_volatile_call("NOW", has_arguments=False), is_volatile_call("unix_timestamp", has_arguments=True)
    (True, False)
    """
    lower = name.lower()
    return lower in VOLATILE or (lower in NOW_IF_EMPTY and not has_arguments)
