"""`find_local` and `try_local`: the local phase, which finds the rows of each stratum in parts of relations with the lowest keys.

Where rows are only counted, the catalogue has their number, and no row is read before it is drawn. Otherwise Arrow reads the columns of the
condition and the strata, or a Spark job does and returns places of rows, and the rows themselves are read after the draw.
"""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from platform_plugin.engine.figures import EngineRun
from platform_plugin.engine.measured_run import describe_job
from platform_plugin.engine.refusal import Refusal
from platform_plugin.errors import PlatformError, QueryInterrupted, ServerError
from platform_plugin.relations.samples.keys.keys import EVERY
from platform_plugin.relations.samples.keys.ladders import row_keys
from platform_plugin.relations.samples.keys.lowest import LowestRows, expected_margin
from platform_plugin.relations.samples.reservoir.counting import count_in_spark
from platform_plugin.relations.samples.reservoir.local_draw import LocalDraw
from platform_plugin.relations.samples.reservoir.local_scan import sample_locally
from platform_plugin.relations.samples.reservoir.weighing import weigh_part
from platform_plugin.relations.samples.tasks.executor_draw import PlannedDraw, choose_draw, draw_on_executors, prepare_draw

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import timedelta

    from numpy.typing import NDArray
    from pyspark.sql import DataFrame

    from platform_plugin.engine.spark.session.job import ProgressHandler
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.relations.samples.definition import Key, SampleDefinition
    from platform_plugin.relations.samples.draw.pieces import Piece, Pieces
    from platform_plugin.relations.samples.keys.keys import HashedKeys
    from platform_plugin.relations.samples.keys.ladders import LadderKeys
    from platform_plugin.relations.samples.reservoir.condition import RowCondition
    from platform_plugin.relations.samples.tasks.executor_draw import DrawChoice, ExecutorDraw

    Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class RelationPart:
    """A part of a relation: its rows in pieces, of which at most `size` of each stratum are needed.

    Rows with keys above the bound of their stratum are not in the sample, whatever the other parts hold.
    """

    pieces: Pieces
    size: int
    seed: int
    bounds: Mapping[Key, int] = field(default_factory=dict)

    def draw(self, definition: SampleDefinition, condition: RowCondition | None) -> LocalDraw:
        """What whoever reads rows of the part draws of them."""
        return LocalDraw(definition=definition, condition=condition, size=self.size, seed=self.seed, bounds=self.bounds)


class PartDraw(NamedTuple):
    """A part of a relation from which a sample draws.

    `rows` makes its rows, with `_row_id`, where Spark has to look at a range of a stream.
    """

    definition: SampleDefinition
    part: RelationPart
    rows: Callable[[], DataFrame] | None = None
    sample: str | None = None
    """The sample's name, as far as somebody is told who drew its rows."""

    @property
    def reads_rows(self) -> bool:
        """Whether somebody has to look at the rows."""
        return bool(self.part.pieces.row_count) and not self.definition.is_counted


def find_local(
    work: Workspace, draws: Sequence[PartDraw], *, timeout: timedelta | None = None, progress: ProgressHandler | None = None
) -> list[tuple[PartDraw, dict[Key, LowestRows]]]:
    """Parts with their local reservoirs; the first error is raised."""
    found: list[tuple[PartDraw, dict[Key, LowestRows]]] = []
    for draw, own in zip(draws, try_local(work, draws, timeout=timeout, progress=progress), strict=True):
        if isinstance(own, PlatformError):
            raise own
        found.append((draw, own))
    return found


def try_local(
    work: Workspace, draws: Sequence[PartDraw], *, timeout: timedelta | None = None, progress: ProgressHandler | None = None
) -> list[dict[Key, LowestRows] | PlatformError]:
    """The local reservoirs of several parts, or the error of each; what executors draw is one job."""
    found: dict[int, dict[Key, LowestRows] | PlatformError] = {}
    planned: dict[int, tuple[DrawChoice, PlannedDraw]] = {}
    for number, draw in enumerate(draws):
        try:
            if not draw.reads_rows:
                found[number] = {(): lowest_of_pieces(draw.part, row_keys(draw.definition))} if draw.part.pieces.row_count else {}
                continue
            choice = choose_draw(work, draw.definition, draw.part)
            plan = prepare_draw(work, draw.definition, draw.part) if choice.engine == "executors" else None
            if isinstance(plan, PlannedDraw):
                if plan.is_empty:
                    found[number] = {}
                else:
                    planned[number] = choice, plan
            else:
                found[number] = draw_without_executors(work, draw, choice, plan, timeout=timeout, progress=progress)
        except PlatformError as error:
            found[number] = error
    found |= _draw_together(work, draws, planned, timeout=timeout, progress=progress)
    return [found[number] for number in range(len(draws))]


def _draw_together(
    work: Workspace,
    draws: Sequence[PartDraw],
    planned: Mapping[int, tuple[DrawChoice, PlannedDraw]],
    *,
    timeout: timedelta | None,
    progress: ProgressHandler | None,
) -> dict[int, dict[Key, LowestRows] | PlatformError]:
    """What one job draws of these parts; if it fails for one of them, each is drawn alone."""
    if not planned:
        return {}
    began = time.monotonic()
    try:
        done = draw_on_executors(work, [plan for _, plan in planned.values()], timeout=timeout, progress=progress)
    except PlatformError as error:
        if len(planned) == 1 or isinstance(error, (ServerError, QueryInterrupted)):
            return dict.fromkeys(planned, error)
        alone = [_draw_together(work, draws, {number: own}, timeout=timeout, progress=progress) for number, own in planned.items()]
        return {number: own for each in alone for number, own in each.items()}
    names = list(dict.fromkeys(name for number in planned if (name := draws[number].sample) is not None))
    why = "; ".join(dict.fromkeys(choice.why for choice, _ in planned.values()))
    estimates = [choice.seconds for choice, _ in planned.values()]
    work.note_engine(
        describe_job(done.job, names, why, seconds=time.monotonic() - began, estimates=estimates[0] if len(estimates) == 1 else {})
    )
    found: dict[int, dict[Key, LowestRows] | PlatformError] = {}
    for (number, (choice, _)), own in zip(planned.items(), done.draws, strict=True):
        try:
            found[number] = accept_draw(work, draws[number], choice, own, timeout=timeout, progress=progress)
        except PlatformError as error:
            found[number] = error
    return found


