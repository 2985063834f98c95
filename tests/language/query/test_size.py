import pytest

from platform_plugin.language.query.size import is_bounded_query, split_limit
from platform_plugin.language.text.places import Span


def span(text):
    return Span(text, 0, len(text))


@pytest.mark.parametrize(
    ("query", "body", "limit"),
    [
        ("SELECT a FROM t LIMIT 10", "SELECT a FROM t", 10),
        ("select a from t limit 0  -- none", "select a from t", 0),
        ("SELECT a, rank() OVER (ORDER BY a) FROM t LIMIT 5", "SELECT a, rank() OVER (ORDER BY a) FROM t", 5),
        ("SELECT a FROM t UNION ALL SELECT b FROM u LIMIT 5", "SELECT a FROM t UNION ALL SELECT b FROM u", 5),
    ],
)
def test_a_limit_at_the_end_is_taken_off(query, body, limit):
    found, number = split_limit(span(query))
    assert (found.text, number) == (body, limit)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT a FROM t",
        "SELECT a FROM t ORDER BY a LIMIT 10",
        "SELECT a FROM t SORT BY a LIMIT 10",
        "SELECT a FROM t LIMIT 10 OFFSET 3",
        "SELECT a FROM t LIMIT 5 + 5",
        "SELECT a FROM t LIMIT :n",
        "SELECT a FROM t LIMIT ALL",
        "SELECT a FROM t LIMIT 3000000000",
        "FROM t |> WHERE a > 1 |> LIMIT 10",
        "SELECT a FROM (SELECT a FROM t LIMIT 10)",
        "SELECT 'x LIMIT 10'",
        "SELECT 1 -- LIMIT 10",
        "SELECT `LIMIT` 10",
        "LIMIT 10",
    ],
)
def test_any_other_limit_stays_where_it_is(query):
    assert split_limit(span(query)) == (span(query), None)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT 1",
        "SELECT count(*), max(a) FROM t WHERE b IN (1, 2) AND (c OR NOT (d))",
        "SELECT a, sum(b) FROM (SELECT * FROM t) GROUP BY a HAVING sum(b) > 3",
        "SELECT CAST(a AS DECIMAL(9, 2)) FROM VALUES (1), (2) AS t(a)".replace("AS t(a)", ""),
    ],
)
def test_a_query_that_passes_on_what_it_reads_is_plain(query):
    assert is_bounded_query(span(query))


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM range(1000000000)",
        "SELECT explode(sequence(1, 1000000))",
        "SELECT repeat(a, 1000000) FROM t",
        "SELECT a FROM t CROSS JOIN t",
        "WITH x AS (SELECT * FROM t) SELECT * FROM x, x",
        "SELECT a FROM t LATERAL VIEW explode(b) AS c",
        "SELECT my_function(a) FROM t",
        "SELECT `repeat`(a, 1000000) FROM t",
        "SELECT a FROM t GROUP BY CUBE (a, b, c)",
        "SELECT " + ", ".join(["a"] * 5000) + " FROM t",
    ],
)
def test_a_query_that_may_make_more_of_it_is_not_plain(query):
    assert is_bounded_query(span(query)) is False
