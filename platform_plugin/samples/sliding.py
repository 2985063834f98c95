"""Samples of a window: uniform over the newest rows of a stream, by their number, by their age, or all that it holds.

Each maintained range of the stream leaves a reservoir, and neighbours are merged into larger ones, up to an eighth of the window. A read
merges those inside of the window with the rows after the last one. Of the one at the window's border the rows inside are used where they
are enough; where they are not, and where a condition hides how many rows it stands for, the border is drawn from the stream itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import UUID

import numpy as np
import pyarrow as pa

from platform_plugin.errors import CatalogueError
from platform_plugin.lake.read import read_rows
from platform_plugin.lake.segments import read_arrivals
from platform_plugin.lake.tables import read_tables
from platform_plugin.samples.growing import Grown
from platform_plugin.samples.local import Part, find_local
from platform_plugin.samples.pieces import read_pieces
from platform_plugin.samples.record import Progress, read_progress
from platform_plugin.samples.reservoir import draw_positions
from platform_plugin.samples.seeds import generator
from platform_plugin.samples.sources import find_table, in_shape, wanted_fields
from platform_plugin.samples.strata import Local, choose, group
from platform_plugin.views.ranges import Range, read_range, rows_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from platform_plugin.lake.scan import Scan
    from platform_plugin.lake.tables import Snapshot, Table
    from platform_plugin.samples.definition import Key
    from platform_plugin.samples.record import Sample
    from platform_plugin.spark.job import ProgressHandler
    from platform_plugin.spark.workspace import Workspace

FIRST, NEXT, COUNT, ROW = "_first", "_next", "_count", "_row"
MARKS = (FIRST, NEXT, COUNT, ROW)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservoirs:
    """The stored reservoirs of a sample: their rows with the range and the cardinality that each belongs to."""

    table: Table
    scan: Scan
    rows: pa.Table

    def ranges(self) -> list[tuple[int, int]]:
        """The ranges that there are reservoirs for, in their order; ranges of which no row was taken have none."""
        firsts, ends = self.rows.column(FIRST).to_numpy(), self.rows.column(NEXT).to_numpy()
        return sorted(set(zip(firsts.tolist(), ends.tolist(), strict=True)))

    def local(self, sample: Sample, first: int, *, since: int = 0) -> dict[Key, Local]:
        """The reservoirs of a range by stratum, numbered as rows of the table; with `since` only rows from that id on."""
        inside = (self.rows.column(FIRST).to_numpy() == first) & (self.rows.column(ROW).to_numpy() >= since)
        places = np.flatnonzero(inside)
        counts = self.rows.column(COUNT).to_numpy()
        found = group(self.rows.take(pa.array(places)), sample.definition.strata)
        return {key: Local(cardinality=int(counts[places[own[0]]]), numbers=places[own]) for key, own in found.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A windowed sample at a snapshot: where its window begins and ends, and what is stored of it."""

    sample: Sample
    stream: Table
    whole: Range
    progress: Progress
    reservoirs: Reservoirs
    stored: tuple[int, ...] = ()
    """The files of the table that holds the merged sample."""

    @property
    def tail(self) -> Range:
        """What no run has taken up."""
        first = min(max(self.progress.next_row_id, self.whole.first_row_id), self.whole.next_row_id)
        return replace(self.whole, first_row_id=first)

    def part(self, work: Workspace, first: int, end: int) -> Part:
        """A range of the window as a part of the population, of which a reservoir may be needed as large as any stratum can be."""
        return Part(
            pieces=read_pieces(work.lake, self.whole.scan, first_row_id=first, next_row_id=end),
            size=self.sample.definition.cap(1),
            words=("window part", first, end),
        )

    def look(self, work: Workspace, part: Part, *, timeout: timedelta | None, progress: ProgressHandler | None) -> dict[Key, Local]:
        """The local reservoirs of a part that is in the stream."""
        definition = self.sample.definition
        rows = None
        if not definition.is_counted and part.pieces.row_count:
            _, first, end = part.words
            rows = rows_of(work.session, work.lake, replace(self.whole, first_row_id=first, next_row_id=end), row_ids=True)
        return find_local(work, definition, part, rows, timeout=timeout, progress=progress)


