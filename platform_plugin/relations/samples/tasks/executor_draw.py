"""`draw_on_executors`: the local reservoirs of a part of a relation by one job of file tasks, and the choice between it and others."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple
from uuid import uuid4

import numpy as np

from platform_plugin.engine.executors import TaskJob
from platform_plugin.engine.figures import rough_time
from platform_plugin.engine.file_parts import divide_files, is_read_by_tasks
from platform_plugin.engine.rates import MEASURED, MERGE_SECONDS, RunSize, count_cores, estimate_job, estimate_local
from platform_plugin.engine.refusal import Refusal, RefusedByEngine
from platform_plugin.errors import PlatformError
from platform_plugin.lake.files.data_folder import DataFolder
from platform_plugin.lake.read.scan import InlinedTable
from platform_plugin.relations.samples.keys.keys import EVERY
from platform_plugin.relations.samples.reservoir.condition import RowCondition, matching_pieces
from platform_plugin.relations.samples.tasks.program import SampledPart, SampleProgram

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

    from platform_plugin.engine.option import EngineName
    from platform_plugin.engine.spark.session.job import ProgressHandler
    from platform_plugin.engine.workspace import Workspace
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


def draw_on_executors(
    work: Workspace,
    definition: SampleDefinition,
    part: RelationPart,
    *,
    timeout: timedelta | None = None,
    progress: ProgressHandler | None = None,
    jobs: list[TaskJob] | None = None,
) -> dict[Key, LowestRows] | Refusal:
    """The reservoirs of a part; `jobs` takes what the job did. They have as many rows as a sample of this part alone needs."""
    from platform_plugin.engine.spark.session.spool import SpoolFolder
    from platform_plugin.engine.spark.tasks.job import JobPart, MergedPart, run_job

    try:
        condition = None if definition.where is None else RowCondition(part.pieces.scan.table, definition.where)
        shares = _divide(work, part, condition)
    except RefusedByEngine as refused:
        return refused.refusal
    if not shares:
        return {}
    program = _plan(work, definition, part, condition, len(shares))
    folder = SpoolFolder(storage=work.lake.storage, path=program.spill_path)
    try:
        is_merged_here = _is_merged_here(part, len(shares))
        work_part = JobPart(program, shares) if is_merged_here else MergedPart(program, shares)
        (answers,), metrics, client_bytes = run_job(work.session, [work_part], timeout=timeout, progress=progress)
        sample: DrawnSample = program.merge(answers) if is_merged_here else answers[0]
    finally:
        folder.remove()
    if jobs is not None:
        jobs.append(TaskJob(metrics, sample.figures, client_bytes))
    if isinstance(sample.drawn, PlatformError):
        raise sample.drawn
    if isinstance(sample.drawn, Refusal):
        return sample.drawn
    most = program.draw.most(len(sample.drawn))
    for key, held in sample.drawn.items():
        if len(held.keys) < min(most, held.cardinality) and held.bound < part.bounds.get(key, EVERY):
            return Refusal(why="fewer rows than a reservoir needs", for_good=False)  # next to never
    return {key: _with_numbers(part, held) for key, held in sample.drawn.items()}


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


def _with_numbers(part: RelationPart, held: LowestRows) -> LowestRows:
    """The same with the numbers of rows in the part in place of their places in the scan."""
    return replace(held, places=part.pieces.number(held.places))
