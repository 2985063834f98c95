"""Expressions over Arrow columns: what is evaluated here has the values and the types that Spark gives, digit by digit."""

import calendar
from datetime import date, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_plugin.algebra.plan.nodes import Column
from platform_plugin.engine.arrow.decimals import to_doubles
from platform_plugin.engine.arrow.times import shift_dates
from platform_plugin.engine.arrow.values import ArrowRows, evaluate_node, repeat_value
from platform_plugin.engine.refusal import RefusedByEngine
from platform_plugin.operators.group.body import read_body


def decimals(digits, scale, *values):
    return pa.array([None if value is None else Decimal(value) for value in values], pa.decimal128(digits, scale))


# Before 1970, on a leap day, on no Monday, and in a year whose first days are in the last week of the one before.
TIMES = [-1, 1_709_210_096_789_012, None, 1_609_459_200_000_000]
ROWS = pa.table(
    {
        "a": decimals(15, 2, "0.10", "-12345.67", "9999999999999.99", None),
        "b": decimals(15, 2, "0.06", "0.05", "0.00", "1.00"),
        "w": decimals(30, 4, "0.3000", "-99999999999999999999999999.9999", "5.0000", "0.0001"),
        "i": pa.array([1, -7, None, 2147483647], pa.int32()),
        "l": pa.array([1, -(1 << 53) - 1, None, (1 << 62) + 1], pa.int64()),
        "x": pa.array([0.1, -2.5, 1e300, None]),
        "d": pa.array([date(1994, 1, 1), date(1995, 1, 1), None, date(1, 1, 1)]),
        "s": pa.array(["a", "b", None, ""]),
        "t": pa.array(["a\nbc", "Straße 🎉🎉", None, "🎉b"]),
        "u": pa.array([" aB c ", "ab", None, ""]),
        "y": pa.array([True, False, None, True]),
        "e": pa.array([-2.5, 2.5, None, 1e15 + 0.25]),
        "f": pa.array([-7, 7, None, 1 << 40], pa.int64()),
        "z": pa.array(TIMES, pa.timestamp("us", "UTC")),
        "n": pa.array(TIMES, pa.timestamp("us")),
        "r": decimals(10, 4, "-1.5000", "2.0001", None, "999999.9999"),
        "q": decimals(9, 0, "-2", "3", None, "999999999"),
    }
)
PARTS = ("year", "quarter", "month", "day", "hour", "minute", "second", "dayofweek", "weekday", "dayofyear", "weekofyear")
UNITS = ("YEAR", "yy", "quarter", "MONTH", "week", "DAY", "dd", "HOUR", "minute", "SECOND", "millisecond", "microsecond")
HERE = [
    "a * (1 - b)",
    "a * (1 - b) * (1 + b)",
    "r * r * r * r * b",
    "a + b",
    "a - w",
    "a * i",
    "a + l",
    "l * b",
    "a * 3",
    "a * 0.05",
    "1.50 - b",
    "a * x",
    "x * 0.5",
    "x + 1.25",
    "CAST(a AS DOUBLE)",
    "CAST(a * 0.07 AS DOUBLE)",
    "CAST(b * 12.5 AS DOUBLE)",
    "coalesce(a, 0)",
    "coalesce(a, i)",
    "coalesce(a, b * b)",
    "coalesce(a, x)",
    "CASE WHEN i > 0 THEN a ELSE 0 END",
    "CASE WHEN a IS NULL THEN 0 ELSE 1 END",
    "CASE WHEN i > 0 THEN a END",
    "CASE WHEN b > 0.055 THEN w ELSE a END",
    "a < 24",
    "24 < a",
    "b BETWEEN 0.05 AND 0.07",
    "b >= 0.055",
    "a <> b",
    "w > a",
    "w < 99999999999",
    "a = i",
    "x < 0.15",
    "x > 0",
    "d >= DATE '1994-01-01'",
    "d < '1995-01-01'",
    "'1994-06-01' < d",
    "d IN ('1994-01-01', DATE '1995-01-01')",
    "s = 'a' AND d = DATE'1994-01-01'",
    "t LIKE '%b_%'",
    "t NOT LIKE 'Straße%'",
    "NOT t LIKE '%'",
    "t LIKE ''",
    "t LIKE '__'",
    "year(d)",
    "EXTRACT(YEAR FROM d) * 100 + month(d)",
    "quarter(d)",
    "day(d) + dayofmonth(d)",
    "substring(t, 2, 3)",
    "substr(t, 1)",
    "SUBSTRING(t, 100, 2)",
    "length(t)",
    "-a",
    "a / 2",
    "a / i",
    "r / q",
    "q / r",
    "w / a",
    "w / w",
    "a / w",
    "3 / a",
    "r / 2.5",
    "CASE WHEN b > 0 THEN a / b END",
    "a / x",
    "i / r",
    "CAST(a / 3 AS DECIMAL(15,1))",
    "CAST(r AS DECIMAL(10,3))",
    "CAST(r AS DECIMAL(8,1))",
    "CAST(r AS DECIMAL(20,10))",
    "CAST(i AS DECIMAL(12,2))",
    "CAST(f AS DECIMAL(38,10))",
    "CAST(i AS STRING)",
    "CAST(y AS STRING)",
    "CAST(y AS INT)",
    "CAST(e AS BIGINT)",
    "CAST(d AS STRING)",
    "CAST(d AS TIMESTAMP)",
    "CAST(d AS TIMESTAMP_NTZ)",
    "CAST(z AS DATE)",
    "CAST(n AS DATE)",
    "CAST(z AS TIMESTAMP_NTZ)",
    "CAST(n AS TIMESTAMP)",
    "CAST(z AS BIGINT)",
    "f % 4",
    "i % f",
    "-f % -4",
    "abs(i)",
    "abs(a)",
    "abs(e)",
    "floor(e)",
    "ceil(e)",
    "floor(r)",
    "ceil(r)",
    "floor(q)",
    "floor(i)",
    "sqrt(abs(e))",
    "greatest(i, f)",
    "least(a, b, r)",
    "greatest(s, u)",
    "least(z, CAST(n AS TIMESTAMP))",
    "nullif(i, 1)",
    "nullif(a, b)",
    "nullif(s, 'a')",
    "ifnull(a, 1)",
    "nvl(i, f)",
    "if(i > 0, a, r)",
    "isnull(a)",
    "isnotnull(a)",
    "upper(u)",
    "lower(u)",
    "ucase('x')",
    "trim(u)",
    "ltrim(u)",
    "rtrim(u)",
    "replace(u, 'B', 'xy')",
    "replace(u, '', 'xy')",
    "replace(u, ' ', '')",
    "concat(s, u, 'x')",
    "startswith(u, ' a')",
    "endswith(u, 'b')",
    "contains(u, 'B')",
    *(f"{part}({time})" for part in PARTS for time in ("d", "z", "n")),
    "hour(z) + minute(n) + second(n)",
    "EXTRACT(HOUR FROM z)",
    *(f"date_trunc('{unit}', {time})" for unit in UNITS for time in ("z", "n")),
    "date_trunc('month', d)",
    *(f"trunc(d, '{unit}')" for unit in ("YEAR", "quarter", "MM", "week")),
    "date(z)",
    "to_date(n)",
    "to_date(d)",
    "date_add(d, 31)",
    "date_add(d, i % 100)",
    "datediff(DATE '2026-01-01', d)",
    "datediff(z, d)",
    "date_format(z, 'yyyy-MM-dd HH:mm:ss')",
    "date_format(n, 'E')",
    "date_format(n, 'EEEE dd/MM')",
    "unix_timestamp(z)",
    "unix_timestamp(n)",
    "z + INTERVAL 1 DAY",
    "n - INTERVAL '90' MINUTE",
    "z - INTERVAL '1 day 2 hours'",
    "z - z > INTERVAL 3 HOURS",
    "n >= TIMESTAMP_NTZ '2021-01-01 00:00:00'",
    "z = TIMESTAMP '2024-02-29 12:34:56.789012'",
    "z < DATE '2021-01-01'",
    "d <= n",
    "0.5D * x",
    "struct(i, a)",
    "struct(i, a + 1, z)",
    "named_struct('p', i, 'q', s)",
]
NOT_HERE = [
    "w * w * w",
    "a / b",
    "CAST(w AS DOUBLE)",
    "CAST(a AS INT)",
    "CAST(a AS STRING)",
    "CAST(x AS STRING)",
    "CAST(s AS INT)",
    "x % 2",
    "f % 0",
    "upper(t)",
    "greatest(x, e)",
    "date(s)",
    "date_format(n, 'MMM')",
    "date_format(d, 'yyyyT')",
    "date_trunc('fortnight', z)",
    "EXTRACT(SECOND FROM z)",
    "z - INTERVAL 1 MONTH",
    "z = n",
    "struct(a AS b)",
    "d >= '1994'",
    "d > DATE '94-01-01'",
    "a = s",
]


