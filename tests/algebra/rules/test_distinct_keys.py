"""A stream that is only asked whether it has a row is reduced to its keys."""

import pytest

from tests.algebra.rules.plans import spark_text


def test_in():
    text = "SELECT id FROM users WHERE id IN (SELECT uid FROM posts WHERE score > 5)"
    assert spark_text(text) == ("SELECT users.id FROM users WHERE users.id IN (SELECT DISTINCT posts.uid FROM posts WHERE posts.score > 5)")


def test_exists():
    text = "SELECT id FROM users u WHERE NOT EXISTS (SELECT * FROM posts WHERE uid = u.id AND score BETWEEN 1 AND 5 AND topic = 'x')"
    assert "EXISTS(SELECT DISTINCT posts.uid FROM posts WHERE posts.uid = u.id AND" in spark_text(text)
    both = "SELECT id FROM users WHERE EXISTS (SELECT 1 FROM posts p WHERE p.uid = id AND region = p.topic)"
    assert "(SELECT DISTINCT p.topic, p.uid FROM posts AS p" in spark_text(both) or "(SELECT DISTINCT p.uid, p.topic" in spark_text(both)


@pytest.mark.parametrize(
    "condition",
    [
        "uid = id OR score > 1",
        "uid > id",
        "uid = id AND score > rate",
        "score > 1",
        "uid = id + 1",
        "uid = id AND (score > 1 OR rate > 1)",
    ],
)
def test_other_questions_are_left_alone(condition):
    assert spark_text(f"SELECT id FROM users WHERE EXISTS (SELECT * FROM posts WHERE {condition})") is None


def test_a_table_is_asked_as_it_is():
    assert spark_text("SELECT name FROM regions WHERE name IN (SELECT region FROM users)") is None
