"""Expectations on Arrow rows, judged by Great Expectations itself."""

from __future__ import annotations

import pyarrow as pa
import pytest

from platform_plugin.errors import InvalidValue
from platform_plugin.quality.suite import parse_suite
from platform_plugin.quality.validate import run_validation

pytest.importorskip("great_expectations")
ROWS = pa.table({"id": [1, 2, 2], "rate": [1.5, None, 2.0]})


def judged(*expectations):
    return {each.name: each for each in run_validation(parse_suite({"expectations": list(expectations)}, file="u.yml"), ROWS)}


def test_each_expectation_is_judged_and_shows_the_rows_that_break_it():
    found = judged(
        {"type": "expect_column_values_to_be_unique", "kwargs": {"column": "id"}},
        {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "id"}},
        {"type": "expect_table_row_count_to_be_between", "kwargs": {"min_value": 5}},
        {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "nobody"}},
    )
    unique = found["expect_column_values_to_be_unique__id"]
    assert (unique.passed, unique.figures["unexpected_count"], [row["id"] for row in unique.rows]) == (False, 2, ["2", "2"])
    assert found["expect_column_values_to_not_be_null__id"].passed
    assert found["expect_table_row_count_to_be_between"].figures["observed_value"] == 3
    missing = found["expect_column_values_to_not_be_null__nobody"]
    assert not missing.passed
    assert "nobody" in missing.trouble


def test_an_expectation_that_does_not_exist_is_told():
    with pytest.raises(InvalidValue, match="expect_wonders"):
        judged({"type": "expect_wonders"})
