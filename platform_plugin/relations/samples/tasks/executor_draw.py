"""`draw_on_executors`: the local reservoirs of parts of relations by one job of file tasks, and the choice between it and others."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

import numpy as np

from platform_plugin.engine.executors import TaskJob
from platform_plugin.engine.figures import rough_time
from platform_plugin.engine.file_parts import divide_files, is_read_by_tasks
from platform_plugin.engine.rates import MEASURED, MERGE_SECONDS, RunSize, count_cores, estimate_job, estimate_local
from platform_plugin.engine.refusal import Refusal, RefusedByEngine
from platform_plugin.lake.files.data_folder import DataFolder
from platform_plugin.lake.read.scan import InlinedTable
from platform_plugin.relations.samples.keys.keys import EVERY
from platform_plugin.relations.samples.reservoir.condition import RowCondition, matching_pieces
from platform_plugin.relations.samples.tasks.program import SampledPart, SampleProgram

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta

    from platform_plugin.engine.option import EngineName
    from platform_plugin.engine.spark.session.job import ProgressHandler
    from platform_plugin.engine.spark.tasks.job import JobPart, MergedPart
    from platform_plugin.engine.spark.tasks.share import ShareFigures
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.errors import PlatformError
    from platform_plugin.relations.samples.definition import Key, SampleDefinition
    from platform_plugin.relations.samples.keys.lowest import LowestRows
    from platform_plugin.relations.samples.reservoir.local import RelationPart
    from platform_plugin.relations.samples.tasks.program import DrawnSample

_SPILL_PATH = "_results/"


class DrawChoice(NamedTuple):
    """The engine that draws rows of a part, the reason, and the seconds that engines were estimated to take, as far as that mattered."""

    engine: EngineName
    why: str
    seconds: Mapping[str, float]


def choose_draw(work: Workspace, definition: SampleDefinition, part: RelationPart) -> DrawChoice:
    """Who draws the rows of a part: the engine that is asked for, or tasks on the executors where they take less time than this process."""
    scan = part.pieces.scan
    option = work.find_option(definition.engine)
    asked = f"engine = '{option.name}', {option.set_by}"
    if option.name in ("local", "spark_sql"):
        return DrawChoice(option.name, asked, {})
    if not is_read_by_tasks(scan) or any(isinstance(piece.source, InlinedTable) for piece in part.pieces.parts):
        return DrawChoice("local", "not executors: rows that only the client can read", {})
    if option.name == "executors":
        return DrawChoice("executors", asked, {})
    size, distances = RunSize(part.pieces.row_count, 1, scan.size_bytes), work.distances
    is_read_here = work.lake.storage.is_local or work.lake.location.spark is None
    if not is_read_here or (size.rows > work.limits.client_draw_rows and not definition.is_weighted):
        return DrawChoice("executors", "not local: many rows" if is_read_here else "not local: files that are nearer to executors", {})
    here = estimate_local(size, MEASURED.of("local", distances.client), distances.client)
    rates = MEASURED.of("executors", distances.executors)
    if here < rates.job + MERGE_SECONDS:
        # How many tasks run at once is asked only where that could decide.
        return DrawChoice("local", f"executors would take {rough_time(rates.job + MERGE_SECONDS)} at least", {"local": here})
    slots, busy, start = work.find_task_slots()
    cores = count_cores(slots, busy, size, least_rows=work.limits.task_least_rows)
    there = estimate_job(size, rates, distances.executors, cores=cores, start=start + MERGE_SECONDS)
    seconds = {"local": here, "executors": there}
    if there < here:
        return DrawChoice("executors", f"local would take {rough_time(here)}", seconds)
    return DrawChoice("local", f"executors would take {rough_time(there)}", seconds)


class PlannedDraw(NamedTuple):
    """A draw from a part of a relation as a part of a job."""

    part: RelationPart
    program: SampleProgram
    job_part: JobPart | MergedPart

    @property
    def is_empty(self) -> bool:
        """Whether no file has a row that can pass."""
        return not self.job_part.shares

    def accept(self, answers: Sequence[Any]) -> ExecutorDraw:
        """What tasks have drawn; the reservoirs have as many rows as a sample of this part alone needs."""
        sample: DrawnSample = self.program.merge(answers) if self._is_merged_here else answers[0]
        return ExecutorDraw(self._read(sample.drawn), sample.figures)

    @property
    def _is_merged_here(self) -> bool:
        from platform_plugin.engine.spark.tasks.job import JobPart

        return isinstance(self.job_part, JobPart)

    def _read(self, drawn: dict[Key, LowestRows] | Refusal | PlatformError) -> dict[Key, LowestRows] | Refusal | PlatformError:
        if not isinstance(drawn, dict):
            return drawn
        most = self.program.draw.most(len(drawn))
        for key, held in drawn.items():
            if len(held.keys) < min(most, held.cardinality) and held.bound < self.part.bounds.get(key, EVERY):
                return Refusal(why="fewer rows than a reservoir needs", for_good=False)  # next to never
        return {key: replace(held, places=self.part.pieces.number(held.places)) for key, held in drawn.items()}

    def remove_files(self, work: Workspace) -> None:
        """Remove the reservoirs that tasks have written."""
        from platform_plugin.engine.spark.session.spool import SpoolFolder

        SpoolFolder(storage=work.lake.storage, path=self.program.spill_path).remove()


class ExecutorDraw(NamedTuple):
    """The reservoirs that tasks have drawn of a part, or why there are none, and the figures of the tasks."""

    drawn: dict[Key, LowestRows] | Refusal | PlatformError
    shares: tuple[ShareFigures, ...]


class ExecutorDraws(NamedTuple):
    """What a job drew of each part, and what the job did."""

    draws: list[ExecutorDraw]
    job: TaskJob


def prepare_draw(work: Workspace, definition: SampleDefinition, part: RelationPart) -> PlannedDraw | Refusal:
    """The tasks that draw from a part; a refusal if its condition is none that the kernel has."""
    from platform_plugin.engine.spark.tasks.job import JobPart, MergedPart

    try:
        condition = None if definition.where is None else RowCondition(part.pieces.scan.table, definition.where)
        shares = _divide(work, part, condition)
    except RefusedByEngine as refused:
        return refused.refusal
    program = _plan(work, definition, part, condition, max(1, len(shares)))
    is_merged_here = not shares or _is_merged_here(part, len(shares))
    return PlannedDraw(part, program, JobPart(program, shares) if is_merged_here else MergedPart(program, shares))


def draw_on_executors(
    work: Workspace, draws: Sequence[PlannedDraw], *, timeout: timedelta | None = None, progress: ProgressHandler | None = None
) -> ExecutorDraws:
    """The reservoirs of all parts by one job."""
    from platform_plugin.engine.spark.tasks.job import run_job

    try:
        job = run_job(work.session, [draw.job_part for draw in draws], timeout=timeout, progress=progress)
        found = [draw.accept(answers) for draw, answers in zip(draws, job.answers, strict=True)]
    finally:
        for draw in draws:
            draw.remove_files(work)
    return ExecutorDraws(found, TaskJob(job.metrics, tuple(share for draw in found for share in draw.shares), job.client_bytes))


def _is_merged_here(part: RelationPart, shares: int) -> bool:
    """Whether the reservoirs of all tasks together are expected to be no larger than one: a full sample takes in few new rows."""
    bound = part.bounds.get((), EVERY)
    return shares == 1 or part.pieces.row_count * bound // EVERY <= part.size // 2


def _plan(work: Workspace, definition: SampleDefinition, part: RelationPart, condition: RowCondition | None, shares: int) -> SampleProgram:
    lake, scan = work.lake, part.pieces.scan
    return SampleProgram(
        folder=DataFolder(lake.storage.root, outside=lake.location.outside),
        table=scan.table,
        snapshot=scan.snapshot,
        draw=part.draw(definition, condition),
        part_rows=work.limits.task_part_rows,
        spill_path=f"{_SPILL_PATH}{uuid4().hex}/",
        inline_rows=part.size // shares,
    )


def _divide(work: Workspace, part: RelationPart, condition: RowCondition | None) -> list[list[SampledPart]]:
    """The files in which rows can pass, shared out among tasks."""
    files = part.pieces.scan.files
    counts = np.array([file.record_count for file in files], dtype=np.int64)
    first_places = dict(zip((file.id for file in files), (np.cumsum(counts) - counts).tolist(), strict=True))
    spans = {
        piece.source.id: (piece.source, *piece.span)
        for _, piece in matching_pieces(work.lake, part.pieces, condition)
        if not isinstance(piece.source, InlinedTable)
    }
    shares = divide_files([file for file, _, _ in spans.values()], work.session.read_task_slots(), least_rows=work.limits.task_least_rows)
    placed = [[SampledPart(own, first_places[own.file.id], *spans[own.file.id][1:]) for own in share] for share in shares]
    needed = [[each for each in share if each.part.span is None or each.part.span.first < each.high] for share in placed]
    return [share for share in needed if share]
