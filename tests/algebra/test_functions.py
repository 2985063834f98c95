"""The one table of functions says of Spark's functions what Spark itself says: kinds, other names, safety and types."""

from __future__ import annotations

import ast
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from sqlglot import exp

import platform_plugin
from platform_plugin.algebra.functions import AGGREGATES, FUNCTIONS
from platform_plugin.algebra.plan.nodes import Column, Item, Scalar
from platform_plugin.algebra.types.data_types import Decimal, Primitive
from platform_plugin.algebra.types.infer import type_of
from platform_plugin.engine.arrow.calls import aggregate
from platform_plugin.engine.arrow.functions import call_function
from platform_plugin.engine.arrow.values import ArrowRows, NotSupportedByArrow, evaluate_node
from platform_plugin.engine.spark.frames.schema import from_spark_type
from platform_plugin.operators.group.body import read_body
from tests.engine.spark.functions import FUNCTIONS as SPARKS_FUNCTIONS

ROWS = {
    "i": ("INT", "1"),
    "l": ("BIGINT", "2"),
    "d": ("DOUBLE", "0.5D"),
    "n": ("DECIMAL(9,2)", "1.25"),
    "s": ("STRING", "'a'"),
    "b": ("BOOLEAN", "true"),
    "t": ("TIMESTAMP", "'2026-01-01 10:00:00'"),
    "day": ("DATE", "'2026-01-01'"),
}
TYPES = {
    Column("t", name): kind
    for name, kind in {
        "i": Primitive("int32"),
        "l": Primitive("int64"),
        "d": Primitive("float64"),
        "n": Decimal(precision=9, scale=2),
        "s": Primitive("varchar"),
        "b": Primitive("boolean"),
        "t": Primitive("timestamptz"),
        "day": Primitive("date"),
    }.items()
}
# The parser knows these, not the registry that the list is of.
OF_THE_PARSER = {"try_cast", "timestampadd", "timestampdiff", "timestamp_add", "timestamp_diff", "unnest"}


def test_every_name_is_one_of_sparks():
    """Whose own list another test compares with a server's."""
    known = {name for group in SPARKS_FUNCTIONS for name in group.names.split()}
    assert set(FUNCTIONS) - known == OF_THE_PARSER


def test_another_name_has_the_facts_of_the_first():
    for function in FUNCTIONS.values():
        first = FUNCTIONS[function.canonical]
        assert (first.canonical, first.kind, first.facts, first.type_rule, first.retract, first.kernel) == (
            first.name,
            function.kind,
            function.facts,
            function.type_rule,
            function.retract,
            function.kernel,
        )


def test_no_other_module_has_a_list_of_functions():
    """Splits hold code by name, which their tests compare with this table; the rules of types are called as casts are."""
    own = {"algebra/functions.py", "algebra/types/infer.py", "operators/group/aggregates.py", "operators/group/moments.py"}
    package = Path(platform_plugin.__file__).parent
    lists = set()
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(words := node.value.split()) > 7:
                if sum(word in FUNCTIONS for word in words) > len(words) * 0.8:
                    lists.add(str(path.relative_to(package)))
            elif isinstance(node, (ast.Set, ast.Tuple, ast.List, ast.Dict)):
                names = node.keys if isinstance(node, ast.Dict) else node.elts
                texts = [name.value for name in names if isinstance(name, ast.Constant) and isinstance(name.value, str)]
                if len(texts) > 7 and sum(text in FUNCTIONS for text in texts) > len(texts) * 0.8:
                    lists.add(str(path.relative_to(package)))
    assert lists <= own


COLUMNS = {
    Column("t", name): pa.array(values)
    for name, values in {
        "i": pa.array([1, None, 3], pa.int32()),
        "d": pa.array([0.5, 1.5, None]),
        "s": pa.array(["abc", None, "ä"]),
        "b": pa.array([True, None, False]),
        "ascii": pa.array(["A", None, "b"]),
        "at": pa.array([1, 2, None], pa.timestamp("us")),
        "day": pa.array([1, 2, None], pa.int32()).cast(pa.date32()),
    }.items()
}


def test_functions_of_the_kernel_are_arrows():
    known = set(pc.list_functions())
    for function in FUNCTIONS.values():
        prefix = "hash_" if function.kind == "aggregate" else ""
        assert {prefix + name for name in function.kernel} <= known


def run_aggregate(name, argument):
    """Whether the kernel computes an aggregate of a column."""
    more = [exp.Literal.number("0.5")] if name == "percentile" else []
    call = Scalar(exp.Anonymous(this=name, expressions=[exp.column(argument, table="t"), *more]))
    try:
        aggregate(ArrowRows(columns=COLUMNS, count=3), [], [Item(value=call, name="v")])
    except NotSupportedByArrow:
        return False
    return True


@pytest.mark.parametrize("name", sorted({FUNCTIONS[name].canonical for name in AGGREGATES}))
def test_the_kernel_computes_the_aggregates_that_the_table_says(name):
    assert any(run_aggregate(name, column.name) for column in COLUMNS) == bool(FUNCTIONS[name].kernel)


