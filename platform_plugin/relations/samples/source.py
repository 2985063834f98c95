"""`read_source`: a sample as a query reads it, from its files if they hold exactly the sample, else from memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from platform_plugin.algebra.rules.rule import ScanSize
from platform_plugin.relations.reading import RelationRows
from platform_plugin.relations.samples.read import find_scan, read_sample
from platform_plugin.relations.samples.record import get_sample

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from platform_plugin.lake.catalogue.tables import Snapshot, Table
    from platform_plugin.relations.reading import ReadContext, ReadRequest
    from platform_plugin.relations.samples.record import SampleRecord


def read_source(reading: ReadContext, table: Table, snapshot: Snapshot, need: ReadRequest) -> RelationRows:
    """The rows of a sample at a snapshot."""
    before = reading.bytes_planned
    frame = _read(reading, get_sample(reading.work.lake, table, snapshot), snapshot, need)
    return RelationRows(frame, ScanSize(reading.bytes_planned - before), table.fields)


def _read(reading: ReadContext, sample: SampleRecord, snapshot: Snapshot, need: ReadRequest) -> DataFrame:
    from platform_plugin.engine.spark.frames.scan import frame_of, read_relation

    work = reading.work
    scan = find_scan(work, sample, snapshot)
    if scan is not None:
        reading.count(sample.table, scan)
        return read_relation(work.session, work.lake, scan, columns=None if need.columns is None else sorted(need.columns))
    rows = read_sample(work, sample, snapshot).rows
    reading.tables.append(sample.table)
    reading.rows_planned += rows.num_rows
    reading.bytes_planned += rows.nbytes
    return frame_of(work.session, sample.table.fields, rows)
