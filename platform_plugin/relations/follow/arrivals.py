"""The hidden columns `_row_id` and `_arrived_at` of streams and their histories."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

import numpy as np
import pyarrow as pa

from platform_plugin.algebra.plan.relations import ARRIVED_AT, HIDDEN_COLUMNS, ROW_ID
from platform_plugin.engine.file_parts import FilePart
from platform_plugin.lake.catalogue.relations import read_declaration
from platform_plugin.lake.catalogue.snapshots import read_times
from platform_plugin.lake.files import files
from platform_plugin.lake.read.evolution import adapt_rows
from platform_plugin.lake.read.read import find_column, read_raw
from platform_plugin.lake.ring.segments import read_arrivals, read_ring
from platform_plugin.lake.values.types import arrow_schema

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime

    from numpy.typing import NDArray
    from pyspark.sql import DataFrame

    from platform_plugin.algebra.types.data_types import Field
    from platform_plugin.engine.spark.session.session import Session
    from platform_plugin.lake.catalogue.tables import Snapshot, Table
    from platform_plugin.lake.files.data_folder import DataFolder
    from platform_plugin.lake.lake import Lake
    from platform_plugin.lake.read.scan import TableScan

_ARROW = {ROW_ID: pa.int64(), ARRIVED_AT: pa.timestamp("us", "UTC")}


class ArrivalSpan(NamedTuple):
    """Row ids that came together, from `first` up to but not including `until`; the time is None where it is not known any more."""

    first: int
    until: int
    arrived_at: datetime | None


def wants_arrivals(lake: Lake, table: Table, columns: Collection[str] | None) -> bool:
    """Whether a query with these columns, in lower case, uses the hidden ones; a user's column with the same name comes first."""
    if columns is None or not {ROW_ID, ARRIVED_AT}.intersection(columns):
        return False
    if any(table.field(name) is not None for name in (ROW_ID, ARRIVED_AT)):
        return False
    with lake.reading() as connection:
        declaration = read_declaration(connection, table.uuid)
    return declaration.kind == "stream" or "history_of" in declaration.options


def read_with_arrivals(session: Session, lake: Lake, scan: TableScan, columns: Sequence[str]) -> DataFrame:
    """The rows of a stream with the hidden columns after its own."""
    from platform_plugin.engine.spark.frames.scan import HIDDEN, read_relation

    rows = read_relation(session, lake, scan, columns=columns, hidden=True)
    return add_hidden_columns(session, lake, scan, rows, (ARRIVED_AT, ROW_ID)).drop(*HIDDEN)


def add_hidden_columns(session: Session, lake: Lake, scan: TableScan, rows: DataFrame, names: Collection[str]) -> DataFrame:
    """Rows that Spark has read of a scan, with files and row ids, and with these hidden columns."""
    from pyspark.sql.connect import functions as f

    from platform_plugin.engine.spark.frames.scan import FILE, ROWID, arrow_frame

    if ARRIVED_AT in names:
        # A column that was given such a name after a view had read the hidden one is not the view's.
        rows = rows.drop(ARRIVED_AT)
        known = f.broadcast(arrow_frame(session, _list_spans(lake, scan)))
        inside = (f.coalesce(rows[FILE], f.lit("")) == known["_of"]) & (rows[ROWID] >= known["_from"]) & (rows[ROWID] < known["_until"])
        rows = rows.join(known, inside, "left").drop("_of", "_from", "_until")
    return rows.withColumn(ROW_ID, f.col(ROWID)) if ROW_ID in names else rows


