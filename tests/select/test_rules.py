"""Rules can be listed and switched; answers do not depend on them, and EXPLAIN VERBOSE says what they did."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from platform_plugin.algebra.rules.registry import RULE_NAMES, RULES
from platform_plugin.errors import InvalidStatement, InvalidValue
from platform_plugin.language.script import parse_statement
from platform_plugin.platform import Platform
from platform_plugin.relations.bind.query import bind_frames

if TYPE_CHECKING:
    from collections.abc import Iterator

QUERIES = (
    "SELECT uid, score FROM posts WHERE uid = 1",
    "SELECT * FROM posts JOIN users ON id = uid",
    "SELECT u.*, p.score AS s FROM regions r, users u, posts p WHERE r.name = u.region AND u.id = p.uid AND p.score > 2",
    "SELECT count(*), region FROM regions JOIN users ON name = region JOIN posts ON uid = id GROUP BY region",
    "SELECT name FROM users JOIN posts ON id = uid RIGHT JOIN regions ON name = region",
    "SELECT id FROM users WHERE id IN (SELECT uid FROM posts WHERE score > 1)",
    "SELECT id FROM users u WHERE NOT EXISTS (SELECT * FROM posts WHERE uid = u.id AND score < 3)",
    "SELECT x.score FROM (SELECT uid, max(score) AS score FROM posts GROUP BY uid) x WHERE x.uid IN (1, 2, NULL)",
    "WITH a AS (SELECT * FROM posts WHERE score > 1) SELECT l.uid, r.score FROM a l JOIN a r ON l.uid = r.uid WHERE l.score <> 3",
    "SELECT uid, score FROM posts UNION ALL SELECT id, 0 FROM users WHERE id > 1",
    "SELECT DISTINCT region FROM users LEFT JOIN posts ON id = uid AND score > 3 WHERE uid IS NULL",
    "SELECT uid, rank() OVER (PARTITION BY uid ORDER BY score) AS r FROM posts QUALIFY r = 1",
    "SELECT sum(score) FROM posts WHERE score BETWEEN 1 AND 4 OR uid <=> NULL",
    "SELECT p.score + u.rate, upper(region) FROM regions, users u, posts p WHERE name = region AND id = uid",
)


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory, spark_server: object) -> Iterator[Platform]:
    del spark_server
    with Platform.create(tmp_path_factory.mktemp("rules") / "lake") as made:
        made.execute("CREATE STREAM posts (uid INT, score INT)")
        made.execute("CREATE TABLE users (id INT, region STRING, rate DOUBLE)")
        made.execute("CREATE TABLE regions (name STRING, country STRING)")
        for first in (0, 10):
            rows = ", ".join(f"({number % 4 if number % 5 else 'NULL'}, {number % 7})" for number in range(first, first + 10))
            made.execute(f"INSERT INTO posts VALUES {rows}")
        made.execute("INSERT INTO users SELECT * FROM VALUES (1, 'eu', 1.5D), (2, 'us', double('NaN')), (3, 'eu', NULL), (4, NULL, -0.0D)")
        made.execute("INSERT INTO regions VALUES ('eu', 'fr'), ('us', 'us'), ('as', 'jp')")
        yield made


def answer(platform: Platform, text: str) -> tuple[list[str], list[str]]:
    result = platform.execute(text)
    return result.columns, sorted(map(str, result))


@pytest.mark.spark
@pytest.mark.parametrize("text", QUERIES)
def test_answers_are_the_same_with_any_rules_off(platform: Platform, text: str) -> None:
    expected = answer(platform, text)
    chosen = random.Random(text)
    for off in (RULE_NAMES, [name for name in RULE_NAMES if chosen.random() < 0.5]):
        try:
            for name in off:
                platform.execute(f"SET RULE {name} OFF")
            assert answer(platform, text) == expected, off
        finally:
            platform.execute("SET RULE ALL ON")


SHAPES = (
    *QUERIES,
    "SELECT uid AS u, score % 3 AS s FROM posts ORDER BY 2 DESC, u NULLS LAST LIMIT 4",
    "SELECT region AS r, count(DISTINCT uid) AS n, max(score) FILTER (WHERE score < 5) AS m FROM posts JOIN users ON id = uid GROUP BY ALL",
    "SELECT uid AS u, region AS r, sum(score) AS s FROM posts JOIN users ON uid = id GROUP BY GROUPING SETS ((uid), (region), ())",
    "SELECT uid AS u, sum(score) OVER (PARTITION BY uid ORDER BY score ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS s FROM posts",
    "SELECT id AS i, (SELECT max(score) FROM posts WHERE uid = id) AS best, rate IS NULL AS unknown FROM users",
    "SELECT x AS x, id AS i FROM users LATERAL VIEW explode(array(id, id * 2)) e AS x",
    "SELECT * FROM users NATURAL JOIN (SELECT 1 AS id, 'z' AS extra)",
    "SELECT id AS i FROM users EXCEPT SELECT uid FROM posts INTERSECT SELECT id FROM users",
    "SELECT CASE region WHEN 'eu' THEN 'E' ELSE coalesce(region, 'none') END AS r, CAST(rate AS DECIMAL(6,2)) AS d FROM users WHERE id < 2",
    "SELECT name AS n, transform(array(1, 2), x -> x + length(name)) AS t FROM regions WHERE name LIKE 'e%' OR name IN ('us')",
    "SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS v (k, w) WHERE k > 1",
    "SELECT date_trunc('DAY', TIMESTAMP '2026-01-01 10:00:00') + INTERVAL '1' DAY AS d, -0.0D AS z, 1.50BD AS p, x'1F' AS b",
)


def with_plans(session: Any, query: Any, plan: Any, frames: Any, arguments: Any, **named: Any) -> Any:
    assert plan.planned is not None
    return bind_frames(session, query, replace(plan, planned=replace(plan.planned, is_rewritten=True)), frames, arguments, **named)


@pytest.mark.spark
@pytest.mark.parametrize("text", SHAPES)
def test_a_plan_as_text_answers_as_the_text(platform: Platform, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    platform.execute("SET RULE ALL OFF")
    try:
        names, rows = answer(platform, text)
        monkeypatch.setattr("platform_plugin.relations.bind.query.bind_frames", with_plans)
        planned_names, planned_rows = answer(platform, f"{text} -- by its plan")
    finally:
        platform.execute("SET RULE ALL ON")
    assert planned_rows == rows
    assert planned_names == names


@pytest.mark.spark
@pytest.mark.parametrize("switch", ["ON", "OFF"])
def test_each_question_mark_is_a_value_of_its_own(platform: Platform, switch: str) -> None:
    """Where a rule rewrites the plan, two calls that differ in their parameters only are still two."""
    platform.execute(f"SET RULE ALL {switch}")
    try:
        counts = "SELECT count_if(score >= ?) AS a, count_if(score >= ?) AS b, uid + ? AS u"
        text = f"{counts} FROM posts JOIN users ON id = uid GROUP BY uid ORDER BY uid + ?"
        assert list(platform.execute(text, [0, 4, 10, 20])) == [(4, 1, 11), (4, 2, 12), (4, 2, 13)]
    finally:
        platform.execute("SET RULE ALL ON")


@pytest.mark.spark
@pytest.mark.parametrize("switch", ["ON", "OFF"])
def test_a_star_does_not_stand_for_hidden_columns_that_are_used(platform: Platform, switch: str) -> None:
    """`posts` has two commits of ten rows."""
    platform.execute(f"SET RULE ALL {switch}")
    try:
        for text, columns, count in (
            ("SELECT *, _row_id FROM posts", ["uid", "score", "_row_id"], 20),
            ("SELECT * FROM posts WHERE _row_id >= 15", ["uid", "score"], 5),
            ("SELECT * FROM posts ORDER BY _arrived_at DESC LIMIT 3", ["uid", "score"], 3),
            ("SELECT p.*, region FROM posts p JOIN users ON id = uid WHERE p._row_id = 1", ["uid", "score", "region"], 1),
            ("SELECT count(*) AS n FROM posts WHERE _arrived_at IS NOT NULL", ["n"], 1),
        ):
            result = platform.execute(text)
            assert (result.columns, len(list(result))) == (columns, count), text
    finally:
        platform.execute("SET RULE ALL ON")


@pytest.mark.spark
def test_explain_verbose_says_what_was_done(platform: Platform) -> None:
    text = "SELECT score FROM regions JOIN users ON name = region JOIN posts ON uid = id WHERE score > 3"
    said = "\n".join(str(row[0]) for row in platform.execute(f"EXPLAIN VERBOSE {text}"))
    assert "scan stream posts" in said
    assert "main.posts" not in said
    for name in ("needed_columns", "pruning", "stream_first", "join_hints"):
        assert f"  {name} " in said
    assert "posts: columns score, uid; rows with score > 3" in said
    assert "BROADCAST" in said
    assert "Physical Plan" in said


@pytest.mark.spark
def test_explain_says_why_there_is_no_plan(platform: Platform) -> None:
    said = [row[0] for row in platform.execute("EXPLAIN SELECT * FROM users PIVOT (sum(rate) FOR region IN ('eu', 'us'))")]
    assert any(line.startswith("Spark gets the text without a plan: PIVOT") for line in said)
    assert not any("without a plan" in row[0] for row in platform.execute("EXPLAIN SELECT id FROM users"))


@pytest.mark.spark
def test_errors_of_spark_in_a_rewritten_text_have_their_place(platform: Platform) -> None:
    with pytest.raises(Exception, match=r"(?i)divi") as caught:
        platform.execute("SELECT score,\n  score / (rate - rate) AS x FROM users JOIN posts ON uid = id WHERE id = 1").arrow()
    assert caught.value.line == 2  # type: ignore[attr-defined]


def test_show_rules_lists_them_in_order(tmp_path: object) -> None:
    with Platform.create(f"{tmp_path}/lake") as platform:
        platform.execute("SET RULE lookup OFF")
        rows = platform.execute("SHOW RULES").arrow().to_pylist()
        assert [row["name"] for row in rows] == list(RULE_NAMES)
        assert [row["name"] for row in rows if not row["is_on"]] == ["lookup"]
        assert all(len(row["description"]) > 20 for row in rows)
        assert platform.execute("SHOW RULES LIKE 'look%'").arrow().num_rows == 1
        assert platform.execute("SET RULE ALL ON").message == "all rules are on in this session"
        with pytest.raises(InvalidValue, match="did you mean stream_first") as caught:
            platform.execute("SET RULE streams_first OFF")
        assert caught.value.column == 10  # type: ignore[attr-defined]


def test_a_rule_is_named_once() -> None:
    assert len(set(RULE_NAMES)) == len(RULES)


@pytest.mark.parametrize("text", ["SET RULE", "SET RULE lookup", "SET RULE lookup MAYBE", "SET lookup OFF"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(InvalidStatement):
        parse_statement(text)