def find_window(work: Workspace, sample: Sample, snapshot: Snapshot) -> Window:
    """The window at a snapshot. It never reaches beyond what the stream holds, so every row of it can be read."""
    lake = work.lake
    stream = find_table(lake, sample, snapshot)
    with lake.reading() as connection:
        progress = read_progress(connection, sample.table.uuid, snapshot.id)
        parts = read_tables(connection, snapshot.id, uuids=[UUID(sample.definition.reservoirs or "")])
    if not parts:
        raise CatalogueError(f'the reservoirs of sample "{sample.name}" are missing', hint="make the sample anew")
    scan = lake.scan(stream, snapshot)
    ends = [(file.row_id_start or 0) + file.record_count for file in scan.files]
    held = min([file.row_id_start or 0 for file in scan.files], default=progress.next_row_id)
    whole = read_range(lake, stream, snapshot, held, view=sample.name) if ends or scan.inlined else None
    if whole is None:
        whole = Range(scan=scan, first_row_id=progress.next_row_id, next_row_id=progress.next_row_id)
    first = max(whole.first_row_id, _first_row(work, sample, stream, whole, snapshot))
    files = tuple(file for file in whole.scan.files if (file.row_id_start or 0) + file.record_count > first)
    whole = Range(scan=replace(whole.scan, files=files), first_row_id=first, next_row_id=whole.next_row_id)
    kept = lake.scan(parts[0], snapshot)
    reservoirs = Reservoirs(table=parts[0], scan=kept, rows=read_rows(lake, kept))
    stored = tuple(file.id for file in lake.scan(sample.table, snapshot).files)
    return Window(sample=sample, stream=stream, whole=whole, progress=progress, reservoirs=reservoirs, stored=stored)


def _first_row(work: Workspace, sample: Sample, stream: Table, held: Range, snapshot: Snapshot) -> int:
    definition = sample.definition
    if definition.window_rows is not None:
        return held.next_row_id - definition.window_rows
    if definition.window_seconds is None:
        return held.first_row_id
    # A window of time ends when its snapshot was made, so that whoever reads the snapshot reads the same window.
    since = snapshot.time - timedelta(seconds=definition.window_seconds)
    with work.lake.reading() as connection:
        arrivals = read_arrivals(connection, stream.uuid)
    inside = [first for first, end, arrived_at in arrivals if arrived_at > since and end > held.first_row_id]
    return min(inside, default=held.next_row_id)


def run_window(work: Workspace, window: Window, *, timeout: timedelta | None = None, progress: ProgressHandler | None = None) -> Grown:
    """The sample of the window: its reservoirs, its border and its tail, merged."""
    sample, whole = window.sample, window.whole
    words = (whole.first_row_id, whole.next_row_id)
    parts = list(_parts(work, window, timeout=timeout, progress=progress))
    chosen = choose([part.local for part in parts], sample.definition.cap, generator(sample.definition.seed, "window", *words))
    rows, fetched = [], 0
    for part, numbers, share in zip(parts, chosen.numbers, chosen.shares, strict=True):
        if part.reservoirs is not None and len(numbers) == share:
            rows.append(in_shape(sample, part.reservoirs.take(pa.array(np.sort(numbers))).drop_columns(list(MARKS))))
            continue
        own = numbers
        if len(numbers) < share:
            # Which of the two it is drawn from depends on how many there are and not on which, so either way every row is as likely.
            own = draw_positions(part.source.pieces.row_count, share, generator(sample.definition.seed, "border", *words))
        taken = part.source.pieces.fetch(work.lake, np.sort(own), wanted_fields(sample, window.stream))
        fetched += taken.num_rows
        rows.append(in_shape(sample, taken))
    return Grown(
        rows=pa.concat_tables(rows) if rows else window.reservoirs.rows.slice(0, 0).drop_columns(list(MARKS)),
        progress=Progress(next_row_id=whole.next_row_id, of_snapshot=whole.scan.snapshot.id, cardinalities=chosen.cardinalities),
        fetched=fetched,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """A part of the window: its local reservoirs, whose rows are among those stored or else in the stream."""

    local: dict[Key, Local]
    source: Part
    reservoirs: pa.Table | None = None


def _parts(work: Workspace, window: Window, *, timeout: timedelta | None, progress: ProgressHandler | None) -> Iterator[_Part]:
    whole, counted = window.whole, window.sample.definition.is_counted
    # Where rows were deleted one by one, what the reservoirs stand for is not known any more.
    intact = not whole.scan.inlined and all(file.is_whole for file in whole.scan.files)
    start = whole.first_row_id
    for first, end in window.reservoirs.ranges() if intact else []:
        if end <= whole.first_row_id or end > whole.next_row_id:
            continue
        inside = max(first, whole.first_row_id)
        source = window.part(work, inside, end)
        if first == inside:
            yield _Part(local=window.reservoirs.local(window.sample, first), source=source, reservoirs=window.reservoirs.rows)
        elif counted:
            held = window.reservoirs.local(window.sample, first, since=inside).get((), Local(cardinality=0, numbers=_NONE))
            local: dict[Key, Local] = {(): replace(held, cardinality=source.pieces.row_count)}
            yield _Part(local=local, source=source, reservoirs=window.reservoirs.rows)
        else:
            yield _Part(local=window.look(work, source, timeout=timeout, progress=progress), source=source)
    if intact:
        start = max(start, window.progress.next_row_id)
    if start < whole.next_row_id:
        source = window.part(work, start, whole.next_row_id)
        yield _Part(local=window.look(work, source, timeout=timeout, progress=progress), source=source)


_NONE = np.empty(0, dtype=np.int64)
