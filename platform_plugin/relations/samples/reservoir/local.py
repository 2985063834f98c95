"""`find_local`: the local phase, which finds the rows of each stratum in a part of a relation with the lowest keys.

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
from platform_plugin.relations.samples.keys.keys import EVERY
from platform_plugin.relations.samples.keys.ladders import row_keys
from platform_plugin.relations.samples.keys.lowest import LowestRows, expected_margin
from platform_plugin.relations.samples.reservoir.counting import count_in_spark
from platform_plugin.relations.samples.reservoir.local_draw import LocalDraw
from platform_plugin.relations.samples.reservoir.local_scan import sample_locally
from platform_plugin.relations.samples.reservoir.weighing import weigh_part
from platform_plugin.relations.samples.tasks.executor_draw import choose_draw, draw_on_executors

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import timedelta

    from numpy.typing import NDArray
    from pyspark.sql import DataFrame

    from platform_plugin.engine.executors import TaskJob
    from platform_plugin.engine.spark.session.job import ProgressHandler
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.relations.samples.definition import Key, SampleDefinition
    from platform_plugin.relations.samples.draw.pieces import Piece, Pieces
    from platform_plugin.relations.samples.keys.keys import HashedKeys
    from platform_plugin.relations.samples.keys.ladders import LadderKeys
    from platform_plugin.relations.samples.reservoir.condition import RowCondition
    from platform_plugin.relations.samples.tasks.executor_draw import DrawChoice

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


def find_local(
    work: Workspace,
    definition: SampleDefinition,
    part: RelationPart,
    rows: Callable[[], DataFrame] | None = None,
    *,
    timeout: timedelta | None = None,
    progress: ProgressHandler | None = None,
) -> dict[Key, LowestRows]:
    """The local reservoirs of a part; `rows` makes its rows, with `_row_id`, where Spark has to look at a range of a stream."""
    if not part.pieces.row_count:
        return {}
    if definition.is_counted:
        return {(): lowest_of_pieces(part, row_keys(definition))}
    choice = choose_draw(work, definition, part)
    note = _DrawNote(work, part, choice, time.monotonic())
    why, is_left_to_spark = choice.why, choice.engine == "spark_sql"
    if choice.engine == "executors":
        jobs: list[TaskJob] = []
        drawn = draw_on_executors(work, definition, part, timeout=timeout, progress=progress, jobs=jobs)
        if not isinstance(drawn, Refusal):
            note.tell_jobs(jobs)
            return drawn
        why, is_left_to_spark = f"not executors: {drawn.why}", True
    here = weigh_part(work.lake, definition, part) if definition.is_weighted else None
    if here is not None and choice.engine != "local":
        why = f"the kernel alone draws by weights; {why}"
    if here is None and not is_left_to_spark:
        here = sample_locally(work, definition, part)
        why = why if here is not None else "not local: rows, or a condition, that the process leaves to Spark"
    if here is not None and (definition.is_weighted or not _lacks(definition, part, here)):
        note.tell("local", why)
        return here
    counted = count_in_spark(work, definition, part, rows, timeout=timeout, progress=progress)
    note.tell("spark_sql", why)
    return counted


class _DrawNote(NamedTuple):
    """What is told of the rows that were drawn of a part, to whoever asks."""

    work: Workspace
    part: RelationPart
    choice: DrawChoice
    began: float

    def tell(self, engine: str, why: str) -> None:
        """This engine drew them, for this reason."""
        seconds, estimates = time.monotonic() - self.began, self.choice.seconds
        rows = self.part.pieces.row_count
        run = EngineRun(
            engine=engine, relations=(), why=why, rows=rows, seconds=seconds, estimates=estimates if engine in estimates else {}
        )
        self.work.note_engine(run)

    def tell_jobs(self, jobs: Sequence[TaskJob]) -> None:
        """Tasks of these jobs drew them."""
        for job in jobs:
            seconds = time.monotonic() - self.began
            self.work.note_engine(describe_job(job, (), self.choice.why, seconds=seconds, estimates=self.choice.seconds))


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
