"""Values for look-ups: the rows of something small in memory, and answers that may be behind."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from platform_plugin.lake.read.small import read_small

if TYPE_CHECKING:
    import pyarrow as pa

    from platform_plugin.lake.catalogue.tables import Snapshot, Table
    from platform_plugin.lake.lake import Lake


class Small(NamedTuple):
    """A relation as a table with its columns, and its rows if they are few."""

    table: Table
    rows: pa.Table | None


class Recent(NamedTuple):
    """A stored result that may be behind: its table, and the snapshot that it is the answer at."""

    table: Table
    snapshot: Snapshot


def read_stored(lake: Lake, table: Table, snapshot: Snapshot) -> Small:
    """A table, and the rows of its files if they are few."""
    return Small(table, read_small(lake, table, snapshot))
