"""Plans say what the text says: read, rendered and read again they are the same, and literals and calls keep the user's own words."""

from __future__ import annotations

from collections import Counter

import pytest

from platform_plugin.algebra.plan.nodes import (
    Aggregate,
    Column,
    Distinct,
    Filter,
    Generate,
    Join,
    Limit,
    Scan,
    SetOperation,
    columns,
    outputs,
    scans,
    walk,
)
from platform_plugin.algebra.plan.render import render
from platform_plugin.algebra.plan.traversal import number_aliases
from platform_plugin.algebra.types.data_types import Primitive
from platform_plugin.errors import PlatformError
from platform_plugin.operators.group.split import read_plan
from tests.relations.views.admitted import ADMITTED
from tests.relations.views.composed import COLUMNS, RELATIONS, relation


def plan(query: str):
    return read_plan(query, RELATIONS)


# sqlglot takes window( after GROUP BY for the clause of that name, so it needs back-ticks, which a rendered plan leaves out.
@pytest.mark.parametrize("name", [name for name in ADMITTED if not name.endswith("ing windows")])
def test_a_rendered_plan_reads_as_the_same_operators_types_and_names(name: str) -> None:
    first = number_aliases(plan(ADMITTED[name]))
    again = plan(render(first))
    assert [(item.name, item.type) for item in outputs(again)] == [(item.name, item.type) for item in outputs(first)]
    assert [scan.relation for scan in scans(again)] == [scan.relation for scan in scans(first)]
    kinds = (Join, Filter, Distinct, Limit, SetOperation, Generate)
    assert Counter(type(node) for node in walk(again) if isinstance(node, kinds)) == Counter(
        type(node) for node in walk(first) if isinstance(node, kinds)
    )


@pytest.mark.parametrize(
    "text",
    [
        r"'it\'s'",
        "'a' 'b'",
        "X'0aFF'",
        "1.50BD",
        "1e-3D",
        "10000000000L",
        "DATE '2026-01-01'",
        "TIMESTAMP '2026-01-01 00:00:00 Europe/Berlin'",
        "INTERVAL '1-2' YEAR TO MONTH",
        "INTERVAL 3 DAYS",
        "INTERVAL '1 day 2 hours'",
        "CAST(uid AS TIME(3))",
        "TRY_CAST(content AS DECIMAL(9,2))",
        "CAST(NULL AS STRUCT<a: DECIMAL(9,2), b: ARRAY<INT>>)",
        "weekday(posts.`at`)",
        "date_add(posts.`at`, 1)",
        "timestampadd(DAY, 1, posts.`at`)",
        "left(posts.content, 1)",
        "if(posts.uid > 1, 'a', 'b')",
        "named_struct('a', 1)",
        "exists(posts.tags, t -> t = 'x')",
        "posts.score DIV 2",
        "posts.content RLIKE '^a'",
        "posts.content LIKE 'a!%' ESCAPE '!'",
        "posts.uid <=> 1",
        "posts.tags[0]",
        "posts.uid IS NOT NULL",
        "TRIM(BOTH 'x' FROM posts.content)",
        "EXTRACT(YEAR FROM posts.`at`)",
    ],
)
def test_an_expression_keeps_its_words(text: str) -> None:
    shown = render(plan(f"SELECT {text} AS x FROM posts"))
    kept = text.replace("<=>", "IS NOT DISTINCT FROM").replace("(uid", "(posts.uid").replace("(content", "(posts.content")
    assert shown.replace("NOT posts.uid IS NULL", "posts.uid IS NOT NULL") == f"SELECT {kept} AS x FROM main.posts"


def test_names_are_settled_by_sparks_rules() -> None:
    found = plan("SELECT UID, P.Score AS s, s + 1 AS t FROM posts p WHERE `content` = 'x'")
    assert render(found) == "SELECT p.uid AS `UID`, p.score AS s, p.score + 1 AS t FROM main.posts AS p WHERE p.content = 'x'"


def test_a_column_of_the_source_goes_before_an_alias() -> None:
    assert render(plan("SELECT uid + 1 AS score, score + 1 AS x FROM posts")).startswith(
        "SELECT posts.uid + 1 AS score, posts.score + 1 AS x"
    )


def test_the_same_relation_twice_has_two_aliases() -> None:
    found = plan("SELECT count(*) AS n FROM (SELECT uid FROM posts) a JOIN (SELECT uid FROM posts) b USING (uid)")
    assert sorted(scan.alias for scan in scans(found)) == ["posts", "posts_2"]


