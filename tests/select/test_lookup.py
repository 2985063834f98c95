"""Lookups are answered without Spark, and never otherwise than Spark would."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest

from platform_plugin.engine.limits import Limits
from platform_plugin.errors import PlatformError
from platform_plugin.platform import Platform

pytestmark = pytest.mark.spark

COLUMNS = "i INT, big BIGINT, small TINYINT, word STRING, d DATE, price DECIMAL(9,2), yes BOOLEAN, f DOUBLE, t TIMESTAMP_NTZ, z TIMESTAMP"
ROWS = """
    (1, 10, 1, 'a', DATE '2026-01-01', 1.50, true, 0.5, TIMESTAMP_NTZ '2026-01-01 12:00:00', TIMESTAMP '2026-01-01 12:00:00'),
    (2, -5, 2, 'B', DATE '2026-02-01', 2.00, false, -0.0, NULL, NULL),
    (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)
"""


@pytest.fixture(scope="module")
def platform(tmp_path_factory, spark_server):
    with Platform.create(tmp_path_factory.mktemp("lookups") / "lake") as made:
        made.execute(f"CREATE TABLE things ({COLUMNS})")
        made.execute(f"INSERT INTO things SELECT * FROM VALUES {ROWS}")
        yield made


@pytest.mark.parametrize(
    ("sql", "arguments"),
    [
        ("SELECT i, word FROM things", None),
        ("SELECT i AS number, i FROM main.things t WHERE t.i = 2", None),
        ("SELECT i, big, small, word, d, price, yes, f, t FROM things WHERE i >= 2", None),
        ("SELECT word FROM things WHERE word = 'a'", None),
        ("SELECT word FROM things WHERE word = :w", {"w": "B"}),
        ("SELECT word FROM things WHERE i IN (?, ?) AND big < ?", [1, 2, 0]),
        ("SELECT i FROM things WHERE big IS NULL", None),
        ("SELECT i FROM things WHERE big IS NOT NULL AND yes = true", None),
        ("SELECT i FROM things WHERE d = DATE '2026-01-01'", None),
        ("SELECT i FROM things WHERE d = :d", {"d": date(2026, 2, 1)}),
        ("SELECT i FROM things WHERE price = 1.5", None),
        ("SELECT i FROM things WHERE price BETWEEN 1.5 AND 2", None),
        ("SELECT i FROM things WHERE price <> :p", {"p": Decimal("1.50")}),
        ("SELECT i FROM things WHERE i <> 1 LIMIT 1", None),
        ("SELECT i FROM things LIMIT 0", None),
        ("WITH x AS (SELECT 1) SELECT i FROM things", None),
        ("SELECT I, t.Word FROM Things AS t", None),
        ("SELECT i FROM things WHERE word = 'a\\u0042'", None),
        ("SELECT i + 1 AS n, price * 2 AS p, length(word) AS l FROM things WHERE word LIKE 'a%' OR yes", None),
        ("SELECT i + :n AS n FROM things WHERE i < :n OR word = :w", {"n": 2, "w": "B"}),
        ("SELECT s FROM (SELECT i + 1 AS s, word FROM things) WHERE s > 1 AND word IS NOT NULL", None),
        ("SELECT i FROM things WHERE d = '2026-01-01'", None),
        ("SELECT i FROM (SELECT i FROM things)", None),
        ("SELECT i FROM things WHERE i = i", None),
        ("SELECT i FROM things WHERE NOT i = 1", None),
        ("SELECT i FROM things WHERE word = 'a' OR i = 1", None),
        ("SELECT i FROM things WHERE price = 1.555", None),
        ("SELECT i FROM things WHERE small = 1000", None),
        ("SELECT i FROM things WHERE i = 1.5", None),
        ("SELECT i FROM things WHERE f = 0.5", None),
    ],
)
def test_answers_are_those_of_spark(platform, monkeypatch, sql, arguments):
    answered = platform.execute(sql, arguments)
    assert answered.metrics is None, "without Spark"
    found = answered.arrow()
    monkeypatch.setattr("platform_plugin.select.select.answer_lookup", lambda *_: None)
    expected = platform.execute(sql, arguments).arrow()
    assert found.schema.names == expected.schema.names
    assert [str(kind).replace("large_", "") for kind in found.schema.types] == [str(kind) for kind in expected.schema.types]
    key = lambda row: str(sorted(row.items()))  # noqa: E731
    assert sorted(found.to_pylist(), key=key) == sorted(expected.to_pylist(), key=key)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT upper(word) FROM things",
        "SELECT count(*) FROM things",
        "SELECT DISTINCT i FROM things",
        "SELECT i FROM things ORDER BY i",
        "SELECT z FROM things",
        "SELECT i FROM things WHERE i = '1'",
        "SELECT i FROM things AT (VERSION => 2)",
        "SELECT a.i FROM things a, things b",
        "SELECT i FROM things WHERE t = TIMESTAMP_NTZ '2026-01-01'",
        "SELECT i FROM things TABLESAMPLE (1 ROWS)",
        "SELECT i FROM things UNION ALL SELECT i FROM things",
        "SELECT i FROM things WHERE i = 1 GROUP BY i",
        "SELECT /*+ BROADCAST(things) */ i FROM things",
    ],
)
def test_whatever_else_is_left_to_spark(platform, sql):
    assert platform.execute(sql).metrics is not None


@pytest.mark.parametrize(
    "sql", ["SELECT nope FROM things", "SELECT i FROM thing", "SELECT i FROM things WHERE nope = 1", "SELECT i FROM a.b.c"]
)
def test_errors_are_those_of_any_query(platform, sql):
    with pytest.raises(PlatformError) as error:
        platform.execute(sql)
    assert error.value.line == 1


def test_an_answer_is_of_the_newest_snapshot(platform):
    platform.execute("CREATE TABLE grows (n INT)")
    for n in range(4):
        platform.execute("INSERT INTO grows VALUES (?)", [n])
        answer = platform.execute("SELECT n FROM grows WHERE n >= 0")
        assert answer.snapshot == platform.lake.snapshot()
        assert sorted(answer) == [(number,) for number in range(n + 1)]
    platform.execute("DELETE FROM grows WHERE n = 1")
    assert sorted(platform.execute("SELECT n FROM grows")) == [(0,), (2,), (3,)]
    platform.execute("INSERT INTO grows VALUES (7), (8), (9)")
    assert len(list(platform.execute("SELECT n FROM grows"))) == 6
    platform.execute("DELETE FROM grows WHERE n = 8")
    assert sorted(platform.execute("SELECT n FROM grows")) == [(0,), (2,), (3,), (7,), (9,)], "one row of a file that is known"
    platform.execute("UPDATE grows SET n = 70 WHERE n = 7")
    assert sorted(platform.execute("SELECT n FROM grows")) == [(0,), (2,), (3,), (9,), (70,)]


def test_large_relations_are_left_to_spark(platform, monkeypatch):
    monkeypatch.setattr(platform.work, "limits", Limits(small_table_bytes=10))
    assert platform.execute("SELECT i FROM things").metrics is not None
