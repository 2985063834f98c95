"""`choose_engine` and `choose_engines`: the engine that runs a task, and those that run several over one input in the least time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from platform_plugin.engine.figures import rough_time
from platform_plugin.engine.option import EngineOption, narrow_engine
from platform_plugin.engine.refusal import Refusal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from platform_plugin.engine.engine import Bid, Engine, Inputs, Task
    from platform_plugin.engine.executors import ExecutorEngine
    from platform_plugin.engine.local import LocalEngine
    from platform_plugin.engine.option import EngineName


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEngines:
    """The engines that a run may use besides Spark SQL, for relations with an option of their own and for others."""

    local: LocalEngine
    forced_local: LocalEngine
    """It takes what is larger than the limits, too."""
    executors: ExecutorEngine
    """It says what its jobs did."""
    lake: EngineOption
    run: EngineName | None = None

    @property
    def engines(self) -> tuple[Engine, ...]:
        """The engines for relations without an option."""
        return self.offer(None).engines

    def offer(self, relation: str | None) -> EngineOffer:
        """The engines for a relation with this option."""
        option = narrow_engine(self.lake, relation=relation, run=self.run)
        match option.name:
            case "local":
                return EngineOffer(option, (self.forced_local,))
            case "executors":
                return EngineOffer(option, (self.executors,))
            case "spark_sql":
                return EngineOffer(option, ())
        return EngineOffer(option, (self.local, self.executors))


class EngineOffer(NamedTuple):
    """The engines that may run the tasks of a relation, and who says so."""

    option: EngineOption
    engines: tuple[Engine, ...]


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
    """A task over inputs, for engines to bid for: all, or those of an offer."""

    task: Task
    inputs: Inputs
    offer: EngineOffer | None = None


class EstimatedChoice(NamedTuple):
    """An engine, its bids by the names of their tasks, the seconds that each engine was estimated to take for them, and the reason."""

    engine: Engine
    bids: Mapping[str, Bid]
    seconds: Mapping[str, float]
    why: str


class EngineChoice(NamedTuple):
    """The engines that run some tasks, and why the others are Spark SQL's."""

    choices: list[EstimatedChoice]
    refused: dict[str, Refusal]

    @property
    def engines(self) -> list[tuple[Engine, Mapping[str, Bid]]]:
        """Each engine with its bids."""
        return [(choice.engine, choice.bids) for choice in self.choices]


def choose_engines(tasks: Mapping[str, OfferedTask], engines: Sequence[Engine] = ()) -> EngineChoice:
    """The engine that needs the least time for all tasks that it bids for, then for the rest another, and so on.

    Tasks over one input are chosen for together: what a job costs is shared by all of them.
    """
    offered = [engine for offer in tasks.values() if offer.offer is not None for engine in offer.offer.engines]
    every = list({id(engine): engine for engine in (*engines, *offered)}.values())
    bids: dict[int, dict[str, Bid]] = {number: {} for number in range(len(every))}
    refusals: dict[str, dict[str, Refusal]] = {name: {} for name in tasks}
    for name, (task, inputs, offer) in tasks.items():
        for number, engine in enumerate(every):
            if not any(engine is each for each in (engines if offer is None else offer.engines)):
                continue
            bid = engine.bid(task, inputs)
            if isinstance(bid, Refusal):
                refusals[name][engine.name] = bid
            else:
                bids[number][name] = bid
    chosen: list[EstimatedChoice] = []
    left = set(tasks)
    while left:
        offers = [(number, {name: bid for name, bid in bids[number].items() if name in left}) for number in range(len(every))]
        offers = [(number, own) for number, own in offers if own]
        if not offers:
            break
        most = max(len(own) for _, own in offers)
        rivals = [(every[number], own) for number, own in offers if len(own) == most]
        seconds = [engine.estimate(list(own.values()), tasks[next(iter(own))].inputs) for engine, own in rivals]
        engine, own = rivals[seconds.index(min(seconds))]
        estimates = {rival.name: each for (rival, others), each in zip(rivals, seconds, strict=True) if others.keys() == own.keys()}
        chosen.append(EstimatedChoice(engine, own, estimates, _explain(engine, own, tasks, estimates, refusals)))
        left -= set(own)
    return EngineChoice(chosen, {name: _refuse(tasks[name], refusals[name]) for name in tasks if name in left})


def _refuse(task: OfferedTask, refusals: Mapping[str, Refusal]) -> Refusal:
    """Why a task is Spark SQL's: the refusal of the last engine that was asked."""
    if refusals:
        return list(refusals.values())[-1]
    if task.offer is not None and not task.offer.engines:
        return Refusal(why=f"engine = '{task.offer.option.name}', {task.offer.option.set_by}", for_good=False)
    return Refusal(why="no engine but Spark SQL")


def _explain(
    engine: Engine,
    bids: Mapping[str, Bid],
    tasks: Mapping[str, OfferedTask],
    estimates: Mapping[str, float],
    refusals: Mapping[str, Mapping[str, Refusal]],
) -> str:
    """The reason for an engine: who asked for it, or what others would have taken or have refused."""
    asked = dict.fromkeys(
        offer.option.set_by for name in bids if (offer := tasks[name].offer) is not None and offer.option.name == engine.name
    )
    if asked and len(estimates) == 1:
        return f"engine = '{engine.name}', {' and '.join(asked)}"
    others = [f"{name} would take {rough_time(seconds)}" for name, seconds in estimates.items() if name != engine.name]
    refused = dict.fromkeys(f"not {name}: {refusal.why}" for task in bids for name, refusal in refusals[task].items())
    return "; ".join([*others, *refused]) or next(iter(bids.values())).why
