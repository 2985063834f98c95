"""`write_data_files`: writes rows as one or more files, by the target file size of their table."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import pyarrow as pa

from platform_plugin.lake.files.files import PAGE_ROWS, discard, row_groups, write_data_file, write_groups

if TYPE_CHECKING:
    from collections.abc import Iterator

    from platform_plugin.lake.catalogue.tables import Table
    from platform_plugin.lake.files.files import DataFile
    from platform_plugin.lake.files.storage import Storage

# Files of so much more than the target size are written anew; what is nearer to it is worth no second look.
TOO_LARGE = 1.5


def write_data_files(
    storage: Storage, table: Table, rows: pa.Table | pa.RecordBatchReader, *, row_ids: pa.Array | None = None
) -> list[DataFile]:
    """Write rows as new files of a table: one without a target size, else at least one. On an error all of them are removed."""
    target = table.file_options.target_bytes
    if target is None:
        return [write_data_file(storage, table, rows, row_ids=row_ids)]
    written: list[DataFile] = []
    try:
        if isinstance(rows, pa.Table):
            for start, length in _slices(rows, target, written):
                ids = None if row_ids is None else row_ids.slice(start, length)
                written.append(write_data_file(storage, table, rows.slice(start, length), row_ids=ids))
        else:
            groups = row_groups(rows, table.file_options, most_bytes=target)
            while (first := next(groups, None)) is not None:
                written.append(write_groups(storage, table, chain((first,), groups), full_bytes=target))
            if not written:
                written.append(write_data_file(storage, table, rows.schema.empty_table()))
    except BaseException:
        discard(storage, written)
        raise
    return written


def _slices(rows: pa.Table, target: int, written: list[DataFile]) -> Iterator[tuple[int, int]]:
    """Where each file's rows begin, and how many they are: memory tells that of the first file, each file that of the next."""
    start, length = 0, rows_for(target, size_bytes=rows.nbytes, rows=rows.num_rows)
    while start < rows.num_rows or not start:
        yield start, length
        start += length
        length = rows_for(target, size_bytes=written[-1].size_bytes - written[-1].footer_bytes, rows=written[-1].record_count)


def rows_for(target: int, *, size_bytes: int, rows: int) -> int:
    """How many rows make a file of the target size, estimated from the bytes that some rows took; at least a page's rows."""
    return max(PAGE_ROWS, target * rows // max(size_bytes, 1))
