"""`merge_files`: the merge of a table's small files, which this process rewrites, or tasks on executors: a group of files each."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from platform_plugin.engine.executors import TaskJob
from platform_plugin.engine.figures import EngineRun, rough_time
from platform_plugin.engine.measured_run import describe_job
from platform_plugin.engine.rates import FAR_BYTE_SECONDS, JOB_SECONDS, UNSEEN_SECONDS
from platform_plugin.engine.spark.tasks.share import ShareClock
from platform_plugin.errors import PlatformError
from platform_plugin.lake.files.data_folder import DataFolder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import timedelta

    from platform_plugin.engine.distance import Distance
    from platform_plugin.engine.spark.session.job import ProgressHandler
    from platform_plugin.engine.spark.tasks.share import ShareFigures
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Name
    from platform_plugin.lake.upkeep.merge import MergeOutcome
    from platform_plugin.lake.upkeep.merge_rewriting import GroupRewrite, RewrittenFile

# Measured: 16 files of four columns and together 69 MB took this process 0.82 s of one core.
BYTE_SECONDS = 1.2e-8
"""To read a byte of a file, and to write it again."""


class MergedFiles(NamedTuple):
    """What a merge did, and the engine that rewrote files; None where there were none to rewrite."""

    outcome: MergeOutcome
    run: EngineRun | None


class RewriteChoice(NamedTuple):
    """The engine that rewrites files, the reason, and the seconds that engines were estimated to take."""

    engine: str
    why: str
    seconds: Mapping[str, float]


class RewrittenGroup(NamedTuple):
    """What a task has made of a group of files, or why it could not, and its figures."""

    files: list[RewrittenFile] | PlatformError
    figures: ShareFigures


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeProgram:
    """Rewrites a group of files in a task."""

    folder: DataFolder

    def run(self, share: GroupRewrite) -> RewrittenGroup:
        """The file that takes the place of the group's."""
        clock = ShareClock()
        made: list[RewrittenFile] | PlatformError
        try:
            made = share.run(self.folder)
        except PlatformError as error:
            made = error
        written = 0 if isinstance(made, PlatformError) else sum(each.file.size_bytes for each in made)
        return RewrittenGroup(made, clock.stop(rows=share.row_count, files=len(share.group.files), bytes_written=written))


def merge_files(
    work: Workspace,
    name: str | tuple[str, str] | Name,
    *,
    target_bytes: int | None = None,
    timeout: timedelta | None = None,
    progress: ProgressHandler | None = None,
) -> MergedFiles:
    """Rewrite a table's small files into few; every snapshot reads as before. The engine of the run, or else of the lake, is heeded."""
    runs: list[EngineRun] = []
    label = str(work.lake.table(name).name)

    def rewrite(rewrites: Sequence[GroupRewrite]) -> Iterator[Sequence[RewrittenFile]]:
        if not rewrites:
            return
        choice, began = choose_rewriter(work, rewrites), time.monotonic()
        if choice.engine == "executors":
            job, made = _rewrite_on_executors(work, rewrites, timeout=timeout, progress=progress)
            runs.append(describe_job(job, (label,), choice.why, seconds=time.monotonic() - began, estimates=choice.seconds))
            yield from made
            return
        cpu = time.process_time()
        for each in rewrites:
            yield each.run(work.lake)
        runs.append(
            EngineRun(
                engine="local",
                relations=(label,),
                why=choice.why,
                rows=sum(each.row_count for each in rewrites),
                seconds=time.monotonic() - began,
                estimates=choice.seconds,
                cpu_seconds=time.process_time() - cpu,
            )
        )

    outcome = work.lake.merge(name, target_bytes=target_bytes, rewriter=rewrite)
    for run in runs:
        work.note_engine(run)
    return MergedFiles(outcome, runs[0] if runs else None)


def choose_rewriter(work: Workspace, rewrites: Sequence[GroupRewrite]) -> RewriteChoice:
    """Who rewrites groups of files: the engine that is asked for, or tasks on the executors where they take less time than this process."""
    option = work.find_option(None)
    asked = f"engine = '{option.name}', {option.set_by}"
    if option.name == "spark_sql":
        return RewriteChoice("local", "Spark's operators don't know when rows were added and deleted", {})
    if option.name == "local":
        return RewriteChoice("local", asked, {})
    largest = max(each.size_bytes for each in rewrites)
    if largest > work.limits.task_state_bytes:
        return RewriteChoice("local", "not executors: files that together are too large for the memory of a task", {})
    if option.name == "executors":
        return RewriteChoice("executors", asked, {})
    size = sum(each.size_bytes for each in rewrites)
    here = _estimate(size, 1, work.distances.client)
    if here < JOB_SECONDS:
        return RewriteChoice("local", f"executors would take {rough_time(JOB_SECONDS)} at least", {"local": here})
    slots, busy, start = work.find_task_slots()
    free = max(1, slots - busy, (slots + 1) // 2)
    there = start + JOB_SECONDS + max(_estimate(size, min(free, len(rewrites)), work.distances.executors), largest * BYTE_SECONDS)
    seconds = {"local": here, "executors": there}
    if there < here:
        return RewriteChoice("executors", f"local would take {rough_time(here)}", seconds)
    return RewriteChoice("local", f"executors would take {rough_time(there)}", seconds)


def _estimate(size_bytes: int, cores: int, distance: Distance) -> float:
    """The seconds to rewrite so many bytes, which travel both ways."""
    travel = {"near": 0.0, "far": 2 * size_bytes * FAR_BYTE_SECONDS, "unseen": UNSEEN_SECONDS}[distance]
    return size_bytes * BYTE_SECONDS / cores + travel


def _rewrite_on_executors(
    work: Workspace, rewrites: Sequence[GroupRewrite], *, timeout: timedelta | None, progress: ProgressHandler | None
) -> tuple[TaskJob, list[list[RewrittenFile]]]:
    from platform_plugin.engine.spark.tasks.job import JobPart, run_job

    folder = DataFolder(work.lake.storage.root, outside=work.lake.location.outside)
    job = run_job(work.session, [JobPart(MergeProgram(folder=folder), rewrites)], timeout=timeout, progress=progress)
    groups: list[RewrittenGroup] = job.answers[0]
    made = [group.files for group in groups if not isinstance(group.files, PlatformError)]
    for group in groups:
        if isinstance(group.files, PlatformError):
            work.lake.storage.delete(path for files in made for each in files for path in each.paths)
            raise group.files
    return TaskJob(job.metrics, tuple(group.figures for group in groups), job.client_bytes), made
