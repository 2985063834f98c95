"""`SampleVersion`: the next version of a growing sample, written but not committed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from platform_plugin.relations.follow.maintained import StepFigures
from platform_plugin.relations.samples.record import AdvanceSample

if TYPE_CHECKING:
    from platform_plugin.engine.figures import EngineRun
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.commit.commit import Commit
    from platform_plugin.lake.files.files import DataFile
    from platform_plugin.relations.samples.reservoir.growing import CurrentSample, PendingSample


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleVersion:
    """A sample's next version, written but not committed."""

    behind: PendingSample
    grown: CurrentSample
    files: tuple[DataFile, ...]
    engine_runs: tuple[EngineRun, ...] = ()

    @property
    def figures(self) -> StepFigures:
        """The rows that it consumes, and how many of them were read."""
        return StepFigures.of_intake(self.behind, self.engine_runs, fetched=self.grown.fetched)

    def put(self, commit: Commit) -> None:
        """Add it to a commit; a conflict if another run has consumed any of its range."""
        sample, stored = self.behind.sample, self.behind.scan
        if self.grown.rows_changed:
            commit.replace(sample.table, [file.id for file in stored.files], self.files)
        stream, expected = self.behind.tail.stream, self.behind.progress.snapshot_id
        commit.also(AdvanceSample(sample=sample.table, stream=stream, expected=expected, progress=self.grown.progress))


def write_version(work: Workspace, behind: PendingSample, grown: CurrentSample) -> SampleVersion:
    """Write a sample's next version; if none of the new rows is in it, no file is written."""
    table = behind.sample.table
    files: tuple[DataFile, ...] = ()
    if grown.rows_changed and grown.rows.num_rows:
        files = (work.lake.write(table, grown.rows, row_ids=pa.array(grown.row_ids, pa.int64())),)
    return SampleVersion(behind=behind, grown=grown, files=files)