def evaluated(text):
    node = read_body(f"SELECT {text} AS v FROM t").expressions[0].unalias()
    columns = {Column("", name): column.combine_chunks() for name, column in zip(ROWS.column_names, ROWS.columns, strict=True)}
    return repeat_value(evaluate_node(node, ArrowRows(columns=columns, count=ROWS.num_rows)), ROWS.num_rows)


@pytest.mark.parametrize("text", NOT_HERE)
def test_what_could_differ_is_left_to_spark(text):
    with pytest.raises(RefusedByEngine):
        evaluated(text)


@pytest.mark.spark
def test_values_and_types_are_those_of_spark(spark_session):
    from pyspark.sql.connect import functions

    asked = ", ".join(f"{text} AS c{place}" for place, text in enumerate(HERE))
    # Arrow's times without a zone are times in UTC to this call.
    given = spark_session.spark.createDataFrame(ROWS).withColumn("n", functions.expr("CAST(n AS TIMESTAMP_NTZ)"))
    given.createOrReplaceTempView("values_of_arrow")
    theirs = spark_session.arrow(f"SELECT {asked} FROM values_of_arrow").read_all()
    different = []
    for place, text in enumerate(HERE):
        sides = [(str(found.type), sorted(map(repr, found.to_pylist()))) for found in (evaluated(text), theirs.column(place))]
        if sides[0] != sides[1]:
            different.append((text, *sides))
    assert different == []


