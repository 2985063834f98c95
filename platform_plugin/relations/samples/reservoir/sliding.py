"""Windowed samples: uniform over the newest rows of a stream, by number, by age, or all that it holds.

The sample is the rows of the window with the lowest keys. Picks hold somewhat more rows of each range than needed, since it is not known
which of its rows will be in the window together with them. Where that is too little, and where a condition hides the number of rows in a
range that is only partly in the window, the rows are read from the stream itself, which still has all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from platform_plugin.lake.ring.segments import read_arrivals
from platform_plugin.relations.follow.maintained import WaitingInput
from platform_plugin.relations.follow.ranges import ROW_IDS, Range, read_first_row_id, read_range, rows_of, stream_name
from platform_plugin.relations.samples.draw.pieces import read_pieces
from platform_plugin.relations.samples.keys.keys import EVERY, sample_seed
from platform_plugin.relations.samples.keys.lowest import choose_lowest
from platform_plugin.relations.samples.record import KIND, SampleProgress, read_progress
from platform_plugin.relations.samples.reservoir.growing import CurrentSample, plan_gaps
from platform_plugin.relations.samples.reservoir.local import PartDraw, RelationPart, find_local
from platform_plugin.relations.samples.reservoir.picks import ROW, Picks, pool_picks, read_picks
from platform_plugin.relations.samples.sources import find_table, sampled_fields, shape_sample_rows

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from numpy.typing import NDArray
    from pyspark.sql import DataFrame

    from platform_plugin.engine.spark.session.job import ProgressHandler
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot, Table
    from platform_plugin.relations.samples.definition import Key, SampleDefinition
    from platform_plugin.relations.samples.keys.lowest import LowestRows
    from platform_plugin.relations.samples.record import SampleRecord
    from platform_plugin.relations.samples.reservoir.picks import PooledPicks

    Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleWindow:
    """A windowed sample at a snapshot: the range of its window, and its picks."""

    sample: SampleRecord
    stream: Table
    whole: Range
    progress: SampleProgress
    picks: tuple[Picks, ...]
    """The picks that reach into the window."""
    passed: tuple[int, ...] = ()
    """The first row ids of picks whose rows have all left the window."""
    stored: tuple[int, ...] = ()
    """The files of the table that holds the merged sample."""

    @property
    def name(self) -> str:
        """The sample's full name."""
        return self.sample.name

    @property
    def kind(self) -> str:
        """The kind of relation."""
        return KIND

    @property
    def uuid(self) -> UUID:
        """The sample's identity."""
        return self.sample.table.uuid

    @property
    def twins(self) -> tuple[str, ...]:
        """None: samples share nothing."""
        return ()

    @property
    def inputs(self) -> tuple[WaitingInput, ...]:
        """The rows of its stream that no merge has looked at."""
        return (
            WaitingInput(
                relation=stream_name(self.stream),
                first=max(self.progress.next_row_id, self.whole.first_row_id),
                end=self.whole.next_row_id,
            ),
        )

    @property
    def spans(self) -> list[tuple[int, int]]:
        """The ranges of the window without picks."""
        return plan_gaps(self.whole.first_row_id, self.whole.next_row_id, self.picks)

    @property
    def gap_rows(self) -> int:
        """The number of rows of the window without picks."""
        return sum(end - first for first, end in self.spans)

    def part(self, work: Workspace, first: int, end: int, *, size: int | None = None, bounds: dict[Key, int] | None = None) -> RelationPart:
        """A range of the window, as a part of the population."""
        definition = self.sample.definition
        return RelationPart(
            pieces=read_pieces(work.lake, self.whole.scan, first_row_id=first, next_row_id=end),
            size=definition.cap(1) if size is None else size,
            seed=sample_seed(definition.seed),
            bounds=bounds or {},
        )

    def draw(self, work: Workspace, first: int, end: int, *, size: int | None = None, bounds: dict[Key, int] | None = None) -> PartDraw:
        """A draw from a range of the window, as it is read from the stream."""

        def rows() -> DataFrame:
            return rows_of(work.session, work.lake, replace(self.whole, first_row_id=first, next_row_id=end), hidden=ROW_IDS)

        return PartDraw(self.sample.definition, self.part(work, first, end, size=size, bounds=bounds), rows, self.name)


