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
    """Each query once, over rows that hold every value of every type."""
    from pyspark.sql.connect import functions as f

    for name, table in tables(FIXED).items():
        spark_session.spark.createDataFrame(table).createOrReplaceTempView(f"raw_{name}")
        # Arrow's times without a zone are times in UTC to this call.
        spark_session.spark.table(f"raw_{name}").withColumn("n", f.expr("CAST(n AS TIMESTAMP_NTZ)")).createOrReplaceTempView(name)
    different = []
    for query in [*QUERIES, *BY_SPARK_ALONE]:
        ours = answer(query, FIXED)
        theirs = spark_session.arrow(query).read_all()
        if ours.schema.types != theirs.schema.types:
            different.append((query, ours.schema.types, theirs.schema.types))
        elif values_of(ours) != values_of(theirs):
            different.append((query, values_of(ours), values_of(theirs)))
    assert different == []


QUERIES = JOINS
BY_SPARK_ALONE = JOINS_BY_SPARK
