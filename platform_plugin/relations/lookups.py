"""Values for look-ups: the rows of small relations in memory, and stored results that may be behind."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from platform_plugin.lake.read.small import read_small

if TYPE_CHECKING:
    import pyarrow as pa

    from platform_plugin.lake.catalogue.tables import Snapshot, Table
    from platform_plugin.lake.lake import Lake


class SmallRelation(NamedTuple):
    """A relation as a table with its columns, and its rows if they are few."""

    table: Table
    rows: pa.Table | None


class RecentResult(NamedTuple):
    """A stored result that may be behind: its table, and the snapshot whose answer it is."""

    table: Table
    snapshot: Snapshot


def read_stored(lake: Lake, table: Table, snapshot: Snapshot) -> SmallRelation:
    """A table, and the rows of its files if they are few."""
    return SmallRelation(table, read_small(lake, table, snapshot))
