"""`FeedBatch` and `FeedStep`: what waits in a table for the stream that follows it, and what was written of it, to be committed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from platform_plugin.relations.follow.maintained import StepFigures

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Table
    from platform_plugin.lake.commit.commit import Commit
    from platform_plugin.lake.cursors.move import MoveCursor
    from platform_plugin.lake.files.files import DataFile
    from platform_plugin.relations.follow.maintained import RunControl, WaitingInput

FEED = "feed"
"""The word by which a selection names streams that follow tables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedStep:
    """Files that a stream is to have, those among them that were written for it, and the move of its cursor."""

    stream: Table
    appended: Sequence[DataFile]
    files: Sequence[DataFile]
    move: MoveCursor
    held: pa.Table | None = None
    """All rows, if they are few enough to be held until the commit."""
    jobs: int = 0
    tasks: int = 0

    @property
    def row_count(self) -> int:
        """The number of rows that are appended."""
        return sum(file.record_count for file in self.appended)

    @property
    def figures(self) -> StepFigures:
        """What was read."""
        return StepFigures(names=(str(self.stream.name),), fed=self.row_count, jobs=self.jobs, tasks=self.tasks)

    def put(self, commit: Commit) -> None:
        """Append the files and move the cursor."""
        if self.appended:
            commit.append(self.stream, self.appended)
        commit.also(self.move)


class FeedBatch(Protocol):
    """The next batch of a table for one stream."""

    @property
    def waiting(self) -> WaitingInput:
        """The part of the table that it has."""

    @property
    def left(self) -> tuple[int, int]:
        """The files or rows that stay for later batches, and their bytes."""

    @property
    def engine(self) -> str:
        """Where it is read and written."""

    def write(self, work: Workspace, control: RunControl) -> FeedStep:
        """Write what the stream needs of it."""
