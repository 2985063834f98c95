"""Without a plan, the columns that a query mentions are at least those that it uses."""

import pytest

from platform_plugin.language.query.needs import mentioned_columns
from platform_plugin.language.query.query import analyse_query


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("SELECT uid, sum(score) AS total FROM posts WHERE day > 3 ORDER BY total", {"uid", "score", "day", "total", "posts"}),
        ("SELECT count(*) FROM posts", {"posts"}),
        ("SELECT * FROM posts", None),
        ("SELECT p.* FROM posts p", None),
        ("SELECT struct(*) FROM posts", None),
        ("SELECT x FROM posts NATURAL JOIN u", None),
        ("SELECT x FROM posts JOIN u USING (k)", {"x", "k", "posts", "u"}),
        ("SELECT x FROM posts AS p (x)", None),
        ("SELECT X, `Y Z` FROM posts", {"x", "y z", "posts"}),
        ("SELECT a.b.c FROM posts", {"a", "b", "c", "posts"}),
        ("SELECT transform(xs, e -> e + y) FROM posts", {"xs", "e", "y", "posts"}),
        ("TABLE posts", None),
        ("SELECT 1 FROM posts PIVOT (sum(x) FOR y IN (1))", None),
    ],
)
def test_mentioned_columns(text, columns):
    found = mentioned_columns(analyse_query(text).tree)
    assert found is None if columns is None else found >= columns