def accept_draw(
    work: Workspace,
    draw: PartDraw,
    choice: DrawChoice,
    own: ExecutorDraw,
    *,
    timeout: timedelta | None = None,
    progress: ProgressHandler | None = None,
) -> dict[Key, LowestRows]:
    """What executors drew of a part; what they refuse is drawn without them."""
    if isinstance(own.drawn, PlatformError):
        raise own.drawn
    if isinstance(own.drawn, Refusal):
        return draw_without_executors(work, draw, choice, own.drawn, timeout=timeout, progress=progress)
    return own.drawn


def draw_without_executors(
    work: Workspace,
    draw: PartDraw,
    choice: DrawChoice,
    refusal: Refusal | None,
    *,
    timeout: timedelta | None = None,
    progress: ProgressHandler | None = None,
) -> dict[Key, LowestRows]:
    """The local reservoirs of a part by this process or by Spark's operators, which also draw what executors refuse."""
    definition, part, began = draw.definition, draw.part, time.monotonic()
    why = choice.why if refusal is None else f"not executors: {refusal.why}"
    is_left_to_spark = refusal is not None or choice.engine == "spark_sql"

    def tell(engine: str) -> None:
        names = () if draw.sample is None else (draw.sample,)
        seconds = time.monotonic() - began
        estimates = choice.seconds if engine in choice.seconds else {}
        rows = part.pieces.row_count
        work.note_engine(EngineRun(engine=engine, relations=names, why=why, rows=rows, seconds=seconds, estimates=estimates))

    here = weigh_part(work.lake, definition, part) if definition.is_weighted else None
    if here is not None and choice.engine != "local":
        why = f"the kernel alone draws by weights; {why}"
    if here is None and not is_left_to_spark:
        here = sample_locally(work, definition, part)
        why = why if here is not None else "not local: rows, or a condition, that the process leaves to Spark"
    if here is not None and (definition.is_weighted or not _lacks(definition, part, here)):
        tell("local")
        return here
    counted = count_in_spark(work, definition, part, draw.rows, timeout=timeout, progress=progress)
    tell("spark_sql")
    return counted


def _lacks(definition: SampleDefinition, part: RelationPart, found: Mapping[Key, LowestRows]) -> bool:
    """Whether a stratum has fewer rows than it should, which almost never happens, since they were read up to a bound."""
    return any(
        len(held.keys) < min(part.size, held.cardinality) and held.bound < part.bounds.get(key if definition.strata else (), EVERY)
        for key, held in found.items()
    )


def lowest_of_pieces(part: RelationPart, keys: LadderKeys | HashedKeys) -> LowestRows:
    """The rows of a stream or table with the lowest keys, found without reading any row."""
    count, most = part.pieces.row_count, part.bounds.get((), EVERY)
    bound = min(most, keys.bound_for(expected_margin(part.size), count))
    found, places = _rows_up_to(part, keys, bound)
    if bound < most and len(found) < min(part.size, count):
        bound = most
        found, places = _rows_up_to(part, keys, bound)  # next to never
    return LowestRows(cardinality=count, bound=bound, keys=found, places=places).lowest(part.size)


def _rows_up_to(part: RelationPart, keys: LadderKeys | HashedKeys, bound: int) -> tuple[Integers, Integers]:
    """The keys that are at most a bound, and the numbers of their rows; of many rows on all cores."""
    asked = []
    start = 0
    for piece in part.pieces.parts:
        asked += [(piece, start, low, min(piece.count, low + keys.at_once)) for low in range(0, piece.count, keys.at_once)]
        start += piece.count

    def find(one: tuple[Piece, int, int, int]) -> tuple[Integers, Integers]:
        piece, start, low, end = one
        places, low_keys = _low_rows(keys, piece, low, end, bound)
        return low_keys, places + (start + low)

    if len(asked) < 4:
        found = [find(one) for one in asked]
    else:
        with ThreadPoolExecutor(max_workers=min(8, os.cpu_count() or 1)) as pool:
            found = list(pool.map(find, asked))
    return np.concatenate([_NONE, *(keys for keys, _ in found)]), np.concatenate([_NONE, *(places for _, places in found)])


def _low_rows(keys: LadderKeys | HashedKeys, piece: Piece, low: int, end: int, bound: int) -> tuple[Integers, Integers]:
    """Of some rows of a piece those with low keys, counted from the first of them, and their keys."""
    if piece.positions is None and piece.row_ids is None:
        return keys.below(piece.first_row_id + low, piece.first_row_id + end, bound)
    ids = piece.row_ids_of(np.arange(low, end, dtype=np.int64))
    first, last = int(ids.min()), int(ids.max())
    found, own = keys.below(first, last + 1, bound)
    if not len(found):
        return found, own
    at = np.minimum(np.searchsorted(found, ids - first), len(found) - 1)
    inside = np.flatnonzero(found[at] == ids - first)
    return inside, own[at[inside]]


_NONE = np.empty(0, dtype=np.int64)
