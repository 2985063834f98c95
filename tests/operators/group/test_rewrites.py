"""Hints tell the truth: what a refusal leads to gives the rows of what was refused, or the hint says how it differs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings

from platform_plugin.errors import RefusedView
from platform_plugin.operators.group.split import plan_split
from tests.operators.group.test_admission import MORE, sections
from tests.relations.views.composed import ROWS, bag, whole
from tests.relations.views.queries import rows
from tests.relations.views.refused import DIFFERS, INSTEAD, REFUSED
from tests.relations.views.test_split_property import ask, engine, fill  # noqa: F401  a fixture

if TYPE_CHECKING:
    import duckdb

    from platform_plugin.engine.spark.session.session import Session
    from tests.relations.views.composed import Rows

SPARK_ONLY = {"sessions", "order of another"}
"""What DuckDB has no function for, or answers otherwise."""
NO_ORACLE = {"parameter", "no stream", "correlated", "unknown type", "sessions of several groupings"}
"""What no engine answers as it stands: Spark refuses the last three itself."""
SAME = {name: (REFUSED[name][0], str(INSTEAD[name])) for name in REFUSED if name not in (*DIFFERS, *NO_ORACLE)}
PAGE_DIFFERS = {"R1", "R2", "R7", "R9", "R10", "A1"}
DAILY = "CREATE OR REPLACE VIEW daily AS SELECT uid, count(*) AS n FROM posts WHERE uid > 1 GROUP BY uid"


@pytest.mark.parametrize("name", DIFFERS)
def test_a_hint_that_leads_to_other_rows_says_how_they_differ(name: str) -> None:
    with pytest.raises(RefusedView) as caught:
        plan_split(REFUSED[name][0], MORE)
    _, words, how = str(caught.value.hint).partition("not the same")
    assert words
    assert DIFFERS[name] in how


def check(engine: duckdb.DuckDBPyConnection, found: Rows) -> None:  # noqa: F811
    engine.execute(DAILY)
    fill(engine, found)
    for name, (refused, instead) in SAME.items():
        if name not in SPARK_ONLY:
            assert ask(engine, instead) == ask(engine, refused), name


def test_all_others_lead_to_the_same_rows(engine: duckdb.DuckDBPyConnection) -> None:  # noqa: F811
    check(engine, ROWS)


@settings(max_examples=2)
@given(found=rows())
def test_so_they_do_whatever_the_rows_are(engine: duckdb.DuckDBPyConnection, found: Rows) -> None:  # noqa: F811
    check(engine, found)


@pytest.mark.slow
@settings(max_examples=200)
@given(found=rows())
def test_so_they_do_for_hundreds_of_them(engine: duckdb.DuckDBPyConnection, found: Rows) -> None:  # noqa: F811
    check(engine, found)


@pytest.mark.spark
@pytest.mark.parametrize("name", sorted(SPARK_ONLY))
def test_on_spark_the_others_lead_to_the_same_rows(spark_session: Session, name: str) -> None:
    # Two posts of one session and one of another: they meet where one ends and the other begins.
    more = [(1, 5, "1.25", 0.5, f"2026-01-05 {time}", "5", ()) for time in ("10:00:00", "10:05:00", "10:10:01", "10:12:00")]
    found = {**ROWS, "posts": [*ROWS["posts"], *more]}
    refused, instead = (bag(spark_session.spark.sql(whole(text, found)).collect()) for text in SAME[name])
    assert instead == refused
    assert refused


@pytest.mark.parametrize("rule", sections())
def test_the_second_of_each_pair_on_the_page_gives_the_rows_of_the_first_or_the_page_says_that_it_does_not(
    engine: duckdb.DuckDBPyConnection,  # noqa: F811
    rule: str,
) -> None:
    fill(engine, ROWS)
    _, pair, text = sections()[rule]
    if pair:
        refused, accepted = pair
        assert ("Not the same" in text) is (rule in PAGE_DIFFERS)
        assert rule in PAGE_DIFFERS or ask(engine, accepted) == ask(engine, refused)
