"""Growing samples: uniform over all rows that the stream held at creation and all that arrived since.

A sample is the rows with the lowest keys: of those stored, of the picks made when rows arrived, and of ranges that no run has read. Keys
above the highest of a full sample never enter it, so little is picked, and of unread ranges only those rows are read that stay.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from platform_plugin.errors import CatalogueError, StreamOverrun
from platform_plugin.lake.files.files import ROW_ID
from platform_plugin.lake.read.evolution import adapt_rows
from platform_plugin.lake.read.read import find_column, read_raw
from platform_plugin.lake.values.types import arrow_schema
from platform_plugin.relations.follow.maintained import WaitingInput
from platform_plugin.relations.follow.ranges import ROW_IDS, Range, read_range, rows_of, stream_name
from platform_plugin.relations.samples.draw.pieces import read_pieces
from platform_plugin.relations.samples.keys.keys import EVERY, sample_seed
from platform_plugin.relations.samples.keys.lowest import Lowest, choose_lowest, whole_sample
from platform_plugin.relations.samples.keys.weights import keys_of_sampled, with_weights
from platform_plugin.relations.samples.record import KIND, SampleProgress, read_progress
from platform_plugin.relations.samples.reservoir.local import PartDraw, RelationPart, find_local
from platform_plugin.relations.samples.reservoir.picks import ROW, Picks, pool_picks, read_picks
from platform_plugin.relations.samples.sources import find_table, sampled_fields, shape_sample_rows
from platform_plugin.relations.samples.strata import group_positions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta
    from uuid import UUID

    from numpy.typing import NDArray
    from pyspark.sql import DataFrame

    from platform_plugin.engine.spark.session.job import ProgressHandler
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot, Table
    from platform_plugin.lake.lake import Lake
    from platform_plugin.lake.read.scan import TableScan
    from platform_plugin.relations.samples.definition import Key
    from platform_plugin.relations.samples.keys.lowest import LowestRows
    from platform_plugin.relations.samples.record import SampleRecord

    Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSample:
    """The rows of a sample as a run stored them, with their row ids in the stream."""

    rows: pa.Table
    row_ids: Integers


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingSample:
    """A stored sample, the picks since, and the ranges of its stream that have no picks."""

    sample: SampleRecord
    scan: TableScan
    progress: SampleProgress
    picks: tuple[Picks, ...]
    gaps: tuple[Range, ...]
    tail: Range
    """The rows from the first one that the stored sample does not stand for."""

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
        """The rows of its stream that the stored sample does not stand for."""
        return (WaitingInput(relation=stream_name(self.tail.stream), first=self.tail.first_row_id, end=self.tail.next_row_id),)

    @property
    def gap_rows(self) -> int:
        """The number of rows without picks."""
        return sum(gap.row_count for gap in self.gaps)


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentSample:
    """A sample that has consumed all of its stream at a snapshot."""

    rows: pa.Table
    progress: SampleProgress
    fetched: int = 0
    rows_changed: bool = True
    row_ids: Integers | None = None


def find_pending(work: Workspace, sample: SampleRecord, snapshot: Snapshot) -> PendingSample:
    """The part of its stream that a sample has not consumed at a snapshot; it may be empty."""
    lake = work.lake
    with lake.reading() as connection:
        progress = read_progress(connection, sample.table.uuid, snapshot.id)
        picks = tuple(read_picks(connection, sample, snapshot.id, first_row_id=progress.next_row_id))
    stream = find_table(lake, sample, snapshot)
    seen = progress.next_row_id
    for each in picks:
        if each.first_row_id > seen:
            break
        seen = max(seen, each.next_row_id)
    unseen = read_tail(work, sample, stream, snapshot, seen)
    end = max([unseen.next_row_id, *(each.next_row_id for each in picks)])
    return PendingSample(
        sample=sample,
        scan=lake.scan(sample.table, snapshot),
        progress=progress,
        picks=picks,
        gaps=tuple(Range(scan=unseen.scan, first_row_id=first, next_row_id=last) for first, last in plan_gaps(seen, end, picks)),
        tail=Range(scan=unseen.scan, first_row_id=progress.next_row_id, next_row_id=end),
    )


def plan_gaps(first: int, end: int, picks: Sequence[Picks]) -> list[tuple[int, int]]:
    """The ranges from one row id up to another that have no picks."""
    gaps = []
    for each in picks:
        if each.first_row_id > first:
            gaps.append((first, min(each.first_row_id, end)))
        first = max(first, each.next_row_id)
    return [*gaps, (first, end)] if first < end else gaps


def read_tail(work: Workspace, sample: SampleRecord, stream: Table, snapshot: Snapshot, first_row_id: int) -> Range:
    """The rows of a stream from a row id on; an error names the sample if some of them are gone."""
    try:
        return read_range(work.lake, stream, snapshot, first_row_id, view=sample.name)
    except StreamOverrun as error:
        if not error.message.startswith("view "):
            raise
        raise StreamOverrun(
            error.message.replace("view ", "sample ", 1), hint="make the sample anew, and maintain it before rows leave"
        ) from error


class OutdatedSample(CatalogueError):
    """A sample of the first version with samples, which drew rows by chance and not by keys."""


def read_stored(lake: Lake, sample: SampleRecord, scan: TableScan) -> StoredSample:
    """The stored rows of a growing sample, in the order of the stream."""
    fields = sample.table.fields
    rows, ids = [pa.Table.from_batches([], schema=arrow_schema(fields))], [np.empty(0, dtype=np.int64)]
    for file in scan.files:
        raw, _ = read_raw(lake, file, scan.snapshot, fields=fields, hidden=(ROW_ID,))
        own = find_column(raw, ROW_ID)
        if own is None:
            raise OutdatedSample(
                f'sample "{sample.name}" was made by a version whose samples can\'t be continued',
                detail="what is stored of it lacks row ids",
                hint="drop it and make it anew",
            )
        rows.append(adapt_rows(raw, fields))
        ids.append(own.to_numpy())
    return StoredSample(rows=pa.concat_tables(rows), row_ids=np.concatenate(ids))


def stored_strata(sample: SampleRecord, stored: StoredSample, progress: SampleProgress) -> dict[Key, LowestRows]:
    """The rows of each stratum in a stored sample."""
    keys = keys_of_sampled(sample.definition, stored.rows, stored.row_ids)
    places = group_positions(stored.rows, sample.definition.strata)
    none = np.empty(0, dtype=np.int64)
    return {key: whole_sample(count, keys[places.get(key, none)], places.get(key, none)) for key, count in progress.cardinalities.items()}


def part_of_gap(behind: PendingSample, work: Workspace, gap: Range, held: Mapping[Key, LowestRows]) -> RelationPart:
    """A range without picks, of which only keys are needed that a full sample would accept."""
    definition = behind.sample.definition
    size = definition.cap(len(held))
    full = {key: own.bound for key, own in held.items() if len(own.keys) >= size and own.bound < EVERY}
    return RelationPart(
        pieces=read_pieces(work.lake, gap.scan, first_row_id=gap.first_row_id, next_row_id=gap.next_row_id),
        size=size,
        seed=sample_seed(definition.seed),
        bounds=full if not definition.strata else {},
    )


def prepare_gap_draws(work: Workspace, behind: PendingSample) -> list[PartDraw]:
    """The draws from the ranges of a sample's stream that have no picks."""
    held = stored_strata(behind.sample, read_stored(work.lake, behind.sample, behind.scan), behind.progress) if behind.gaps else {}
    return _prepare_draws(work, behind, held)


