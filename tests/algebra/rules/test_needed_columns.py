"""Only the columns that a query uses are read."""

import pytest

from tests.algebra.rules.plans import COLUMNS, plan_text


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("SELECT uid, sum(score) AS total FROM posts WHERE topic > 3 GROUP BY uid ORDER BY total", {"uid", "score", "topic"}),
        ("SELECT count(*) FROM posts", set()),
        ("SELECT * FROM posts", set(COLUMNS["posts"])),
        ("SELECT p.* FROM posts p JOIN users ON id = uid", set(COLUMNS["posts"])),
        ("SELECT region, score FROM posts JOIN users ON id = uid", {"uid", "score"}),
        (
            "SELECT region FROM posts JOIN users u ON u.id = posts.uid WHERE EXISTS (SELECT 1 FROM regions WHERE name = topic)",
            {"uid", "topic"},
        ),
        ("SELECT a FROM posts AS p (a, b, c, d, e) WHERE c > 1", set(COLUMNS["posts"])),
        ("SELECT UID FROM posts", {"uid"}),
        ("WITH a AS (SELECT uid, score FROM posts) SELECT x.uid FROM a x JOIN a y ON x.uid = y.uid", {"uid", "score"}),
        ("SELECT transform(array(uid), e -> e + score) FROM posts", {"uid", "score"}),
    ],
)
def test_needed_columns(text, columns):
    query, plan = plan_text(text)
    posts = next(reference for reference in query.relations if reference.name.relation == "posts")
    assert plan.columns_of(query, posts) == columns


@pytest.mark.parametrize("item", ["struct(*)", "to_json(struct(*))", "hash(*)", "count(DISTINCT *)", "struct(p.*)", "COUNT(*), array(*)"])
def test_a_star_inside_of_an_expression_stands_for_all_columns(item):
    query, plan = plan_text(f"SELECT {item} FROM posts p")
    assert plan.columns_of(query, query.relations[0]) in (None, frozenset(COLUMNS["posts"]))
