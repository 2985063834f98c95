"""Views that share a pass get the additions that each part would have made by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from platform_plugin.operators.group.sharing import SharedPass, ViewParts, plan_sharing
from tests.relations.views.admitted import ADMITTED
from tests.relations.views.composed import COLUMNS, ROWS, Rows, split, written, written_rows

if TYPE_CHECKING:
    from platform_plugin.engine.spark.session.session import Session

VIEWS = {
    "per_user": "SELECT uid, count(*) AS n, sum(score) AS s FROM posts GROUP BY uid",
    "per_content": "SELECT content, avg(score) AS n, first(score) AS f, count(DISTINCT uid) AS d FROM posts GROUP BY content",
    "good": "SELECT uid, avg(score) AS a, max(amount) FILTER (WHERE content = 'a') AS m FROM posts WHERE score > 3 GROUP BY uid",
    "bad": "SELECT content, uid, sum(amount) AS s FROM posts WHERE score < 4 AND uid IS NOT NULL GROUP BY content, uid",
    "all": "SELECT count(*) AS n, min(ratio) AS m FROM posts",
    "all good": "SELECT count(*) AS n, sum(score) AS m FROM posts WHERE score > 3",
    "computed": "SELECT hour(at) AS h, count(*) AS n, stddev(score) AS d FROM posts GROUP BY hour(at)",
    "region": "SELECT u.region, count(*) AS n FROM posts JOIN users u ON uid = u.id GROUP BY u.region",
    "region again": "SELECT v.region, v.id, sum(amount) AS n FROM posts p JOIN users v ON p.uid = v.id GROUP BY v.region, v.id",
    "risky": "SELECT 10 / score AS k, count(*) AS n FROM posts WHERE score <> 0 GROUP BY 10 / score",
}


def views(*names: str) -> list[ViewParts]:
    return [
        ViewParts(view=name, plan=split(VIEWS[name]), statics={"static_1": f"{name.replace(' ', '_')}_users"}) for name in names or VIEWS
    ]


def shared(*names: str, **figures: object) -> SharedPass:
    return plan_sharing(views(*names), "main.posts", **figures)  # type: ignore[arg-type]


def test_the_number_of_queries_does_not_grow_with_views_of_the_same_source() -> None:
    names = ["per_user", "per_content", "good", "bad", "all", "all good"]
    assert [len(shared(*names[:count]).queries) for count in range(1, len(names) + 1)] == [1, 1, 1, 1, 1, 1]
    assert len(plan_sharing(views(*names) * 10, "main.posts").queries) == 1


def test_a_query_reads_the_stream_once_whatever_it_gives() -> None:
    for query in shared().queries:
        assert query.sql().count("main.posts") == 1


def test_equal_parts_are_computed_once() -> None:
    (query,) = plan_sharing(views("per_user") * 3, "main.posts").queries
    assert query.sql() == "SELECT r0.uid AS k1, count(*) AS p1, sum(r0.score) AS p2 FROM main.posts AS r0 GROUP BY r0.uid"
    assert {part.columns for part in query.parts} == {(("uid", "k1"), ("n", "p1"), ("sum_score", "p2"))}


def test_filters_become_those_of_aggregates_and_groups_without_hits_are_left_out() -> None:
    (query,) = shared("per_user", "good").queries
    assert "WHERE" not in query.sql().replace("FILTER(WHERE", "")
    all_rows, good = query.parts
    assert (all_rows.hits, good.hits is not None) == (None, True)
    assert f"WHERE result.{good.hits} > 0" in good.sql("made")


def test_one_filter_for_all_stays_a_filter_of_rows() -> None:
    (query,) = shared("good", "all good").queries
    assert "WHERE r0.score > 3 GROUP BY" in query.sql()


def test_an_expression_that_could_fail_on_other_rows_is_not_mixed_with_other_filters() -> None:
    assert [len(query.parts) for query in shared("per_user", "risky", "good").queries] == [2, 1]


def test_a_constant_key_stands_in_no_grouping_set() -> None:
    # Spark would read it there as the number of a column.
    texts = [
        "SELECT median(ratio) AS a, percentile(score, 0.5, 2) AS b FROM posts",
        "SELECT 2 AS k, uid, count(*) AS n FROM posts GROUP BY 1, 2",
    ]
    plans = [ViewParts(view=f"v{number}", plan=split(text)) for number, text in enumerate(texts)]
    written = [query.sql() for query in plan_sharing(plans, "main.posts").queries]
    assert len(written) == 3
    assert not any("GROUPING SETS" in text for text in written)


@pytest.mark.parametrize("name", ["tumbling windows", "sliding windows"])
def test_windows_of_time_drop_and_repeat_no_rows_of_other_views(name: str) -> None:
    windows = ViewParts(view="windows", plan=split(ADMITTED[name]))
    assert [len(query.parts) for query in plan_sharing([*views("per_user", "all"), windows], "main.posts").queries] == [2, 1]
    again = ViewParts(view="again", plan=split(ADMITTED[name].replace("count(*)", "max(score)")))
    assert [len(query.parts) for query in plan_sharing([windows, again], "main.posts").queries] == [2]


def test_look_ups_are_shared_where_views_pinned_the_same_result() -> None:
    assert len(shared("region", "region again").queries) == 2
    pinned = [ViewParts(view=found.view, plan=found.plan, statics={"static_1": "users_at_7"}) for found in views("region", "region")]
    (query,) = plan_sharing(pinned, "main.posts").queries
    assert query.relations == ("main.posts", "users_at_7")


def test_parts_that_read_different_hidden_columns_share_their_scan() -> None:
    queries = {
        "ids": "SELECT uid, max(_row_id) AS at FROM posts GROUP BY uid",
        "times": "SELECT uid, min(_arrived_at) AS at FROM posts GROUP BY uid",
        "neither": "SELECT uid, count(*) AS n FROM posts GROUP BY uid",
    }
    parts = [ViewParts(view=name, plan=split(query)) for name, query in queries.items()]
    assert [part.plan.streams[0].hidden for part in parts] == [{"_row_id"}, {"_arrived_at"}, frozenset()]
    (query,) = plan_sharing(parts, "main.posts").queries
    assert query.hidden == {"_row_id", "_arrived_at"}


def test_row_ids_are_asked_for_if_any_part_needs_them() -> None:
    assert [query.hidden for query in shared("per_content", "per_user").queries] == [{"_row_id"}]
    assert [query.hidden for query in shared("per_user").queries] == [frozenset()]


@pytest.mark.parametrize(("rows", "distinct", "expected"), [(10_000, 4, True), (10_000, 100, False), (None, 4, False)])
def test_the_finest_groups_are_made_first_where_that_pays(rows: int | None, *, distinct: int, expected: bool) -> None:
    (query,) = shared("per_user", "bad", rows=rows, distinct={"uid": distinct, "content": distinct}).queries
    assert query.lattice is expected


def test_what_is_shared_is_told() -> None:
    assert shared("per_user", "good", "risky").explain() == (
        "a range of main.posts is read by 2 queries\n"
        "  query 1: 2 parts of good, per_user; 1 grouping, straight from the rows\n"
        "  query 2: 1 part of risky; 1 grouping, straight from the rows"
    )


@pytest.mark.spark
@pytest.mark.parametrize("lattice", [False, True])
def test_each_part_gets_the_additions_that_it_would_have_made(spark_session: Session, *, lattice: bool) -> None:
    figures = {"rows": 10**9, "distinct": {"uid": 4, "content": 4}} if lattice else {}
    rows: Rows = {**ROWS, "posts": ROWS["posts"][:7]}
    tables = [*written(rows), f"range_1 AS ({written_rows('posts', rows['posts'], COLUMNS['posts'])})"]
    found = views("per_user", "per_content", "good", "bad", "all", "all good", "region", "risky", "computed")
    tables += [
        f"{view.replace(' ', '_')}_users AS ({part.sql({'main.users': 'users'})})" for view in VIEWS for part in split(VIEWS[view]).statics
    ]
    plan = plan_sharing(found, "main.posts", **figures)  # type: ignore[arg-type]
    assert any(query.lattice for query in plan.queries) is lattice
    parts = {(view.view, part.name): (view, part) for view in found for part in view.plan.streams}
    for query in plan.queries:
        made = ", ".join([*tables, f"made AS ({query.sql({'main.posts': 'range_1'})})"])
        for shared_part in query.parts:
            view, part = parts.pop((shared_part.view, shared_part.part))
            alone = part.sql({"main.posts": "range_1", **view.statics})
            sides = f"mine AS ({shared_part.sql('made')}), alone AS ({alone})"
            different = "(SELECT * FROM mine EXCEPT ALL SELECT * FROM alone) UNION ALL (SELECT * FROM alone EXCEPT ALL SELECT * FROM mine)"
            assert spark_session.spark.sql(f"WITH {made}, {sides} {different}").collect() == [], shared_part
    assert not parts
