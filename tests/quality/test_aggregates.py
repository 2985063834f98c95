"""What Spark can't be asked for is refused when a suite is read, and said by name."""

from __future__ import annotations

import pytest

from platform_plugin.errors import InvalidValue
from platform_plugin.quality.aggregates import plan_measure
from platform_plugin.quality.suite import Expectation, parse_suite

ID = {"column": "id"}


@pytest.mark.parametrize(
    ("expectation", "told"),
    [
        ({"type": "expect_column_kl_divergence_to_be_less_than", "kwargs": ID}, "__id\" can't be judged on Spark"),
        ({"type": "expect_column_values_to_be_unique", "kwargs": ID | {"row_condition": "x"}}, 'on Spark with "row_condition"'),
        ({"type": "expect_column_values_to_be_in_set", "kwargs": ID}, 'has no "value_set"'),
    ],
)
def test_what_is_no_aggregate_is_refused(expectation, told):
    with pytest.raises(InvalidValue, match=told):
        parse_suite({"engine": "spark", "expectations": [expectation]}, file="u.yml")
    assert parse_suite({"expectations": [expectation]}, file="u.yml").engine == "arrow"


def test_a_suite_on_spark_is_about_full_relations():
    expectation = {"type": "expect_column_values_to_be_unique", "kwargs": ID}
    with pytest.raises(InvalidValue, match='Spark judges full relations, and rows is "changes"'):
        parse_suite({"engine": "spark", "rows": "changes", "expectations": [expectation]}, file="u.yml")
    with pytest.raises(InvalidValue, match='engine is "duckdb"'):
        parse_suite({"engine": "duckdb", "expectations": [expectation]}, file="u.yml")


def test_texts_are_literals_and_names_are_quoted():
    kwargs = {"column": "a b", "value_set": ["it's", 1, 2.5, None, True]}
    measure = plan_measure(Expectation(type="expect_column_values_to_be_in_set", kwargs=kwargs), "t", {"a b": "STRING"})
    assert measure.broken == r"NOT (`a b` IS NULL) AND NOT coalesce(`a b` IN ('it\'s', 1, 2.5, true), false)"
    kwargs = {"column": "a b", "regex": r"\d"}
    measure = plan_measure(Expectation(type="expect_column_values_to_match_regex", kwargs=kwargs), "t", {"a b": "STRING"})
    assert r"`a b` RLIKE '\\d'" in measure.broken
    with pytest.raises(InvalidValue, match=r"\[1\] can't be compared with on Spark"):
        plan_measure(Expectation(type="expect_column_values_to_be_in_set", kwargs=ID | {"value_set": [[1]]}), "t", {"id": "INT"})


def test_a_measure_judges_by_its_share():
    kwargs = ID | {"mostly": 0.5}
    measure = plan_measure(Expectation(type="expect_column_values_to_be_between", kwargs=kwargs | {"min_value": 1}), "t", {"id": "INT"})
    figures = {"element_count": 5, "missing_count": 1, "unexpected_count": 2, "unexpected_percent": 50.0}
    assert measure.judge((1, 2), 5) == (True, figures)
    assert not measure.judge((1, 3), 5)[0]
    assert measure.judge((5, 0), 5)[0], "where nothing is, nothing is wrong"
