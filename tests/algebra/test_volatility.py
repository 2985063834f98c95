"""Volatile functions: each of Spark's is known by one list, and refused or looked out for wherever an answer is kept."""

from __future__ import annotations

import pytest

from platform_plugin.algebra.functions import DICE, VOLATILE
from platform_plugin.algebra.volatility import may_be_volatile
from platform_plugin.errors import RefusedView
from platform_plugin.language.query.volatile import find_volatile_call
from platform_plugin.language.text.tokens import tokenize
from platform_plugin.operators.group.body import read_body
from tests.engine.spark.functions import FUNCTIONS
from tests.relations.views.composed import split

ARGUMENTS = {"uniform": "1, 2", "randstr": "3", "shuffle": "array(1)"}
# What Spark knows without brackets, too, or sqlglot takes for that.
BARE = ["current_date", "current_time", "current_timestamp", "current_user", "localtimestamp", "session_user", "user"]
CALLS = [f"{name}({ARGUMENTS.get(name, '')})" for name in sorted(VOLATILE)] + [
    "unix_timestamp()",
    "`rand`()",
    "system.builtin.NOW ( )",
    *BARE,
]
SETTLED = ["unix_timestamp(at)", "to_unix_timestamp(at)", "rank.version", "abs(1)", "'now()'", "`user`"]


def is_of_the_row(call):
    """Whether the value comes from chance, or from where a row is read, so that each row has its own."""
    name = call.strip("`").partition("(")[0].strip("` ").lower()
    return name in DICE or name.startswith("input_file")


def test_the_list_is_that_of_sparks_functions():
    """Each of which somebody has looked at: another test compares those with what Spark lists."""
    asked = ("from the clock", "from chance, or from where a row is computed")
    found = {name for group in FUNCTIONS if group.reason in asked or group.verdict == "tells" for name in group.names.split()}
    assert found - {"unix_timestamp", "to_unix_timestamp"} == VOLATILE


@pytest.mark.parametrize("call", CALLS)
def test_volatile_calls_are_found_in_views_and_in_conditions(call):
    below = f"SELECT count(*) AS n FROM posts WHERE {call} IS NOT NULL"
    if is_of_the_row(call):
        with pytest.raises(RefusedView, match="asked before the grouping") as caught:
            split(below)
        assert caught.value.rule == "H1"
    else:
        assert split(below).volatile, "it is checked at each read"
    assert split(f"SELECT count(*) AS n, {call} AS asked FROM posts").volatile
    assert find_volatile_call(tokenize(f"score > 1 AND {call} IS NOT NULL"), ["score"]) is not None
    assert may_be_volatile(read_body(f"SELECT uid, {call} AS asked FROM posts"))


@pytest.mark.parametrize("call", SETTLED)
def test_calls_that_only_look_volatile_are_not(call):
    assert find_volatile_call(tokenize(f"score > 1 AND {call} IS NOT NULL"), ["score"]) is None
    assert not may_be_volatile(read_body(f"SELECT uid, {call} AS asked FROM rank"))


MOMENTS = (
    "at > TIMESTAMP 'now'",
    "date(at) = DATE 'Today '",
    "at > CAST('yesterday' AS TIMESTAMP)",
    "at > to_timestamp('now UTC')",
    "at >= 'now'",
    "at > 'now'::timestamp",
)


@pytest.mark.parametrize("condition", MOMENTS)
def test_words_that_spark_reads_as_the_time_of_a_query_are_asked_of_the_clock(condition):
    assert split(f"SELECT count(*) AS n FROM posts WHERE {condition}").volatile
    assert find_volatile_call(tokenize(condition), ["at"]) is not None


@pytest.mark.parametrize(
    "condition", ["content = 'now'", "at > TIMESTAMP '2026-01-01'", "content IN ('today', 'now')", "lower('now') = content"]
)
def test_such_words_are_texts_elsewhere(condition):
    assert split(f"SELECT count(*) AS n FROM posts WHERE {condition}").states
    assert find_volatile_call(tokenize(condition), ["at", "content"]) is None


def test_columns_of_such_names_are_no_calls():
    assert find_volatile_call(tokenize("user = 'ada' AND uuid IS NULL AND t.version > 1"), ["User", "uuid", "version"]) is None
    assert find_volatile_call(tokenize("uuid() = uuid"), ["uuid"]) == 0
