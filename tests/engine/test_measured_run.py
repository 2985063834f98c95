"""What an engine's run tells: of a process the time, of a job its tasks, executors and bytes; and the rates that follow from it."""

import pytest

from platform_plugin.engine import measured_run
from platform_plugin.engine.choose import EstimatedChoice
from platform_plugin.engine.distance import FileDistances
from platform_plugin.engine.engine import Bid, Task, TaskInput, TaskResult
from platform_plugin.engine.executors import TaskJob
from platform_plugin.engine.measured_run import describe_sql, measure_job, run_chosen
from platform_plugin.engine.rates import MeasuredRates, Rates, RunSize
from platform_plugin.engine.spark.session.metrics import JobMetrics
from platform_plugin.engine.spark.tasks.share import ShareFigures
from tests.engine.plans import SUM, plan

NEAR = FileDistances("near", "near")


@pytest.fixture(autouse=True)
def measured(monkeypatch):
    rates = MeasuredRates(Rates(row=1e-7, plan=0.0, job=0.2))
    monkeypatch.setattr(measured_run, "MEASURED", rates)
    return rates


def ranged(rows):
    return {"s": TaskInput(role="range", row_count=rows)}


def share(seconds, executor, rows=500_000):
    return ShareFigures(rows=rows, files=1, seconds=seconds, cpu_seconds=seconds / 2, bytes_written=10, executor=executor)


def test_a_job_tells_its_tasks_by_executor_and_moves_the_rates(measured):
    shares = (share(0.1, "m/1"), share(0.2, "m/1"), share(0.1, "n/2"), share(0.4, "n/2"))
    job = TaskJob(JobMetrics(jobs=1, tasks=4, seconds=0.7), shares, client_bytes=4000)
    bid = Bid(engine="executors", task=Task.of(plan(SUM)), why="")
    choices = [
        (EstimatedChoice(None, {"v": bid}, {"executors": 0.5, "local": 0.6}, "local would take 0.6 s"), ranged(1_000_000)),
        (EstimatedChoice(None, {"w": bid}, {"executors": 0.4}, "not local: many rows"), ranged(1_000_000)),
    ]
    run = measure_job(choices, job, NEAR, relations=["v", "w"], seconds=0.8)
    assert run.why == "local would take 0.6 s; not local: many rows"
    assert run.estimates == {"executors": pytest.approx(0.7)}, "one job, and nobody else for both"
    assert (run.rows, run.jobs, run.tasks, run.executors) == (2_000_000, 1, 4, {"m/1": 2, "n/2": 2})
    assert run.skew == pytest.approx(0.4 / 0.15, abs=0.01)
    assert run.client_bytes == 4000
    assert run.core_rows_per_second == pytest.approx(2_000_000 / 0.4)
    # Tasks took 0.8 s for what was estimated as 0.2 s, and the job 0.3 s beside its longest task.
    assert measured.of("executors", "near").row == pytest.approx(1e-7 * 1.3)
    assert measured.of("executors", "near").job == pytest.approx(0.2 * 1.15)
    assert measured.of("local", "near").row == 1e-7


def test_a_run_in_the_process_is_timed_and_moves_its_rates(measured, monkeypatch):
    class Slow:
        name = "local"

        def run(self, bids, inputs, values=()):
            del inputs, values
            clock[0] += 0.5
            return [TaskResult() for _ in bids]

    clock = [0.0]
    monkeypatch.setattr(measured_run.time, "monotonic", lambda: clock[0])
    bid = Bid(engine="local", task=Task.of(plan(SUM)), why="")
    chosen = EstimatedChoice(Slow(), {"a": bid, "b": bid}, {"local": 0.2, "executors": 0.4}, "about 0.2 s")
    results, run = run_chosen(chosen, ranged(3_000_000), NEAR, relations=["a", "b"])
    assert list(results) == ["a", "b"]
    assert (run.relations, run.rows, run.seconds, run.estimated_seconds) == (("a", "b"), 3_000_000, 0.5, 0.2)
    # 3 million rows at 100 ns on 1.5 cores are 0.2 s; it took two and a half times as long, of which a run counts twice at most.
    assert measured.of("local", "near").row == pytest.approx(1e-7 * 1.3)


def test_spark_sql_tells_what_its_server_knows():
    metrics = JobMetrics(jobs=2, tasks=9, task_skew=1.5, task_seconds=4.0)
    run = describe_sql(["v"], "the function soundex", RunSize(100, 1), metrics, seconds=1.0, estimates={"spark_sql": 0.7})
    assert (run.engine, run.why, run.jobs, run.tasks, run.skew) == ("spark_sql", "the function soundex", 2, 9, 1.5)
    assert run.estimated_seconds == 0.7
    assert run.core_rows_per_second == 25
