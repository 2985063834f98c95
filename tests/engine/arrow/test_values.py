"""Expressions over Arrow columns: what is evaluated here has the values and the types that Spark gives, digit by digit."""

from datetime import date
from decimal import Decimal

import pyarrow as pa
import pytest

from platform_plugin.algebra.plan.nodes import Column
from platform_plugin.engine.arrow.decimals import to_doubles
from platform_plugin.engine.arrow.values import ArrowRows, NotSupportedByArrow, evaluate_node, repeat_value
from platform_plugin.operators.group.body import read_body


def decimals(digits, scale, *values):
    return pa.array([None if value is None else Decimal(value) for value in values], pa.decimal128(digits, scale))


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
    }
)
HERE = [
    "a * (1 - b)",
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
]
NOT_HERE = [
    "w * w * w",
    "a * (1 - b) * (1 + b)",
    "a / b",
    "a / 2",
    "CAST(w AS DOUBLE)",
    "CAST(a AS INT)",
    "d >= '1994'",
    "d > DATE '94-01-01'",
    "a = s",
    "l % 2",
]


def evaluated(text):
    node = read_body(f"SELECT {text} AS v FROM t").expressions[0].unalias()
    columns = {Column("", name): column.combine_chunks() for name, column in zip(ROWS.column_names, ROWS.columns, strict=True)}
    return repeat_value(evaluate_node(node, ArrowRows(columns=columns, count=ROWS.num_rows)), ROWS.num_rows)


@pytest.mark.parametrize("text", NOT_HERE)
def test_what_could_differ_is_left_to_spark(text):
    with pytest.raises(NotSupportedByArrow):
        evaluated(text)


@pytest.mark.spark
def test_values_and_types_are_those_of_spark(spark_session):
    asked = ", ".join(f"{text} AS c{place}" for place, text in enumerate(HERE))
    spark_session.spark.createDataFrame(ROWS).createOrReplaceTempView("values_of_arrow")
    theirs = spark_session.arrow(f"SELECT {asked} FROM values_of_arrow").read_all()
    for place, text in enumerate(HERE):
        ours = evaluated(text)
        assert (text, ours.type) == (text, theirs.column(place).type)
        assert (text, sorted(map(repr, ours.to_pylist()))) == (text, sorted(map(repr, theirs.column(place).to_pylist())))


def test_doubles_of_slices_and_of_no_rows():
    column = decimals(15, 2, "0.10", None, "0.30", "-0.70")
    assert to_doubles(column[2:]).to_pylist() == [0.3, -0.7]
    assert to_doubles(pa.chunked_array([column[:1], column[1:3]])).to_pylist() == [0.1, None, 0.3]
    assert to_doubles(column[:0]).to_pylist() == to_doubles(pa.chunked_array([], column.type)).to_pylist() == []
    assert to_doubles(decimals(30, 4, "900719925474.0993")) is None, "more digits than a double holds"
    assert to_doubles(decimals(30, 4, "900719925474.0991", None)).to_pylist() == [900719925474.0991, None]
