"""Hooks: what an append, a drop or a run about one kind of relation announces to all other kinds."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from platform_plugin.language.statements.registry import load

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot, Table
    from platform_plugin.lake.commit.writer import Writer
    from platform_plugin.lake.lake import Lake

# What is done when rows were appended, as "module:function" in a room above; loaded when used.
_AFTER_APPEND = ("platform_plugin.maintenance.propagation:propagate",)


class AppendPart(Protocol):
    """What a listener adds to a commit that appends rows from memory."""

    def prepare(self) -> None:
        """Do work before the commit, so that the commit is shorter."""

    def apply(self, w: Writer) -> None:
        """Write it, when the rows have their ids."""

    def settle(self) -> None:
        """Called when the commit is made."""


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

    def find_blocker(self, work: Workspace, table: Table, kind: str, snapshot: Snapshot) -> DropBlocker | None:
        """A table of a kind is about to be dropped by name: the relations of this kind that keep it, or None."""
        del work, table, kind, snapshot
        return None


def ask_append_parts(lake: Lake, base: Snapshot, table: Table, rows: pa.Table) -> list[AppendPart]:
    """The parts that all kinds add to a commit that appends rows."""
    return [part for kind in _listeners() if (part := kind.appending(lake, base, table, rows)) is not None]


def notify_appended(work: Workspace, table: Table, snapshot: Snapshot) -> None:
    """Tell the rooms above that a commit has appended rows, which are visible at a snapshot; an error there does not undo that."""
    for place in _AFTER_APPEND:
        load(place)(work, table, snapshot)


def find_blockers(work: Workspace, table: Table, kind: str, snapshot: Snapshot) -> list[DropBlocker]:
    """The relations of all kinds that keep a table from being dropped."""
    return [blocker for listener in _listeners() if (blocker := listener.find_blocker(work, table, kind, snapshot)) is not None]


def _listeners() -> Sequence[Listener]:
    # The list names the kinds, which are listeners themselves.
    from platform_plugin.relations.kinds import every_kind

    return every_kind()
