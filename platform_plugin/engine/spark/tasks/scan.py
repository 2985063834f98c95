"""`ScanProgram` and `DeletionProgram`: what tasks do that read files of a lake for Spark SQL, where Spark has no file system for them."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from platform_plugin.engine.file_parts import divide_rows
from platform_plugin.errors import PlatformError, QueryFailed
from platform_plugin.lake.files.data_folder import DataFolder
from platform_plugin.lake.files.files import ROW_ID, SNAPSHOT_ID
from platform_plugin.lake.read.evolution import adapt_rows
from platform_plugin.lake.read.matching import find_rows_within
from platform_plugin.lake.read.read import find_column, read_positions, read_raw
from platform_plugin.lake.values.intervals import store_intervals

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from platform_plugin.algebra.predicates.conditions import Condition
    from platform_plugin.algebra.types.data_types import Field
    from platform_plugin.engine.file_parts import FilePart
    from platform_plugin.lake.catalogue.tables import Snapshot
    from platform_plugin.lake.read.scan import FileScan

# Parts of tables and lists that Spark is handed at once.
_BATCH_ROWS = 65_536
_READERS = 8


class TaskFolder(DataFolder):
    """The data folder in a task; what it says of a missing file is what Spark would say, for which the client finds the reason."""

    def explain_missing(self, path: str, snapshot: Snapshot) -> PlatformError:
        """The error for a file that a reader of a snapshot misses."""
        del snapshot  # the client knows it
        return QueryFailed(f'file "{path}" does not exist', detail=self.storage.readable(path))


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanProgram:
    """Reads rows of files with some columns in the form in which files hold them, and behind these what the caller asks for.

    `schema` is that of the rows. With `dated` it has the snapshots that added rows, where a file says it. With `places` it has the
    names of files, positions, row ids, and the row's numbers among all rows, of which `places` has those of the files' first rows.
    """

    folder: TaskFolder
    snapshot: Snapshot
    fields: tuple[Field, ...]
    where: Condition
    tested: tuple[Field, ...]
    """The columns of the condition."""
    schema: pa.Schema
    dated: bool
    places: Mapping[int, int] | None
    part_rows: int

    def read(self, share: Sequence[FilePart]) -> Iterator[pa.RecordBatch]:
        """The rows of a share of the files, a few row groups at a time.

        Small files are read beside each other, since a store answers late.
        """
        ahead: deque[tuple[int, Future[pa.Table]]] = deque()
        with ThreadPoolExecutor(max_workers=_READERS) as pool:
            for part in (part for group in divide_rows(share, self.part_rows) for part in group):
                ahead.append((part.row_count, pool.submit(self._read, part)))
                while len(ahead) > _READERS or sum(count for count, _ in ahead) > self.part_rows:
                    yield from ahead.popleft()[1].result().to_batches(max_chunksize=_BATCH_ROWS)
            while ahead:
                yield from ahead.popleft()[1].result().to_batches(max_chunksize=_BATCH_ROWS)

    def _read(self, part: FilePart) -> pa.Table:
        hidden = ((SNAPSHOT_ID,) if self.dated else ()) + ((ROW_ID,) if self.places is not None else ())
        fields = tuple(dict.fromkeys((*self.fields, *self.tested)))
        raw, positions = read_raw(self.folder, part.file, self.snapshot, fields=fields, hidden=hidden, span=part.span)
        rows = adapt_rows(raw, fields)
        names = [field.name for field in self.fields]
        columns = list(store_intervals(rows.select(names), self.fields).columns)
        if self.dated:
            columns.append(_numbers(find_column(raw, SNAPSHOT_ID), len(positions)))
        if self.places is not None:
            own = _numbers(find_column(raw, ROW_ID), len(positions))
            there = np.asarray(positions, dtype=np.int64)
            counted = pa.array(there + (part.file.row_id_start or 0))
            ids = pa.chunked_array([pc.coalesce(own.combine_chunks(), counted)])
            name = pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(there), dtype=np.int32)), [part.file.path.rsplit("/", 1)[-1]])
            columns += [name.cast(pa.string()), pa.array(there), ids, pa.array(there + self.places[part.file.id])]
        made = pa.table([_cast(column, field.type) for column, field in zip(columns, self.schema, strict=True)], schema=self.schema)
        kept = find_rows_within(rows, fields, self.where)
        return made if kept is None else made.take(pa.array(kept))


def _numbers(column: pa.ChunkedArray | None, count: int) -> pa.ChunkedArray:
    return pa.chunked_array([pa.nulls(count, pa.int64())]) if column is None else column.cast(pa.int64())


def _cast(column: pa.ChunkedArray | pa.Array, kind: pa.DataType) -> pa.ChunkedArray | pa.Array:
    """A column in the type by which Spark knows it."""
    if column.type == kind:
        return column
    if isinstance(column.type, pa.BaseExtensionType):
        column = pa.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)
    return column.cast(kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionProgram:
    """Reads delete files: the names of data files, and the positions of rows that were deleted from them by the snapshot."""

    folder: TaskFolder
    snapshot: Snapshot

    def read(self, share: Sequence[FileScan]) -> Iterator[pa.RecordBatch]:
        """The positions that the delete files of some data files list."""
        for file in share:
            if file.deletes is None:
                continue
            positions = read_positions(self.folder, file.deletes, self.snapshot, limit=file.record_count)
            name = file.path.rsplit("/", 1)[-1]
            for first in range(0, len(positions), _BATCH_ROWS):
                part = pa.array(positions[first : first + _BATCH_ROWS], pa.int64())
                names = pa.repeat(pa.scalar(name), len(part))
                yield pa.RecordBatch.from_arrays([names, part], names=["_gone_file", "_gone_position"])
