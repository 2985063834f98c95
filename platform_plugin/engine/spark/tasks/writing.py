"""`WriteProgram` and `ImageProgram`: what tasks do that write rows which Spark computes as files of a table."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from platform_plugin.lake.files.file_division import write_data_files
from platform_plugin.lake.files.files import ROW_ID_FIELD, SNAPSHOT_ID_FIELD, discard, fit_rows
from platform_plugin.lake.read.before_images import ImageRows, write_images
from platform_plugin.lake.read.changes import nullable_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from platform_plugin.lake.catalogue.tables import Table
    from platform_plugin.lake.commit.before_images import BeforeImages
    from platform_plugin.lake.files.data_folder import DataFolder
    from platform_plugin.lake.files.files import DataFile, WrittenFile

Written = TypeVar("Written", bound="WrittenFile")


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteProgram:
    """Writes the rows of a task as files of a table, whose path is that of a folder for this job."""

    folder: DataFolder
    table: Table
    memory_bytes: int

    def run_rows(self, batches: Iterator[pa.RecordBatch]) -> list[DataFile]:
        """The files that were written; on an error they are removed."""
        first = next(batches)
        names = [field.name for field in self.table.fields]
        if ROW_ID_FIELD.name in first.schema.names:
            return self._write_with_row_ids(chain([first], batches), names)
        reader = pa.RecordBatchReader.from_batches(first.schema, chain([first], batches))
        files = write_data_files(self.folder.storage, self.table, reader)
        discard(self.folder.storage, [file for file in files if not file.record_count])
        return [file for file in files if file.record_count]

    def _write_with_row_ids(self, batches: Iterator[pa.RecordBatch], names: list[str]) -> list[DataFile]:
        def write(part: pa.Table) -> list[DataFile]:
            row_ids = part.column(ROW_ID_FIELD.name).combine_chunks()
            return write_data_files(self.folder.storage, self.table, part.select(names), row_ids=row_ids)

        return write_parts(self.folder, gather_batches(batches, self.memory_bytes), write)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageProgram:
    """Writes rows that end, with their row ids and the snapshots that added them, as before-images."""

    folder: DataFolder
    table: Table
    memory_bytes: int

    def run_rows(self, batches: Iterator[pa.RecordBatch]) -> list[BeforeImages]:
        """The files that were written; on an error they are removed."""
        table = replace(self.table, fields=nullable_fields(self.table))

        def write(part: pa.Table) -> list[BeforeImages]:
            rows = fit_rows(part.select([field.name for field in table.fields]), table.fields)
            row_ids, added = (part.column(field.name).to_numpy() for field in (ROW_ID_FIELD, SNAPSHOT_ID_FIELD))
            return [write_images(self.folder, table, ImageRows(rows=rows, row_ids=row_ids, added=added))]

        return write_parts(self.folder, gather_batches(batches, self.memory_bytes), write)


def write_parts(folder: DataFolder, parts: Iterable[pa.Table], write: Callable[[pa.Table], Sequence[Written]]) -> list[Written]:
    """The files that each part becomes; on an error all of them are removed."""
    files: list[Written] = []
    try:
        for part in parts:
            files += write(part)
    except BaseException:
        discard(folder.storage, files)
        raise
    return files


def gather_batches(batches: Iterable[pa.RecordBatch], most_bytes: int) -> Iterator[pa.Table]:
    """Batches in tables that fit into memory; none for no rows."""
    gathered: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        gathered.append(batch)
        size += batch.nbytes
        if size > most_bytes:
            yield pa.Table.from_batches(gathered)
            gathered, size = [], 0
    if any(part.num_rows for part in gathered):
        yield pa.Table.from_batches(gathered)
