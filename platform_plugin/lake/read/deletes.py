"""`write_replacing_deletes`: delete files for new positions, together with the positions that are deleted already."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from platform_plugin.lake.files.files import DeleteFile, write_delete_file
from platform_plugin.lake.read.read import read_positions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from platform_plugin.lake.lake import Lake
    from platform_plugin.lake.read.scan import TableScan


def write_replacing_deletes(lake: Lake, scan: TableScan, positions: Mapping[int, Sequence[int]]) -> dict[int, DeleteFile]:
    """The delete files for `Commit.delete`: positions by data file id, united with those of the delete files that they replace.

    Positions that the catalogue lists as deleted are left out: DuckDB expects the two lists to be disjoint, and otherwise loses its place
    in the file.
    """
    written: dict[int, DeleteFile] = {}
    try:
        for file in scan.files:
            if not len(positions.get(file.id, ())):
                continue
            wanted = np.asarray(positions[file.id], dtype=np.int64)
            if file.deletes is not None:
                wanted = np.union1d(wanted, read_positions(lake, file.deletes, scan.snapshot, limit=file.record_count))
            wanted = np.setdiff1d(wanted, np.asarray(file.positions, dtype=np.int64))
            if len(wanted):
                written[file.id] = write_delete_file(lake.storage, scan.table, file.path, pa.array(wanted))
    except BaseException:
        lake.discard(written.values())
        raise
    return written
