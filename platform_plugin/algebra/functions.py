"""The one table of Spark SQL's functions: their kinds, volatility, safety, sizes and types, and the sets of names that follow from it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_TABLE = """
aggregate | safe bounded type:argument | any_value max max_by min min_by
aggregate | safe bounded type:average | avg
aggregate | safe bounded type:bigint | count count_if
aggregate | safe bounded type:boolean | bool_and bool_or
aggregate | safe bounded type:sum | sum
aggregate | safe type:argument | bit_and bit_or bit_xor
aggregate | safe type:list | collect_list collect_set
aggregate | safe type:sum | try_sum
aggregate | safe | hll_sketch_agg
aggregate | bounded type:argument | first last percentile_approx
aggregate | bounded type:double | stddev_samp var_pop var_samp
aggregate | bounded type:quantile | median percentile
aggregate | type:argument | mode
aggregate | type:average | try_avg
aggregate | type:bigint | approx_count_distinct grouping_id regr_count
aggregate | type:double | corr covar_pop covar_samp kurtosis regr_avgx regr_avgy regr_intercept regr_r2 regr_slope regr_sxx regr_sxy
aggregate | type:double | regr_syy skewness stddev_pop
aggregate | type:quantile | percentile_cont
aggregate | | approx_top_k approx_top_k_accumulate approx_top_k_combine bitmap_and_agg bitmap_construct_agg bitmap_or_agg collect_union
aggregate | | count_min_sketch grouping histogram_numeric hll_union_agg kll_merge_agg_bigint kll_merge_agg_double kll_merge_agg_float
aggregate | | kll_sketch_agg_bigint kll_sketch_agg_double kll_sketch_agg_float listagg measure percentile_disc schema_of_variant_agg
aggregate | | theta_intersection_agg theta_sketch_agg theta_union_agg tuple_intersection_agg_double tuple_intersection_agg_integer
aggregate | | tuple_sketch_agg_double tuple_sketch_agg_integer tuple_union_agg_double tuple_union_agg_integer vector_avg vector_sum
aggregate | is:avg | mean
aggregate | is:bool_and | every
aggregate | is:bool_or | any some
aggregate | is:collect_list | array_agg
aggregate | is:first | first_value
aggregate | is:last | last_value
aggregate | is:listagg | string_agg
aggregate | is:percentile_approx | approx_percentile
aggregate | is:stddev_samp | std stddev
aggregate | is:var_samp | variance
ranking | bounded | dense_rank nth_value ntile percent_rank rank row_number
ranking | | counter_diff cume_dist lag lead
generator | source | explode explode_outer inline inline_outer json_tuple posexplode posexplode_outer stack variant_explode
generator | source | variant_explode_outer
table | source | collations range sql_keywords unnest
scalar | clock | curdate current_date current_time current_timestamp localtime localtimestamp now
scalar | clock-if-empty | unix_timestamp
scalar | setting | current_catalog current_database current_path current_schema current_timezone current_user input_file_block_length
scalar | setting | input_file_block_start input_file_name session_user user version
scalar | dice | monotonically_increasing_id rand randn random randstr shuffle spark_partition_id uniform uuid
scalar | refused | from_protobuf java_method reflect to_protobuf try_reflect
scalar | window-column time-window | session_window window
scalar | time-window | window_time
scalar | reads-time | to_timestamp_ltz to_timestamp_ntz try_to_date try_to_timestamp
scalar | reads-time bounded | timestamp
scalar | reads-time bounded type:date | date to_date
scalar | reads-time bounded type:timestamp | to_timestamp
scalar | unit-first | dateadd timestamp_add timestamp_diff timestampadd timestampdiff
scalar | unit-first bounded type:date | date_add
scalar | unit-first bounded type:int | date_diff datediff
scalar | safe bounded type:common | coalesce
scalar | safe bounded type:int | day hour minute month year
scalar | safe bounded type:string | lower upper
scalar | safe bounded type:timestamp | date_trunc
scalar | safe bounded | second
scalar | safe type:date | trunc
scalar | safe type:int | dayofweek dayofyear quarter weekday weekofyear
scalar | bounded type:argument | nullif
scalar | bounded type:bigint | bigint
scalar | bounded type:boolean | boolean
scalar | bounded type:branches | if
scalar | bounded type:common | abs greatest ifnull least nvl
scalar | bounded type:date | date_sub
scalar | bounded type:double | double exp ln log10 pow power sqrt
scalar | bounded type:float | float
scalar | bounded type:int | int length
scalar | bounded type:list | array
scalar | bounded type:rounded | round
scalar | bounded type:string | date_format left right string substr substring trim
scalar | bounded | cast ceil ceiling char_length dayofmonth decimal exists floor isnotnull isnull lcase like log ltrim mod
scalar | bounded | named_struct rtrim sign struct try_cast try_divide ucase
scalar | type:common | negative positive
scalar | type:date | last_day next_day
scalar | type:double | cbrt cos degrees log2 radians sin tan
scalar | type:int | size
scalar | type:rounded | bround
scalar | type:string | concat_ws format_number md5
scalar | type:timestamp | timestamp_seconds
"""
_UNITS = """
    year years quarter quarters month months week weeks day days dayofyear hour hours minute minutes second seconds millisecond milliseconds
    microsecond microseconds nanosecond nanoseconds
