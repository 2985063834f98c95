"""Look-ups are recognised in plans, and nothing else is."""

import pytest

from tests.algebra.rules.plans import plan_text


def lookup(text):
    return plan_text(text)[1].planned.lookup


def test_a_lookup_has_columns_conditions_and_a_limit():
    found = lookup("SELECT uid, score AS s FROM posts p WHERE p.uid = :uid AND score BETWEEN 1 AND -2 LIMIT 2")
    assert (found.columns, found.limit) == ((("uid", "uid"), ("score", "s")), 2)
    assert [(condition.column, condition.op) for condition in found.conditions] == [("uid", "="), ("score", ">="), ("score", "<=")]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT upper(username) FROM posts",
        "SELECT count(*) FROM posts",
        "SELECT DISTINCT uid FROM posts",
        "SELECT uid FROM posts ORDER BY uid",
        "SELECT uid FROM posts WHERE uid = 1 OR uid = 2",
        "SELECT uid FROM posts WHERE NOT uid = 1",
        "SELECT uid FROM posts WHERE uid = score",
        "SELECT uid FROM posts WHERE uid IN (SELECT id FROM users)",
        "SELECT a.uid FROM posts a, users b",
        "SELECT uid FROM posts UNION ALL SELECT id FROM users",
        "SELECT /*+ BROADCAST(posts) */ uid FROM posts",
        "SELECT uid FROM posts LIMIT 3 OFFSET 2",
        "SELECT 1",
    ],
)
def test_other_queries_are_none(text):
    assert lookup(text) is None


def test_a_rule_that_is_off_does_nothing():
    assert plan_text("SELECT uid FROM posts", off=["lookup"])[1].planned.lookup is None
