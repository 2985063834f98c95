"""Sessions in a split: what is stored of them, and on Spark that ranges merged in any order give the sessions of all rows."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings

from platform_plugin.operators.group.sharing import ViewParts, plan_sharing
from tests.relations.views.composed import bag, composed, split, whole
from tests.relations.views.sessions import GAP, posts, sessions_of
from tests.relations.views.test_split_property import cuts

if TYPE_CHECKING:
    from platform_plugin.engine.spark.session.session import Session
    from tests.relations.views.composed import Cut, Rows

EVERY_KIND = """SELECT uid, session_window.start AS s, session_window.end AS e, count(*) AS n, sum(score) AS t, avg(score) AS a,
    count(DISTINCT score) AS d, count(DISTINCT content) FILTER (WHERE score > 1) AS f, median(score) FILTER (WHERE score > 0) AS m,
    stddev(score) AS v, sort_array(collect_list(score)) AS l, min_by(score, struct(at, score, content)) AS first, first(score) AS arrived
    FROM posts GROUP BY session_window(at, '5 seconds'), uid"""
BOUNDED = """SELECT uid, session_window AS w, count(*) AS n FROM posts GROUP BY uid, session_window(at, INTERVAL 5 SECONDS)
    HAVING session_window.start >= TIMESTAMP_NTZ '2026-01-01 00:00:03'"""
DYNAMIC = """SELECT uid, session_window.start AS s, session_window.end AS e, count(*) AS n FROM posts
    GROUP BY uid, session_window(at, CASE content WHEN 'a' THEN '2 seconds' WHEN 'b' THEN '9 seconds' ELSE '-1 seconds' END)"""
LATER = """SELECT uid, session_window.start AS s, count(*) AS n, count(DISTINCT score) AS d FROM posts
    WHERE second(at) < 100 * month(current_date()) AND content IS NOT NULL GROUP BY uid, session_window(at, '5 seconds')"""


def by_user(found: Rows, gap: Any = lambda _: GAP) -> list[Any]:
    return sessions_of(found["posts"], lambda row: row[0], gap)


def dynamic_gap(row: tuple[Any, ...]) -> timedelta:
    return timedelta(seconds={"a": 2, "b": 9}.get(row[5], -1))


@pytest.mark.spark
@settings(max_examples=2)
@given(found=posts(), cut=cuts)
def test_ranges_of_sessions_give_what_spark_gives_over_all_rows(spark_session: Session, found: Rows, cut: Cut) -> None:
    expected = bag(spark_session.spark.sql(whole(EVERY_KIND, found)).collect())
    assert bag(spark_session.spark.sql(composed(split(EVERY_KIND), found, cut)).collect()) == expected
    told = [(uid, start, end, len(rows), len({row[1] for row in rows if row[1] is not None})) for uid, start, end, rows in by_user(found)]
    assert bag([(*row[:4], row[6]) for row in expected]) == bag(told)


@pytest.mark.spark
@settings(max_examples=2)
@given(found=posts(), cut=cuts)
def test_a_condition_on_sessions_does_not_take_rows_from_them(spark_session: Session, found: Rows, cut: Cut) -> None:
    """Spark itself moves such a condition below the grouping, where it leaves out rows and with them parts of sessions."""
    made = spark_session.spark.sql(composed(split(BOUNDED), found, cut)).collect()
    told = [(uid, (start, end), len(rows)) for uid, start, end, rows in by_user(found) if f"{start}" >= "2026-01-01 00:00:03"]
    assert bag([(uid, tuple(w), n) for uid, w, n in made]) == bag(told)


@pytest.mark.spark
@settings(max_examples=2)
@given(found=posts(), cut=cuts)
def test_gaps_may_differ_from_row_to_row(spark_session: Session, found: Rows, cut: Cut) -> None:
    made = bag(spark_session.spark.sql(composed(split(DYNAMIC), found, cut)).collect())
    assert made == bag(spark_session.spark.sql(whole(DYNAMIC, found)).collect())
    assert made == bag([(uid, start, end, len(rows)) for uid, start, end, rows in by_user(found, dynamic_gap)])


@pytest.mark.spark
@settings(max_examples=2)
@given(found=posts(), cut=cuts)
def test_sessions_under_a_condition_on_the_time_of_the_query(spark_session: Session, found: Rows, cut: Cut) -> None:
    made = bag(spark_session.spark.sql(composed(split(LATER), found, cut)).collect())
    chosen = {"posts": [row for row in found["posts"] if row[5] is not None]}
    told = [(uid, start, len(rows), len({row[1] for row in rows if row[1] is not None})) for uid, start, _, rows in by_user(chosen)]
    assert made == bag(told)


def test_every_state_of_a_session_sees_all_of_its_rows() -> None:
    plan = split(EVERY_KIND)
    assert len(plan.states) == 4
    assert not any("WHERE" in part.sql().partition(" FROM ")[2] for part in plan.streams)


def test_parts_with_other_rows_share_no_query() -> None:
    texts = [
        f"SELECT uid, count(*) AS n FROM posts {where} GROUP BY uid, session_window(at, '5 seconds')"
        for where in ("", "WHERE score > 1", "WHERE score > 1", "WHERE score > 2")
    ]
    views = [ViewParts(view=f"v{number}", plan=split(text)) for number, text in enumerate(texts)]
    queries = plan_sharing(views, "main.posts").queries
    assert sorted(len(query.parts) for query in queries) == [1, 1, 2]
    assert not any("FILTER" in query.sql() for query in queries)