# What the parser makes nodes of their own of, and what takes any number of arguments, the kernel evaluates in its own way.
NODES = {
    "like": "t.s LIKE 'a%'",
    "coalesce": "coalesce(t.i, 2)",
    "ifnull": "ifnull(t.i, 2)",
    "nvl": "nvl(t.i, 2)",
    "nullif": "nullif(t.i, 2)",
    "if": "if(t.b, t.i, 2)",
    "isnull": "isnull(t.i)",
    "isnotnull": "isnotnull(t.i)",
    "greatest": "greatest(t.i, 2)",
    "least": "least(t.i, 2)",
    "struct": "struct(t.i, t.d)",
    "date_trunc": "date_trunc('HOUR', t.at)",
    "trunc": "trunc(t.day, 'MONTH')",
    "date_format": "date_format(t.at, 'yyyy')",
    "datediff": "datediff(t.day, t.day)",
    "date_diff": "date_diff(t.day, t.day)",
    "date_add": "date_add(t.day, 2)",
    "replace": "replace(t.s, 'a', 'b')",
    "startswith": "startswith(t.s, 'a')",
    "endswith": "endswith(t.s, 'a')",
    "contains": "contains(t.s, 'a')",
}


@pytest.mark.parametrize("name", sorted(name for name, function in FUNCTIONS.items() if function.kind == "scalar"))
def test_the_kernel_computes_the_functions_that_the_table_says(name):
    if name in NODES:
        node = read_body(f"SELECT {NODES[name]} AS v").expressions[0].this
        assert len(evaluate_node(node, ArrowRows(columns=COLUMNS, count=3))) == 3
        return
    places = [pa.scalar(1), pa.scalar(2)]
    computed = [call_function(name, [column, *places[:count]]) for column in COLUMNS.values() for count in range(3)]
    assert any(found is not None for found in computed) == bool(FUNCTIONS[name].kernel)


@pytest.mark.parametrize(
    "name", sorted(name for name, function in FUNCTIONS.items() if not function.facts <= {"bounded", "safe", "source"})
)
def test_facts_are_words_that_the_table_explains(name):
    explained = {"safe", "bounded", "clock", "clock-if-empty", "setting", "dice", "reads-time", "unit-first", "time-window"}
    assert FUNCTIONS[name].facts <= explained | {"window-column", "source", "refused"}


CALLS = [
    *(f"{name}({argument})" for name in ("sum", "avg", "min", "max", "count", "any_value", "mode", "collect_list") for argument in "ildn"),
    *(f"{name}(d)" for name in sorted(AGGREGATES) if FUNCTIONS[name].type_rule == "double" and "regr" not in name and "co" not in name[:2]),
    *(f"{name}(d, d)" for name in ("corr", "covar_pop", "regr_slope", "regr_count")),
    *(f"{name}(b)" for name in ("bool_and", "any", "every", "count_if")),
    *(f"{name}(t)" for name in ("year", "month", "day", "hour", "minute", "quarter", "weekday", "dayofweek", "dayofyear", "weekofyear")),
    *(f"{name}(d)" for name in ("sqrt", "exp", "ln", "log10", "log2", "sin", "cos", "tan", "degrees", "radians", "cbrt", "double", "abs")),
    *(
        f"{name}(s)"
        for name in ("lower", "upper", "trim", "length", "md5", "date", "to_date", "to_timestamp", "boolean", "bigint", "float")
    ),
    "coalesce(i, l)",
    "coalesce(i, n)",
    "greatest(l, d)",
    "nullif(i, 2)",
    "if(b, i, l)",
    "round(d, 1)",
    "array(i, l)",
    "date_trunc('hour', t)",
    "trunc(day, 'month')",
    "date_add(day, 1)",
    "date_sub(day, 1)",
    "datediff(day, day)",
    "date_diff(day, day)",
    "datediff(HOUR, t, t)",
    "date_add(HOUR, 1, t)",
    "dateadd(DAY, 1, day)",
    "timestampdiff(DAY, t, t)",
    "last_day(day)",
    "next_day(day, 'MON')",
    "concat_ws('-', s, s)",
    "format_number(d, 2)",
    "date_format(t, 'yyyy')",
    "substring(s, 1, 2)",
    "left(s, 1)",
    "timestamp_seconds(l)",
    "size(array(i))",
    "median(l)",
    "percentile(d, 0.5)",
    "approx_percentile(i, 0.5)",
]


@pytest.mark.spark
def test_types_are_those_that_spark_gives(spark_session):
    """Where the table gives one at all: it may leave any call to Spark."""
    row = ", ".join(f"CAST({value} AS {kind}) AS {name}" for name, (kind, value) in ROWS.items())
    known = 0
    for call in CALLS:
        node = read_body(f"SELECT {call} AS v FROM t").expressions[0].unalias()
        for column in list(node.find_all(exp.Column)):
            column.set("table", exp.to_identifier("t"))
        ours = type_of(Scalar(node), TYPES)
        theirs = spark_session.spark.sql(f"SELECT {call} AS v FROM (SELECT {row}) AS t").schema.fields[0].dataType
        assert ours in (None, from_spark_type(theirs, column="v")), call
        known += ours is not None
    assert known > len(CALLS) * 0.9
