"""Estimates with fixed rates: the break-even between process and job is where the rates say, and runs move the rates."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_plugin.engine.engine import Bid, Task, TaskInput
from platform_plugin.engine.rates import (
    LOCAL_CORES,
    SQL_JOB_SECONDS,
    UNSEEN_SECONDS,
    MeasuredRates,
    Rates,
    RunSize,
    count_cores,
    estimate_job,
    estimate_local,
    estimate_sql,
    measure_size,
)
from tests.engine.plans import SUM, plan

FIXED = Rates(row=30e-9, plan=30e-9, far_byte=1e-8, job=0.2)
TASKS = 1_000_000


def job(size, rates=FIXED, *, slots=4, busy=0, distance="near", start=0.0):
    return estimate_job(size, rates, distance, cores=count_cores(slots, busy, size, least_rows=TASKS), start=start)


def break_even(plans, rates=FIXED, **job_options):
    """The rows, in steps of 100 000, from which on a job takes less time than the process."""
    sizes = (RunSize(rows, plans) for rows in range(0, 100_000_000, 100_000))
    return next((size.rows for size in sizes if job(size, rates, **job_options) < estimate_local(size, rates, "near")), None)


def near(rows):
    return pytest.approx(rows, abs=100_000)


def test_the_break_even_is_where_the_rates_say():
    # In the process rows cost (30 + 30) / 1.7 = 35.3 ns each, in two tasks 30 and in four 15.
    # So 9.9 million rows save the 0.2 s that a job costs.
    assert break_even(1) == near(9_850_000)
    assert break_even(6) < break_even(1), "what a job costs is shared by all plans"
    assert break_even(1, FIXED._replace(job=0.4)) == near(19_700_000), "it moves with what a job costs"
    assert break_even(1, FIXED._replace(row=60e-9, plan=60e-9)) == near(4_920_000), "and with what a row costs"
    assert break_even(1, busy=4) > break_even(1), "busy cores are no help"
    assert break_even(1, slots=1) is None, "one core of a cluster is less than the process has"
    assert break_even(1, start=6.0) is None, "nobody starts a server for what takes a second"


def test_far_files_are_read_where_they_are_near():
    size = RunSize(1_000_000, 1, size_bytes=100_000_000)
    assert estimate_local(size, FIXED, "far") - estimate_local(size, FIXED, "near") == 1.0
    assert estimate_local(size, FIXED, "near") < job(size) < estimate_local(size, FIXED, "far")
    assert job(size, distance="far") > estimate_local(size, FIXED, "far"), "executors on the same machine have the same way"
    assert job(size, distance="unseen") > UNSEEN_SECONDS, "a folder of this machine may not be there for others"


def test_spark_sql_takes_a_fixed_time_for_each_plan():
    one, six = (estimate_sql(RunSize(0, plans), Rates(), "near", cores=2) for plans in (1, 6))
    assert SQL_JOB_SECONDS < one < six
    assert estimate_sql(RunSize(20_000_000, 6), Rates(), "near", cores=2) > 2 * job(RunSize(20_000_000, 6), slots=2)


def test_sizes_are_those_of_the_largest_input_and_all_plans():
    bid = Bid(engine="local", task=Task.of(plan(SUM)), why="always")
    inputs = {"s": TaskInput(role="range", row_count=10, size_bytes=100), "t": TaskInput(role="table", row_count=3, size_bytes=30)}
    assert measure_size([bid, bid], inputs) == RunSize(10, 2, 130)
    assert measure_size([bid], {}) == RunSize(0, 1, 0)


def test_runs_move_the_break_even_towards_what_they_took():
    measured = MeasuredRates(FIXED)
    size = RunSize(4_000_000, 1)
    assert estimate_local(size, measured.of("local", "near"), "near") < job(size, measured.of("executors", "near"))
    for _ in range(10):
        # This machine takes twice as long for a row, and its jobs cost nothing.
        expected = estimate_local(size, measured.of("local", "near"), "near")
        measured.note("local", "near", size, ratio=2 * estimate_local(size, FIXED, "near") / expected)
        measured.note("executors", "near", size, ratio=1.0, job_seconds=0.02)
    assert estimate_local(size, measured.of("local", "near"), "near") > job(size, measured.of("executors", "near"))
    assert abs(measured.of("local", "near").row / FIXED.row - 2.0) < 0.1
    assert measured.of("local", "far") == FIXED, "other distances are not measured by it"
    measured.clear()
    assert measured.of("local", "near") == FIXED


@given(st.lists(st.floats(0.001, 1000.0), max_size=20))
def test_no_single_run_moves_a_rate_by_more_than_a_third(ratios):
    measured = MeasuredRates(FIXED)
    for ratio in ratios:
        before = measured.of("local", "near")
        measured.note("local", "near", RunSize(1_000_000, 1), ratio=ratio, job_seconds=ratio)
        after = measured.of("local", "near")
        for old, new in zip(before, after, strict=True):
            assert 0.8 <= new / old <= 1.31
        assert (after.row > before.row) == (ratio > 1.0)


def test_few_rows_say_nothing_about_rows():
    measured = MeasuredRates(FIXED)
    measured.note("local", "near", RunSize(1_000, 1), ratio=100.0)
    assert measured.of("local", "near") == FIXED


@given(st.integers(0, 10**9), st.integers(1, 64), st.integers(1, 256))
def test_more_cores_never_take_longer_and_more_rows_never_less(rows, plans, slots):
    size = RunSize(rows, plans)
    assert job(size, slots=slots + 1) <= job(size, slots=slots)
    assert estimate_local(RunSize(rows + 1, plans), FIXED, "near") > estimate_local(size, FIXED, "near")
    assert LOCAL_CORES >= 1
