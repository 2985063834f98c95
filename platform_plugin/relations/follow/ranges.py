"""`Range`: the rows of a stream from one row id up to another, as files of a scan, a DataFrame or Arrow."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from platform_plugin.algebra.plan.relations import HIDDEN_COLUMNS, ROW_ID
from platform_plugin.algebra.types.data_types import Field, is_same_in_spark
from platform_plugin.engine.engine import TaskInput
from platform_plugin.engine.file_parts import FilePart, TableReader
from platform_plugin.errors import StreamOverrun
from platform_plugin.lake.read.inlined import read_row_ids
from platform_plugin.lake.read.read import FileSpan, read_rows
from platform_plugin.lake.read.scan import TableScan
from platform_plugin.lake.ring.arrivals import has_rings
from platform_plugin.lake.ring.segments import read_ring
from platform_plugin.relations.follow.arrivals import add_hidden_columns, find_hidden_columns, read_rows_with_hidden

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from pyspark.sql import DataFrame
    from sqlalchemy.engine import Connection

    from platform_plugin.engine.engine import Role
    from platform_plugin.engine.spark.session.session import Session
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot, Table
    from platform_plugin.lake.files.data_folder import DataFolder
    from platform_plugin.lake.lake import Lake
    from platform_plugin.lake.read.scan import FileScan
    from platform_plugin.relations.follow.arrivals import HiddenColumns

_REPEATED = 10
ROW_IDS = frozenset({ROW_ID})
"""The hidden columns of rows of which only the row ids are needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Rows of a stream with ids from `first_row_id` up to but not including `next_row_id`; `scan` holds them, and perhaps others."""

    scan: TableScan
    first_row_id: int
    next_row_id: int

    @property
    def stream(self) -> Table:
        """The stream."""
        return self.scan.table

    @property
    def row_count(self) -> int:
        """The number of row ids in the range, those of deleted rows included."""
        return self.next_row_id - self.first_row_id

    @property
    def is_empty(self) -> bool:
        """Whether the range has no row ids."""
        return self.row_count <= 0

    @property
    def is_whole(self) -> bool:
        """Whether the scan holds exactly these rows."""
        return not self.scan.inlined and all(self._holds(file) for file in self.scan.files)

    def _holds(self, file: FileScan) -> bool:
        start, end = _span(file)
        return self.first_row_id <= start and end <= self.next_row_id and file.row_id_start is not None


def stream_name(stream: Table) -> str:
    """The full name of a stream, as plans and ranges have it."""
    return f"{stream.name.schema}.{stream.name.relation}"


def read_range(lake: Lake, stream: Table, snapshot: Snapshot, first_row_id: int, *, view: str) -> Range:
    """The rows of a stream from a row id on, at a snapshot; rows that were evicted before they were consumed are an error."""
    scan = lake.scan(stream, snapshot)
    with lake.reading() as connection:
        spans = [*_inlined_spans(connection, scan), *(_span(file) for file in scan.files)]
        ring = read_ring(connection, stream.uuid) if not spans and has_rings(connection) else None
    held = min((start for start, _ in spans), default=ring.first_row_id if ring is not None else first_row_id)
    if held > first_row_id:
        raise StreamOverrun(
            f'view "{view}" has a gap: rows {first_row_id} to {held - 1} of stream "{stream.name}" left before it had taken them up',
            hint="make the view anew, and keep more with retention or on_unconsumed = 'keep'",
        )
    files = tuple(file for file in scan.files if _span(file)[1] > first_row_id)
    end = max((end for _, end in spans), default=first_row_id)
    return Range(scan=replace(scan, files=files), first_row_id=first_row_id, next_row_id=max(end, first_row_id))


def read_range_with_history(lake: Lake, stream: Table, history: Table | None, snapshot: Snapshot, first_row_id: int, *, view: str) -> Range:
    """As `read_range`, but evicted rows are read from the stream's history, which has the same columns and row ids."""
    if history is None:
        return read_range(lake, stream, snapshot, first_row_id, view=view)
    scan, older = lake.scan(stream, snapshot), lake.scan(history, snapshot)
    both = replace(scan, files=(*older.files, *scan.files))
    with lake.reading() as connection:
        end = max([first_row_id, *(end for _, end in (*_inlined_spans(connection, both), *(_span(file) for file in both.files)))])
    files = tuple(file for file in both.files if _span(file)[1] > first_row_id)
    return Range(scan=replace(both, files=files), first_row_id=first_row_id, next_row_id=end)


def oldest_row_id(lake: Lake, stream: Table, history: Table | None, snapshot: Snapshot) -> int:
    """The first row id that a stream or its history still has; the next one to come if neither has any."""
    held = read_first_row_id(lake, stream, snapshot, earliest=True)
    older = () if history is None else lake.scan(history, snapshot).files
    return min([held, *(_span(file)[0] for file in older)])


def empty_range(stream: Table, snapshot: Snapshot) -> Range:
    """A range of a stream without rows, which shows their columns."""
    return Range(scan=TableScan(table=stream, snapshot=snapshot, files=()), first_row_id=0, next_row_id=0)


def read_first_row_id(lake: Lake, stream: Table, snapshot: Snapshot, *, earliest: bool = False) -> int:
    """The row id from which a view created at a snapshot covers a stream: the next one, or with `earliest` the oldest."""
    scan = lake.scan(stream, snapshot)
    with lake.reading() as connection:
        spans = [*_inlined_spans(connection, scan), *(_span(file) for file in scan.files)]
        if not spans:
            return read_ring(connection, stream.uuid).next_row_id
    return min(start for start, _ in spans) if earliest else max(end for _, end in spans)