def test_grouping_by_a_window_gives_the_rows_a_column_of_that_name() -> None:
    found = plan("SELECT window.start AS s, count(*) AS n FROM posts GROUP BY window(`at`, '1 hour') HAVING window.end IS NOT NULL")
    assert render(found) == render(
        plan(
            "SELECT window(`at`, '1 hour').start AS s, count(*) AS n FROM posts GROUP BY window(`at`, '1 hour')"
            " HAVING window(`at`, '1 hour').end IS NOT NULL"
        )
    )
    own = plan("SELECT window AS w FROM (SELECT content AS window, `at` FROM posts) GROUP BY window, window(`at`, '1 hour')")
    assert [item.name for item in outputs(own)] == ["w"]


def test_using_joins_show_their_columns_once() -> None:
    found = plan("SELECT * FROM (SELECT uid, score FROM posts) a FULL JOIN (SELECT uid, weight FROM likes) b USING (uid)")
    assert [item.name for item in outputs(found)] == ["uid", "score", "weight"]
    assert "coalesce(a.uid, b.uid) AS uid" in render(found)


def test_grouping_sets_are_written_out() -> None:
    found = next(
        node
        for node in walk(plan("SELECT uid, content, count(*) AS n FROM posts GROUP BY uid, ROLLUP(content, score)"))
        if isinstance(node, Aggregate)
    )
    assert found.sets == ((0, 1, 2), (0, 1), (0,))


def test_columns_of_a_source_know_where_they_come_from() -> None:
    scan = scans(plan("SELECT uid FROM posts p"))[0]
    assert isinstance(scan, Scan)
    assert list(columns(scan))[0] == Column("p", "uid")  # noqa: RUF015  the order is what is tested


def test_plans_are_values() -> None:
    query = "SELECT uid, count(*) AS n FROM posts WHERE score > 1 GROUP BY uid"
    assert plan(query) == plan(query.replace("score > 1", "posts.score   > 1"))
    assert plan(query) != plan(query.replace("> 1", "> 2"))


HIDDEN = ("_row_id", "_arrived_at")


def hidden_of(query: str) -> list[tuple[str, tuple[str, ...]]]:
    """The hidden columns that each scan of a plan reads."""
    return [(scan.relation[-1], tuple(found.name for found in scan.fields if found.hidden)) for scan in scans(plan(query))]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT * FROM posts", [("posts", ())]),
        ("SELECT uid, _row_id FROM posts", [("posts", ("_row_id",))]),
        ("SELECT p._ARRIVED_AT FROM main.posts AS p WHERE _Row_Id > 5", [("posts", HIDDEN)]),
        ("SELECT p._arrived_at FROM posts p JOIN likes l ON p.uid = l.uid", [("posts", ("_arrived_at",)), ("likes", ())]),
        ("SELECT uid FROM posts WHERE _row_id IN (SELECT _row_id FROM likes)", [("posts", HIDDEN[:1]), ("likes", HIDDEN[:1])]),
        ("SELECT at FROM (SELECT _arrived_at AS at FROM posts)", [("posts", ("_arrived_at",))]),
        # A visible column comes first, wherever it is from.
        ("SELECT _row_id FROM posts CROSS JOIN (SELECT 1 AS _row_id) AS one", [("posts", ())]),
    ],
)  # fmt: skip
def test_hidden_columns_of_streams_are_visible_by_name(query: str, expected: object) -> None:
    assert hidden_of(query) == expected


def test_a_star_does_not_stand_for_hidden_columns() -> None:
    assert [item.name for item in outputs(plan("SELECT *, _row_id AS id FROM posts"))] == [*COLUMNS["posts"], "id"]
    both = outputs(plan("SELECT * FROM posts NATURAL JOIN likes WHERE posts._row_id > 1"))
    assert [item.name for item in both] == [*COLUMNS["posts"], *list(COLUMNS["likes"])[1:]], "joined by the columns that * shows"


@pytest.mark.parametrize(
    "query",
    [
        "SELECT _row_id FROM users",
        "SELECT _row_id FROM (SELECT uid FROM posts)",
        "SELECT _row_id FROM posts JOIN likes ON posts.uid = likes.uid",
        "SELECT p._row_id FROM posts AS p (a, b, c, d, e, f, g)",
    ],
)
def test_hidden_columns_belong_to_one_stream_alone(query: str) -> None:
    with pytest.raises(PlatformError, match="_row_id"):
        plan(query)


def test_a_streams_own_column_comes_before_the_hidden_ones() -> None:
    own = relation("odd", "stream", {"n": "INT", "_row_id": "STRING"})
    assert own.hidden == ()
    (item,) = outputs(read_plan("SELECT _row_id FROM odd", {"odd": own}))
    assert item.type == Primitive("varchar")
    with pytest.raises(PlatformError, match="_arrived_at"):
        read_plan("SELECT _arrived_at FROM odd", {"odd": own})


def test_hidden_columns_have_types() -> None:
    assert [item.type for item in outputs(plan("SELECT _row_id, _arrived_at FROM posts"))] == [Primitive("int64"), Primitive("timestamptz")]
