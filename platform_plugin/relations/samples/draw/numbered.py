"""`read_numbered`: rows of a file with their positions and row ids, from which their keys and places are made."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from platform_plugin.lake.files.files import ROW_ID
from platform_plugin.lake.read.evolution import adapt_rows
from platform_plugin.lake.read.read import find_column, read_raw

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from platform_plugin.algebra.types.data_types import Field
    from platform_plugin.lake.catalogue.tables import Snapshot
    from platform_plugin.lake.files.data_folder import DataFolder
    from platform_plugin.lake.read.read import FileSpan
    from platform_plugin.lake.read.scan import FileScan

    Integers = NDArray[np.int64]


class NumberedRows(NamedTuple):
    """Rows of a file that are part of a snapshot, in the order of the file."""

    rows: pa.Table
    positions: Integers
    row_ids: Integers


def read_numbered(
    folder: DataFolder, file: FileScan, snapshot: Snapshot, fields: Sequence[Field], *, low: int, high: int, span: FileSpan | None = None
) -> NumberedRows:
    """The rows from position `low` up to but not including `high`; with a `span` those in row groups that begin in it."""
    raw, kept = read_raw(folder, file, snapshot, fields=fields, hidden=(ROW_ID,), span=span)
    rows, own = adapt_rows(raw, fields), find_column(raw, ROW_ID)
    positions = kept.to_numpy(zero_copy_only=False)
    first, last = np.searchsorted(positions, (low, high)).tolist()
    rows, positions = rows.slice(first, last - first), positions[first:last]
    ids = positions + (file.row_id_start or 0) if own is None else own.to_numpy()[first:last]
    return NumberedRows(rows, positions, ids)
