"""The first engine that bids runs a task; without one it is left to Spark SQL, and the reason is told."""

from platform_plugin.engine.choose import OfferedTask, choose_engine, choose_engines
from platform_plugin.engine.engine import Bid, Task, TaskInput
from platform_plugin.engine.rates import estimate_seconds
from platform_plugin.engine.refusal import Refusal
from tests.engine.plans import SUM, plan


class Fixed:
    """An engine that always says the same."""

    def __init__(self, name, why=None, job=0.0, plan=1.0):
        self.name, self.why, self.job, self.plan = name, why, job, plan

    def bid(self, task, inputs):
        del inputs
        return Bid(engine=self.name, task=task, why="always") if self.why is None else Refusal(why=self.why)

    def estimate(self, bids, inputs):
        del inputs
        return self.job + self.plan * len(bids)

    def run(self, bids, inputs, values=()):
        raise NotImplementedError


def test_the_first_that_bids_is_chosen():
    choice = choose_engine(Task.of(plan(SUM)), {}, [Fixed("a", "too far"), Fixed("b"), Fixed("c")])
    assert (choice.engine.name, choice.bid.engine) == ("b", "b")


def test_where_none_bids_the_last_refusal_is_told():
    assert choose_engine(Task.of(plan(SUM)), {}, [Fixed("a", "too far"), Fixed("b", "too large")]) == Refusal(why="too large")
    assert choose_engine(Task.of(plan(SUM)), {}, []).why == "no engine but Spark SQL"


def offers(count):
    return {f"view {number}": OfferedTask(Task.of(plan(SUM)), {}) for number in range(count)}


def test_what_a_job_costs_is_shared_by_all_tasks_over_an_input():
    local, job = Fixed("local", plan=1.0), Fixed("executors", job=5.0, plan=0.5)
    for count, name in ((1, "local"), (9, "local"), (11, "executors")):
        ((engine, bids),) = choose_engines(offers(count), [local, job]).engines
        assert (engine.name, len(bids)) == (name, count)


def test_what_one_engine_refuses_is_offered_to_the_next_and_at_last_to_spark_sql():
    class Some(Fixed):
        def bid(self, task, inputs):
            return super().bid(task, inputs) if task is taken else Refusal(why="too large")

    tasks = offers(3)
    taken = tasks["view 1"].task
    choice = choose_engines(tasks, [Some("local")])
    assert [(engine.name, list(bids)) for engine, bids in choice.engines] == [("local", ["view 1"])]
    assert choice.refused == {name: Refusal(why="too large") for name in ("view 0", "view 2")}
    choice = choose_engines(tasks, [Some("local"), Fixed("executors", job=100.0)])
    assert [engine.name for engine, _ in choice.engines] == ["executors"], "one engine for all, if there is one"
    assert not choice.refused


def test_seconds_grow_with_rows_and_plans_and_fall_with_cores():
    bid = Bid(engine="local", task=Task.of(plan(SUM)), why="always")
    few, many = ({"s": TaskInput(role="range", row_count=count)} for count in (10_000, 10_000_000))
    assert estimate_seconds([bid], few, cores=1) < estimate_seconds([bid], many, cores=2) < estimate_seconds([bid], many, cores=1)
    assert estimate_seconds([bid] * 4, many, cores=1) > 2 * estimate_seconds([bid], many, cores=1)
