"""`read_small` and `read_small_scan`: small tables as Arrow, cached under their file names, since files never change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from platform_plugin.cache import Cache
from platform_plugin.lake.read.read import read_rows

if TYPE_CHECKING:
    import pyarrow as pa

    from platform_plugin.lake.catalogue.tables import Snapshot, Table
    from platform_plugin.lake.lake import Lake
    from platform_plugin.lake.read.scan import TableScan

_ROWS: Cache[tuple[Any, ...], pa.Table] = Cache("rows of small tables", weigh=lambda rows: rows.nbytes)


def read_small(lake: Lake, table: Table, snapshot: Snapshot, *, most_bytes: int, most_files: int) -> pa.Table | None:
    """All rows of a table at a snapshot, or None if its files are more, or larger together."""
    scan = lake.scan(table, snapshot)
    if scan.size_bytes > most_bytes or len(scan.files) > most_files:
        return None
    return read_small_scan(lake, scan)


def read_small_scan(lake: Lake, scan: TableScan) -> pa.Table:
    """All rows of a scan of few files."""
    if scan.inlined or not all(file.is_whole for file in scan.files):
        # Only files whose every row counts are known by their names alone.
        return read_rows(lake, scan).combine_chunks()
    key = (lake.uuid, scan.table.uuid, scan.snapshot.schema_version, tuple(file.path for file in scan.files))
    return _ROWS.find(key, lambda: read_rows(lake, scan).combine_chunks())
