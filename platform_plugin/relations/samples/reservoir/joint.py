"""Joint scans: samples that consume a range of a stream in the scan and the commit of a view's run."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from platform_plugin.engine.executors import TaskJob
from platform_plugin.engine.figures import EngineRun
from platform_plugin.engine.measured_run import describe_job
from platform_plugin.engine.refusal import RefusedByEngine
from platform_plugin.engine.spark.session.metrics import JobMetrics
from platform_plugin.relations.answers import Answer, StateTarget
from platform_plugin.relations.follow.ranges import stream_name
from platform_plugin.relations.samples.reservoir.condition import RowCondition
from platform_plugin.relations.samples.reservoir.counting import complete_reservoirs, picking_frame
from platform_plugin.relations.samples.reservoir.growing import OutdatedSample, grow_sample, prepare_gap_draw, read_stored, stored_strata
from platform_plugin.relations.samples.reservoir.local import accept_draw, find_local
from platform_plugin.relations.samples.reservoir.sliding import SampleWindow
from platform_plugin.relations.samples.reservoir.version import write_version
from platform_plugin.relations.samples.tasks.executor_draw import DrawChoice, PlannedDraw, choose_draw, prepare_draw

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from pyspark.sql import DataFrame

    from platform_plugin.engine.spark.tasks.job import JobPart, MergedPart
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.relations.follow.maintained import JointScan, RangeKey, Step
    from platform_plugin.relations.samples.definition import Key as Stratum
    from platform_plugin.relations.samples.keys.lowest import LowestRows
    from platform_plugin.relations.samples.reservoir.growing import PendingSample, StoredSample
    from platform_plugin.relations.samples.reservoir.local import PartDraw
    from platform_plugin.relations.samples.tasks.executor_draw import ExecutorDraw


@dataclass(frozen=True, slots=True, kw_only=True)
class JointSample:
    """A sample in another's run: what it needs of the scan or of the job, and its next version."""

    behind: PendingSample
    stored: StoredSample
    held: Mapping[Stratum, LowestRows]
    draw: PartDraw
    choice: DrawChoice | None
    """The engine that draws its rows, if somebody has to look at them."""
    planned: PlannedDraw | None = None
    picked: list[pa.Table] = field(default_factory=list)
    drawn: list[ExecutorDraw] = field(default_factory=list)

    @property
    def key(self) -> RangeKey:
        """The range that it consumes, as views name it."""
        gap = self.behind.gaps[0]
        return stream_name(self.behind.tail.stream), gap.first_row_id, gap.next_row_id

    @property
    def looks_at_rows(self) -> bool:
        """Whether Spark's operators have to scan the range for it."""
        return self.choice is not None and self.choice.engine == "spark_sql"

    @property
    def job_part(self) -> JobPart | MergedPart | None:
        """The tasks that draw its rows."""
        return None if self.planned is None else self.planned.job_part

    def accept(self, answers: Sequence[Any]) -> None:
        """What tasks have drawn."""
        if self.planned is not None:
            self.drawn.append(self.planned.accept(answers))

    def release(self, work: Workspace) -> None:
        """Remove the reservoirs that tasks have written."""
        if self.planned is not None:
            self.planned.remove_files(work)

    def answer(self, work: Workspace, rows: DataFrame) -> Answer:
        """Its query over the range's rows, which have their row ids."""
        frame = picking_frame(work, self.behind.sample.definition, self.draw.part, rows)
        return Answer(frame=frame, targets=(StateTarget(table=self.behind.sample.table, keeps=self.picked),))

    def finish(self, work: Workspace) -> Step:
        """The sample's next version, when the scan and the job are over."""
        with work.noting_engines() as noted:
            found = self._find(work)
        version = write_version(
            work, self.behind, grow_sample(work, self.behind, self.stored, held=self.held, looked=[(self.draw.part, found)])
        )
        return replace(version, engine_runs=tuple(replace(run, relations=(self.behind.name,)) for run in noted))

    def _find(self, work: Workspace) -> Mapping[Stratum, LowestRows]:
        definition, part = self.behind.sample.definition, self.draw.part
        if self.choice is not None and self.looks_at_rows:
            # The views' step has the time and the tasks of the scan.
            work.note_engine(EngineRun(engine="spark_sql", relations=(), why=self.choice.why, rows=part.pieces.row_count))
            return complete_reservoirs(work, definition, part, pa.concat_tables(self.picked), self.draw.rows) if self.picked else {}
        if self.choice is None or not self.drawn:
            ((_, found),) = find_local(work, [self.draw])
            return found
        (own,) = self.drawn
        # The job is told, and counted, by whoever has run it.
        metrics = JobMetrics(jobs=0, tasks=len(own.shares), seconds=0.0)
        seconds = max((share.seconds for share in own.shares), default=0.0)
        work.note_engine(describe_job(TaskJob(metrics, own.shares, 0), (), self.choice.why, seconds=seconds, estimates=self.choice.seconds))
        return accept_draw(work, self.draw, self.choice, own)


def find_joint_samples(
    work: Workspace, pending: Sequence[PendingSample | SampleWindow], ranges: Collection[RangeKey]
) -> list[tuple[PendingSample | SampleWindow, JointScan]]:
    """The samples that wait for exactly one of these ranges; others are read for by themselves."""
    found: list[tuple[PendingSample | SampleWindow, JointScan]] = []
    for each in pending:
        if isinstance(each, SampleWindow) or len(each.gaps) != 1:
            continue
        gap = each.gaps[0]
        if (stream_name(each.tail.stream), gap.first_row_id, gap.next_row_id) in ranges:
            try:
                stored = read_stored(work.lake, each.sample, each.scan)
            except OutdatedSample:
                continue  # its own run tells of it
            held = stored_strata(each.sample, stored, each.progress)
            joint = _prepare_joint(work, each, stored, held, prepare_gap_draw(work, each, gap, held))
            if joint is not None:
                found.append((each, joint))
    return found


def _prepare_joint(
    work: Workspace, behind: PendingSample, stored: StoredSample, held: Mapping[Stratum, LowestRows], draw: PartDraw
) -> JointSample | None:
    """How a sample takes part in another's run; not with weights that the kernel, which alone draws by them, would read by itself."""
    if not draw.reads_rows:
        return JointSample(behind=behind, stored=stored, held=held, draw=draw, choice=None)
    choice, planned = choose_draw(work, draw.definition, draw.part), None
    try:
        if draw.definition.where is not None:
            RowCondition(draw.part.pieces.scan.table, draw.definition.where)
        found = prepare_draw(work, draw.definition, draw.part) if choice.engine == "executors" else None
        planned = found if isinstance(found, PlannedDraw) and not found.is_empty else None
    except RefusedByEngine as refused:
        choice = DrawChoice("spark_sql", f"not {choice.engine}: {refused.refusal.why}", {})
    if draw.definition.is_weighted and choice.engine != "executors":
        return None
    return JointSample(behind=behind, stored=stored, held=held, draw=draw, choice=choice, planned=planned)
