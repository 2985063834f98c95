"""The one table of Spark SQL's functions: their kinds, volatility, safety, sizes and types, and the sets of names that follow from it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_TABLE = """
aggregate | safe bounded type:argument retract:not-row | any_value
aggregate | safe bounded type:argument retract:not-next | max_by min_by
aggregate | safe bounded type:argument retract:not-next kernel:max | max
aggregate | safe bounded type:argument retract:not-next kernel:min | min
aggregate | safe bounded type:average retract:weight kernel:sum+count | avg
aggregate | safe bounded type:bigint retract:weight kernel:count | count count_if
aggregate | safe bounded type:boolean retract:not-number kernel:max | bool_or
aggregate | safe bounded type:boolean retract:not-number kernel:min | bool_and
aggregate | safe bounded type:sum retract:weight kernel:sum | sum
aggregate | safe type:argument retract:not-number kernel:list | bit_and bit_or
aggregate | safe type:argument retract:weight kernel:list | bit_xor
aggregate | safe type:list retract:difference | collect_list
aggregate | safe type:list retract:not-number | collect_set
aggregate | safe type:sum retract:not-overflow kernel:sum | try_sum
aggregate | safe retract:not-sketch | hll_sketch_agg
aggregate | bounded type:argument retract:not-row | first last
aggregate | bounded type:argument retract:not-sketch | percentile_approx
aggregate | bounded type:double retract:formula kernel:stddev | stddev_samp
aggregate | bounded type:double retract:formula kernel:variance | var_pop var_samp
aggregate | bounded type:quantile retract:number kernel:list | median percentile
aggregate | type:argument retract:number | mode
aggregate | type:average retract:weight kernel:sum+count | try_avg
aggregate | type:bigint retract:formula | regr_count
aggregate | type:bigint retract:not-sketch | approx_count_distinct
aggregate | type:bigint | grouping_id
aggregate | type:double retract:formula | corr covar_pop covar_samp regr_avgx regr_avgy regr_intercept regr_r2 regr_slope regr_sxx regr_sxy
aggregate | type:double retract:formula kernel:stddev | stddev_pop
aggregate | type:double retract:formula | regr_syy
aggregate | type:double retract:number | kurtosis skewness
aggregate | type:quantile retract:number | percentile_cont
aggregate | retract:difference | listagg
aggregate | retract:not-sketch | bitmap_and_agg bitmap_construct_agg bitmap_or_agg hll_union_agg kll_merge_agg_bigint kll_merge_agg_double
aggregate | retract:not-sketch | kll_merge_agg_float kll_sketch_agg_bigint kll_sketch_agg_double kll_sketch_agg_float theta_intersection_agg
aggregate | retract:not-sketch | theta_sketch_agg theta_union_agg
aggregate | retract:number | histogram_numeric percentile_disc
aggregate | | approx_top_k approx_top_k_accumulate approx_top_k_combine collect_union count_min_sketch grouping measure
aggregate | | schema_of_variant_agg tuple_intersection_agg_double tuple_intersection_agg_integer tuple_sketch_agg_double
aggregate | | tuple_sketch_agg_integer tuple_union_agg_double tuple_union_agg_integer vector_avg vector_sum
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
scalar | clock-if-empty kernel:divide | unix_timestamp
scalar | setting | current_catalog current_database current_path current_schema current_timezone current_user input_file_block_length
scalar | setting | input_file_block_start input_file_name session_user user version
scalar | dice | monotonically_increasing_id rand randn random randstr shuffle spark_partition_id uniform uuid
scalar | refused | from_protobuf java_method reflect to_protobuf try_reflect
scalar | window-column time-window | window
scalar | window-column time-window type:session | session_window
scalar | time-window | window_time
scalar | reads-time | to_timestamp_ltz to_timestamp_ntz try_to_date try_to_timestamp
scalar | reads-time bounded | timestamp
scalar | reads-time bounded type:date kernel:cast | date to_date
scalar | reads-time bounded type:timestamp | to_timestamp
scalar | unit-first | dateadd timestamp_add timestamp_diff timestampadd timestampdiff
scalar | unit-first bounded type:date kernel:add | date_add
scalar | unit-first bounded type:int kernel:subtract | date_diff datediff
scalar | safe bounded type:common kernel:coalesce | coalesce
scalar | safe bounded type:int kernel:day | day
scalar | safe bounded type:int kernel:month | month
scalar | safe bounded type:int kernel:year | year
scalar | safe bounded type:int kernel:hour | hour
scalar | safe bounded type:int kernel:minute | minute
scalar | safe bounded type:string kernel:ascii_lower | lower
scalar | safe bounded type:string kernel:ascii_upper | upper
scalar | safe bounded type:timestamp kernel:floor_temporal | date_trunc
scalar | safe bounded kernel:second | second
scalar | safe type:date kernel:floor_temporal+cast | trunc
scalar | safe type:int kernel:quarter | quarter
scalar | safe type:int kernel:day_of_week | weekday
scalar | safe type:int kernel:day_of_week+add | dayofweek
scalar | safe type:int kernel:day_of_year | dayofyear
scalar | safe type:int kernel:iso_week | weekofyear
scalar | bounded type:argument kernel:equal+if_else | nullif
scalar | bounded type:bigint | bigint
scalar | bounded type:boolean | boolean
scalar | bounded type:branches kernel:case_when | if
scalar | bounded type:common kernel:abs_checked | abs
scalar | bounded type:common kernel:coalesce | ifnull nvl
scalar | bounded type:common kernel:max_element_wise | greatest
scalar | bounded type:common kernel:min_element_wise | least
scalar | bounded type:date | date_sub
scalar | bounded type:double kernel:sqrt | sqrt
scalar | bounded type:double | double exp ln log10 pow power
scalar | bounded type:float | float
scalar | bounded type:int kernel:utf8_length | length
scalar | bounded type:int | int
scalar | bounded type:list | array
scalar | bounded type:rounded | round
scalar | bounded type:string kernel:utf8_slice_codeunits | substr substring
scalar | bounded type:string kernel:strftime | date_format
scalar | bounded type:string kernel:utf8_trim | trim
scalar | bounded type:string | left right string
scalar | bounded kernel:day | dayofmonth
scalar | bounded kernel:match_like | like
scalar | bounded kernel:utf8_length | char_length
scalar | bounded kernel:ascii_lower | lcase
scalar | bounded kernel:ascii_upper | ucase
scalar | bounded kernel:binary_join_element_wise | concat
scalar | bounded kernel:ceil | ceil ceiling
scalar | bounded kernel:floor | floor
scalar | bounded kernel:is_null | isnull
scalar | bounded kernel:is_valid | isnotnull
scalar | bounded kernel:make_struct | struct
scalar | bounded kernel:ends_with | endswith
scalar | bounded kernel:match_substring | contains
scalar | bounded kernel:starts_with | startswith
scalar | bounded kernel:utf8_ltrim | ltrim
scalar | bounded kernel:utf8_rtrim | rtrim
scalar | kernel:replace_substring | replace
scalar | bounded | cast decimal exists log mod
scalar | bounded | named_struct sign try_cast try_divide
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


