from __future__ import annotations

import re
from pathlib import Path

import pytest

from platform_plugin.errors import InvalidStatement, RefusedView, UnknownObject
from platform_plugin.operators.group.admission import RULES
from platform_plugin.operators.group.split import plan_split
from tests.relations.views.admitted import ADMITTED
from tests.relations.views.composed import RELATIONS, relation, split
from tests.relations.views.refused import INSTEAD, REFUSED

PAGE = Path(__file__).parents[3] / "docs" / "views" / "admission.md"
MORE = {
    **RELATIONS,
    "daily": relation("daily", "continuous", {"uid": "INT", "n": "BIGINT"}),
    "posts_sample": relation("posts_sample", "sample", {"uid": "INT"}),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_names_the_rule_the_place_and_what_to_write_instead(name: str) -> None:
    query, rule, pointed_at, hint = REFUSED[name]
    with pytest.raises(RefusedView) as caught:
        plan_split(query, MORE)
    error = caught.value
    assert error.rule == rule
    assert RULES[rule] in str(error.detail)
    assert query[error.column - 1 :].startswith(pointed_at)
    assert error.line == 1
    assert hint in str(error.hint)
    assert error.operator


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_refusal_leads_to_is_accepted(name: str) -> None:
    instead = INSTEAD[name]
    if instead is None:
        return  # a plain view, which is no matter of streams
    with pytest.raises(RefusedView) as caught:
        plan_split(REFUSED[name][0], MORE)
    fragments = re.findall(r"\([^()…]*(?:\(\*\)[^()…]*)?FROM [^()…]*\)", str(caught.value.hint))
    # Where the text does not say by what is joined, the hint calls it the key.
    for fragment in fragments:
        written = re.sub(r"\bkey\b", "uid", fragment)
        assert written in instead or _grows_to(written, instead), "what the hint writes out is taken as it is"
    assert plan_split(instead, MORE).streams


def _grows_to(written: str, instead: str) -> bool:
    """Whether only more columns were added to what a hint groups by, as it says."""
    keys = written.partition(" GROUP BY ")[2].rstrip(")")
    table = re.escape(written.partition(" FROM ")[2].split(" ")[0])
    return bool(re.search(rf"GROUP BY (\w+, )*{re.escape(keys)}(, \w+)*\)", instead) and re.search(rf"FROM {table} GROUP BY", instead))


def test_the_place_is_found_on_any_line() -> None:
    with pytest.raises(RefusedView) as caught:
        split("SELECT uid,\n  count(*) AS n\nFROM posts\nWHERE score >\n  rand()\nGROUP BY uid")
    assert (caught.value.line, caught.value.column) == (5, 3)
    assert "      rand()\n      ^^^^" in str(caught.value.detail)


def sections() -> dict[str, tuple[str, list[str], str]]:
    """Of each rule on the page its words, its pair of queries, and all of its text."""
    found = re.split(r"(?m)^## ", PAGE.read_text())[1:]
    return {
        part.split(":")[0]: (part.splitlines()[0].split(": ", 1)[1], re.findall(r"```sql\n(.*?)```", part, re.DOTALL), part)
        for part in found
    }


def test_the_page_names_every_rule_in_its_own_words() -> None:
    shown = sections()
    assert {rule: shown[rule][0] for rule in RULES} == RULES
    assert set(shown) - set(RULES) == {"R5", "R6", "R8"}


@pytest.mark.parametrize("rule", RULES)
def test_of_each_pair_on_the_page_the_first_is_refused_and_the_second_accepted(rule: str) -> None:
    refused, accepted = sections()[rule][1]
    with pytest.raises(RefusedView) as caught:
        split(refused)
    assert caught.value.rule == rule
    assert split(accepted).streams


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT nobody FROM posts GROUP BY nobody", 'column "nobody" does not exist'),
        ("SELECT uid, score FROM posts GROUP BY uid", 'column "score" is neither a key'),
        ("SELECT count(*) AS n FROM posts PIVOT (sum(score) FOR uid IN (1, 2))", "PIVOT"),
        ("SELECT count(*) AS n FROM posts TABLESAMPLE (10 PERCENT)", "TABLESAMPLE"),
        ("WITH RECURSIVE r AS (SELECT 1 AS x) SELECT count(*) AS n FROM r, posts", "WITH RECURSIVE"),
        ("SELECT uid, count(*) AS n FROM posts GROUP BY uid QUALIFY rank() OVER (ORDER BY count(*)) = 1", "an aggregate in QUALIFY"),
        ("SELECT uid, count(*) AS n FROM posts GROUP BY uid QUALIFY n = 1", "QUALIFY without a window function"),
        (
            "SELECT id, rank() OVER (ORDER BY rate) AS rate FROM users QUALIFY rate = 1",
            '"rate" in QUALIFY could be the column or the result',
        ),
        ("SELECT id, rank() OVER (ORDER BY id) AS r FROM users QUALIFY rank() OVER (ORDER BY r) = 1", "over the result of another window"),
        ("SELECT uid, rank() OVER w AS r FROM posts QUALIFY r = 1", 'window "w" is not defined'),
        ("SELECT uid AS n, count(*) AS n FROM posts GROUP BY uid", 'two columns are called "n"'),
        ("SELECT sum(sum(score)) AS n FROM posts", "an aggregate inside of an aggregate"),
        ("SELECT count(*) AS n FROM posts WHERE sum(score) > 1", "an aggregate in WHERE"),
        ("SELECT uid, count(*) AS n FROM posts GROUP BY GROUPING SETS ((uid), (uid))", "grouping set is there twice"),
        ("SELECT rank() AS n FROM posts GROUP BY uid", "rank without OVER"),
        ("SELECT sum(score) AS score FROM posts HAVING score > 1", "in HAVING could be the column or the result"),
        ("SELECT uid FROM posts, likes GROUP BY uid", "could be a column of several relations"),
        ("SELECT count(p.*) AS n FROM posts p", "name.* inside of an expression"),
        ("SELECT 1 AS k, uid, count(*) AS n FROM posts GROUP BY ROLLUP(1, uid)", "a constant in GROUPING SETS"),
        ("SELECT count(*) AS n FROM posts WHERE " + " OR ".join(f"uid = {n}" for n in range(2000)), "nested too deeply"),
        ("SELECT uid | score & 1 AS n, count(*) FROM posts GROUP BY 1", "unclear which operator comes first"),
        ("SELECT uid FROM posts UNION ALL BY NAME SELECT uid FROM likes", "BY NAME"),
        ("SELECT uid FROM posts SORT BY uid", "SORT BY"),
        ("SELECT count(*) AS n FROM posts, users RIGHT JOIN likes ON id = likes.uid", "RIGHT after a comma"),
    ],
)
def test_what_a_plan_cannot_hold_is_refused_by_name(query: str, message: str) -> None:
    with pytest.raises(InvalidStatement, match=re.escape(message)) as caught:
        split(query)
    assert "line 1, column" in str(caught.value.detail)


