"""Streams pass joins: which texts are rearranged and hinted, which are left alone, and where the parts come from."""

import pytest

from platform_plugin.language.query.blocks import Input
from platform_plugin.language.query.probing import plan_probing
from platform_plugin.language.query.query import analyse_query

BROADCAST_BYTES = 64 << 20
COLUMNS = {
    "posts": ("uid", "username", "score", "content", "topic"),
    "clicks": ("cid", "post"),
    "users": ("id", "region", "rate"),
    "regions": ("name", "country"),
    "countries": ("code", "continent"),
    "large": ("key", "value"),
}
STREAMS = {"posts": 100, "clicks": 50}


def planned(text):
    query = analyse_query(text)
    names = {reference: f"_relation_{place}" for place, reference in enumerate(query.relations)}
    inputs = {
        name: Input(
            columns=frozenset(COLUMNS[reference.name.relation]),
            size_bytes=STREAMS.get(reference.name.relation, BROADCAST_BYTES + 1 if reference.name.relation == "large" else 1000),
            is_stream=reference.name.relation in STREAMS,
        )
        for reference, name in names.items()
    }
    made = plan_probing(query.render(names), inputs, broadcast_bytes=BROADCAST_BYTES)
    text = made.text
    for reference, name in names.items():
        kept = f"`{name}` AS `{reference.name.relation}`" if reference.alias is None else f"`{name}`"
        text = text.replace(kept, reference.name.relation)
    return made, text.replace("`", "")


def test_two_relations_need_only_a_hint():
    assert planned("SELECT * FROM users JOIN posts ON id = uid")[1] == "SELECT /*+ BROADCAST(users) */ * FROM users JOIN posts ON id = uid"
    assert planned("SELECT * FROM posts, users u WHERE id = uid")[1] == "SELECT /*+ BROADCAST(u) */ * FROM posts, users u WHERE id = uid"


def test_a_large_table_is_hashed_in_parts():
    assert (
        planned("SELECT score FROM large JOIN posts ON key = uid")[1]
        == "SELECT /*+ SHUFFLE_HASH(large) */ score FROM large JOIN posts ON key = uid"
    )


def test_the_stream_comes_first_and_others_follow_their_equations():
    text = "SELECT score FROM countries, regions, users, posts WHERE code = country AND name = region AND id = uid AND score > 5"
    assert planned(text)[1] == (
        "SELECT /*+ BROADCAST(countries), BROADCAST(regions), BROADCAST(users) */ score FROM posts, users, regions, countries "
        "WHERE code = country AND name = region AND id = uid AND score > 5"
    )


def test_joins_with_conditions_move_them():
    text = "SELECT score FROM regions r JOIN users u ON r.name = u.region JOIN posts p ON p.uid = u.id WHERE p.score > 5 OR rate > 2"
    assert planned(text)[1] == (
        "SELECT /*+ BROADCAST(r), BROADCAST(u) */ score FROM posts p, users u, regions r "
        "WHERE (r.name = u.region) AND (p.uid = u.id) AND (p.score > 5 OR rate > 2)"
    )
    without = "SELECT score FROM regions r JOIN users u ON r.name = u.region JOIN posts p ON p.uid = u.id GROUP BY score"
    assert planned(without)[1].endswith("FROM posts p, users u, regions r WHERE (r.name = u.region) AND (p.uid = u.id) GROUP BY score")


def test_subqueries_and_parts_of_with():
    text = "SELECT * FROM (SELECT uid, rate FROM users JOIN posts ON id = uid) t JOIN regions ON true"
    assert planned(text)[1].startswith("SELECT * FROM (SELECT /*+ BROADCAST(users) */ uid, rate FROM users")
    derived = "SELECT score FROM posts, (SELECT id, max(rate) AS rate FROM users GROUP BY id) u WHERE u.id = uid"
    assert planned(derived)[1].startswith("SELECT /*+ BROADCAST(u) */ score FROM posts, (SELECT id")
    unknown = "WITH u AS (SELECT * FROM users) SELECT score FROM posts JOIN u ON id = uid"
    assert planned(unknown)[1] == unknown


