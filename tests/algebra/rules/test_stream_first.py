"""The stream comes first where it would not pass every join otherwise; other orders are left alone."""

import pytest

from tests.algebra.rules.plans import plan_sizes, spark_text


def fired(text):
    return [firing.name for firing in plan_sizes(text)[1].firings]


def test_the_stream_comes_first_and_others_follow_their_equations():
    text = "SELECT score FROM countries, regions, users, posts WHERE code = country AND name = region AND id = uid AND score > 5"
    assert "FROM posts CROSS JOIN users CROSS JOIN regions CROSS JOIN countries WHERE countries.code = regions.country" in spark_text(text)


def test_conditions_of_joins_move_to_the_first_join_that_has_their_columns():
    text = "SELECT score FROM regions r JOIN users u ON r.name = u.region JOIN posts p ON p.uid = u.id WHERE p.score > 5 OR rate > 2"
    assert spark_text(text) == (
        "SELECT /*+ BROADCAST(u), BROADCAST(r) */ p.score FROM posts AS p INNER JOIN users AS u ON p.uid = u.id "
        "INNER JOIN regions AS r ON r.name = u.region WHERE p.score > 5 OR u.rate > 2"
    )


def test_a_star_keeps_the_order_of_the_text():
    text = "SELECT * FROM regions, users, posts WHERE name = region AND id = uid"
    assert "stream_first" in fired(text)
    assert " regions.name, regions.country, users.id, users.region, users.rate, posts.uid," in spark_text(text)


def test_of_two_streams_the_larger_passes():
    three = "SELECT score FROM users, clicks, posts WHERE id = cid AND post = uid"
    assert "FROM posts CROSS JOIN clicks CROSS JOIN users WHERE" in spark_text(three)
    assert spark_text("SELECT score FROM clicks JOIN posts ON post = uid") is None


def test_positional_parameters_are_told_apart():
    text = "SELECT score FROM regions JOIN users ON name = region AND rate > ? JOIN posts ON id = uid WHERE score > ?"
    assert "users.rate > :_position_0" in spark_text(text)
    assert "posts.score > :_position_1" in spark_text(text)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM users JOIN regions ON name = region",
        "SELECT * FROM posts",
        "SELECT * FROM users LEFT JOIN posts ON id = uid",
        "SELECT * FROM posts FULL JOIN users ON id = uid",
        "SELECT /*+ MERGE(users) */ * FROM regions, users, posts WHERE name = region AND id = uid",
        "SELECT score FROM regions JOIN users ON name = region LEFT JOIN posts ON id = uid",
        "SELECT score FROM regions JOIN users ON name = region AND id IN (SELECT cid FROM clicks) JOIN posts ON id = uid",
        "SELECT score FROM regions JOIN (users JOIN posts ON id = uid) ON name = region",
    ],
)
def test_other_orders_are_left_alone(text):
    assert "stream_first" not in fired(text)


def test_a_name_that_stands_twice_keeps_the_text():
    text = "SELECT users.id, clicks.cid AS id FROM regions, users, clicks WHERE name = region AND id = cid"
    assert spark_text(text) is None
