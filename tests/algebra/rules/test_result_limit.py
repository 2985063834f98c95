"""A LIMIT of any rows is kept by the reader."""

import pytest

from tests.algebra.rules.plans import plan_text


def planned(text):
    return plan_text(text)[1].planned


@pytest.mark.parametrize(
    ("query", "body", "limit"),
    [
        ("SELECT x FROM t LIMIT 10", "SELECT x FROM t", 10),
        ("select x from t limit 0  -- none", "select x from t", 0),
        ("SELECT x, rank() OVER (ORDER BY x) FROM t LIMIT 5", "SELECT x, rank() OVER (ORDER BY x) FROM t", 5),
        ("SELECT x FROM t UNION ALL SELECT y FROM u LIMIT 5", "SELECT x FROM t UNION ALL SELECT y FROM u", 5),
    ],
)
def test_a_limit_at_the_end_is_taken_off(query, body, limit):
    reading, plan = plan_text(query)
    place = plan.planned.limit.at[0]
    assert (plan.planned.limit.rows, reading.ends_at(place)) == (limit, True)
    assert reading.render({}, without_limit=place).text == body


@pytest.mark.parametrize(
    "query",
    [
        "SELECT x FROM t",
        "SELECT x FROM t ORDER BY x LIMIT 10",
        "SELECT x FROM t SORT BY x LIMIT 10",
        "SELECT x FROM t LIMIT 10 OFFSET 3",
        "SELECT x FROM t LIMIT 5 + 5",
        "SELECT x FROM t LIMIT :n",
        "SELECT x FROM t LIMIT ALL",
        "SELECT x FROM t LIMIT 3000000000",
        "SELECT x FROM (SELECT x FROM t LIMIT 10)",
        "SELECT 'x LIMIT 10'",
        "SELECT 1 -- LIMIT 10",
    ],
)
def test_any_other_limit_stays_where_it_is(query):
    plan = planned(query)
    assert plan is None or plan.limit is None
