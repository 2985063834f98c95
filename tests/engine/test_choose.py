"""The first engine that bids runs a task; without one it is left to Spark SQL, and the reason is told."""

from platform_plugin.engine.choose import choose_engine
from platform_plugin.engine.engine import Bid, Task
from platform_plugin.engine.refusal import Refusal
from tests.engine.plans import SUM, plan


class Fixed:
    """An engine that always says the same."""

    def __init__(self, name, why=None):
        self.name, self.why = name, why

    def bid(self, task, inputs):
        del inputs
        return Bid(engine=self.name, task=task, why="always") if self.why is None else Refusal(why=self.why)

    def run(self, bids, inputs, values=()):
        raise NotImplementedError


def test_the_first_that_bids_is_chosen():
    choice = choose_engine(Task.of(plan(SUM)), {}, [Fixed("a", "too far"), Fixed("b"), Fixed("c")])
    assert (choice.engine.name, choice.bid.engine) == ("b", "b")


def test_where_none_bids_the_last_refusal_is_told():
    assert choose_engine(Task.of(plan(SUM)), {}, [Fixed("a", "too far"), Fixed("b", "too large")]) == Refusal(why="too large")
    assert choose_engine(Task.of(plan(SUM)), {}, []).why == "no engine but Spark SQL"
