"""The local phase inside of Spark: each task keeps a reservoir of the rows that pass it, one a stratum, and hands out those alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from platform_plugin.samples.reservoir import Reservoir
from platform_plugin.samples.seeds import generator
from platform_plugin.samples.strata import group

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from platform_plugin.samples.definition import Key

FILE, PLACE, TASK, CARDINALITY = "_file", "_place", "_task", "_cardinality"


def sampler(strata: Sequence[str], size: int, seed: int, *words: Any) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function for `mapInArrow`: rows in, at most `size` of each stratum out, each with its task and what its reservoir stands for."""

    def sample(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        task = 0 if context is None else context.partitionId()
        yield from sample_task(batches, strata, size, seed, *words, task=task)

    return sample


def sample_task(
    batches: Iterable[pa.RecordBatch], strata: Sequence[str], size: int, seed: int, *words: Any, task: int
) -> Iterator[pa.RecordBatch]:
    """The reservoirs of one task. Who runs it again gets the same, as long as it is given the same rows.

    Tasks are told apart by where their first row lies, since their numbers depend on what else is in the job.
    """
    reservoirs: dict[Key, Reservoir] = {}
    origin: tuple[Any, ...] = ()
    for batch in batches:
        if not origin and batch.num_rows:
            known = [name for name in (FILE, PLACE) if name in batch.schema.names]
            origin = tuple(batch.column(name)[0].as_py() for name in known) or (task,)
        for key, places in group(batch, strata).items():
            reservoir = reservoirs.get(key)
            if reservoir is None:
                reservoir = reservoirs[key] = Reservoir(size, generator(seed, *words, *origin, *key))
            items, slots = reservoir.pass_by(len(places))
            if len(items):
                reservoir.put(batch.take(pa.array(places[items])), slots)
    for reservoir in reservoirs.values():
        rows = reservoir.rows()
        count = rows.num_rows
        rows = rows.append_column(TASK, pa.array([task] * count, pa.int32()))
        rows = rows.append_column(CARDINALITY, pa.array([reservoir.cardinality] * count, pa.int64()))
        yield from rows.to_batches()
