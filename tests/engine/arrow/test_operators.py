"""The kernel's operators over every type, with NULL, NaN, -0.0, zones and decimals: against DuckDB for random rows, and against Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    "SELECT k, s, m FROM a ORDER BY k, s, m, d, x, n, t, w LIMIT 3",
    "SELECT k, s, m FROM a ORDER BY k DESC, s, m, d, x, n, t, w LIMIT 3 OFFSET 1",
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
    compare(spark_session, [*[*WINDOWS, *SETS, *AGGREGATES, *SUB_QUERIES][::9], *BY_SPARK_ALONE[5:]])


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(1200)
def test_so_are_those_of_all_queries(spark_session: Session) -> None:
    compare(spark_session, [*QUERIES, *BY_SPARK_ALONE])


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
        if ours.schema.types != theirs.schema.types:
            different.append((query, ours.schema.types, theirs.schema.types))
        elif values_of(ours) != values_of(theirs):
            different.append((query, values_of(ours), values_of(theirs)))
    assert different == []
    assert len(unsure) < 15, "of aggregates by another value, whose rows stand equal"


QUERIES = [*JOINS, *WINDOWS, *SETS, *AGGREGATES, *SUB_QUERIES]
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
]
