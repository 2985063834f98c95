"""`search_pages`: the rows of a file in which a column has one of some whole numbers, found by the bounds of its pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from platform_plugin.errors import StorageError
from platform_plugin.lake.files.pages import read_page_bounds
from platform_plugin.lake.read.read import read_raw
from platform_plugin.lake.values.types import FIELD_ID

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from platform_plugin.algebra.types.data_types import Field
    from platform_plugin.lake.catalogue.tables import Snapshot
    from platform_plugin.lake.files.pages import PageBounds
    from platform_plugin.lake.lake import Lake
    from platform_plugin.lake.read.scan import FileScan

    Integers = NDArray[np.int64]


def search_pages(lake: Lake, file: FileScan, snapshot: Snapshot, field: Field, values: Integers) -> Integers:
    """The positions, ascending, of the rows of a whole file whose value of a column is one of `values`, which ascend.

    Only pages that can have one are read. In a file that is sorted by the column these are few.
    """
    bounds = _read_bounds(lake, file, field)
    places = None if bounds is None else _rows_of_pages(bounds, file.record_count, values)
    found, _ = read_raw(lake, file, snapshot, fields=[field], positions=places)
    column = found.column(0).to_numpy()
    at = np.searchsorted(values, column)
    hits = np.flatnonzero(np.append(values, 0)[at] == column) if len(values) else np.empty(0, dtype=np.int64)
    hits = hits[at[hits] < len(values)]
    found_at: Integers = hits if places is None else places[hits]
    return found_at


def _read_bounds(lake: Lake, file: FileScan, field: Field) -> PageBounds | None:
    """The bounds of a column's pages; None where the file does not say, or can't be read, which whoever reads its rows will tell."""
    try:
        with lake.storage.open_arrow(file.path) as opened:
            parquet = pq.ParquetFile(opened)
            ids = [(column.metadata or {}).get(FIELD_ID) for column in parquet.schema_arrow]
            if any(pa.types.is_nested(column.type) for column in parquet.schema_arrow) or str(field.id).encode() not in ids:
                return None
            key = (lake.storage.readable(file.path), file.size_bytes)
            return read_page_bounds(opened, parquet, key, ids.index(str(field.id).encode()))
    except (StorageError, pa.ArrowException, OSError):
        return None


def _rows_of_pages(bounds: PageBounds, row_count: int, values: Integers) -> Integers:
    """The rows of the pages whose bounds let one of the values be in them."""
    inside = np.searchsorted(values, bounds.highs, side="right") > np.searchsorted(values, bounds.lows, side="left")
    begins, ends = bounds.starts[inside], np.append(bounds.starts[1:], row_count)[inside]
    sizes = ends - begins
    return np.repeat(begins - (np.cumsum(sizes) - sizes), sizes) + np.arange(int(sizes.sum()), dtype=np.int64)
