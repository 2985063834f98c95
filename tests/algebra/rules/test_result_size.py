"""Queries whose results are as small as what they read."""

import pytest

from tests.algebra.rules.plans import plan_text


def planned(text):
    return plan_text(text)[1].planned


@pytest.mark.parametrize(
    "query",
    [
        "SELECT 1",
        "SELECT count(*), max(a) FROM w WHERE b IN (1, 2) AND (c OR NOT (d))",
        "SELECT a, sum(b) FROM (SELECT * FROM w) GROUP BY a HAVING sum(b) > 3",
        "SELECT CAST(a AS DECIMAL(9, 2)) FROM VALUES (1), (2) AS v(a)",
    ],
)
def test_a_query_that_passes_on_what_it_reads_is_plain(query):
    assert planned(query).is_bounded


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM range(1000000000)",
        "SELECT explode(sequence(1, 1000000))",
        "SELECT repeat(a, 1000000) FROM w",
        "SELECT a FROM w CROSS JOIN w",
        "WITH x AS (SELECT * FROM w) SELECT * FROM x, x",
        "SELECT a FROM w LATERAL VIEW explode(b) AS c",
        "SELECT my_function(a) FROM w",
        "SELECT `repeat`(a, 1000000) FROM w",
        "SELECT a FROM w GROUP BY CUBE (a, b, c)",
        "SELECT " + ", ".join(["a"] * 5000) + " FROM w",
    ],
)
def test_a_query_that_may_make_more_of_it_is_not_plain(query):
    assert plan_text(query)[1].planned is None or not plan_text(query)[1].planned.is_bounded
