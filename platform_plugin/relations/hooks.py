"""Hooks: what a statement or a run about one kind of relation tells all the others, none of which it knows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot, Table
    from platform_plugin.lake.commit.commit import Commit
    from platform_plugin.lake.commit.writer import Writer
    from platform_plugin.lake.files.files import DataFile
    from platform_plugin.lake.lake import Lake
    from platform_plugin.relations.answers import Answer

RangeKey = tuple[str, int, int]
"""A range of a stream: its full name, its first row id, and the one after its last."""


class AppendPart(Protocol):
    """What somebody adds to a commit that appends rows which are still in memory."""

    def prepare(self) -> None:
        """Do beforehand what makes the commit shorter."""

    def apply(self, w: Writer) -> None:
        """Write it, once the rows have their ids."""

    def settle(self) -> None:
        """The commit is made."""


class JointWrite(Protocol):
    """What somebody has made of a range in another's run: files, and what makes them visible."""

    @property
    def name(self) -> str:
        """The relation that it is for."""

    @property
    def files(self) -> Sequence[DataFile]:
        """Files that are left over if the run fails."""

    def put(self, commit: Commit) -> None:
        """Add it to the run's commit."""


class JointScan(Protocol):
    """Somebody who takes up a range of a stream in the scan and in the commit of another's run."""

    @property
    def key(self) -> RangeKey:
        """The range."""

    @property
    def looks_at_rows(self) -> bool:
        """Whether the range has to be scanned with Spark for it."""

    def answer(self, work: Workspace, rows: DataFrame) -> Answer:
        """Its query over the rows of the range, which have their row ids."""

    def change(self, work: Workspace) -> JointWrite:
        """What comes of it, once all rows have gone by."""


class Listener(Protocol):
    """What a kind may want to know of others. It does nothing unless the kind says otherwise."""

    def appending(self, lake: Lake, base: Snapshot, table: Table, rows: pa.Table) -> AppendPart | None:
        """Rows in the shape of a table are about to be appended to it: what is to be part of that commit."""
        del lake, base, table, rows
        return None

    def appended(self, work: Workspace, table: Table, snapshot: Snapshot) -> None:
        """Rows were appended to a table, and are there at a snapshot; nothing that fails here undoes that."""
        del work, table, snapshot

    def before_drop(self, work: Workspace, table: Table, kind: str, snapshot: Snapshot) -> None:
        """A table of a kind is to be dropped by its name: an error if that must not be."""
        del work, table, kind, snapshot

    def joint_scans(self, work: Workspace, snapshot: Snapshot, ranges: Collection[RangeKey]) -> Sequence[JointScan]:
        """A run takes up ranges of streams: who takes up just these in the same scan."""
        del work, snapshot, ranges
        return ()


def ask_append_parts(lake: Lake, base: Snapshot, table: Table, rows: pa.Table) -> list[AppendPart]:
    """What all kinds want to be part of a commit that appends rows."""
    return [part for kind in _listeners() if (part := kind.appending(lake, base, table, rows)) is not None]


def notify_appended(work: Workspace, table: Table, snapshot: Snapshot) -> None:
    """Tell all kinds that a commit has appended rows."""
    for kind in _listeners():
        kind.appended(work, table, snapshot)


def notify_before_drop(work: Workspace, table: Table, kind: str, snapshot: Snapshot) -> None:
    """Ask all kinds whether a table may be dropped."""
    for listener in _listeners():
        listener.before_drop(work, table, kind, snapshot)


def joint_scans(work: Workspace, snapshot: Snapshot, ranges: Collection[RangeKey]) -> list[JointScan]:
    """All who take up ranges in the scan of a run."""
    return [each for kind in _listeners() for each in kind.joint_scans(work, snapshot, ranges)]


def _listeners() -> Sequence[Listener]:
    # The list names the kinds, which are listeners themselves.
    from platform_plugin.relations.kinds import every_kind

    return every_kind()
