"""QUALIFY: the plan without it gives the rows that DuckDB's own QUALIFY gives."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
import sqlglot
from hypothesis import given, settings
from hypothesis import strategies as st

from platform_plugin.algebra.plan.nodes import Derived, Filter, Project, Window
from platform_plugin.algebra.plan.render import render
from platform_plugin.operators.group.split import read_plan
from tests.relations.views.composed import RELATIONS, relation

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb

PEOPLE = relation("people", "table", {"id": "INT", "region": "STRING", "rate": "INT"})

# The order of every window is total over the rows below, so that no engine may choose.
QUERIES = [
    "SELECT region FROM people QUALIFY row_number() OVER (PARTITION BY region ORDER BY rate, id) = 1",
    "SELECT region AS r, id, dense_rank() OVER (PARTITION BY region ORDER BY rate) AS place FROM people QUALIFY place <= 2",
    "SELECT id, rate FROM people QUALIFY max(rate) OVER (PARTITION BY region) = rate",
    "SELECT * FROM people WHERE id > 1 QUALIFY rate > 3 AND count(*) OVER (PARTITION BY region) > 1",
    "SELECT DISTINCT region FROM people QUALIFY count(*) OVER (PARTITION BY region, rate) > 1",
    "SELECT region FROM people QUALIFY row_number() OVER (ORDER BY rate, id, region) > 1 ORDER BY rate DESC, id, region LIMIT 3",
    "SELECT region, max(rate) AS m FROM people GROUP BY region HAVING count(*) > 1 QUALIFY rank() OVER (ORDER BY m DESC, region) = 1",
    "SELECT max(rate) AS m FROM people GROUP BY id QUALIFY row_number() OVER (ORDER BY id) < 3",
    "SELECT id, rank() OVER w AS r FROM people QUALIFY r = 1 WINDOW w AS (PARTITION BY region ORDER BY rate)",
    "SELECT id, rank() OVER (ORDER BY rate) + 1 AS b FROM people QUALIFY b = 2 OR id = 3",
    "SELECT id FROM people p QUALIFY sum(rate) OVER (PARTITION BY region) > 5 AND EXISTS (SELECT 1 FROM people q WHERE q.rate > p.rate)",
    "SELECT p.id, q.rate FROM people p JOIN people q USING (id) QUALIFY min(q.rate) OVER (PARTITION BY id) = p.rate",
]

rows = st.lists(st.tuples(st.integers(1, 4), st.sampled_from(["a", "b", "c"]), st.none() | st.integers(1, 6)), max_size=12, unique=True)


@pytest.fixture(scope="module")
def engine() -> Iterator[duckdb.DuckDBPyConnection]:
    import duckdb as library

    with library.connect(":memory:", config={"threads": 1}) as connection:
        connection.execute("CREATE TABLE people (id INT, region VARCHAR, rate INT)")
        yield connection


def ask(engine: duckdb.DuckDBPyConnection, sql: str) -> Counter[tuple[object, ...]]:
    return Counter(engine.execute(sqlglot.transpile(sql, read="spark", write="duckdb")[0]).fetchall())


@pytest.mark.parametrize("query", QUERIES)
@settings(max_examples=25)
@given(found=rows)
def test_the_plan_gives_the_rows_of_the_text(engine: duckdb.DuckDBPyConnection, query: str, found: list[tuple[object, ...]]) -> None:
    engine.execute("DELETE FROM people")
    if found:
        engine.executemany("INSERT INTO people VALUES (?, ?, ?)", found)
    text = render(read_plan(query, {**RELATIONS, "people": PEOPLE}))
    assert "qualify" not in text.lower()
    assert ask(engine, text) == ask(engine, query)


def test_a_window_call_that_select_has_is_computed_once() -> None:
    plan = read_plan("SELECT id, rank() OVER (ORDER BY rate) AS r FROM people QUALIFY rank() OVER (ORDER BY rate) = 1", {"people": PEOPLE})
    assert isinstance(plan, Project)
    assert isinstance(plan.source, Filter)
    assert isinstance(plan.source.source, Derived)
    window = plan.source.source.query
    assert isinstance(window, Window)
    assert [item.name for item in window.items] == [item.name for item in plan.items] == ["id", "r"]
