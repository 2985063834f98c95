"""The first engine that bids runs a task; without one it is left to Spark SQL, and the reason is told."""

from platform_plugin.engine.choose import EngineOffer, OfferedTask, choose_engine, choose_engines
from platform_plugin.engine.engine import Bid, Task
from platform_plugin.engine.option import EngineOption
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


def offered(name, *engines, set_by="option of the relation"):
    return OfferedTask(Task.of(plan(SUM)), {}, EngineOffer(EngineOption(name, set_by), engines))


def test_a_task_is_offered_to_the_engines_of_its_relation_alone():
    local, job = Fixed("local"), Fixed("executors", job=5.0)
    tasks = {"a": offered("auto", local, job), "b": offered("executors", job), "c": offered("spark_sql")}
    choice = choose_engines(tasks)
    assert [(engine.name, sorted(bids)) for engine, bids in choice.engines] == [("executors", ["a", "b"])], "the job is made anyway"
    assert choice.refused["c"].why == "engine = 'spark_sql', option of the relation"
    choice = choose_engines({name: tasks[name] for name in ("a", "c")})
    assert [(engine.name, list(bids)) for engine, bids in choice.engines] == [("local", ["a"])]


def test_what_an_asked_for_engine_refuses_is_spark_sqls_for_its_reason():
    choice = choose_engines({"a": offered("executors", Fixed("executors", "rows that only the client can read"))})
    assert choice.refused["a"].why == "rows that only the client can read"


def test_the_reason_is_what_others_would_take_or_refuse_or_who_asked():
    local, job = Fixed("local", plan=3.0), Fixed("executors", job=0.5, plan=0.5)
    (chosen,) = choose_engines({"a": offered("auto", local, job, set_by="default")}).choices
    assert (chosen.engine.name, chosen.why) == ("executors", "local would take 3.0 s")
    assert chosen.seconds == {"local": 3.0, "executors": 1.0}
    (chosen,) = choose_engines({"a": offered("auto", Fixed("local", "many rows"), job)}).choices
    assert chosen.why == "not local: many rows"
    (chosen,) = choose_engines({"a": offered("local", local)}).choices
    assert chosen.why == "engine = 'local', option of the relation"