RETRACT_RULES = {
    "weight": "yes: the numbers of the rows that leave are subtracted",
    "formula": "yes: Chan's formula backwards",
    "difference": "yes: each value that leaves is taken out once",
    "number": "yes: a value's number of rows is lowered, and a value without rows is dropped",
    "not-next": "no: the next smaller or larger value is not stored",
    "not-row": "no: the row before or after is not stored",
    "not-number": "no: how often a value came is not stored",
    "not-overflow": "no: whether the rest overflows is not stored",
    "not-sketch": "no: a sketch can't forget a value",
}
"""How partial aggregates take back the rows that left a group, or why they can't. Where they can't, the values that a group has are kept
with the number of rows of each, and that number is lowered."""


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
    retract: str | None
    """How a partial aggregate takes rows back, as a key of `RETRACT_RULES`; None for what is no partial aggregate."""
    kernel: tuple[str, ...]
    """The functions of Arrow by which the kernel computes it for some types of arguments, or nothing."""


def _read_table() -> Iterator[Function]:
    known: dict[str, Function] = {}
    for line in _TABLE.strip().splitlines():
        kind, said, names = (part.strip() for part in line.split("|"))
        values = dict(fact.split(":") for fact in said.split() if ":" in fact)
        same = known.get(values.get("is", ""))
        facts = frozenset(fact for fact in said.split() if ":" not in fact) | (same.facts if same is not None else frozenset())
        rule = values.get("type") if same is None else same.type_rule
        retract = values.get("retract") if same is None else same.retract
        kernel = tuple(values["kernel"].split("+")) if "kernel" in values else () if same is None else same.kernel
        for name in names.split():
            known[name] = Function(
                name=name, kind=kind, facts=facts, type_rule=rule, canonical=values.get("is", name), retract=retract, kernel=kernel
            )
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


def kernel_functions(name: str) -> tuple[str, ...]:
    """The functions of Arrow by which the kernel computes a function for some types of arguments; empty where only Spark computes it.

    >>> kernel_functions("MEAN"), kernel_functions("soundex")
    (('sum', 'count'), ())
    """
    known = FUNCTIONS.get(name.lower())
    return () if known is None else known.kernel


def can_retract(name: str) -> bool:
    """Whether partial aggregates of a function take back rows that left their group.

    >>> can_retract("variance"), can_retract("max"), can_retract("upper")
    (True, False, False)
    """
    known = FUNCTIONS.get(name.lower())
    return known is not None and known.retract is not None and not known.retract.startswith("not-")


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