def test_a_sub_select_over_a_streams_rows_is_hinted_too():
    text = "SELECT score FROM posts WHERE uid IN (SELECT id FROM users WHERE region = 'EU')"
    assert planned(text)[1] == "SELECT score FROM posts WHERE uid IN (SELECT /*+ BROADCAST(users) */ id FROM users WHERE region = 'EU')"


def test_a_stream_that_is_only_asked_is_made_distinct():
    text = "SELECT * FROM users WHERE id IN (SELECT uid FROM posts WHERE score > 5)"
    assert planned(text)[1] == "SELECT * FROM users WHERE id IN (SELECT DISTINCT uid FROM posts WHERE score > 5)"
    text = "SELECT * FROM users u WHERE NOT EXISTS (SELECT * FROM posts WHERE uid = u.id AND score BETWEEN 1 AND 5 AND topic = 'x')"
    assert planned(text)[1] == text.replace("SELECT * FROM posts", "SELECT DISTINCT posts.uid FROM posts")
    both = "SELECT * FROM users WHERE EXISTS (SELECT 1 FROM posts p WHERE p.uid = id AND region = p.topic)"
    assert "(SELECT DISTINCT p.uid, p.topic FROM posts p" in planned(both)[1]


@pytest.mark.parametrize(
    "condition",
    [
        "uid = id OR score > 1",
        "uid > id",
        "uid = id AND score > rate",
        "(uid = id)",
        "score > 1",
        "uid = id + 1",
        "uid = id AND (score > 1 OR rate > 1)",
    ],
)
def test_other_questions_are_left_alone(condition):
    text = f"SELECT * FROM users WHERE EXISTS (SELECT * FROM posts WHERE {condition})"
    assert planned(text)[1] == text


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM users JOIN regions ON name = region",
        "SELECT * FROM posts",
        "SELECT * FROM users LEFT JOIN posts ON id = uid",
        "SELECT * FROM posts FULL JOIN users ON id = uid",
        "SELECT /*+ MERGE(users) */ * FROM users JOIN posts ON id = uid",
        "SELECT * FROM regions, users, posts WHERE name = region AND id = uid",
        "SELECT score, * FROM regions, users, posts WHERE name = region AND id = uid",
        "SELECT score FROM posts p JOIN users USING (id)",
        "SELECT score FROM posts NATURAL JOIN users",
        "SELECT score FROM posts, LATERAL explode(array(1)) e, users",
        "SELECT score FROM regions JOIN users ON name = region LEFT JOIN posts ON id = uid",
        "SELECT * FROM (users JOIN posts ON id = uid)",
    ],
)
def test_what_can_not_or_need_not_change_is_left_alone(text):
    assert planned(text)[1] == text


def test_outer_joins_that_keep_the_stream_are_hinted():
    for text in (
        "SELECT * FROM posts LEFT JOIN users ON id = uid LEFT JOIN regions ON name = region",
        "SELECT * FROM users RIGHT JOIN posts ON id = uid",
        "SELECT * FROM posts LEFT SEMI JOIN users ON id = uid",
    ):
        assert "/*+ BROADCAST(users)" in planned(text)[1], text


def test_of_two_streams_the_larger_passes():
    assert planned("SELECT score FROM clicks JOIN posts ON post = uid")[1] == "SELECT score FROM clicks JOIN posts ON post = uid"
    three = planned("SELECT score FROM users, clicks, posts WHERE id = cid AND post = uid")[1]
    assert "BROADCAST(users)" in three
    assert "BROADCAST(clicks)" not in three
    assert "FROM posts, clicks, users WHERE" in three


def test_positional_parameters_keep_their_places():
    text = "SELECT score FROM regions JOIN users ON name = region AND rate > ? JOIN posts ON id = uid WHERE score > ?"
    assert planned(text)[1] == text


def test_places_point_into_the_users_text():
    text = "SELECT score\nFROM regions r JOIN users u ON r.name = u.region\nJOIN posts p ON p.uid = u.id WHERE p.score > 5 AND wrong = 1"
    made, _ = planned(text)
    for word in ("score", "r.name", "p.uid", "u.id", "wrong", "p.score"):
        place, at = made.at(made.text.index(word)), text.index(word)
        assert (place.line, place.column) == (text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)), word
