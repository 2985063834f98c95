"""`LocalEngine`: the Arrow kernel in this process."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from platform_plugin.engine.arrow.prepared import prepare_selection
from platform_plugin.engine.distance import find_distances
from platform_plugin.engine.engine import Bid, TaskInput, TaskResult
from platform_plugin.engine.kernel_run import KernelRelations, KernelRun, find_needs, find_refusal
from platform_plugin.engine.rates import MEASURED, estimate_local, measure_size
from platform_plugin.engine.refusal import Refusal
from platform_plugin.errors import PlatformError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from concurrent.futures import Executor, Future

    from platform_plugin.engine.arrow.prepared import PreparedSelection
    from platform_plugin.engine.engine import Inputs, Task, Values
    from platform_plugin.engine.limits import Limits
    from platform_plugin.lake.files.files import DataFile
    from platform_plugin.lake.lake import Lake

# Groups are made, and files of them written, by so many at a time.
_THREADS = min(4, os.cpu_count() or 1)


@dataclass(frozen=True, slots=True)
class LocalEngine:
    """The kernel in this process, for inputs within the limits of a workspace."""

    lake: Lake
    limits: Limits
    name: str = "local"
    is_forced: bool = False
    """Whether it takes what is larger than the limits, too, since its user asks for it."""

    def bid(self, task: Task, inputs: Inputs) -> Bid | Refusal:
        """The offer for a task; none for one that was refused for good before, and for too many rows or bytes."""
        refusal = find_refusal(task) or self._refuse_sizes(inputs)
        if refusal is not None:
            return refusal
        return Bid(engine=self.name, task=task, why="its rows are few", program=_prepare(task, inputs))

    def estimate(self, bids: Sequence[Bid], inputs: Inputs) -> float:
        """The seconds that a process takes for the rows of all plans."""
        distance = find_distances(self.lake.storage.root, self.lake.location.spark).client
        return estimate_local(measure_size(bids, inputs), MEASURED.of(self.name, distance), distance)

    def run(self, bids: Sequence[Bid], inputs: Inputs, values: Values = ()) -> list[TaskResult | Refusal]:
        """The results of tasks; their files are written while others are still computed."""
        if len(bids) == 1 and bids[0].program is not None:
            selection: PreparedSelection = bids[0].program
            rows = selection.run(inputs, values)
            if rows is not None:
                return [TaskResult(rows=(rows,))]
        tasks = [bid.task for bid in bids]
        relations = _read_inputs(tasks, inputs)
        with ThreadPoolExecutor(max_workers=_THREADS) as pool:
            run, files = KernelRun(tasks, relations, values, pool), _TaskFiles(self.lake, pool)
            try:
                made = ((task, run.compute(task)) for task in tasks)
                begun = [rows if isinstance(rows, Refusal) else files.begin(task, rows) for task, rows in made]
                return [one if isinstance(one, Refusal) else one.finish() for one in begun]
            except BaseException:
                pool.shutdown(cancel_futures=True)
                self.lake.discard(files.written())
                raise

    def _refuse_sizes(self, inputs: Inputs) -> Refusal | None:
        limits = self.limits
        sizes = [found for found in inputs.values() if isinstance(found, TaskInput)]
        if self.is_forced:
            is_whole = all(found.is_whole for found in sizes if found.role in ("range", "tail"))
            return None if is_whole else Refusal(why="rows that were changed", for_good=False)
        for found in sizes:
            if found.role == "range" and (
                not found.is_whole or found.row_count > limits.client_range_rows or found.size_bytes > limits.client_range_bytes
            ):
                return Refusal(why="many rows, or rows that were changed", for_good=False)
            if found.role == "tail" and (not found.is_whole or found.row_count > limits.client_tail_rows):
                return Refusal(why="many rows, or rows that were changed", for_good=False)
            if found.role == "table" and (found.size_bytes > limits.small_table_bytes or found.file_count > limits.small_table_files):
                return Refusal(why="a large table that is looked up", for_good=False)
        # With a limit of 0 nothing is read with states or added to them.
        states = [found.size_bytes if found.role == "state" else 0 for found in sizes if found.role in ("state", "tail")]
        if states and sum(states) >= limits.client_state_bytes:
            return Refusal(why="a large state", for_good=False)
        return None


@dataclass(frozen=True, slots=True)
class _TaskFiles:
    """The files that the tasks of a run become, written while others are still computed."""

    lake: Lake
    pool: Executor
    begun: list[Future[list[DataFile]]] = field(default_factory=list)

    def begin(self, task: Task, tables: Sequence[pa.Table]) -> _PendingFiles:
        """Begin to write the rows of a task."""
        pending = _PendingFiles()
        for plan, rows in zip(task.plans, tables, strict=True):
            if plan.target is None:
                pending.rows.append(rows)
            else:
                pending.files.append(self.pool.submit(plan.target.write, self.lake, rows) if rows.num_rows else None)
        self.begun.extend(file for file in pending.files if file is not None)
        return pending

    def written(self) -> Iterator[DataFile]:
        """The files that are there when the run is given up."""
        done = (files for files in self.begun if not files.cancelled() and files.exception() is None)
        return (file for files in done for file in files.result())


@dataclass(slots=True)
class _PendingFiles:
    rows: list[pa.Table] = field(default_factory=list)
    files: list[Future[list[DataFile]] | None] = field(default_factory=list)

    def finish(self) -> TaskResult:
        """The result, once its files are there."""
        return TaskResult(rows=tuple(self.rows), files=tuple(() if files is None else tuple(files.result()) for files in self.files))


def _prepare(task: Task, inputs: Inputs) -> PreparedSelection | None:
    """What is run at once where a task is one selection of rows in this process."""
    if len(task.plans) != 1 or (plan := task.plans[0]).fields is not None or plan.target is not None:
        return None
    return prepare_selection(plan.query, {name: rows.schema for name, rows in inputs.items() if isinstance(rows, pa.Table)})


def _read_inputs(tasks: Sequence[Task], inputs: Inputs) -> KernelRelations:
    """The rows of the relations that the tasks read, and why a table that is looked up can't be."""
    needs = [found for task in tasks for found in find_needs(task)]
    columns = frozenset[str]().union(*(found.columns for found in needs))
    tables: dict[str, pa.Table] = {}
    missing: dict[str, Refusal] = {}
    for name in dict.fromkeys(name for found in needs for name in found.relations):
        relation = inputs.get(name)
        if isinstance(relation, TaskInput) and relation.read is not None:
            try:
                tables[name] = relation.read(columns)
            except PlatformError:
                if relation.role != "table":
                    raise
                missing[name] = Refusal(why="a table that can't be read", for_good=False)  # told by Spark, if it stays so
        elif isinstance(relation, pa.Table):
            tables[name] = relation
    return KernelRelations(tables, missing)
