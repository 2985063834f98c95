"""Hooks: what an append, a drop or a run about one kind of relation announces to all other kinds."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

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
"""A range of a stream: the stream's full name, its first row id, and the id after its last."""


class AppendPart(Protocol):
    """What a listener adds to a commit that appends rows from memory."""

    def prepare(self) -> None:
        """Do work before the commit, so that the commit is shorter."""

    def apply(self, w: Writer) -> None:
        """Write it, when the rows have their ids."""

    def settle(self) -> None:
        """Called when the commit is made."""


class JointWrite(Protocol):
    """What a listener has computed from a range in another's run: files, and the change that makes them visible."""

    @property
    def name(self) -> str:
        """The relation that it is for."""

    @property
    def files(self) -> Sequence[DataFile]:
        """The files to remove if the run fails."""

    def put(self, commit: Commit) -> None:
        """Add it to the run's commit."""


class JointScan(Protocol):
    """A consumer that consumes a range of a stream in the scan and the commit of another's run."""

    @property
    def key(self) -> RangeKey:
        """The range."""

    @property
    def looks_at_rows(self) -> bool:
        """Whether Spark has to scan the range for it."""

    def answer(self, work: Workspace, rows: DataFrame) -> Answer:
        """Its query over the rows of the range, which have their row ids."""

    def change(self, work: Workspace) -> JointWrite:
        """Its result, when the scan is over."""


class DropBlocker(NamedTuple):
    """The relations of one kind that keep a table from being dropped, how they need it, and the statement that drops one of them."""

    need: str
    names: tuple[str, ...]
    statement: str


class Listener(Protocol):
    """What a kind may do at events of other kinds; by default nothing."""

    def appending(self, lake: Lake, base: Snapshot, table: Table, rows: pa.Table) -> AppendPart | None:
        """Rows with a table's columns are about to be appended to it: the part that this kind adds to the commit."""
        del lake, base, table, rows
        return None

    def appended(self, work: Workspace, table: Table, snapshot: Snapshot) -> None:
        """Rows were appended to a table and are visible at a snapshot; an error here does not undo that."""
        del work, table, snapshot

    def find_blocker(self, work: Workspace, table: Table, kind: str, snapshot: Snapshot) -> DropBlocker | None:
        """A table of a kind is about to be dropped by name: the relations of this kind that keep it, or None."""
        del work, table, kind, snapshot
        return None

    def joint_scans(self, work: Workspace, snapshot: Snapshot, ranges: Collection[RangeKey]) -> Sequence[JointScan]:
        """A run consumes ranges of streams: the consumers that consume exactly these in the same scan."""
        del work, snapshot, ranges
        return ()


def ask_append_parts(lake: Lake, base: Snapshot, table: Table, rows: pa.Table) -> list[AppendPart]:
    """The parts that all kinds add to a commit that appends rows."""
    return [part for kind in _listeners() if (part := kind.appending(lake, base, table, rows)) is not None]


def notify_appended(work: Workspace, table: Table, snapshot: Snapshot) -> None:
    """Tell all kinds that a commit has appended rows."""
    for kind in _listeners():
        kind.appended(work, table, snapshot)


def find_blockers(work: Workspace, table: Table, kind: str, snapshot: Snapshot) -> list[DropBlocker]:
    """The relations of all kinds that keep a table from being dropped."""
    return [blocker for listener in _listeners() if (blocker := listener.find_blocker(work, table, kind, snapshot)) is not None]


def joint_scans(work: Workspace, snapshot: Snapshot, ranges: Collection[RangeKey]) -> list[JointScan]:
    """All consumers that consume ranges in the scan of a run."""
    return [each for kind in _listeners() for each in kind.joint_scans(work, snapshot, ranges)]


def _listeners() -> Sequence[Listener]:
    # The list names the kinds, which are listeners themselves.
    from platform_plugin.relations.kinds import every_kind

    return every_kind()
