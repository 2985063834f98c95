"""What the parts of a view are, by the tests CV-… that need no engine or only a small one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from platform_plugin.algebra.plan.nodes import Join, walk
from platform_plugin.algebra.plan.relations import RelationFacts
from platform_plugin.algebra.types.data_types import Field
from platform_plugin.errors import InvalidStatement, RefusedView
from platform_plugin.language.text.datatypes import parse_type
from platform_plugin.language.text.places import Span
from platform_plugin.operators.group.split import plan_split
from platform_plugin.relations.views.explain import explain_split
from tests.relations.views.composed import RELATIONS, relation, split

if TYPE_CHECKING:
    from platform_plugin.operators.group.parts import SplitPlan

FACTORY = {
    "station": relation("station", "table", {"station": "INT", "plant": "STRING", "location": "STRING", "phone": "STRING"}),
    "part_usage": relation("part_usage", "stream", {"id": "INT", "part": "STRING", "station": "INT", "n": "INT"}),
    "part_restock": relation("part_restock", "stream", {"id": "INT", "part": "STRING", "station": "INT", "n": "INT"}),
}
RUNNING_EXAMPLE = """
    SELECT used.part, station.location, station.phone
    FROM (SELECT part, station, count(*) AS cnt FROM part_usage GROUP BY part, station) AS used
    JOIN (SELECT part, station, count(*) AS cnt FROM part_restock GROUP BY part, station) AS restocked
      ON used.part = restocked.part AND used.station = restocked.station
    JOIN station ON used.station = station.station
    WHERE restocked.cnt - used.cnt < 5