def test_an_unknown_relation_is_named() -> None:
    with pytest.raises(UnknownObject, match='relation "post" does not exist') as caught:
        split("SELECT count(*) AS n FROM post")
    assert caught.value.hint == "did you mean posts?"


def test_a_fault_inside_of_a_plain_view_points_at_the_view() -> None:
    view = relation("recent", "view", {})
    from dataclasses import replace

    relations = {**RELATIONS, "recent": replace(view, body="SELECT nothing FROM posts")}
    with pytest.raises(InvalidStatement, match=r'in view "main\.recent": column "nothing" does not exist') as caught:
        plan_split("SELECT count(*) AS n FROM recent", relations)
    assert "line 1, column 27" in str(caught.value.detail)


def test_continuous_views_and_samples_are_tables_above_a_grouping() -> None:
    plan = plan_split("SELECT daily.uid, n, m FROM daily JOIN (SELECT uid, count(*) AS m FROM posts GROUP BY uid) p USING (uid)", MORE)
    assert plan.upper_tables == ("main.daily",)
    assert plan_split("SELECT max(n) AS n FROM daily", MORE).states == ()


@pytest.mark.parametrize(
    ("query", "is_plain"),
    [
        ("SELECT uid, score FROM posts", True),
        ("SELECT p.uid FROM posts p JOIN likes l ON p.uid = l.uid", True),
        ("SELECT p.uid FROM posts p FULL JOIN likes l ON p.uid = l.uid", True),
        ("SELECT a.uid FROM posts a LEFT JOIN posts b ON a.uid = b.uid AND a.score < b.score", True),
        ("SELECT id, uid FROM users LEFT JOIN posts ON id = uid", True),
        ("SELECT uid FROM posts WHERE uid IN (SELECT uid FROM likes)", True),
        ("SELECT posts.uid, n FROM posts JOIN daily ON posts.uid = daily.uid", True),
        (
            "SELECT region, score FROM posts JOIN (SELECT region, max(id) AS id FROM users GROUP BY region) u ON uid = id",
            True,
        ),
        ("SELECT region FROM users", True),
        ("SELECT count(*) AS n FROM posts JOIN likes ON posts.uid = likes.uid", False),
        ("SELECT DISTINCT posts.uid FROM posts JOIN likes ON posts.uid = likes.uid", False),
        ("SELECT p.uid, g.n FROM posts p JOIN (SELECT uid, count(*) AS n FROM likes GROUP BY uid) g USING (uid)", False),
        ("SELECT uid, score FROM posts WHERE score > (SELECT avg(weight) FROM likes)", False),
    ],
)
def test_what_groups_no_stream_can_be_computed_when_it_is_read(query: str, *, is_plain: bool) -> None:
    with pytest.raises(RefusedView) as caught:
        plan_split(query, MORE)
    assert caught.value.is_plain is is_plain


@pytest.mark.parametrize("name", ADMITTED)
def test_an_admitted_query_reads_each_stream_once_in_a_part(name: str) -> None:
    plan = split(ADMITTED[name])
    assert plan.streams
    for part in plan.streams:
        assert part.sql().count(part.stream) == 1
        assert {column.name for column in plan.state(part.state).columns} == {item.name for item in (*part.query.keys, *part.query.calls)}  # type: ignore[union-attr]
