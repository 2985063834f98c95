"""docs/howto/rule.md: a rule is a function and an entry, and changes no result."""

import pyarrow as pa
import pytest

from platform_plugin.algebra.rules import registry
from platform_plugin.engine.arrow.plans import run_plan
from platform_plugin.operators.group import cutting
from platform_plugin.operators.group.split import plan_split
from tests.algebra.rules.plans import plan_text, spark_text
from tests.howto.truths import DropTruths, drop_truths
from tests.relations.views.composed import RELATIONS

QUERIES = [
    "SELECT uid, sum(score) AS total FROM posts WHERE true AND score > 3 GROUP BY uid",
    "SELECT uid, sum(score) AS total FROM (SELECT uid, score FROM posts WHERE score > 3 AND true) GROUP BY uid",
    "SELECT uid, count(*) AS n FROM posts JOIN users ON uid = id WHERE (true) AND (true AND region = 'a') GROUP BY uid",
]
TABLES = {
    "main.posts": pa.table({"uid": pa.array([1, 1, 2, None], pa.int32()), "score": pa.array([3, 5, 4, 9], pa.int32())}),
    "static_1": pa.table({"id": pa.array([1, 2], pa.int32()), "region": ["a", "b"]}),
}


@pytest.fixture
def registered():
    cutting.BRANCH_RULES.append(drop_truths)
    yield
    cutting.BRANCH_RULES.remove(drop_truths)


def added(query):
    """What a range of rows adds to the state, by the Arrow kernel; and the SQL of the part."""
    (part,) = plan_split(query, RELATIONS).streams
    return sorted(run_plan(part.query, TABLES).to_pylist(), key=str), part.sql()


@pytest.mark.parametrize("query", QUERIES)
def test_the_rows_are_the_same_with_and_without_the_rule(query):
    before, written = added(query)
    cutting.BRANCH_RULES.append(drop_truths)
    try:
        after, changed = added(query)
    finally:
        cutting.BRANCH_RULES.remove(drop_truths)
    assert before == after != []
    assert "TRUE" in written.upper()
    assert "TRUE" not in changed.upper()


@pytest.mark.usefixtures("registered")
def test_what_it_does_not_concern_stays():
    kept = "SELECT uid, count(*) AS n FROM posts WHERE true OR score > 3 GROUP BY uid"
    assert "OR" in added(kept)[1]


def test_without_its_entry_the_text_stays_as_it_is_written():
    assert "TRUE" in added(QUERIES[0])[1].upper()


def test_a_rule_for_queries_is_a_class_and_an_entry(monkeypatch):
    text = "SELECT uid FROM posts WHERE true AND score > 3"
    assert spark_text(text) is None
    monkeypatch.setattr(registry, "RULES", (*registry.RULES, DropTruths()))
    assert spark_text(text) == "SELECT posts.uid FROM posts WHERE posts.score > 3"
    assert [firing.name for firing in plan_text(text)[1].firings][-1] == "drop_truths"
    assert plan_text(text, off=["drop_truths"])[1].planned.is_rewritten is False
    assert spark_text("SELECT uid FROM posts WHERE score > 3") is None