def _span(file: FileScan) -> tuple[int, int]:
    start = file.row_id_start or 0
    return start, start + file.record_count


def _inlined_spans(connection: Connection, scan: TableScan) -> Iterator[tuple[int, int]]:
    """The row ids of rows that another client keeps in the catalogue."""
    for inlined in scan.inlined:
        yield read_row_ids(connection, inlined, scan.snapshot)


def rows_of(session: Session, lake: Lake, found: Range, *, columns: Sequence[str] | None = None, hidden: Collection[str] = ()) -> DataFrame:
    """The rows of a range as a DataFrame, with these hidden columns after the stream's own."""
    from pyspark.sql.connect import functions as f

    from platform_plugin.engine.spark.frames.scan import HIDDEN, ROWID, read_relation

    if found.is_whole and not hidden:
        return read_relation(session, lake, found.scan, columns=columns)
    rows = read_relation(session, lake, found.scan, columns=columns, hidden=True)
    inside = rows if found.is_whole else rows.where((f.col(ROWID) >= found.first_row_id) & (f.col(ROWID) < found.next_row_id))
    return add_hidden_columns(session, lake, found.scan, inside, hidden).drop(*HIDDEN)


def send_rows(work: Workspace, found: Range, names: Collection[str], *, hidden: Collection[str] = ()) -> DataFrame | None:
    """These columns of a small range as a DataFrame of one partition, whose rows travel with the query; None where Spark reads them."""
    from platform_plugin.engine.spark.frames.scan import arrow_relation

    limits = work.limits
    types = {field.name: field.type for field in found.stream.fields if field.name in names}
    if not found.is_whole or found.row_count > limits.sent_range_rows or found.scan.size_bytes > limits.sent_range_bytes:
        return None
    if not all(file.is_whole and file.mapping_id is None for file in found.scan.files) or not all(map(is_same_in_spark, types.values())):
        return None
    rows = arrow_rows_of(work.lake, found, types, hidden=hidden)
    types = {field.name: field.type for field in found.stream.fields} | {
        column.name: column.type for column in HIDDEN_COLUMNS if column.type is not None and column.name in hidden
    }
    fields = [Field(name=name, type=types[name]) for name in rows.column_names]
    return arrow_relation(work.session, fields, rows).coalesce(1) if all(is_same_in_spark(field.type) for field in fields) else None


def arrow_rows_of(lake: Lake, found: Range, columns: Collection[str], *, hidden: Collection[str] = ()) -> pa.Table:
    """These columns of a range's rows as Arrow, hidden ones after them; the range's scan must hold exactly these rows."""
    fields = [field for field in found.stream.fields if field.name in columns and field.name not in hidden]
    if hidden:
        return read_rows_with_hidden(lake, found.scan, fields, hidden)
    # Without any column nobody would know how many rows there are.
    return read_rows(lake, found.scan, columns=[field.name for field in fields or found.stream.fields[:1]])


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeReader:
    """Reads the rows of a range, with hidden columns, from its files alone; rows of these files outside the range are left out."""

    stream: Table
    first_row_id: int
    next_row_id: int
    is_whole: bool
    hidden: HiddenColumns

    def read(self, folder: DataFolder, parts: Sequence[FilePart], columns: Collection[str]) -> pa.Table:
        """At least these columns of the rows of some parts."""
        names = self.hidden.names
        fields = [field for field in self.stream.fields if field.name in columns and field.name not in names]
        if self.is_whole and not names:
            return TableReader(table=self.stream, snapshot=self.hidden.snapshot).read(folder, parts, columns)
        rows = replace(self.hidden, names=names | ROW_IDS).read(folder, parts, fields)
        if self.is_whole:
            return rows
        place = rows.column_names.index(ROW_ID, len(fields))
        ids = rows.column(place).to_numpy()
        rows = rows.filter(pa.array((ids >= self.first_row_id) & (ids < self.next_row_id)))
        # A user's column may have the same name.
        return rows if ROW_ID in names else rows.remove_column(place)


def estimate_distinct(lake: Lake, found: Range, columns: Sequence[str]) -> dict[str, int]:
    """About how many different values columns of a range have, from the first row group of its largest file."""
    files = [file for file in found.scan.files if file.mapping_id is None]
    if not files or not columns or found.is_empty:
        return {}
    largest = max(files, key=lambda file: file.record_count)
    rows = TableReader(table=found.stream, snapshot=found.scan.snapshot).read(lake, [FilePart(largest, FileSpan(0, 1))], columns)
    counts = {name: pc.count_distinct(rows.column(name), mode="all").as_py() for name in columns if _is_counted(rows.column(name).type)}
    # Values that come again and again have nearly all been seen.
    return {
        name: count if count * _REPEATED <= rows.num_rows else count * found.row_count // max(1, rows.num_rows)
        for name, count in counts.items()
    }


def _is_counted(kind: pa.DataType) -> bool:
    return not pa.types.is_nested(kind)


def range_input(lake: Lake, found: Range, role: Role, *, hidden: Collection[str] = ()) -> TaskInput:
    """A range as an input of tasks, with these hidden columns."""
    return TaskInput(
        role=role,
        row_count=found.row_count,
        size_bytes=found.scan.size_bytes,
        file_count=len(found.scan.files),
        is_whole=found.is_whole,
        read=lambda columns: arrow_rows_of(lake, found, columns, hidden=hidden),
        scan=found.scan,
        reader=lambda: RangeReader(
            stream=found.stream,
            first_row_id=found.first_row_id,
            next_row_id=found.next_row_id,
            is_whole=found.is_whole,
            hidden=find_hidden_columns(lake, found.scan, hidden),
        ),
    )
