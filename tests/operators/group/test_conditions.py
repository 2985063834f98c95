"""Conditions on the time below a grouping: at every moment the parts give what the query gives at that moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from platform_plugin.errors import RefusedView
from tests.relations.views.composed import ROWS, Cut, composed, split
from tests.relations.views.queries import rows
from tests.relations.views.test_split_property import ask, cuts, engine, fill, range_of  # noqa: F401  a fixture

if TYPE_CHECKING:
    import duckdb

    from tests.relations.views.composed import Rows

QUERIES = [
    "SELECT content, count(*) AS n, avg(score) AS a FROM posts WHERE at > now() AND score > 1 GROUP BY content",
    "SELECT count(*) AS n, sum(score) AS s, count(DISTINCT uid) AS d FROM posts WHERE at <= now()",
    "SELECT uid, count(DISTINCT content) AS d FROM posts WHERE CAST(at AS DATE) = CAST(now() AS DATE) GROUP BY uid",
    "SELECT CAST(at AS DATE) AS day, max(score) AS m FROM posts WHERE CAST(at AS DATE) >= CAST(now() AS DATE) GROUP BY CAST(at AS DATE)",
    """SELECT uid, count(*) AS n FROM posts
        WHERE (content = 'a' OR at > now()) AND CASE WHEN score > 3 THEN at > now() ELSE uid > 1 END GROUP BY uid""",
    """SELECT u.region, sum(p.amount) AS s FROM (SELECT uid, amount, content AS at FROM posts WHERE at > now()) p
        JOIN users u ON u.id = p.uid GROUP BY u.region""",
    "SELECT region, count(*) AS n FROM posts LEFT JOIN users ON uid = id WHERE at > now() OR region IS NULL GROUP BY region",
    "SELECT region, count(*) AS n FROM users JOIN posts ON uid = id AND at < now() GROUP BY region",
    "SELECT uid, content, count(*) AS n, stddev(score) AS d FROM posts WHERE at > now() GROUP BY ROLLUP (uid, content)",
    "SELECT DISTINCT uid FROM posts WHERE at > now()",
    "SELECT uid, count(*) AS n FROM posts WHERE at > now() GROUP BY uid HAVING count(*) > 1 QUALIFY rank() OVER (ORDER BY n) = 1",
    "SELECT id, (SELECT count(*) FROM posts WHERE uid = u.id AND at > now() AND score > u.rate) AS n FROM users u",
    "SELECT tag, count(*) AS n FROM posts LATERAL VIEW explode(tags) t AS tag WHERE at < now() AND tag <> 'z' GROUP BY tag",
]
MOMENTS = ["2025-12-31 00:00:00", "2026-01-01 10:30:00", "2026-01-02 00:00:00", "2026-01-02 01:30:00", "2026-01-04 00:00:00"]


def check(engine: duckdb.DuckDBPyConnection, query: str, found: Rows, cut: Cut) -> None:  # noqa: F811
    fill(engine, found)
    parts = composed(split(query), found, cut, range_of)
    for moment in MOMENTS:
        expected, given = (ask(engine, text.replace("now()", f"CAST('{moment}' AS TIMESTAMP)")) for text in (query, parts))
        assert given == expected, moment


@pytest.mark.parametrize("query", QUERIES)
def test_the_clock_is_asked_when_the_view_is_read(engine: duckdb.DuckDBPyConnection, query: str) -> None:  # noqa: F811
    check(engine, query, ROWS, Cut({"posts": (3, 7), "likes": (2,)}, merged_before=1))


@settings(max_examples=12)
@given(query=st.sampled_from(QUERIES), found=rows(), cut=cuts)
def test_so_it_is_whatever_the_rows_are(engine: duckdb.DuckDBPyConnection, query: str, found: Rows, cut: Cut) -> None:  # noqa: F811
    check(engine, query, found, cut)


@pytest.mark.slow
@settings(max_examples=400)
@given(query=st.sampled_from(QUERIES), found=rows(), cut=cuts)
def test_so_it_is_for_many_more(engine: duckdb.DuckDBPyConnection, query: str, found: Rows, cut: Cut) -> None:  # noqa: F811
    check(engine, query, found, cut)


def test_groups_are_as_few_as_the_condition_allows() -> None:
    plan = split("SELECT date(at) AS day, uid, count(*) AS n FROM posts WHERE date(at) > current_date() - 7 GROUP BY date(at), uid")
    assert [key.name for key in plan.states[0].keys] == ["day", "uid"]
    plan = split("SELECT uid, count(*) AS n FROM posts WHERE year(at) = year(current_date()) GROUP BY uid")
    assert [key.name for key in plan.states[0].keys] == ["uid", "at"]
    assert plan.volatile
    assert plan.notes == ("conditions on the time of the query are checked at each read; groups are kept by year(at) for that",)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT count(*) AS n FROM posts WHERE rand() < 0.5 AND at > now()",
        "SELECT count(*) AS n FROM posts LEFT JOIN users ON uid = id AND at > now()",
        "SELECT count(*) AS n FROM posts WHERE at > now() OR uid IN (SELECT id FROM users)",
        "SELECT sum(score * unix_timestamp()) AS n FROM posts",
    ],
)
def test_what_only_each_row_can_answer_is_refused(query: str) -> None:
    with pytest.raises(RefusedView) as caught:
        split(query)
    assert caught.value.rule == "H1"