def read_rows_with_hidden(lake: Lake, scan: TableScan, fields: Sequence[Field], names: Collection[str]) -> pa.Table:
    """These columns of a scan without inlined rows as Arrow, with hidden columns after them."""
    return find_hidden_columns(lake, scan, names).read(lake, [FilePart(file) for file in scan.files], fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class HiddenColumns:
    """Which hidden columns a scan is read with, and what they follow from; with it they are read where there is no catalogue."""

    names: frozenset[str]
    snapshot: Snapshot
    spans: Mapping[str, Sequence[ArrivalSpan]]
    """When the rows of each file came, by its path; empty where that is not asked for."""

    def read(self, folder: DataFolder, parts: Sequence[FilePart], fields: Sequence[Field]) -> pa.Table:
        """These columns of parts of files, with the hidden columns after them."""
        schema = arrow_schema(tuple(fields))
        for column in HIDDEN_COLUMNS:
            schema = schema.append(pa.field(column.name, _ARROW[column.name])) if column.name in self.names else schema
        tables = [pa.Table.from_batches([], schema=schema)]
        for file, span in parts:
            raw, kept = read_raw(folder, file, self.snapshot, fields=fields, hidden=(files.ROW_ID,), span=span)
            own = find_column(raw, files.ROW_ID)
            ids = kept.to_numpy(zero_copy_only=False) + (file.row_id_start or 0) if own is None else own.to_numpy()
            known = self.spans.get(file.path, ())
            hidden = [pa.array(ids, pa.int64()) if name == ROW_ID else _times_of(ids, known) for name in schema.names[len(fields) :]]
            columns = [*(adapt_rows(raw, fields).columns if fields else ()), *hidden]
            tables.append(pa.Table.from_arrays(columns, schema=schema))
        return pa.concat_tables(tables)


def find_hidden_columns(lake: Lake, scan: TableScan, names: Collection[str]) -> HiddenColumns:
    """The hidden columns of a scan; the catalogue is read only for the times of arrival."""
    spans = read_arrival_spans(lake, scan)[0] if ARRIVED_AT in names else []
    by_path = {file.path: of_file for file, of_file in zip(scan.files, spans, strict=bool(spans))}
    return HiddenColumns(names=frozenset(names), snapshot=scan.snapshot, spans=by_path)


def _times_of(ids: NDArray[np.int64], spans: Sequence[ArrivalSpan]) -> pa.Array:
    """The arrival time of each row id, NULL where no span has it."""
    if not spans:
        return pa.nulls(len(ids), _ARROW[ARRIVED_AT])
    first, until = (np.array([span[place] for span in spans], dtype=np.int64) for place in (0, 1))
    places = np.maximum(np.searchsorted(first, ids, side="right") - 1, 0)
    inside = (ids >= first[places]) & (ids < until[places])
    times = pa.array([span.arrived_at for span in spans], _ARROW[ARRIVED_AT])
    return times.take(pa.array(places, mask=~inside))


def read_arrival_spans(lake: Lake, scan: TableScan) -> tuple[list[list[ArrivalSpan]], list[ArrivalSpan]]:
    """When the rows of each file came, and those that a client keeps in the catalogue.

    A file has one span where it holds one segment, and more where segments were merged. Rows that a history received have the segments
    that the stream had.
    """
    uuid = scan.table.uuid
    with lake.reading() as connection:
        segments = list(read_arrivals(connection, uuid))
        ring = read_ring(connection, uuid)
        if ring.history_uuid is not None:
            segments = sorted({*segments, *read_arrivals(connection, UUID(ring.history_uuid))})
        times = read_times(connection, {file.begin_snapshot for file in scan.files})
    known = [ArrivalSpan(first, until, arrived_at) for first, until, arrived_at in segments]
    firsts = [segment.first for segment in known]
    spans = []
    for file in scan.files:
        start = file.row_id_start or 0
        end = start + file.record_count
        place = max(bisect_right(firsts, start) - 1, 0)
        inside = []
        while place < len(known) and known[place].first < end:
            if known[place].until > start:
                inside.append(known[place])
            place += 1
        # A segment that has left since is not known any more, but the snapshot that added its file may be.
        spans.append(inside or [ArrivalSpan(start, end, times.get(file.begin_snapshot))])
    return spans, known if scan.inlined else []


def _list_spans(lake: Lake, scan: TableScan) -> pa.Table:
    """The spans of each file by its name, and of rows in the catalogue without one."""
    of_files, inlined = read_arrival_spans(lake, scan)
    spans = [(file.path.rsplit("/", 1)[-1], *span) for file, found in zip(scan.files, of_files, strict=True) for span in found]
    spans += [("", *span) for span in inlined]
    names, since, until, arrived = zip(*spans, strict=True) if spans else ((), (), (), ())
    return pa.table(
        {
            "_of": pa.array(names, pa.string()),
            "_from": pa.array(since, pa.int64()),
            "_until": pa.array(until, pa.int64()),
            ARRIVED_AT: pa.array(arrived, _ARROW[ARRIVED_AT]),
        }
    )
