"""Values for look-ups: the rows of small relations in memory, and stored results that may be behind."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from platform_plugin.engine.engine import TaskInput
from platform_plugin.engine.file_parts import TableReader
from platform_plugin.lake.read import small

if TYPE_CHECKING:
    import pyarrow as pa

    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot, Table


class SmallRelation(NamedTuple):
    """A relation as a table with its columns, and its rows if they are few."""

    table: Table
    rows: pa.Table | None


class RecentResult(NamedTuple):
    """A stored result that may be behind: its table, and the snapshot whose answer it is."""

    table: Table
    snapshot: Snapshot


def read_small(work: Workspace, table: Table, snapshot: Snapshot) -> pa.Table | None:
    """All rows of a table at a snapshot, or None if it is not small by the workspace's limits."""
    limits = work.limits
    return small.read_small(work.lake, table, snapshot, most_bytes=limits.small_table_bytes, most_files=limits.small_table_files)


def read_stored(work: Workspace, table: Table, snapshot: Snapshot) -> SmallRelation:
    """A table, and the rows of its files if they are few."""
    return SmallRelation(table, read_small(work, table, snapshot))


def table_input(work: Workspace, table: Table, snapshot: Snapshot) -> TaskInput:
    """A table as an input of tasks, which an engine in this process reads whole if it is small."""
    scan = work.lake.scan(table, snapshot)
    return TaskInput(
        role="table",
        row_count=scan.record_count,
        size_bytes=scan.size_bytes,
        file_count=len(scan.files),
        read=lambda _: small.read_small_scan(work.lake, scan),
        scan=scan,
        reader=lambda: TableReader(table=scan.table, snapshot=scan.snapshot),
    )
