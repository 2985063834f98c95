"""A suite over a full relation says the same on Spark and as Arrow, where Great Expectations itself is the judge, and what it cost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from platform_plugin.lake.catalogue.tables import Name
from platform_plugin.platform import Platform
from platform_plugin.quality.full import run_suite
from platform_plugin.quality.suite import parse_suite

pytestmark = pytest.mark.spark

ROWS = """(1, 1, 1.5, 'a', 1.25, DATE '2026-01-01'), (2, NULL, CAST('NaN' AS DOUBLE), 'bb', 2.5, DATE '2026-01-02'),
 (2, 3, NULL, NULL, 3.5, NULL), (NULL, NULL, -2.0, 'ccc', 4.5, DATE '2026-03-01')"""
AGGREGATES = {
    "min": (1, 1),
    "max": (1, 1.5),
    "mean": (1.6, 1.7),
    "sum": (5, 5),
    "median": (2, 2),
    "stdev": (0.5, 0.6),
    "unique_value_count": (2, 2),
    "proportion_of_unique_values": (0.6, 0.7),
}


@pytest.fixture
def platform(tmp_path, spark_server):
    with Platform.create(tmp_path / "lake") as made:
        made.execute("CREATE TABLE t (id INT, other INT, rate DOUBLE, name STRING, price DECIMAL(9,2), day DATE)")
        made.execute(f"INSERT INTO t VALUES {ROWS}")
        yield made


def suite_of(*expectations):
    return parse_suite({"engine": "spark", "expectations": [{"type": kind, "kwargs": said} for kind, said in expectations]}, file="t.yml")


def test_spark_judges_all_rows_by_aggregates_and_the_cost_is_told(platform):
    suite = suite_of(
        ("expect_column_values_to_be_between", {"column": "rate", "min_value": 0}),
        ("expect_column_values_to_be_unique", {"column": "name"}),
        ("expect_column_values_to_match_regex", {"column": "nobody", "regex": "a"}),
        ("expect_column_max_to_be_between", {"column": "day", "max_value": "2026-03-01"}),
        ("expect_column_values_to_be_between", {"column": "name", "min_value": 3}),
    )
    before = platform.lake.snapshot().id
    judged = run_suite(platform, Name.of("t"), suite)
    assert [each.passed for each in judged.findings] == [False, True, False, True, False]
    assert [row["rate"] for row in judged.findings[0].rows] == ["-2.0"]
    assert judged.findings[2].trouble == 'there is no column "nobody"'
    assert "try_cast" in judged.findings[4].trouble, "what Spark can't compute disturbs no other"
    assert (judged.rows, judged.engine, judged.snapshot) == (4, "spark", before)
    assert judged.jobs > 0
    assert judged.bytes > 0
    assert judged.seconds > 0


@pytest.mark.slow
def test_spark_and_great_expectations_say_the_same(platform):
    pytest.importorskip("great_expectations")
    one, values = {"column": "id"}, {"column": "name", "value_set": ["a", "bb"]}
    pair = {"column_A": "id", "column_B": "other"}
    suite = suite_of(
        ("expect_column_values_to_not_be_null", one),
        ("expect_column_values_to_not_be_null", one | {"mostly": 0.7}),
        ("expect_column_values_to_be_null", {"column": "rate"}),
        ("expect_column_values_to_be_between", {"column": "rate", "min_value": 0}),
        ("expect_column_values_to_be_between", one | {"min_value": 1, "strict_min": True, "max_value": 5}),
        ("expect_column_values_to_be_between", one | {"min_value": 1, "strict_min": True, "mostly": 0.6}),
        ("expect_column_values_to_be_in_set", values),
        ("expect_column_values_to_not_be_in_set", values),
        ("expect_column_values_to_match_regex", {"column": "name", "regex": "^[a-b]+$"}),
        ("expect_column_values_to_not_match_regex", {"column": "name", "regex": "c"}),
        ("expect_column_value_lengths_to_be_between", {"column": "name", "min_value": 1, "max_value": 2}),
        ("expect_column_value_lengths_to_equal", {"column": "name", "value": 1}),
        ("expect_column_values_to_be_unique", one),
        ("expect_column_values_to_be_unique", one | {"mostly": 0.3}),
        ("expect_compound_columns_to_be_unique", {"column_list": ["id", "other"]}),
        ("expect_column_pair_values_a_to_be_greater_than_b", pair | {"or_equal": True}),
        ("expect_column_pair_values_to_be_equal", pair),
        ("expect_column_distinct_values_to_be_in_set", one | {"value_set": [1]}),
        *((f"expect_column_{name}_to_be_between", one | {"min_value": low, "max_value": high}) for name, (low, high) in AGGREGATES.items()),
        *(
            (f"expect_column_{name}_to_be_between", {"column": "rate", "min_value": 0})
            for name in ("min", "mean", "sum", "stdev", "median")
        ),
        ("expect_column_max_to_be_between", {"column": "price", "min_value": 4.5, "max_value": 4.5}),
        ("expect_table_row_count_to_be_between", {"min_value": 5}),
        ("expect_table_row_count_to_equal", {"value": 4}),
        ("expect_table_column_count_to_equal", {"value": 6}),
        ("expect_table_column_count_to_be_between", {"max_value": 5}),
        ("expect_column_to_exist", {"column": "zip"}),
        ("expect_column_to_exist", one),
        ("expect_table_columns_to_match_ordered_list", {"column_list": ["id", "rate"]}),
        ("expect_table_columns_to_match_set", {"column_set": ["id", "other", "rate", "name", "price", "day"]}),
    )
    ours = run_suite(platform, Name.of("t"), suite)
    theirs = run_suite(platform, Name.of("t"), replace(suite, engine="arrow"))
    assert 0 < sum(each.passed for each in ours.findings) < len(ours.findings)
    for mine, other in zip(ours.findings, theirs.findings, strict=True):
        assert (mine.name, mine.passed) == (other.name, other.passed)
        for figure in set(mine.figures) & set(other.figures):
            assert mine.figures[figure] == pytest.approx(other.figures[figure]), (mine.name, figure)
        if not mine.passed and other.rows and mine.expectation.type != "expect_column_values_to_be_unique":
            assert len(mine.rows) == len(other.rows), mine.name
