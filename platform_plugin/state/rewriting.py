"""`Rewrite`: a compaction that is due, with the files that it reads, and what it writes in their place."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from platform_plugin.engine.file_parts import FilePart, TableReader
from platform_plugin.engine.refusal import RefusedByEngine
from platform_plugin.lake.read.scan import list_files
from platform_plugin.state.compaction import is_compact, plan_compaction, plan_gathering
from platform_plugin.state.stored_file import StoredFile

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from platform_plugin.engine.refusal import Refusal
    from platform_plugin.lake.catalogue.tables import Snapshot
    from platform_plugin.lake.files.data_folder import DataFolder
    from platform_plugin.lake.files.files import DataFile
    from platform_plugin.lake.lake import Lake
    from platform_plugin.lake.read.scan import TableScan
    from platform_plugin.state.compaction import Compaction
    from platform_plugin.state.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """Files of a store that one compaction merges; the scan has only these."""

    store: Store
    scan: TableScan
    compaction: Compaction

    @property
    def replaces(self) -> tuple[int, ...]:
        """The ids of the files that end with the commit of the new ones."""
        return tuple(file.id for file in self.scan.files)

    def merge(self, lake: DataFolder) -> pa.Table:
        """The merged rows, computed with Arrow; `RefusedByEngine` if that is left to Spark."""
        columns = [field.name for field in self.store.fields]
        reader = TableReader(table=self.scan.table, snapshot=self.scan.snapshot)
        return self.store.merge_rows([reader.read(lake, [FilePart(file) for file in self.scan.files], columns)])

    def write(self, lake: DataFolder, rows: pa.Table) -> list[DataFile]:
        """Write merged rows as files of the store."""
        return self.store.write_compacted(lake, rows, self.compaction)


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteProgram:
    """The merge of files of a store in a task, whose share is one `Rewrite`."""

    folder: DataFolder

    def run(self, share: Rewrite) -> list[DataFile] | Refusal:
        """The files that take the place of the merged ones."""
        try:
            rows = share.merge(self.folder)
        except RefusedByEngine as refused:
            return refused.refusal
        return share.write(self.folder, rows)


def find_rewrites(lake: Lake, snapshot: Snapshot, stores: Sequence[Store]) -> list[Rewrite]:
    """The compactions of stores that are due at a snapshot, at most one of each."""
    with lake.reading() as connection:
        listed = list_files(connection, [store.table for store in stores], snapshot)
    found = []
    for store in stores:
        files = listed.get(store.table.uuid, [])
        if is_compact(len(files), sum(file.size_bytes for file in files)):
            continue
        stored = [StoredFile.of(file) for file in files]
        compaction = plan_gathering(stored) if store.merge is None else plan_compaction(stored, is_divisible=store.address is not None)
        if compaction is not None:
            chosen = {file.id for file in compaction.files}
            scan = lake.scan(store.table, snapshot)
            own = tuple(file for file in scan.files if file.id in chosen)
            # Rows that another client has put into the catalogue stay there.
            found.append(Rewrite(store=store, scan=replace(scan, files=own, inlined=()), compaction=compaction))
    return found
