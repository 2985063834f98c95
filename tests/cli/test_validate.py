"""`platform validate` judges a relation by a suite, prints what is not met and what that cost, and ends accordingly."""

from __future__ import annotations

import json

import pytest

SUITE = """
expectations:
  - {type: expect_column_values_to_be_between, kwargs: {column: amount, min_value: 0}}
  - {type: expect_column_values_to_be_unique, kwargs: {column: id}, severity: warning}
"""


def test_a_suite_that_can_not_be_used_is_told(platform, tmp_path):
    file = tmp_path / "s.yml"
    file.write_text("expectations: [{type: expect_column_kl_divergence_to_be_less_than, kwargs: {column: id}}]")
    assert "can't be judged on Spark" in platform("validate", "t", str(file), "--engine", "spark", check=1).stderr


@pytest.mark.spark
def test_what_is_not_met_is_shown_with_the_cost(platform, url, tmp_path):
    platform("init", url, check=0)
    platform("sql", "-c", "CREATE TABLE t (id INT, amount INT); INSERT INTO t VALUES (1, 5), (1, -2), (1, 3)", check=0)
    file = tmp_path / "s.yml"
    file.write_text(SUITE)
    said = platform("validate", "t", str(file), "--engine", "spark", check=1).stdout
    assert "FAILED  expect_column_values_to_be_between__amount: unexpected count 1" in said
    assert "          id 1, amount -2\n" in said
    assert "warned  expect_column_values_to_be_unique__id: unexpected count 3" in said
    assert "2 expectations of 2 not met: 3 rows at snapshot 2, " in said
    assert " on Spark in " in said
    file.write_text(f"engine: spark\n{SUITE.replace('min_value: 0', 'min_value: -2')}")
    judged = json.loads(platform("validate", "t", str(file), "--json", check=0).stdout)
    assert ([each["passed"] for each in judged["expectations"]], judged["rows"], judged["engine"]) == ([True, False], 3, "spark")
    assert judged["jobs"] > 0
