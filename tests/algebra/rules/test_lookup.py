"""Queries for rows of one relation are recognised in plans, and nothing else is."""

import pytest

from tests.algebra.rules.plans import plan_text


def lookup(text):
    return plan_text(text)[1].planned.lookup


def test_a_lookup_has_a_plan_and_a_limit():
    found = lookup("SELECT uid, score AS s FROM posts p WHERE p.uid = :uid AND score BETWEEN 1 AND -2 LIMIT 2")
    assert (found.relation, found.columns, found.limit) == ("0", None, 2)
    assert [item.name for item in found.plan.items] == ["uid", "s"]


def test_of_all_rows_the_columns_are_known():
    assert lookup("SELECT uid, score AS s FROM posts").columns == (("uid", "uid"), ("score", "s"))
    assert lookup("SELECT uid, score + 1 AS s FROM posts").columns is None


@pytest.mark.parametrize(
    "text",
    [
        "SELECT upper(username) AS u FROM posts",
        "SELECT uid FROM posts WHERE uid = 1 OR uid = 2",
        "SELECT uid FROM posts WHERE NOT uid = score",
        "SELECT s FROM (SELECT uid + 1 AS s FROM posts) WHERE s > 2",
    ],
)
def test_the_engine_decides_what_it_can_evaluate(text):
    assert lookup(text) is not None


@pytest.mark.parametrize(
    "text",
    [
        "SELECT count(*) FROM posts",
        "SELECT DISTINCT uid FROM posts",
        "SELECT uid FROM posts ORDER BY uid",
        "SELECT uid FROM posts WHERE uid IN (SELECT id FROM users)",
        "SELECT a.uid FROM posts a, users b",
        "SELECT uid FROM posts UNION ALL SELECT id FROM users",
        "SELECT /*+ BROADCAST(posts) */ uid FROM posts",
        "SELECT uid FROM posts LIMIT 3 OFFSET 2",
        "SELECT uid, rank() OVER (ORDER BY uid) AS r FROM posts",
        "SELECT 1",
    ],
)
def test_other_queries_are_none(text):
    assert lookup(text) is None


def test_a_rule_that_is_off_does_nothing():
    assert plan_text("SELECT uid FROM posts", off=["lookup"])[1].planned.lookup is None


def test_parameters_without_names_are_values_of_their_own():
    plan = plan_text("SELECT count_if(score > ?) AS a, count_if(score > ?) AS b FROM posts")[1].planned.plan
    assert len(plan.source.query.calls) == 2
