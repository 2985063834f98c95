"""Queries with a plan over small relations are answered without Spark, as Spark answers them, and the others say why not."""

from __future__ import annotations

import pytest

from platform_plugin.engine.limits import Limits
from platform_plugin.engine.refusal import Refusal
from platform_plugin.platform import Platform
from platform_plugin.select.small_query import answer_small_query

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def platform(tmp_path_factory, spark_server):
    with Platform.create(tmp_path_factory.mktemp("small") / "lake") as made:
        made.execute("CREATE TABLE things (id INT, price DECIMAL(9,2), word STRING)")
        made.execute("INSERT INTO things VALUES (1, 1.50, 'a'), (2, 2.00, 'b'), (2, NULL, NULL)")
        made.execute("CREATE STREAM clicks (id INT)")
        made.execute("CREATE VIEW counts AS SELECT id, count(*) AS n FROM clicks GROUP BY id")
        made.execute("INSERT INTO clicks VALUES (1), (2), (2)")
        yield made


QUERIES = [
    "SELECT count(*), sum(price), max(word), count_if(price IS NULL) FROM things",
    "SELECT id, count(*) AS n FROM things GROUP BY id ORDER BY id",
    "SELECT t.id, c.n FROM things t JOIN counts c ON t.id = c.id WHERE t.word = 'b'",
    "SELECT coalesce(sum(n), 0) FROM (SELECT id, count(*) AS n FROM things GROUP BY id HAVING count(*) > 1)",
    "SELECT count(*), (SELECT count(*) FROM clicks) FROM things",
]


@pytest.mark.parametrize("text", QUERIES)
def test_the_answer_is_that_of_spark(platform, text):
    answer = answer_small_query(platform.work, text, platform.lake.snapshot())
    assert not isinstance(answer, Refusal), answer
    expected = platform.execute(text).arrow()
    assert answer.schema.types == expected.schema.types
    rows = [list(zip(*(column.to_pylist() for column in found.columns), strict=True)) for found in (answer, expected)]
    assert rows[0] == rows[1]


def test_it_is_the_answer_at_the_snapshot_that_the_query_names(platform):
    before = platform.lake.snapshot()
    platform.execute("CREATE TABLE grows (n INT)")
    platform.execute("INSERT INTO grows VALUES (1)")
    now = platform.lake.snapshot()
    platform.execute("INSERT INTO grows VALUES (2)")
    text = f"SELECT count(*) FROM grows AT (VERSION => {now.id})"
    assert answer_small_query(platform.work, text, platform.lake.snapshot()).column(0).to_pylist() == [1]
    assert answer_small_query(platform.work, "SELECT count(*) FROM grows", platform.lake.snapshot()).column(0).to_pylist() == [2]
    assert before.id < now.id


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("SELECT soundex(word) AS s FROM things", "the function soundex"),
        ("SELECT id / 0 AS q FROM things", "a division by zero"),
        ("SELECT id FROM things TABLESAMPLE (1 ROWS)", "TABLESAMPLE is not supported in plans"),
    ],
)
def test_others_say_why_they_are_left_to_spark(platform, text, why):
    assert answer_small_query(platform.work, text, platform.lake.snapshot()).why == why


def test_large_relations_are_left_to_spark(platform, monkeypatch):
    monkeypatch.setattr(platform.work, "limits", Limits(small_table_bytes=10))
    assert answer_small_query(platform.work, QUERIES[0], platform.lake.snapshot()).why == "a large relation"
