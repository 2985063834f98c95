"""`FilePart`: the files of a scan divided among tasks, and `PartReader`, which reads parts where there is no catalogue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

import pyarrow as pa

from platform_plugin.lake.read.read import FileSpan, read_file
from platform_plugin.lake.values.types import arrow_schema

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from platform_plugin.lake.catalogue.tables import Snapshot, Table
    from platform_plugin.lake.files.data_folder import DataFolder
    from platform_plugin.lake.read.scan import FileScan, TableScan


class FilePart(NamedTuple):
    """A file of a scan, or with a `span` the row groups of it that begin there."""

    file: FileScan
    span: FileSpan | None = None

    @property
    def row_count(self) -> int:
        """About how many rows it has."""
        return self.file.record_count if self.span is None else self.span.until - self.span.first


class PartReader(Protocol):
    """Reads parts of files in whatever process has it; it is sent to others by pickle."""

    def read(self, folder: DataFolder, parts: Sequence[FilePart], columns: Collection[str]) -> pa.Table:
        """At least these columns of the rows of some parts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReader:
    """Reads the rows of a table at a snapshot."""

    table: Table
    snapshot: Snapshot

    def read(self, folder: DataFolder, parts: Sequence[FilePart], columns: Collection[str]) -> pa.Table:
        """At least these columns of the rows of some parts."""
        # Without any column nobody would know how many rows there are.
        fields = [field for field in self.table.fields if field.name in columns] or list(self.table.fields[:1])
        tables = [read_file(folder, self.table, part.file, self.snapshot, fields=fields, span=part.span)[0] for part in parts]
        return pa.concat_tables(tables) if tables else pa.Table.from_batches([], schema=arrow_schema(tuple(fields)))


def is_read_by_tasks(scan: TableScan) -> bool:
    """Whether the files alone have all rows: some of other programs need the catalogue, as do rows that are kept there."""
    return not scan.inlined and all(file.mapping_id is None for file in scan.files)


def divide_files(files: Sequence[FileScan], count: int, *, least_rows: int = 1) -> list[list[FilePart]]:
    """The files as up to `count` shares of about as many rows, in order, and of at least so many rows.

    >>> from platform_plugin.lake.read.scan import FileScan
    >>> files = [FileScan(number, f"{number}.parquet", 30, 1, 1, 0, 1) for number in range(2)]
    >>> [[(part.file.id, part.span and tuple(part.span)) for part in share] for share in divide_files(files, 3)]
    [[(0, (0, 20))], [(0, (20, 30)), (1, (0, 10))], [(1, (10, 30))]]
    """
    rows = sum(file.record_count for file in files)
    count = max(1, min(count, rows // max(1, least_rows)))
    shares: list[list[FilePart]] = [[] for _ in range(count)]
    begun = 0
    for file in files:
        for first, until, number in _cut(begun, begun + file.record_count, rows, count):
            is_whole = until - first == file.record_count
            shares[number].append(FilePart(file, None if is_whole else FileSpan(first - begun, until - begun)))
        begun += file.record_count
    return [share for share in shares if share]


def _cut(first: int, until: int, rows: int, count: int) -> Iterator[tuple[int, int, int]]:
    """The pieces of some rows that belong to different shares."""
    while first < until:
        number = min(count - 1, first * count // rows)
        end = min(until, -(-(number + 1) * rows // count))
        yield first, end, number
        first = end


def divide_rows(parts: Sequence[FilePart], most_rows: int) -> Iterator[list[FilePart]]:
    """The same parts in groups of about so many rows at most, which are read one after the other."""
    group: list[FilePart] = []
    for part in parts:
        for piece in cut_part(part, most_rows):
            if group and sum(each.row_count for each in group) + piece.row_count > most_rows:
                yield group
                group = []
            group.append(piece)
    if group:
        yield group


def cut_part(part: FilePart, most_rows: int) -> Iterator[FilePart]:
    """The same part in pieces of at most so many rows."""
    if part.row_count <= most_rows:
        yield part
        return
    span = part.span or FileSpan(0, part.file.record_count)
    for first in range(span.first, span.until, most_rows):
        yield FilePart(part.file, FileSpan(first, min(span.until, first + most_rows)))