def _prepare_draws(work: Workspace, behind: PendingSample, held: Mapping[Key, LowestRows]) -> list[PartDraw]:
    return [prepare_gap_draw(work, behind, gap, held) for gap in behind.gaps]


def prepare_gap_draw(work: Workspace, behind: PendingSample, gap: Range, held: Mapping[Key, LowestRows]) -> PartDraw:
    """The draw from a range without picks, where `held` are the rows that the sample has."""
    part = part_of_gap(behind, work, gap, held)
    return PartDraw(behind.sample.definition, part, partial(_rows_of, work, gap), behind.name)


def read_current_sample(
    work: Workspace,
    behind: PendingSample,
    *,
    drawn: Sequence[tuple[PartDraw, Mapping[Key, LowestRows]]] | None = None,
    timeout: timedelta | None = None,
    progress: ProgressHandler | None = None,
) -> CurrentSample:
    """A sample with all of its tail, of which `drawn` may have what was drawn. The same rows always give the same sample."""
    stored = read_stored(work.lake, behind.sample, behind.scan)
    held = stored_strata(behind.sample, stored, behind.progress)
    if drawn is None:
        drawn = find_local(work, _prepare_draws(work, behind, held), timeout=timeout, progress=progress)
    return grow_sample(work, behind, stored, held=held, looked=[(draw.part, found) for draw, found in drawn])


def _rows_of(work: Workspace, gap: Range) -> DataFrame:
    return rows_of(work.session, work.lake, gap, hidden=ROW_IDS)


def grow_sample(
    work: Workspace,
    behind: PendingSample,
    stored: StoredSample,
    *,
    held: Mapping[Key, LowestRows],
    looked: Sequence[tuple[RelationPart, Mapping[Key, LowestRows]]],
) -> CurrentSample:
    """The sample merged with its picks and the local reservoirs of its gaps."""
    sample = behind.sample
    pooled = pool_picks(sample, behind.picks)
    chosen = choose_lowest([held, pooled.held, *(found for _, found in looked)], sample.definition.cap)
    kept, picked, *unseen = chosen.places
    rows = [stored.rows.take(pa.array(kept)), pooled.rows.drop_columns([ROW]).take(pa.array(picked))]
    ids = [stored.row_ids[kept], pooled.row_ids[picked]]
    fetched = 0
    for (part, _), numbers in zip(looked, unseen, strict=True):
        found = part.pieces.fetch(work.lake, numbers, sampled_fields(sample, behind.tail.stream))
        rows.append(shape_sample_rows(sample, found))
        ids.append(part.pieces.row_ids(numbers))
        fetched += found.num_rows
    row_ids = np.concatenate(ids)
    order = np.argsort(row_ids, kind="stable")
    if len(kept) == stored.rows.num_rows == len(row_ids):
        return CurrentSample(
            rows=stored.rows, progress=_progress(behind, chosen), fetched=fetched, rows_changed=False, row_ids=stored.row_ids
        )
    found, row_ids = pa.concat_tables(rows).take(pa.array(order)), row_ids[order]
    if sample.definition.is_weighted:
        found = with_weights(sample.definition, found, keys_of_sampled(sample.definition, found, row_ids))
    return CurrentSample(rows=found, progress=_progress(behind, chosen), fetched=fetched, row_ids=row_ids)


def _progress(behind: PendingSample, chosen: Lowest) -> SampleProgress:
    tail = behind.tail
    return SampleProgress(next_row_id=tail.next_row_id, of_snapshot=tail.scan.snapshot.id, cardinalities=chosen.cardinalities)
