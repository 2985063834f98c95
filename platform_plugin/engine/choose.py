"""`choose_engine`: the engine that runs a task, the first in a list that bids for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from platform_plugin.engine.refusal import Refusal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from platform_plugin.engine.engine import Bid, Engine, Inputs, Task


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
