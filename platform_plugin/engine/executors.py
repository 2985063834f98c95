"""`ExecutorEngine`: the Arrow kernel as tasks of one Spark job, which write what they make as files of the lake."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from platform_plugin.cache import Cache
from platform_plugin.engine.engine import Bid, TaskInput, TaskResult
from platform_plugin.engine.file_parts import FilePart, divide_files, is_read_by_tasks
from platform_plugin.engine.kernel_run import KernelRelations, KernelRun, find_needs, find_refusal, remember
from platform_plugin.engine.rates import MEASURED, count_cores, estimate_job, measure_size
from platform_plugin.engine.refusal import Refusal
from platform_plugin.engine.spark.tasks.share import TaskProgram
from platform_plugin.errors import ServerLost
from platform_plugin.lake.files.data_folder import DataFolder

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence
    from datetime import timedelta

    from platform_plugin.engine.engine import Inputs, Task, Values
    from platform_plugin.engine.spark.session.job import ProgressHandler
    from platform_plugin.engine.spark.session.metrics import JobMetrics
    from platform_plugin.engine.spark.tasks.job import JobPart, MergedPart, RowsPart
    from platform_plugin.engine.spark.tasks.share import ShareFigures, ShareResult
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.files.files import DataFile


_TRIED: Cache[Hashable, bool] = Cache("tasks that the kernel takes")


class TaskJob(NamedTuple):
    """What a job of file tasks did."""

    metrics: JobMetrics
    shares: tuple[ShareFigures, ...]
    client_bytes: int
    """How many bytes of results, which are footers and figures, came through the client."""


class BidsOfInput(NamedTuple):
    """Bids of this engine for tasks over one input."""

    bids: Sequence[Bid]
    inputs: Inputs


class TogetherResult(NamedTuple):
    """The results of the tasks over each input, those of other programs for their shares, and those for rows, by task."""

    results: list[list[TaskResult | Refusal]]
    others: list[list[Any]]
    rows: list[list[Any]]


@dataclass(frozen=True, slots=True)
class ExecutorEngine:
    """The kernel on the executors of the workspace's Spark, for tasks whose rows become files and whose inputs are files."""

    work: Workspace
    timeout: timedelta | None = None
    progress: ProgressHandler | None = None
    name: str = "executors"
    jobs: list[TaskJob] = field(default_factory=list)
    """What the runs of this engine did."""

    def bid(self, task: Task, inputs: Inputs) -> Bid | Refusal:
        """The offer for a task; none for one that was refused for good before, or whose input only the client can read."""
        refusal = find_refusal(task) or self._refuse(task, inputs)
        return refusal or Bid(engine=self.name, task=task, why="its files are shared out among executors")

    def _refuse(self, task: Task, inputs: Inputs) -> Refusal | None:
        if any(plan.target is None for plan in task.plans):
            return Refusal(why="rows that the client wants", for_good=False)
        if _find_divided(inputs) is None:
            return Refusal(why="no input of files", for_good=False)
        limits = self.work.limits
        for found in inputs.values():
            if isinstance(found, pa.Table):
                if found.nbytes > limits.small_table_bytes:
                    return Refusal(why="many rows in the client", for_good=False)
            elif found.scan is None or found.reader is None or not is_read_by_tasks(found.scan):
                return Refusal(why="rows that only the client can read", for_good=False)
            elif found.role == "table" and found.size_bytes > limits.broadcast_bytes:
                return Refusal(why="a large table that is looked up", for_good=False)
        return None

    def rehearse(self, task: Task, inputs: Inputs) -> Refusal | None:
        """What the kernel refuses of a task over no rows, asked once for each key, so that Spark SQL has its part in the same job.

        Most of what it refuses it refuses whatever the rows are.
        """
        if task.key is not None and _TRIED.get(task.key):
            return None
        columns = frozenset[str]().union(*(needs.columns for needs in find_needs(task)))
        folder = DataFolder(self.work.lake.storage.root)
        tables: dict[str, pa.Table] = {}
        for name, found in inputs.items():
            if isinstance(found, pa.Table):
                tables[name] = found.slice(0, 0)
            elif found.reader is not None:
                tables[name] = found.reader().read(folder, (), columns)
        with ThreadPoolExecutor(max_workers=1) as pool:
            made = KernelRun([task], KernelRelations(tables, {}), (), pool).compute(task)
        if isinstance(made, Refusal):
            return made
        if task.key is not None:
            _TRIED.put(task.key, value=True)
        return None

    def estimate(self, bids: Sequence[Bid], inputs: Inputs) -> float:
        """The seconds that a job takes on the cores that are free, and those of a start where no Spark session is open."""
        size, distance = measure_size(bids, inputs), self.work.distances.executors
        slots, busy, start = self.work.find_task_slots()
        cores = count_cores(slots, busy, size, least_rows=self.work.limits.task_least_rows)
        return estimate_job(size, MEASURED.of(self.name, distance), distance, cores=cores, start=start)

    def run(self, bids: Sequence[Bid], inputs: Inputs, values: Values = ()) -> list[TaskResult | Refusal]:
        """The results of tasks, whose files their executors have written."""
        del values  # of queries, whose rows the client wants
        return self.run_together([BidsOfInput(bids, inputs)]).results[0]

    def run_together(
        self, batches: Sequence[BidsOfInput], others: Sequence[JobPart | MergedPart] = (), rows: Sequence[RowsPart] = ()
    ) -> TogetherResult:
        """The same for several inputs as one job, with what other programs gave for their shares, and for rows that Spark computes."""
        from platform_plugin.engine.spark.tasks.job import run_job

        parts = [self._plan(batch) for batch in batches]
        try:
            job = run_job(self.work.session, [*parts, *others], rows, timeout=self.timeout, progress=self.progress)
        except ServerLost:
            self.work.forget_session()
            raise
        own: list[list[ShareResult]] = job.answers[: len(batches)]
        shares = tuple(result.figures for results in own for result in results)
        self.jobs.append(TaskJob(job.metrics, shares, job.client_bytes))
        results = [
            [self._join(bid.task, [result.results[place] for result in found]) for place, bid in enumerate(batch.bids)]
            for batch, found in zip(batches, own, strict=True)
        ]
        return TogetherResult(results, job.answers[len(batches) : len(batches) + len(others)], job.answers[len(batches) + len(others) :])

    def _plan(self, batch: BidsOfInput) -> JobPart:
        from platform_plugin.engine.spark.tasks.job import JobPart

        inputs, divided = batch.inputs, _find_divided(batch.inputs)
        if divided is None:
            raise ValueError("bids are made for inputs of files")
        limits = self.work.limits
        lake = self.work.lake
        read = {name: found for name, found in inputs.items() if isinstance(found, TaskInput)}
        source = read[divided].scan
        files = () if source is None else source.files
        program = TaskProgram(
            folder=DataFolder(lake.storage.root, outside=lake.location.outside),
            tasks=tuple(bid.task for bid in batch.bids),
            divided=divided,
            readers={name: found.reader() for name, found in read.items() if found.reader is not None},
            parts={
                name: [FilePart(file) for file in found.scan.files]
                for name, found in read.items()
                if name != divided and found.scan is not None
            },
            tables={name: rows for name, rows in inputs.items() if isinstance(rows, pa.Table)},
            part_rows=limits.task_part_rows,
            memory_bytes=limits.state_memory_bytes,
        )
        return JobPart(program, divide_files(files, self.work.session.read_task_slots(), least_rows=limits.task_least_rows))

    def _join(self, task: Task, results: Sequence[TaskResult | Refusal]) -> TaskResult | Refusal:
        """The result of a task from those of its shares. If one is refused, the files of the others go."""
        refusal = next((result for result in results if isinstance(result, Refusal)), None)
        written = [result for result in results if isinstance(result, TaskResult)]
        if refusal is not None:
            self.work.lake.discard(file for result in written for files in result.files for file in files)
            return remember(task, refusal)
        return TaskResult(files=tuple(tuple(_chain(result.files[place] for result in written)) for place in range(len(task.plans))))


def _chain(files: Iterable[Sequence[DataFile]]) -> Iterable[DataFile]:
    return (file for each in files for file in each)


def _find_divided(inputs: Inputs) -> str | None:
    """The input whose files are shared out: a range, or else a state."""
    for role in ("range", "state"):
        for name, found in inputs.items():
            if isinstance(found, TaskInput) and found.role == role and found.scan is not None and found.scan.files:
                return name
    return None
