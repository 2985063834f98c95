"""`read_merged`: all groups of a store at a snapshot, merged with Arrow and cached for the next read."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from platform_plugin.cache import Cache
from platform_plugin.engine.refusal import RefusedByEngine
from platform_plugin.lake.read.read import read_rows
from platform_plugin.lake.read.scan import read_file_changes
from platform_plugin.state.stored_file import read_place

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from platform_plugin.lake.lake import Lake
    from platform_plugin.lake.read.scan import FileScan, TableScan
    from platform_plugin.state.store import Store

# Merged rows, with the snapshot and the files that they are of.
_MERGED: Cache[tuple[Any, ...], tuple[int, frozenset[int], pa.Table]] = Cache(
    "merged states of views", weigh=lambda merged: merged[2].nbytes
)


def read_merged(lake: Lake, store: Store, scan: TableScan) -> pa.Table:
    """One row for each group of a scan. After an earlier read only what was added since is read, also if files were compacted meanwhile."""
    if scan.inlined or not all(file.is_whole for file in scan.files):
        raise RefusedByEngine("deleted or inlined rows in a state", for_good=False)
    files = frozenset(file.id for file in scan.files)
    key = (lake.uuid, str(lake.location), scan.table.uuid, scan.snapshot.schema_version)
    known = _MERGED.get(key)
    if known is not None and known[1] == files:
        return known[2]
    added = None if known is None else _find_added(lake, scan, known[0], known[1])
    names = [field.name for field in store.fields]
    if known is not None and added is not None:
        rows = known[2]
        if added:
            rows = store.merge_into(rows, [read_rows(lake, replace(scan, files=tuple(added)), columns=names)]).combine_chunks()
    else:
        rows = read_rows(lake, scan, columns=names)
        if store.zero or not is_merged(scan.files):
            rows = store.merge_rows([rows]).combine_chunks()
    _MERGED.put(key, (scan.snapshot.id, files, rows))
    return rows


def is_merged(files: Sequence[FileScan]) -> bool:
    """Whether no two rows of these files are of one group: there is one file, or all are parts of a base."""
    return len(files) <= 1 or all((place := read_place(file.path)) is not None and place.is_base for file in files)


def _find_added(lake: Lake, scan: TableScan, after: int, known: frozenset[int]) -> list[FileScan] | None:
    """The files with the rows that were added since a snapshot; None where that can't be told."""
    if after > scan.snapshot.id:
        return None
    new = [file for file in scan.files if file.id not in known]
    if len(new) + len(known) == len(scan.files):
        return new
    with lake.reading() as connection:
        changes = read_file_changes(connection, scan.table, after=after, until=scan.snapshot.id)
    if changes is None:
        return None
    begun, ended = changes
    places = [(file, read_place(file.path)) for file in begun]
    # Compaction ends files and begins others in one commit; whatever else ended files has taken rows away.
    compacted = {file.begin_snapshot for file, place in places if place is not None and (place.is_base or place.run)}
    if any(place is None for _, place in places) or not ended <= compacted:
        return None
    return [file for file, place in places if place is not None and not place.is_base and not place.run]
