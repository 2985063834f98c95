"""The hidden columns `_row_id` and `_arrived_at` of streams and their histories."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

import pyarrow as pa

from platform_plugin.lake.catalogue.relations import read_declaration
from platform_plugin.lake.catalogue.snapshots import read_times
from platform_plugin.lake.ring.segments import read_arrivals

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pyspark.sql import DataFrame

    from platform_plugin.engine.spark.session.session import Session
    from platform_plugin.lake.catalogue.tables import Table
    from platform_plugin.lake.lake import Lake
    from platform_plugin.lake.read.scan import TableScan

ROW_ID, ARRIVED_AT = "_row_id", "_arrived_at"


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
    from pyspark.sql.connect import functions as f

    from platform_plugin.engine.spark.frames.scan import FILE, HIDDEN, ROWID, arrow_frame, read_relation

    rows = read_relation(session, lake, scan, columns=columns, hidden=True)
    known = f.broadcast(arrow_frame(session, _arrivals(lake, scan)))
    inside = (f.coalesce(rows[FILE], f.lit("")) == known["_of"]) & (rows[ROWID] >= known["_from"]) & (rows[ROWID] < known["_until"])
    joined = rows.join(known, inside, "left")
    return joined.withColumn(ROW_ID, f.col(ROWID)).drop(*HIDDEN, "_of", "_from", "_until")


def _arrivals(lake: Lake, scan: TableScan) -> pa.Table:
    """When the rows of each file came: one span of row ids a file where it holds one segment, more where segments were merged."""
    with lake.reading() as connection:
        segments = read_arrivals(connection, scan.table.uuid)
        begun = {file.begin_snapshot for file in scan.files}
        times = read_times(connection, begun)
    firsts = [segment.first_row_id for segment in segments]
    spans: list[tuple[str, int, int, object]] = []
    for file in scan.files:
        name, start = file.path.rsplit("/", 1)[-1], file.row_id_start or 0
        end = start + file.record_count
        place = max(bisect_right(firsts, start) - 1, 0)
        inside = []
        while place < len(segments) and segments[place].first_row_id < end:
            if segments[place].next_row_id > start:
                inside.append(segments[place])
            place += 1
        # A segment that has left since is not known any more, but the snapshot that added its file may be.
        found = [(name, segment.first_row_id, segment.next_row_id, segment.arrived_at) for segment in inside]
        spans += found or [(name, start, end, times.get(file.begin_snapshot))]
    if scan.inlined:
        spans += [("", segment.first_row_id, segment.next_row_id, segment.arrived_at) for segment in segments]
    names, since, until, arrived = zip(*spans, strict=True) if spans else ((), (), (), ())
    return pa.table(
        {
            "_of": pa.array(names, pa.string()),
            "_from": pa.array(since, pa.int64()),
            "_until": pa.array(until, pa.int64()),
            ARRIVED_AT: pa.array(arrived, pa.timestamp("us", "UTC")),
        }
    )
