"""`run_share`: what one task of a job does with its share of the files: the kernel over them, and files of what it gave."""

from __future__ import annotations

import os
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from platform_plugin.engine.engine import TaskResult
from platform_plugin.engine.file_parts import divide_rows
from platform_plugin.engine.kernel_run import KernelRelations, KernelRun, find_needs
from platform_plugin.engine.refusal import Refusal
from platform_plugin.lake.files.files import discard

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from platform_plugin.engine.engine import Target, Task
    from platform_plugin.engine.file_parts import FilePart, PartReader
    from platform_plugin.lake.files.data_folder import DataFolder
    from platform_plugin.lake.files.files import DataFile


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskProgram:
    """What all tasks of a job have in common; it is sent with the job.

    The files of one input, `divided`, are shared out among the tasks. Other inputs each task reads whole: `parts` of files, or `tables`
    that travel with the program. A task holds about `part_rows` rows of its share at a time, and gathers so many bytes of what it makes.
    """

    folder: DataFolder
    tasks: tuple[Task, ...]
    divided: str
    readers: Mapping[str, PartReader]
    parts: Mapping[str, Sequence[FilePart]]
    tables: Mapping[str, pa.Table]
    part_rows: int
    memory_bytes: int

    def run(self, share: Sequence[FilePart]) -> ShareResult:
        """Run the tasks over a share of the files of the divided input."""
        return run_share(self, share)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareFigures:
    """What a task did: `executor` is its machine and the process group of the executor on it."""

    rows: int
    files: int
    seconds: float
    cpu_seconds: float
    bytes_written: int
    executor: str


@dataclass(frozen=True, slots=True)
class ShareClock:
    """The time that a task takes, from when this is made."""

    began: float = field(default_factory=time.monotonic)
    cpu: float = field(default_factory=time.process_time)

    def stop(self, *, rows: int, files: int, bytes_written: int) -> ShareFigures:
        """The figures of a task that has read and written so much."""
        return ShareFigures(
            rows=rows,
            files=files,
            seconds=time.monotonic() - self.began,
            cpu_seconds=time.process_time() - self.cpu,
            bytes_written=bytes_written,
            executor=f"{socket.gethostname()}/{os.getppid()}",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareResult:
    """What the plans of each task gave for a share: files, or the kernel's refusal, after which nothing of that task is left."""

    results: tuple[TaskResult | Refusal, ...]
    figures: ShareFigures


def run_share(program: TaskProgram, share: Sequence[FilePart]) -> ShareResult:
    """Run the tasks of a program over a share of the files of its input."""
    clock = ShareClock()
    # Spark runs as many tasks as there are cores.
    pa.set_cpu_count(1)
    outputs = [_TaskOutput(program, task) for task in program.tasks]
    rows = 0
    try:
        for tables, count in _read_parts(program, share):
            rows += count
            with ThreadPoolExecutor(max_workers=1) as pool:
                at_work = [output for output in outputs if output.refusal is None]
                run = KernelRun([output.task for output in at_work], KernelRelations(tables, {}), (), pool)
                for output in at_work:
                    output.add(run.compute(output.task))
            del run, tables
        results = tuple(output.finish() for output in outputs)
    except BaseException:
        for output in outputs:
            output.discard()
        raise
    figures = clock.stop(
        rows=rows,
        files=len({part.file.id for part in share}),
        bytes_written=sum(file.size_bytes for output in outputs for files in output.files for file in files),
    )
    return ShareResult(results=results, figures=figures)


def _read_parts(program: TaskProgram, share: Sequence[FilePart]) -> Iterator[tuple[dict[str, pa.Table], int]]:
    """The inputs of tasks with some of the rows of the share, one part after the other, and how many rows these are."""
    needs = [each for task in program.tasks for each in find_needs(task)]
    columns = frozenset[str]().union(*(each.columns for each in needs))
    tables = dict(program.tables)
    for name, parts in program.parts.items():
        tables[name] = program.readers[name].read(program.folder, parts, columns)
    for parts in divide_rows(share, program.part_rows):
        rows = program.readers[program.divided].read(program.folder, parts, columns)
        if rows.num_rows:
            yield {**tables, program.divided: rows}, rows.num_rows


class _TaskOutput:
    """What a task has made of its share so far: rows in memory, and files where these were too many."""

    def __init__(self, program: TaskProgram, task: Task) -> None:
        self.task = task
        self.refusal: Refusal | None = None
        self.files: list[list[DataFile]] = [[] for _ in task.plans]
        self._rows: list[list[pa.Table]] = [[] for _ in task.plans]
        self._program = program

    def add(self, made: list[pa.Table] | Refusal) -> None:
        """Take what the kernel made of some rows."""
        if isinstance(made, Refusal):
            self.refusal = made
            self.discard()
            return
        for place, rows in enumerate(made):
            if rows.num_rows:
                self._rows[place].append(rows)
                self._ease(place)

    def _ease(self, place: int) -> None:
        """Merge the rows of a plan when they are many, and write them when that does not help."""
        held = self._rows[place]
        if sum(rows.nbytes for rows in held) < self._program.memory_bytes:
            return
        target = self._target(place)
        merged = target.merge(held)
        self._rows[place] = [merged]
        if merged.nbytes * 2 >= self._program.memory_bytes:
            self._write(place)

    def _target(self, place: int) -> Target:
        target = self.task.plans[place].target
        if target is None:
            raise ValueError("a plan without a target has no files")
        return target

    def _write(self, place: int) -> None:
        held, self._rows[place] = self._rows[place], []
        if held:
            target = self._target(place)
            self.files[place] += target.write(self._program.folder, held[0] if len(held) == 1 else target.merge(held))

    def finish(self) -> TaskResult | Refusal:
        """Write what is left."""
        if self.refusal is not None:
            return self.refusal
        for place in range(len(self._rows)):
            self._write(place)
        return TaskResult(files=tuple(map(tuple, self.files)))

    def discard(self) -> None:
        """Remove the files that were written."""
        discard(self._program.folder.storage, [file for files in self.files for file in files])
        self.files = [[] for _ in self.task.plans]
        self._rows = [[] for _ in self.task.plans]