"""


class Function(NamedTuple):
    """What is known of a function of Spark SQL. One that is not in the table counts as a scalar that may fail, of any type and size."""

    name: str
    kind: str
    """`aggregate`, `ranking` (defined only OVER a window), `generator` (several rows from one), `table` (stands in FROM) or `scalar`."""
    facts: frozenset[str]
    """`safe`: it fails for no row. `bounded`: its value is about as large as its arguments. `clock`, `setting`, `dice`: it depends on the
    time, on who runs the query and where, or on chance. `reads-time`: it reads a text as a date or time. `unit-first`: its first argument
    may be a unit of time. `time-window`: it makes windows of time from rows. `window-column`: as a key of GROUP BY it is also a column of
    that name. `source`: it may stand in FROM. `refused`: it reaches beyond the lake."""
    type_rule: str | None
    """How its type follows from those of its arguments: see `algebra/types/infer`."""
    canonical: str
    """The name of the function of which this is another name, or its own."""


def _read_table() -> Iterator[Function]:
    known: dict[str, Function] = {}
    for line in _TABLE.strip().splitlines():
        kind, said, names = (part.strip() for part in line.split("|"))
        values = dict(fact.split(":") for fact in said.split() if ":" in fact)
        same = known.get(values.get("is", ""))
        facts = frozenset(fact for fact in said.split() if ":" not in fact) | (same.facts if same is not None else frozenset())
        rule = values.get("type") if same is None else same.type_rule
        for name in names.split():
            known[name] = Function(name=name, kind=kind, facts=facts, type_rule=rule, canonical=values.get("is", name))
            yield known[name]


FUNCTIONS = {function.name: function for function in _read_table()}
"""The one table of Spark's functions; splitting, sharing, types, sizes, volatility, refusals and the kernel read it."""


def _names(*, kind: str | None = None, fact: str | None = None) -> frozenset[str]:
    return frozenset(
        name for name, function in FUNCTIONS.items() if (kind is None or function.kind == kind) and (fact is None or fact in function.facts)
    )


AGGREGATES = _names(kind="aggregate")
"""Functions that make one value from the rows of a group; a test compares them with those that PySpark lists."""
RANKINGS = _names(kind="ranking")
"""Functions that are defined only OVER a window."""
GENERATORS = _names(kind="generator")
"""Functions that make several rows from one."""
TABLE_FUNCTIONS = _names(fact="source")
"""The table functions of Spark 4 that compute from their arguments alone."""
REFUSED_FUNCTIONS = _names(fact="refused")
"""Functions that load classes, call methods of them or read descriptors from files."""
SAFE_CALLS = _names(fact="safe")
"""Functions that can't fail, whatever rows they are given that a part's own filter would have kept away from them."""
BOUNDED_CALLS = _names(fact="bounded")
"""Functions that don't make a row longer than about what it is made of."""
WINDOW_COLUMNS = _names(fact="window-column")
"""Functions whose value, as a key of GROUP BY, is also a column of that name."""
TIME_WINDOWS = _names(fact="time-window")
"""Functions for which Spark makes the rows anew: without those whose time is NULL, and as often as windows overlap."""
CLOCKS = _names(fact="clock")
"""Functions of the time at which a query runs."""
SETTINGS = _names(fact="setting")
"""Functions that depend on who runs a query, and where."""
DICE = _names(fact="dice")
"""Random functions: their answers differ from row to row or from run to run."""
VOLATILE = CLOCKS | SETTINGS | DICE
"""Functions whose answer depends on more than their arguments: a test compares them with Spark's own functions."""
NOW_IF_EMPTY = _names(fact="clock-if-empty")
"""Functions that convert a time, and that return the time of the query when they have no argument."""
MAKE_MOMENTS = _names(fact="reads-time")
"""Functions that read a text as a date or a time."""
UNIT_FIRST = _names(fact="unit-first")
"""Functions whose first argument may be a unit of time."""
UNITS = frozenset(_UNITS.split())
"""Words that name a unit of time where a column could stand, as in timestampadd(DAY, 1, at)."""


def canonical_name(name: str) -> str:
    """The canonical name of an aggregate that has several names.

    >>> canonical_name("STDDEV"), canonical_name("count")
    ('stddev_samp', 'count')
    """
    known = FUNCTIONS.get(name.lower())
    return name.lower() if known is None else known.canonical


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
