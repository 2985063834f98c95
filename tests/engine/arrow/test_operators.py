"""The kernel's operators over every type, with NULL, NaN, -0.0, zones and decimals: against DuckDB for random rows, and against Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from platform_plugin.engine.arrow.values import NotSupportedByArrow
from tests.engine.arrow.operators import COLUMNS, FIXED, Rows, answer, ask, open_engine, rows, tables, values_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb

    from platform_plugin.engine.spark.session.session import Session

# DuckDB does not join 0.0 with -0.0, as Spark does.
SAME = [column for column in COLUMNS if column != "x"]
_KINDS = ("INNER", "LEFT", "RIGHT", "FULL")
JOINS = [
    *(f"SELECT a.{column}, b.k AS other FROM a {kind} JOIN b ON a.{column} = b.{column}" for column in SAME for kind in _KINDS),
    *(f"SELECT a.{column}, b.k AS other FROM a FULL JOIN b ON a.{column} <=> b.{column}" for column in SAME),
    *(f"SELECT a.k, a.m, b.x FROM a {kind} JOIN b ON a.k = b.k AND a.m < b.m" for kind in _KINDS),
    *(f"SELECT a.k, a.s, b.s AS other FROM a {kind} JOIN b ON a.k = b.k AND (a.s = 'a' OR b.x > a.x)" for kind in _KINDS),
    *(f"SELECT a.k, b.g FROM a {kind} JOIN b ON a.k + 1 = b.g AND a.b" for kind in _KINDS),
    *(f"SELECT a.m, b.w FROM a {kind} JOIN b ON a.m = b.w" for kind in _KINDS),
    *(f"SELECT a.d, b.d AS other FROM a {kind} JOIN b ON a.d < b.d" for kind in _KINDS),
    "SELECT a.k, b.k AS other FROM a CROSS JOIN b",
    "SELECT a.k, b.k AS other FROM a, b WHERE a.k = b.k AND a.s <> b.s",
]
JOINS_BY_SPARK = [
    *(f"SELECT a.x, b.k AS other FROM a {kind} JOIN b ON a.x = b.x" for kind in _KINDS),
    "SELECT a.x, b.k AS other FROM a FULL JOIN b ON a.x <=> b.x",
    *(f"SELECT a.k, a.s FROM a LEFT {kind} JOIN b ON a.k = b.k AND a.m < b.m" for kind in ("SEMI", "ANTI")),
]

_ALL = ", ".join(COLUMNS)
# No two rows stand equal by these, or they are equal in all that is asked for.
_RANKED = "PARTITION BY g ORDER BY k, s NULLS LAST, m DESC"
WINDOWS = [
    *(f"SELECT DISTINCT {column}, rank() OVER (ORDER BY {column}) AS r FROM a" for column in COLUMNS),
    *(f"SELECT DISTINCT {column}, dense_rank() OVER (PARTITION BY b ORDER BY {column} DESC, k) AS r FROM a" for column in COLUMNS),
    *(f"SELECT {column}, count(*) OVER (PARTITION BY {column}) AS number FROM a" for column in COLUMNS),
    *(f"SELECT {name}() OVER ({_RANKED}) AS r FROM a" for name in ("rank", "dense_rank", "percent_rank", "cume_dist")),
    "SELECT k, sum(g) OVER (PARTITION BY s) AS t, max(m) OVER () AS m, min(d) OVER (PARTITION BY b, k) AS d FROM a",
    "SELECT k, avg(k) OVER (PARTITION BY s) + 1 AS t, count(x) FILTER (WHERE b) OVER (PARTITION BY d) AS n FROM a",
    "SELECT k, sum(k) OVER (ORDER BY k) AS t, count(s) OVER (PARTITION BY b ORDER BY d DESC) AS n FROM a",
    "SELECT k, avg(g) OVER (PARTITION BY b ORDER BY k, s) AS t FROM a",
]
NUMBERED = "(SELECT DISTINCT k, s, m FROM a)"
WINDOWS += [
    *(f"SELECT k, s, m, {name} OVER (PARTITION BY s ORDER BY k, m DESC) AS r FROM {NUMBERED}" for name in ("row_number()", "ntile(2)")),
    f"SELECT k, s, m, lag(k) OVER (ORDER BY k, s, m) AS a, lead(m, 2) OVER (PARTITION BY s ORDER BY k, m) AS b FROM {NUMBERED}",
    f"SELECT k, s, m, lag(k, 1, 7) OVER (PARTITION BY s ORDER BY k DESC NULLS LAST, m) AS a FROM {NUMBERED}",
    f"SELECT k, sum(k) OVER (ORDER BY k, s, m ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS t FROM {NUMBERED}",
    f"SELECT k, s FROM (SELECT k, s, row_number() OVER (PARTITION BY s ORDER BY k, m) AS n FROM {NUMBERED}) WHERE n = 1",
]
SETS = [
    *(f"SELECT {column} FROM a {kind} SELECT {column} FROM b" for column in COLUMNS for kind in ("UNION", "EXCEPT", "INTERSECT")),
    *(f"SELECT k, s FROM a {kind} ALL SELECT k, s FROM b" for kind in ("UNION", "EXCEPT", "INTERSECT")),
    *(f"SELECT DISTINCT {column}, b AS other FROM a" for column in COLUMNS),
    *(f"SELECT {column}, count(*) AS number FROM a GROUP BY {column}" for column in COLUMNS),
]
AGGREGATES = [
    *(f"SELECT b, min_by({column}, k) AS f FROM a WHERE {column} IS NOT NULL GROUP BY b" for column in COLUMNS),
    *(f"SELECT b, max_by(s, {column}) AS l FROM a WHERE s IS NOT NULL GROUP BY b" for column in COLUMNS),
    *(f"SELECT b, count(DISTINCT {column}) AS n, count(DISTINCT {column}, k) AS p FROM a GROUP BY b" for column in COLUMNS),
    "SELECT b, sum(DISTINCT k) AS t, avg(DISTINCT g) AS v, sum(DISTINCT m) AS w, sum(k) AS u FROM a GROUP BY b",
    "SELECT sum(DISTINCT k) FILTER (WHERE b) AS t, avg(DISTINCT k) AS v FROM a",
    "SELECT b, s, count(*) AS n, sum(k) AS t FROM a GROUP BY GROUPING SETS ((b, s), (s), (b))",
]
SUB_QUERIES = [
    *(f"SELECT g, {column} AS other FROM a WHERE {column} IN (SELECT {column} FROM b)" for column in SAME),
    *(f"SELECT g, {column} AS other FROM a WHERE {column} NOT IN (SELECT {column} FROM b WHERE {column} IS NOT NULL)" for column in SAME),
    "SELECT k FROM a WHERE k NOT IN (SELECT k FROM b)",
    "SELECT k, k IN (SELECT k FROM b WHERE b) AS i, s FROM a",
    "SELECT k FROM a WHERE m > (SELECT max(m) FROM b WHERE b)",
    "SELECT k, (SELECT count(*) FROM b) AS n FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b)",
    "SELECT k, g FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND b.m > a.m)",
    "SELECT k, s FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.s = a.s AND b.g > 0)",
    "SELECT k, EXISTS (SELECT 1 FROM b WHERE b.d < a.d) AS e, s FROM a",
    "SELECT k, (SELECT count(*) FROM b WHERE b.k = a.k) AS n, (SELECT max(b.m) FROM b WHERE b.s = a.s AND b.b) AS m FROM a",
    "SELECT k, (SELECT sum(b.k) + 1 FROM b WHERE b.g = a.g) AS t, (SELECT count(DISTINCT b.s) FROM b WHERE b.k = a.k) AS d FROM a",
    "SELECT k, m FROM a WHERE m < (SELECT max(b.m) FROM b WHERE b.k = a.k AND b.s <> 'a')",
    "SELECT k, s, m FROM a ORDER BY k, s, m, d, x, n, t, w LIMIT 3",
    "SELECT k, s, m FROM a ORDER BY k DESC, s, m, d, x, n, t, w LIMIT 3 OFFSET 1",
]


# In Spark's words, or of types that DuckDB has not.
TIME_WINDOWS = [
    *(f"SELECT window({time}, '1 day') AS w, count(*) AS c, max(k) AS m FROM a GROUP BY window({time}, '1 day')" for time in ("t", "n")),
    "SELECT s, window(n, '3 hours', '50 minutes') AS w, sum(k) AS c FROM a GROUP BY s, window(n, '3 hours', '50 minutes')",
    "SELECT window(t, '1 day', '1 day', '6 hours').start AS f, count(k) AS c FROM a GROUP BY window(t, '1 day', '1 day', '6 hours')",
    "SELECT w.end AS e, max(c) AS m FROM (SELECT window(t, '1 day') AS w, count(*) AS c FROM a GROUP BY window(t, '1 day'), s) GROUP BY w",
]
STRUCTS = [
    *(
        f"SELECT b, max(struct({column}, k)) AS l, min(struct(s, {column})) AS f FROM a GROUP BY b"
        for column in COLUMNS
        if column not in "ks"
    ),
    "SELECT max_by(k, struct(g, s, d, m, w, n, t, k)) AS l, min_by(s, struct(k, s)) AS f FROM a",
    *(f"SELECT struct({column}, s) AS p, count(*) AS c FROM a GROUP BY struct({column}, s)" for column in SAME if column != "s"),
    "SELECT p.q, p.r, c FROM (SELECT named_struct('q', k, 'r', struct(s, m)) AS p, count(*) AS c FROM a GROUP BY 1)",
    "SELECT x.k, y.g FROM (SELECT k, struct(s, k) AS p FROM a) x JOIN (SELECT g, struct(s, k) AS p FROM b) y ON x.p = y.p",
    "SELECT x.k, y.g FROM (SELECT k, struct(s, k) AS p FROM a) x LEFT JOIN (SELECT g, struct(s, k) AS p FROM b) y ON x.p <=> y.p",
    "SELECT k, count(*) OVER (PARTITION BY struct(s, b)) AS c FROM a",
]
NUMBERS = [
    *(
        f"SELECT b, {name}(k) AS i, {name}(m) AS j, {name}(g) AS l FROM a GROUP BY b"
        for name in ("var_pop", "variance", "stddev_pop", "std")
    ),
    "SELECT var_samp(x) AS i, stddev(x) FILTER (WHERE k > 0) AS j, var_pop(0.1D) AS zero FROM a WHERE x < 10",
    "SELECT stddev(k) AS i, median(k) AS j, bit_and(k) AS l, avg(m) AS n FROM a WHERE k = 99",
    "SELECT b, percentile(k, 0.5) AS i, percentile(m, array(0.1, 0.9)) AS j, median(g) AS l FROM a GROUP BY b",
    "SELECT s, percentile(k, 0.25, abs(g)) AS i, percentile(k, array(0.0, 1.0), g) FILTER (WHERE b) AS j FROM a GROUP BY s",
    "SELECT b, avg(m) AS i, avg(w) AS j, avg(DISTINCT m) AS l, try_avg(m) AS n, avg(k + m) AS o FROM a GROUP BY b",
    "SELECT b, bit_and(k) AS i, bit_or(g) AS j, bit_xor(k) AS l, try_sum(k) AS n, try_avg(k) AS o FROM a GROUP BY b",
    "SELECT k, m FROM a WHERE m < (SELECT avg(b.m) FROM b WHERE b.k = a.k AND b.g >= a.g)",
    "SELECT s, count(*) AS n FROM a WHERE k = 99 GROUP BY GROUPING SETS ((s), ())",
    "SELECT count(*) AS n FROM a WHERE k = 99 GROUP BY GROUPING SETS (())",
]


@pytest.fixture(scope="module")
def engine() -> Iterator[duckdb.DuckDBPyConnection]:
    with open_engine() as connection:
        yield connection


def check(engine: duckdb.DuckDBPyConnection, query: str, found: Rows) -> None:
    try:
        answered = values_of(answer(query, found))
    except NotSupportedByArrow as refused:
        if refused.refusal.for_good:
            raise
        return
    assert answered == ask(engine, query, found), query


@settings(max_examples=150, deadline=None)
@given(place=st.integers(0, 9999), found=rows)
def test_random_rows_give_what_duckdb_gives(engine: duckdb.DuckDBPyConnection, place: int, found: Rows) -> None:
    check(engine, QUERIES[place % len(QUERIES)], found)


@pytest.mark.slow
@settings(max_examples=5000, deadline=None)
@given(place=st.integers(0, 9999), found=rows)
def test_so_do_many_more(engine: duckdb.DuckDBPyConnection, place: int, found: Rows) -> None:
    check(engine, QUERIES[place % len(QUERIES)], found)


@pytest.mark.spark
def test_values_and_types_are_those_of_spark(spark_session: Session) -> None:
    """Some of the queries, over rows that hold every value of every type."""
    compare(
        spark_session,
        [
            *[*WINDOWS, *SETS, *AGGREGATES, *SUB_QUERIES][::9],
            *CALENDAR[::3],
            *WIDE,
            *BY_SPARK_ALONE[5 : -len(STRUCTS) - len(NUMBERS)],
            *STRUCTS[::5],
            *NUMBERS,
        ],
    )


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(1200)
def test_so_are_those_of_all_queries(spark_session: Session) -> None:
    compare(spark_session, [*QUERIES, *CALENDAR, *WIDE, *BY_SPARK_ALONE])


def _types(table: pa.Table) -> list[pa.DataType]:
    """The types of columns, whatever the elements of lists are called and whether one can be NULL."""
    return [pa.list_(kind.value_type) if pa.types.is_list(kind) else kind for kind in table.schema.types]


def compare(spark_session: Session, queries: list[str]) -> None:
    from pyspark.sql.connect import functions as f

    for name, table in tables(FIXED).items():
        spark_session.spark.createDataFrame(table).createOrReplaceTempView(f"raw_{name}")
        # Arrow's times without a zone are times in UTC to this call.
        spark_session.spark.table(f"raw_{name}").withColumn("n", f.expr("CAST(n AS TIMESTAMP_NTZ)")).createOrReplaceTempView(name)
    different = []
    unsure = []
    for query in queries:
        try:
            ours = answer(query, FIXED)
        except NotSupportedByArrow as refused:
            if refused.refusal.for_good:
                raise
            unsure.append(query)
            continue
        theirs = spark_session.arrow(query).read_all()
        if _types(ours) != _types(theirs):
            different.append((query, ours.schema.types, theirs.schema.types))
        elif values_of(ours) != values_of(theirs):
            different.append((query, values_of(ours), values_of(theirs)))
    assert different == []
    assert len(unsure) < 15, "of aggregates by another value, whose rows stand equal"


QUERIES = [*JOINS, *WINDOWS, *SETS, *AGGREGATES, *SUB_QUERIES]
_STEPS = ("1 YEAR", "'-13' MONTH", "'1' MONTH", "90 DAYS", "'0' DAY", "11 months")
CALENDAR = [
    f"SELECT k FROM a WHERE d {sign} INTERVAL {step} < DATE '2024-02-29' {other} INTERVAL {step}"
    for step in _STEPS
    for sign, other in (("+", "-"), ("-", "+"))
] + [f"SELECT k, d + INTERVAL {step} AS later, d - INTERVAL {step} AS sooner FROM a" for step in _STEPS]
WIDE = [
    "SELECT k, w * w AS p, w * m * m AS q FROM a",
    "SELECT k, m + w * w AS p, w * w - m AS q FROM a",
    "SELECT b, sum(w * m * m) AS p, max(m * m * m * m) AS q FROM a GROUP BY b",
]
BY_SPARK_ALONE = [
    *JOINS_BY_SPARK,
    # DuckDB gives a grand total of no rows.
    "SELECT b, s, max(m) AS m, grouping(s) AS h FROM a GROUP BY CUBE (b, s)",
    "SELECT d, x, count(*) AS n FROM a GROUP BY ROLLUP (d, x)",
    "SELECT d, x, count(*) AS n FROM a WHERE k = 99 GROUP BY ROLLUP (d, x)",
    "SELECT k, CASE WHEN k > 0 THEN 10 / k WHEN k < 0 THEN 1 / (k - 1) END AS q FROM a",
    # DuckDB leaves out rows where the value is NULL.
    *(f"SELECT b, min_by({column}, k) AS f, max_by({column}, m) AS l FROM {name} GROUP BY b" for column, name in (("s", "a"), ("x", "b"))),
    "SELECT b, s, max(m) AS m, grouping_id() AS i, grouping_id(b, s) AS j FROM a GROUP BY CUBE (b, s)",
    "SELECT k, x FROM a WHERE x IN (SELECT x FROM b)",
    "SELECT k, x FROM a WHERE x NOT IN (SELECT x FROM b WHERE k = 1 AND x IS NOT NULL)",
    *TIME_WINDOWS,
    *STRUCTS,
    *NUMBERS,
]
