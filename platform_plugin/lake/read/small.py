"""`read_small`: small tables as Arrow, cached under their file names, since files never change."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from platform_plugin.lake.read.read import read_rows

if TYPE_CHECKING:
    import pyarrow as pa

    from platform_plugin.lake.catalogue.tables import Snapshot, Table
    from platform_plugin.lake.lake import Lake

# A scan of more is Spark's: it reads with all cores.
_SMALL_BYTES = 16 * 1024 * 1024
_FEW_FILES = 64
_CACHE_BYTES = 256 * 1024 * 1024


class _SmallTables:
    """The rows of the small tables that were used last, within a budget of memory."""

    def __init__(self) -> None:
        self._tables: OrderedDict[tuple[Any, ...], pa.Table] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def read(self, lake: Lake, table: Table, snapshot: Snapshot) -> pa.Table | None:
        """All rows of a table at a snapshot, or None for a table that is not small."""
        scan = lake.scan(table, snapshot)
        if scan.size_bytes > _SMALL_BYTES or len(scan.files) > _FEW_FILES:
            return None
        key = (lake.uuid, table.uuid, snapshot.schema_version, tuple(file.path for file in scan.files))
        # Only files whose every row counts are known by their names alone.
        cacheable = not scan.inlined and all(file.is_whole for file in scan.files)
        with self._lock:
            known = self._tables.get(key) if cacheable else None
            if known is not None:
                self._tables.move_to_end(key)
                return known
        rows = read_rows(lake, scan).combine_chunks()
        if cacheable:
            with self._lock:
                self._tables[key] = rows
                self._bytes += rows.nbytes
                while self._bytes > _CACHE_BYTES and len(self._tables) > 1:
                    _, oldest = self._tables.popitem(last=False)
                    self._bytes -= oldest.nbytes
        return rows


_SMALL_TABLES = _SmallTables()


def read_small(lake: Lake, table: Table, snapshot: Snapshot) -> pa.Table | None:
    """All rows of a table at a snapshot, or None for a table that is not small."""
    return _SMALL_TABLES.read(lake, table, snapshot)
