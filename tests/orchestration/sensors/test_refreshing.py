"""When views are due: lag, backlog, a full ring and what the last run cost decide, and a reason is always given."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_plugin.lake.catalogue.tables import Name
from platform_plugin.orchestration.sensors.firing import PastRun, find_unreported
from platform_plugin.orchestration.sensors.refreshing import DueViews, plan_refresh
from platform_plugin.orchestration.sensors.waiting import WaitingView

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def view(name, rows=10, lag=0.0, **options):
    since = NOW - timedelta(seconds=lag) if rows else None
    return WaitingView(view=Name.of(name), rows=rows, since=since, streams=options.pop("streams", frozenset({"posts"})), **options)


def ended(seconds, ago, *, succeeded=True, failed=()):
    return PastRun(pool="spark", ended=NOW - timedelta(seconds=ago), seconds=seconds, succeeded=succeeded, failed=frozenset(failed))


def names(due):
    assert isinstance(due, DueViews), due
    return [each.view.relation for each in due.views]


def test_nothing_waiting_costs_nothing():
    assert plan_refresh([view("a", rows=0), view("b", rows=0)], NOW) == "no unconsumed rows for 2 views"


def test_a_view_is_due_when_its_oldest_row_would_wait_longer_than_its_target_lag():
    assert "no target lag is near" in plan_refresh([view("a", lag=20, target_lag_seconds=60)], NOW)
    due = plan_refresh([view("a", lag=56, target_lag_seconds=60)], NOW)
    assert names(due) == ["a"]
    assert due.reason == "lag 56.0 s of 60 s, 10 unconsumed rows"


def test_rows_that_several_views_wait_for_are_counted_once():
    near = "the oldest for 5 s: no target lag is near"
    assert plan_refresh([view("a", lag=5), view("b", rows=0)], NOW) == f"10 unconsumed rows for 1 of 2 views, {near}"
    both = [view("a", rows=50, lag=5), view("b", rows=50, lag=5)]
    assert plan_refresh(both, NOW) == f"up to 50 unconsumed rows for each of 2 of 2 views, {near}"


def test_what_the_last_run_took_is_taken_into_account():
    assert isinstance(plan_refresh([view("a", lag=30, target_lag_seconds=60)], NOW), str)
    assert names(plan_refresh([view("a", lag=30, target_lag_seconds=60)], NOW, runs=[ended(28, 100)])) == ["a"]


def test_many_rows_or_a_filling_ring_do_not_wait_for_the_lag():
    assert names(plan_refresh([view("a", rows=2_000_000)], NOW)) == ["a"]
    due = plan_refresh([view("a", fullness=0.6)], NOW)
    assert due.reason == "60% of a stream are unconsumed rows"


def test_views_on_a_stream_that_is_read_anyway_are_taken_along_and_others_are_not():
    others = [view("b", lag=1), view("c", lag=1, streams=frozenset({"likes"})), view("d", rows=0)]
    due = plan_refresh([view("a", lag=100), *others], NOW)
    assert names(due) == ["a", "b"]
    assert due.reason == "lag 100.0 s of 60 s, 10 unconsumed rows"


def test_maintenance_takes_no_more_than_its_share_of_the_time_unless_a_ring_is_filling():
    runs = [ended(40, 10)]
    told = plan_refresh([view("a", lag=100)], NOW, runs=runs)
    assert told == "the last run took 40 s, so the next one waits 30 s more; a: lag 100.0 s of 60 s, 10 unconsumed rows"
    assert names(plan_refresh([view("a", lag=100, fullness=0.9)], NOW, runs=runs)) == ["a"]
    assert names(plan_refresh([view("a", lag=100)], NOW, runs=[ended(40, 41)])) == ["a"]


def test_a_view_that_failed_is_left_alone_for_a_while_and_the_others_are_not():
    runs = [ended(1, 5, succeeded=False, failed=["main.a"])]
    assert names(plan_refresh([view("a", lag=100), view("b", lag=100)], NOW, runs=runs)) == ["b"]
    assert plan_refresh([view("a", lag=100)], NOW, runs=runs) == "a failed and is tried again in 5 s"
    assert names(plan_refresh([view("a", lag=100)], NOW, runs=[ended(1, 11, succeeded=False, failed=["main.a"])])) == ["a"]


def test_a_run_that_died_without_a_word_holds_up_everybody_for_a_while():
    dead = PastRun(pool="spark", ended=NOW - timedelta(seconds=3))
    assert "tried again in 7 s" in plan_refresh([view("a", lag=100)], NOW, runs=[dead])


def test_what_a_killed_run_was_for_is_run_again_even_if_nothing_waits():
    lost = view("a", rows=0).view
    assert plan_refresh([view("a", rows=0)], NOW, untold=[lost]).reason == "the last run ended before it could report what it did"
    dead = PastRun(pool="spark", ended=NOW - timedelta(seconds=3), assets=frozenset({"a/a_base"}))
    assert "tried again in 7 s" in plan_refresh([view("a", rows=0)], NOW, runs=[dead], untold=[lost])
    assert find_unreported([dead], "spark") == {"a/a_base"}
    assert (
        find_unreported([replace(dead, failed=frozenset({"main.a"}))], "spark")
        == find_unreported([replace(dead, succeeded=True), dead], "spark")
        == set()
    )


@given(st.lists(st.tuples(st.integers(0, 10**7), st.floats(0, 1000), st.floats(1, 1000), st.sampled_from("pq")), max_size=8))
def test_no_view_is_late_without_being_chosen_and_none_without_rows_ever_is(drawn):
    views = [
        view(f"v{number}", rows=rows, lag=lag, target_lag_seconds=target, streams=frozenset({stream}))
        for number, (rows, lag, target, stream) in enumerate(drawn)
    ]
    due = plan_refresh(views, NOW)
    chosen = {each.view for each in due.views} if isinstance(due, DueViews) else set()
    assert all(each.rows for each in views if each.view in chosen)
    late = {each.view for each in views if each.rows and each.lag_seconds(NOW) >= (each.target_lag_seconds or 0)}
    assert late <= chosen


@pytest.mark.parametrize("target", [None, 60.0])
def test_without_a_target_lag_a_minute_is_meant(target):
    assert isinstance(plan_refresh([view("a", lag=50, target_lag_seconds=target)], NOW), str)
    assert names(plan_refresh([view("a", lag=55, target_lag_seconds=target)], NOW)) == ["a"]