def test_doubles_of_slices_and_of_no_rows():
    column = decimals(15, 2, "0.10", None, "0.30", "-0.70")
    assert to_doubles(column[2:]).to_pylist() == [0.3, -0.7]
    assert to_doubles(pa.chunked_array([column[:1], column[1:3]])).to_pylist() == [0.1, None, 0.3]
    assert to_doubles(column[:0]).to_pylist() == to_doubles(pa.chunked_array([], column.type)).to_pylist() == []
    assert to_doubles(decimals(30, 4, "900719925474.0993")) is None, "more digits than a double holds"
    assert to_doubles(decimals(30, 4, "900719925474.0991", None)).to_pylist() == [900719925474.0991, None]


@given(
    days=st.lists(st.one_of(st.none(), st.dates()), max_size=20),
    step=st.one_of(st.tuples(st.integers(-30_000, 30_000), st.just(0)), st.tuples(st.just(0), st.integers(-(10**6), 10**6))),
)
def test_dates_are_shifted_as_a_calendar_says(days, step):
    months, more = step

    def shift(day):
        if day is None:
            return None
        year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
        return date(year, month + 1, min(day.day, calendar.monthrange(year, month + 1)[1])) + timedelta(days=more)

    found = shift_dates(pa.array(days, pa.date32()), months, more)
    try:
        expected = [shift(day) for day in days]
    except (ValueError, OverflowError, IndexError):
        assert found is None
    else:
        assert found.to_pylist() == expected
