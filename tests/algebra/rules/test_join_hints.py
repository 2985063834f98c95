"""Whatever a stream is joined with is looked up, if its size is known."""

import pytest

from tests.algebra.rules.plans import spark_text


def test_two_relations_need_only_a_hint():
    assert spark_text("SELECT score FROM users JOIN posts ON id = uid") == (
        "SELECT /*+ BROADCAST(users) */ posts.score FROM users INNER JOIN posts ON users.id = posts.uid"
    )
    assert spark_text("SELECT score FROM posts, users u WHERE id = uid").startswith("SELECT /*+ BROADCAST(u) */")


def test_a_large_table_is_hashed_in_parts():
    assert spark_text("SELECT score FROM large JOIN posts ON key = uid").startswith("SELECT /*+ SHUFFLE_HASH(large) */")


def test_parts_of_the_query_are_hinted_by_what_they_read():
    nested = "SELECT rate FROM (SELECT uid, rate FROM users JOIN posts ON id = uid) t JOIN regions ON true"
    assert "(SELECT /*+ BROADCAST(users) */ posts.uid, users.rate FROM users" in spark_text(nested)
    assert not spark_text(nested).startswith("SELECT /*+")
    derived = "SELECT score FROM posts, (SELECT id, max(rate) AS rate FROM users GROUP BY id) u WHERE u.id = uid"
    assert spark_text(derived).startswith("SELECT /*+ BROADCAST(u) */")
    named = "WITH u AS (SELECT * FROM users) SELECT score FROM posts JOIN u ON id = uid"
    assert spark_text(named).startswith("SELECT /*+ BROADCAST(u) */")
    of_stream = "WITH u AS (SELECT cid AS id FROM clicks) SELECT score FROM posts JOIN u ON id = uid"
    assert spark_text(of_stream) is None


def test_a_sub_select_over_a_streams_rows_is_hinted_too():
    text = "SELECT score FROM posts WHERE uid IN (SELECT id FROM users WHERE region = 'EU')"
    assert "IN (SELECT /*+ BROADCAST(users) */ users.id FROM users" in spark_text(text)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT score FROM posts LEFT JOIN users ON id = uid LEFT JOIN regions ON name = region",
        "SELECT score FROM users RIGHT JOIN posts ON id = uid",
        "SELECT score FROM posts LEFT SEMI JOIN users ON id = uid",
    ],
)
def test_outer_joins_that_keep_the_stream_are_hinted(text):
    assert "/*+ BROADCAST(users)" in spark_text(text)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT score FROM users LEFT JOIN posts ON id = uid",
        "SELECT score FROM posts FULL JOIN users ON id = uid",
        "SELECT /*+ MERGE(users) */ score FROM users JOIN posts ON id = uid",
        "SELECT rate FROM users JOIN regions ON name = region",
        "SELECT score FROM (users JOIN posts ON id = uid) RIGHT JOIN regions ON name = region",
    ],
)
def test_other_joins_are_spark_s(text):
    assert spark_text(text) is None