"""


def test_cv_01_the_running_example_has_two_stream_parts_and_reads_the_table_above_them() -> None:
    plan = plan_split(RUNNING_EXAMPLE, FACTORY)
    assert [(part.stream, part.state) for part in plan.streams] == [("main.part_usage", "state_1"), ("main.part_restock", "state_2")]
    assert (plan.statics, plan.upper_tables) == ((), ("main.station",))
    assert [[column.name for column in state.columns] for state in plan.states] == [["part", "station", "n"]] * 2


def test_cv_04_having_is_asked_of_merged_groups() -> None:
    plan = split("SELECT uid, count(*) AS n FROM posts GROUP BY uid HAVING count(*) > 2")
    assert "> 2" in plan.upper_sql()
    assert "> 2" not in plan.streams[0].sql()


def test_cv_06_the_users_expression_belongs_to_the_upper_part() -> None:
    plan = split("SELECT 2 * sum(score) + 1 AS x FROM posts")
    assert plan.streams[0].sql() == "SELECT sum(posts.score) AS sum_score FROM main.posts"
    assert "2 * grouped.sum_score + 1" in plan.upper_sql()


def test_cv_07_merging_what_is_merged_changes_nothing_in_its_shape() -> None:
    for query in ("SELECT uid, avg(amount) AS a, stddev(score) AS d FROM posts GROUP BY uid", "SELECT first(score) AS f FROM posts"):
        (state,) = split(query).states
        assert [item.name for item in (*state.merge.keys, *state.merge.calls)] == [column.name for column in state.columns]  # type: ignore[union-attr]


@pytest.mark.parametrize("join", ["JOIN", "LEFT JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN", "CROSS JOIN"])
def test_cv_16_the_stream_is_probed(join: str) -> None:
    on = "" if join == "CROSS JOIN" else " ON posts.uid = users.id"
    part = split(f"SELECT count(*) AS n FROM posts {join} users{on}").streams[0]
    (found,) = [node for node in walk(part.query) if isinstance(node, Join)]
    assert (found.left.kind, found.right.kind) == ("stream", "static")  # type: ignore[union-attr]


@pytest.mark.parametrize(("join", "kind"), [("JOIN", "inner"), ("RIGHT JOIN", "left")])
def test_cv_16_a_join_is_turned_round_so_that_the_stream_is_probed(join: str, kind: str) -> None:
    part = split(f"SELECT count(*) AS n FROM users {join} posts ON posts.uid = users.id").streams[0]
    (found,) = [node for node in walk(part.query) if isinstance(node, Join)]
    assert (found.left.kind, found.right.kind, found.kind) == ("stream", "static", kind)  # type: ignore[union-attr]


def test_cv_16_several_joins_are_turned_round_for_the_sake_of_one_stream() -> None:
    query = "SELECT count(*) AS n FROM users a RIGHT JOIN (users b RIGHT JOIN posts ON posts.uid = b.id) ON a.id = b.id"
    part = split(query).streams[0]
    assert part.sql().startswith("SELECT count(*) AS n FROM main.posts LEFT JOIN static_1 AS b ON posts.uid = b.id LEFT JOIN static_1 AS a")


def test_cv_18_sorting_without_a_limit_is_left_out_and_told() -> None:
    plan = split("SELECT uid, count(*) AS n FROM posts GROUP BY uid ORDER BY n")
    assert "ORDER BY" not in plan.upper_sql()
    assert plan.notes == ("ORDER BY without LIMIT is left out: sort when reading the view",)


def test_cv_19_sorting_with_a_limit_stays_above_the_grouping() -> None:
    plan = split("SELECT uid, count(*) AS n FROM posts GROUP BY uid ORDER BY n DESC LIMIT 10")
    assert plan.upper_sql().endswith("ORDER BY n DESC LIMIT 10")
    assert "LIMIT" not in plan.streams[0].sql()


def test_cv_22_tables_below_a_grouping_are_read_once_with_the_columns_that_are_needed() -> None:
    plan = split("SELECT region, count(*) AS n FROM posts JOIN users ON uid = id WHERE rate > 1 GROUP BY region")
    assert [part.sql() for part in plan.statics] == ["SELECT users.id, users.region FROM main.users WHERE users.rate > 1"]
    assert (plan.static_tables, plan.upper_tables) == (("main.users",), ())


def test_cv_33_the_week_that_is_asked_for_is_compared_at_each_read() -> None:
    plan = split(
        "SELECT uid, n FROM (SELECT uid, date(at) AS day, count(*) AS n FROM posts GROUP BY uid, date(at)) WHERE day = current_date()"
    )
    assert [column.name for column in plan.states[0].keys] == ["uid", "day"]
    assert plan.volatile
    assert not split("SELECT count(*) AS n FROM posts").volatile


def test_cv_37_of_the_streams_of_tpch_products_of_tables_are_never_made() -> None:
    tables = {
        name: RelationFacts(name=(name,), kind=kind, fields=tuple(Field(name=column, type=parse_type("INT")) for column in columns))  # type: ignore[arg-type]
        for name, kind, columns in (
            ("customer", "table", ("c_id", "c_nation")),
            ("orders", "table", ("o_id", "o_customer")),
            ("supplier", "table", ("s_id", "s_nation")),
            ("lineitem", "stream", ("l_order", "l_supplier", "l_price")),
        )
    }
    query = """SELECT s_nation, sum(l_price) AS revenue FROM customer, supplier, orders, lineitem
        WHERE c_id = o_customer AND l_order = o_id AND l_supplier = s_id AND c_nation = s_nation GROUP BY s_nation"""
    plan = plan_split(query, tables)
    assert [part.tables for part in plan.statics] == [("supplier",), ("customer",), ("orders",)]
    assert (
        plan.streams[0]
        .sql()
        .startswith(
            "SELECT supplier.s_nation, sum(lineitem.l_price) AS sum_l_price FROM lineitem INNER JOIN static_1 AS supplier "
            "ON lineitem.l_supplier = supplier.s_id INNER JOIN static_2 AS customer ON customer.c_nation = supplier.s_nation "
        )
    )


def test_a_grouping_that_is_asked_for_twice_is_stored_once() -> None:
    plan = split("WITH g AS (SELECT uid, count(*) AS n FROM posts GROUP BY uid) SELECT a.n FROM g a JOIN g b ON a.n = b.n")
    assert (len(plan.states), len(plan.streams)) == (1, 1)


def test_stored_columns_have_names_of_their_own() -> None:
    plan = plan_split("SELECT n, station, sum(id) AS s, count(DISTINCT n, id) AS d, mode(n) FROM part_usage GROUP BY n, station", FACTORY)
    for state in plan.states:
        names = [column.name for column in state.columns]
        assert len(set(names)) == len(names), names


def test_a_correlated_sub_query_asks_stored_groups() -> None:
    plan = split("SELECT id, (SELECT count(*) FROM posts WHERE uid = id AND score > 1) AS n FROM users")
    assert plan.streams[0].sql() == "SELECT posts.uid, count(*) AS n FROM main.posts WHERE posts.score > 1 GROUP BY posts.uid"


def test_a_plain_view_is_seen_through() -> None:
    view = RelationFacts(name=("main", "good"), kind="view", body="SELECT uid, score AS points FROM posts WHERE score > 3")
    plan = plan_split("SELECT uid, sum(points) AS s FROM good GROUP BY uid", {**RELATIONS, "good": view})
    assert plan.streams[0].stream == "main.posts"
    assert "posts.score > 3" in plan.streams[0].sql()


def test_a_view_names_its_columns() -> None:
    plan = plan_split("SELECT uid, count(*) FROM posts GROUP BY uid", RELATIONS, names=("who", "how_many"))
    assert [(column.name, str(column.type)) for column in plan.columns] == [("who", "INT"), ("how_many", "BIGINT")]
    with pytest.raises(RefusedView, match="the view names 1 column and its query has 2"):
        plan_split("SELECT uid, count(*) FROM posts GROUP BY uid", RELATIONS, names=("who",))


def test_places_are_those_of_the_whole_statement() -> None:
    text = "CREATE VIEW v AS SELECT * FROM posts"
    with pytest.raises(InvalidStatement) as caught:
        plan_split(Span(text, 17, len(text)), RELATIONS)
    assert caught.value.column == 32  # type: ignore[attr-defined]


def test_relations_may_be_called_by_any_names() -> None:
    plan = split("SELECT region, count(*) AS n FROM posts JOIN users ON uid = id GROUP BY region")
    assert "FROM r_1 AS posts INNER JOIN kept AS users" in plan.streams[0].sql({"main.posts": "r_1", "static_1": "kept"})
    assert "FROM `a b`.c AS `rows`" in plan.states[0].merge_sql(("a b", "c"))
    assert "FROM merged AS state_1" in plan.upper_sql({"state_1": "merged"})


def explained(plan: SplitPlan) -> str:
    return explain_split(plan)


def test_all_parts_are_explained_as_sql_and_as_trees() -> None:
    text = explained(split("SELECT region, avg(score) AS a FROM posts JOIN users ON uid = id GROUP BY region ORDER BY a"))
    for line in (
        "1 static part, 1 stream part into 1 state and an upper part",
        "static part static_1: once, at creation; reads main.users",
        "stream part stream_1: for each range of main.posts, into state_1, looks up static_1",
        "    └─ inner join on posts.uid = users.id",
        "state state_1: one row for each region STRING",
        "  keeps sum_score BIGINT, n_score BIGINT",
        "upper part: at each read after a change; reads state_1",
        "note: ORDER BY without LIMIT is left out: sort when reading the view",
    ):
        assert line in text.splitlines()


def test_a_table_that_is_read_at_two_moments_is_told_of() -> None:
    below = "SELECT uid, count(*) AS n FROM posts WHERE EXISTS (SELECT 1 FROM users v WHERE v.id = posts.uid) GROUP BY uid"
    text = explained(split(f"SELECT region, n FROM users u JOIN ({below}) g ON g.uid = u.id"))
    assert "note: main.users is read twice: below the grouping as it is when the view is made" in text
    assert "read twice" not in explained(split(below))
