"""`choose_engine` and `choose_engines`: the engine that runs a task, and those that run several over one input in the least time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from platform_plugin.engine.refusal import Refusal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from platform_plugin.engine.engine import Bid, Engine, Inputs, Task
    from platform_plugin.engine.executors import ExecutorEngine


EngineName = Literal["auto", "local", "executors", "spark_sql"]
"""What a user may ask for."""


class RunEngines(NamedTuple):
    """The engines that a run may use besides Spark SQL, and the one of the executors, which says what its jobs did."""

    engines: tuple[Engine, ...]
    executors: ExecutorEngine


class Choice(NamedTuple):
    """An engine and its bid for a task."""

    engine: Engine
    bid: Bid


def choose_engine(task: Task, inputs: Inputs, engines: Iterable[Engine]) -> Choice | Refusal:
    """The first engine that bids; the refusal of the last one where none does, and the task is Spark SQL's, which runs every plan."""
    refusal = Refusal(why="no engine but Spark SQL")
    for engine in engines:
        offer = engine.bid(task, inputs)
        if not isinstance(offer, Refusal):
            return Choice(engine, offer)
        refusal = offer
    return refusal


class OfferedTask(NamedTuple):
    """A task over inputs, for engines to bid for."""

    task: Task
    inputs: Inputs


class EngineChoice(NamedTuple):
    """The engines that run some tasks, each with its bids by the names of the tasks, and why the others are Spark SQL's."""

    engines: list[tuple[Engine, dict[str, Bid]]]
    refused: dict[str, Refusal]


def choose_engines(tasks: Mapping[str, OfferedTask], engines: Sequence[Engine]) -> EngineChoice:
    """The engine that needs the least time for all tasks that it bids for, then for the rest another, and so on.

    Tasks over one input are chosen for together: what a job costs is shared by all of them.
    """
    bids: dict[int, dict[str, Bid]] = {number: {} for number in range(len(engines))}
    refused: dict[str, Refusal] = {}
    for name, (task, inputs) in tasks.items():
        refused[name] = Refusal(why="no engine but Spark SQL")
        for number, engine in enumerate(engines):
            offer = engine.bid(task, inputs)
            if isinstance(offer, Refusal):
                refused[name] = offer
            else:
                bids[number][name] = offer
    chosen: list[tuple[Engine, dict[str, Bid]]] = []
    left = set(tasks)
    while left:
        offers = [(number, {name: bid for name, bid in bids[number].items() if name in left}) for number in range(len(engines))]
        offers = [(number, own) for number, own in offers if own]
        if not offers:
            break
        most = max(len(own) for _, own in offers)
        number, own = min(
            ((number, own) for number, own in offers if len(own) == most),
            key=lambda offer: engines[offer[0]].estimate(list(offer[1].values()), tasks[next(iter(offer[1]))].inputs),
        )
        chosen.append((engines[number], own))
        left -= set(own)
    return EngineChoice(chosen, {name: refused[name] for name in tasks if name in left})
