"""Sessions by the Arrow kernel: those of ranges, merged in any order, are those of all rows, as plain Python tells them."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings

from platform_plugin.engine.arrow.plans import run_plan
from platform_plugin.engine.arrow.values import NotSupportedByArrow
from tests.engine.arrow.test_plans import answer, table
from tests.relations.views.composed import RELATIONS, bag, split
from tests.relations.views.sessions import GAP, posts, sessions_of
from tests.relations.views.test_split_property import cuts

if TYPE_CHECKING:
    from tests.relations.views.composed import Cut, Rows

BY_USER = """SELECT uid, session_window.start AS s, session_window.end AS e, count(*) AS n, sum(score) AS t, min(score) AS lo,
    count(*) FILTER (WHERE score > 1) AS f FROM posts GROUP BY uid, session_window(at, '5 seconds')"""
OF_ALL = "SELECT session_window(at, '5 SECOND').start AS s, max(score) AS hi FROM posts GROUP BY session_window(at, '5 SECOND')"
DIFFERENT = "SELECT uid, session_window AS w, count(DISTINCT score) AS d FROM posts GROUP BY session_window(at, '5000 milliseconds'), uid"
GROUPED_AGAIN = """SELECT uid, count(*) AS sessions, max(n) AS most FROM
    (SELECT uid, count(*) AS n FROM posts GROUP BY uid, session_window(at, '5 seconds')) GROUP BY uid"""


def scores(rows: list[Any]) -> list[int]:
    return [row[1] for row in rows if row[1] is not None]


def by_user(found: Rows) -> list[tuple[Any, ...]]:
    made = []
    for uid, start, end, rows in sessions_of(found["posts"], lambda row: row[0], lambda _: GAP):
        known = scores(rows)
        made.append((uid, start, end, len(rows), sum(known) if known else None, min(known, default=None), sum(s > 1 for s in known)))
    return bag(made)


def of_all(found: Rows) -> list[tuple[Any, ...]]:
    made = sessions_of(found["posts"], lambda _: 0, lambda _: GAP)
    return bag([(start, max(scores(rows), default=None)) for _, start, _, rows in made])


def plain(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Times without the zone that they are in, and structs as tuples."""

    def value(found: Any) -> Any:
        if isinstance(found, dict):
            return tuple(map(value, found.values()))
        return found.replace(tzinfo=None) if isinstance(found, datetime) else found

    return bag([tuple(map(value, row)) for row in rows])


@settings(max_examples=60)
@given(found=posts(), cut=cuts)
def test_sessions_of_ranges_merged_are_those_of_all_rows(found: Rows, cut: Cut) -> None:
    assert plain(answer(split(BY_USER), found, cut)) == by_user(found)
    assert plain(answer(split(OF_ALL), found, cut)) == of_all(found)


@settings(max_examples=40)
@given(found=posts(), cut=cuts)
def test_different_values_of_sessions_are_those_of_all_rows(found: Rows, cut: Cut) -> None:
    expected = [
        (uid, (start, end), len(set(scores(rows))))
        for uid, start, end, rows in sessions_of(found["posts"], lambda row: row[0], lambda _: GAP)
    ]
    assert plain(answer(split(DIFFERENT), found, cut)) == bag(expected)


@settings(max_examples=20)
@given(found=posts(), cut=cuts)
def test_sessions_can_be_grouped_again(found: Rows, cut: Cut) -> None:
    made = sessions_of(found["posts"], lambda row: row[0], lambda _: GAP)
    users = {uid for uid, *_ in made}
    numbers = {uid: [len(rows) for other, _, _, rows in made if other == uid] for uid in users}
    assert answer(split(GROUPED_AGAIN), found, cut) == bag([(uid, len(numbers[uid]), max(numbers[uid])) for uid in users])


@pytest.mark.slow
@pytest.mark.timeout(1200)
@settings(max_examples=1000)
@given(found=posts(), cut=cuts)
def test_all_that_holds_for_many_more_rows(found: Rows, cut: Cut) -> None:
    for test in (
        test_sessions_of_ranges_merged_are_those_of_all_rows,
        test_different_values_of_sessions_are_those_of_all_rows,
        test_sessions_can_be_grouped_again,
    ):
        test.hypothesis.inner_test(found, cut)


def test_a_late_row_joins_two_sessions() -> None:
    state = split(BY_USER).states[0]
    part = split(BY_USER).streams[0]

    def made(*times: str) -> pa.Table:
        return run_plan(part.query, {"main.posts": table("posts", [(1, 2, None, None, time, None, ()) for time in times])})

    apart = made("2026-01-01 10:00:00", "2026-01-01 10:00:10")
    assert apart.num_rows == 2
    joined = run_plan(state.merge, {"rows": pa.concat_tables([apart, made("2026-01-01 10:00:05")])})
    assert [(row["n"], row["sum_score"], row["session_window"]["end"].second) for row in joined.to_pylist()] == [(3, 6, 15)]


@pytest.mark.parametrize(
    ("gap", "microseconds"),
    [
        ("'5 minutes'", 300_000_000),
        ("'1 hour 30 seconds'", 3_630_000_000),
        ("'2 DAYS'", 172_800_000_000),
        ("' 7 milliseconds '", 7_000),
        ("INTERVAL '5' MINUTE", 300_000_000),
        ("INTERVAL 1 WEEK 1 MICROSECOND", 604_800_000_001),
    ],
)
def test_gaps_are_read_as_written(gap: str, microseconds: int) -> None:
    plan = split(f"SELECT session_window.start AS s, count(*) AS n FROM posts GROUP BY session_window(at, {gap})")
    rows = table("posts", [(1, 2, None, None, "2026-01-01 10:00:00", "a", ())])
    made = run_plan(plan.streams[0].query, {"main.posts": rows}).column("session_window").combine_chunks()
    assert pc.subtract(made.field("end"), made.field("start")).cast(pa.int64()).to_pylist() == [microseconds]


@pytest.mark.parametrize("gap", ["'1 month'", "'1 day 2 years'", "'five minutes'", "'0 seconds'", "'5'", "concat(content, ' seconds')"])
def test_a_session_that_ends_beyond_on_a_calendar_or_on_the_row_are_sparks(gap: str) -> None:
    plan = split(f"SELECT session_window.start AS s, count(*) AS n FROM posts GROUP BY session_window(at, {gap})")
    with pytest.raises(NotSupportedByArrow):
        run_plan(plan.streams[0].query, {"main.posts": table("posts", [(1, 2, None, None, "2026-01-01 10:00:00", "5", ())])})


def test_a_session_that_ends_beyond_all_times_is_sparks() -> None:
    plan = split("SELECT session_window.start AS s, count(*) AS n FROM posts GROUP BY session_window(at, '100000 hours')")
    fields = [field.name for field in RELATIONS["posts"].fields]
    rows = table("posts", [(1, 2, None, None, "2026-01-01 10:00:00", "a", ())])
    late = rows.set_column(fields.index("at"), "at", pa.array([(1 << 62) - 1]).cast(pa.timestamp("us")))
    with pytest.raises(NotSupportedByArrow) as refused:
        run_plan(plan.streams[0].query, {"main.posts": late})
    assert not refused.value.refusal.for_good