def find_window(work: Workspace, sample: SampleRecord, snapshot: Snapshot) -> SampleWindow:
    """The window of a sample at a snapshot. It never reaches beyond what the stream holds, so every row of it can be read."""
    lake = work.lake
    stream = find_table(lake, sample, snapshot)
    with lake.reading() as connection:
        progress = read_progress(connection, sample.table.uuid, snapshot.id)
        picks = read_picks(connection, sample, snapshot.id)
    scan = lake.scan(stream, snapshot)
    ends = [(file.row_id_start or 0) + file.record_count for file in scan.files]
    held = min([file.row_id_start or 0 for file in scan.files], default=progress.next_row_id)
    if scan.inlined:
        held = read_first_row_id(lake, stream, snapshot, earliest=True)  # rows of another client may be older than any file
    whole = read_range(lake, stream, snapshot, held, view=sample.name) if ends or scan.inlined else None
    if whole is None:
        whole = Range(scan=scan, first_row_id=progress.next_row_id, next_row_id=progress.next_row_id)
    arrivals = []
    if sample.definition.window_seconds is not None:
        with lake.reading() as connection:
            arrivals = [(first, end, at) for first, end, at in read_arrivals(connection, stream.uuid) if end > whole.first_row_id]
    first = max(whole.first_row_id, first_row_of(sample.definition, whole.first_row_id, whole.next_row_id, arrivals, snapshot.time))
    files = tuple(file for file in whole.scan.files if (file.row_id_start or 0) + file.record_count > first)
    return SampleWindow(
        sample=sample,
        stream=stream,
        whole=Range(scan=replace(whole.scan, files=files), first_row_id=first, next_row_id=whole.next_row_id),
        progress=progress,
        picks=tuple(each for each in picks if each.next_row_id > first),
        passed=tuple(each.first_row_id for each in picks if each.next_row_id <= first),
        stored=tuple(file.id for file in lake.scan(sample.table, snapshot).files),
    )


def first_row_of(definition: SampleDefinition, held: int, end: int, arrivals: list[tuple[int, int, datetime]], now: datetime) -> int:
    """The first row of a window that ends with row `end` and at a time; it is the same for every reader of a snapshot."""
    if definition.window_rows is not None:
        return end - definition.window_rows
    if definition.window_seconds is None:
        return held
    since = now - timedelta(seconds=definition.window_seconds)
    return min((first for first, _, arrived_at in arrivals if arrived_at > since), default=end)


def run_window(
    work: Workspace, window: SampleWindow, *, timeout: timedelta | None = None, progress: ProgressHandler | None = None
) -> CurrentSample:
    """The sample of the window: its picks merged with the ranges that have none."""
    sample, whole = window.sample, window.whole
    pooled, looked = _pool(work, window, timeout=timeout, progress=progress)
    chosen = choose_lowest([pooled.held, *(found for _, found in looked)], sample.definition.cap)
    if chosen.short:
        draw = window.draw(work, whole.first_row_id, whole.next_row_id)
        looked = find_local(work, [draw], timeout=timeout, progress=progress)
        chosen = choose_lowest([{}, *(found for _, found in looked)], sample.definition.cap)
    picked, *unseen = chosen.places
    rows, fetched = [pooled.rows.take(pa.array(picked)).drop_columns([ROW])], 0
    for (draw, _), numbers in zip(looked, unseen, strict=True):
        part, known = draw.part, pooled.row_ids
        row_ids = part.pieces.row_ids(numbers)
        there = np.isin(row_ids, known)
        if there.any():
            order = np.argsort(known)
            rows.append(pooled.rows.take(pa.array(order[np.searchsorted(known, row_ids[there], sorter=order)])).drop_columns([ROW]))
        taken = part.pieces.fetch(work.lake, numbers[~there], sampled_fields(sample, window.stream))
        fetched += taken.num_rows
        rows.append(shape_sample_rows(sample, taken))
    return CurrentSample(
        rows=pa.concat_tables(rows),
        progress=SampleProgress(next_row_id=whole.next_row_id, of_snapshot=whole.scan.snapshot.id, cardinalities=chosen.cardinalities),
        fetched=fetched,
    )


def _pool(
    work: Workspace, window: SampleWindow, *, timeout: timedelta | None, progress: ProgressHandler | None
) -> tuple[PooledPicks, list[tuple[PartDraw, dict[Key, LowestRows]]]]:
    """The picks inside of the window as one reservoir, and a look at what they don't stand for."""
    sample, whole = window.sample, window.whole
    # Where rows were deleted one by one, nobody knows any more what the picks stand for.
    intact = not whole.scan.inlined and all(file.is_whole for file in whole.scan.files)
    inside, spans = [], list(window.spans) if intact else [(whole.first_row_id, whole.next_row_id)]
    for each in window.picks if intact else ():
        if each.first_row_id >= whole.first_row_id:
            inside.append(each)
        elif sample.definition.is_counted:
            inside.append(cut_picks(each, whole.first_row_id))
        else:
            spans.append((whole.first_row_id, each.next_row_id))
    draws = [window.draw(work, first, end) for first, end in spans if first < end]
    return pool_picks(sample, inside), find_local(work, draws, timeout=timeout, progress=progress)


def cut_picks(picks: Picks, first: int) -> Picks:
    """Picks of counted rows, without those before a row id."""
    ((count, bound),) = picks.strata.values() or ((0, EVERY),)
    rows = picks.rows.filter(pc.greater_equal(picks.rows.column(ROW), first))
    return replace(picks, first_row_id=first, strata={(): (count - (first - picks.first_row_id), bound)}, rows=rows)
