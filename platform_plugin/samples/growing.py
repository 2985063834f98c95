"""Samples that grow with their stream: uniform over all rows that it held when the sample was made and all that came since.

The stored rows are one reservoir, a range of new rows is the other. Their shares are drawn first, so that of the new rows only
those are read that stay.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from platform_plugin.errors import StreamOverrun
from platform_plugin.lake.read import read_rows
from platform_plugin.samples.local import Part, find_local
from platform_plugin.samples.pieces import read_pieces
from platform_plugin.samples.record import Progress, read_progress
from platform_plugin.samples.seeds import generator
from platform_plugin.samples.sources import find_table, in_shape, wanted_fields
from platform_plugin.samples.strata import group, take_up
from platform_plugin.views.ranges import read_range, rows_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

    from pyspark.sql import DataFrame

    from platform_plugin.lake.scan import Scan
    from platform_plugin.lake.tables import Snapshot, Table
    from platform_plugin.samples.definition import Key
    from platform_plugin.samples.record import Sample
    from platform_plugin.samples.strata import Local
    from platform_plugin.spark.job import ProgressHandler
    from platform_plugin.spark.workspace import Workspace
    from platform_plugin.views.ranges import Range


@dataclass(frozen=True, slots=True, kw_only=True)
class Behind:
    """A sample as it is stored, and the part of its stream that it has not taken up."""

    sample: Sample
    stored: Scan
    progress: Progress
    tail: Range
    part: Part


@dataclass(frozen=True, slots=True, kw_only=True)
class Grown:
    """A sample that has taken up all of its stream at a snapshot."""

    rows: pa.Table
    progress: Progress
    fetched: int = 0
    rows_changed: bool = True


def find_behind(work: Workspace, sample: Sample, snapshot: Snapshot) -> Behind:
    """What a sample has not taken up of its stream at a snapshot; it may be nothing."""
    lake = work.lake
    with lake.reading() as connection:
        progress = read_progress(connection, sample.table.uuid, snapshot.id)
    stream = find_table(lake, sample, snapshot)
    tail = read_tail(work, sample, stream, snapshot, progress.next_row_id)
    pieces = read_pieces(lake, tail.scan, first_row_id=tail.first_row_id, next_row_id=tail.next_row_id)
    part = Part(
        pieces=pieces,
        size=sample.definition.cap(len(progress.cardinalities)),
        words=("take up", tail.first_row_id, tail.next_row_id),
    )
    return Behind(sample=sample, stored=lake.scan(sample.table, snapshot), progress=progress, tail=tail, part=part)


def read_tail(work: Workspace, sample: Sample, stream: Table, snapshot: Snapshot, first_row_id: int) -> Range:
    """The rows of a stream from a row id on; that some are gone is told of the sample."""
    try:
        return read_range(work.lake, stream, snapshot, first_row_id, view=sample.name)
    except StreamOverrun as error:
        if not error.message.startswith("view "):
            raise
        raise StreamOverrun(
            error.message.replace("view ", "sample ", 1), hint="make the sample anew, and maintain it before rows leave"
        ) from error


def run_growing(
    work: Workspace,
    behind: Behind,
    *,
    timeout: timedelta | None = None,
    progress: ProgressHandler | None = None,
) -> Grown:
    """A sample with all of its tail. A reader and a run that take up the same range draw the same rows."""
    rows: DataFrame | None = None
    if not behind.sample.definition.is_counted and behind.part.pieces.row_count:
        rows = rows_of(work.session, work.lake, behind.tail, row_ids=True)
    found = find_local(work, behind.sample.definition, behind.part, rows, timeout=timeout, progress=progress)
    return grow(work, behind, found)


def grow(work: Workspace, behind: Behind, joining: Mapping[Key, Local]) -> Grown:
    """A sample that the local reservoirs of its tail have joined."""
    definition = behind.sample.definition
    rows = read_rows(work.lake, behind.stored)
    taken = take_up(
        group(rows, definition.strata),
        behind.progress.cardinalities,
        joining,
        definition.cap,
        generator(definition.seed, *behind.part.words),
    )
    fetched = behind.part.pieces.fetch(work.lake, taken.numbers, wanted_fields(behind.sample, behind.tail.stream))
    kept = rows if len(taken.kept) == rows.num_rows else rows.take(pa.array(np.sort(taken.kept)))
    new = in_shape(behind.sample, fetched)
    return Grown(
        rows=pa.concat_tables([kept, new]) if new.num_rows else kept,
        progress=Progress(next_row_id=behind.tail.next_row_id, of_snapshot=behind.tail.scan.snapshot.id, cardinalities=taken.cardinalities),
        fetched=new.num_rows,
        rows_changed=kept is not rows or new.num_rows > 0,
    )
