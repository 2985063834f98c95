"""Samples of tables by row ids: at every snapshot the rows with the lowest keys, whatever was stored before.

A row's key is made from its id, which it keeps when it is changed or moved to another file. So a table that has only grown is read where it
has grown; after deletes and changes all keys are computed again, which reads no rows but those of the sample.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from platform_plugin.errors import CatalogueError
from platform_plugin.lake.files.files import ROW_ID
from platform_plugin.lake.read.last_change import has_only_grown
from platform_plugin.lake.read.read import find_column, has_row_ids, read_raw
from platform_plugin.lake.read.scan import InlinedTable
from platform_plugin.relations.follow.ranges import ROW_IDS, Range, rows_of
from platform_plugin.relations.samples.draw.pieces import Piece, Pieces, read_pieces
from platform_plugin.relations.samples.keys.keys import EVERY, sample_seed
from platform_plugin.relations.samples.keys.lowest import choose_lowest
from platform_plugin.relations.samples.record import SampleProgress, read_progress
from platform_plugin.relations.samples.reservoir.growing import CurrentSample, StoredSample, read_stored, stored_strata
from platform_plugin.relations.samples.reservoir.local import PartDraw, RelationPart, find_local
from platform_plugin.relations.samples.sources import sampled_fields, shape_sample_rows

if TYPE_CHECKING:
    from datetime import timedelta

    from pyspark.sql import DataFrame

    from platform_plugin.engine.spark.session.job import ProgressHandler
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot, Table
    from platform_plugin.lake.lake import Lake
    from platform_plugin.relations.samples.record import SampleRecord

_THREADS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class _Before:
    """The stored sample of a table that has only grown since."""

    stored: StoredSample
    progress: SampleProgress


def draw_standing(
    work: Workspace,
    sample: SampleRecord,
    table: Table,
    snapshot: Snapshot,
    *,
    timeout: timedelta | None = None,
    progress: ProgressHandler | None = None,
) -> CurrentSample:
    """The sample of a table at a snapshot, from the stored one where the table has only grown."""
    lake, definition = work.lake, sample.definition
    before = _find_before(work, sample, table, snapshot)
    held = {} if before is None else stored_strata(sample, before.stored, before.progress)
    size = definition.cap(max(1, len(held)))
    full = {key: own.bound for key, own in held.items() if len(own.keys) >= size and own.bound < EVERY}
    first = 0 if before is None else before.progress.next_row_id
    pieces = _from_row(first, _with_row_ids(lake, read_pieces(lake, lake.scan(table, snapshot), first_row_id=first)))
    part = RelationPart(pieces=pieces, size=size, seed=sample_seed(definition.seed), bounds={} if definition.strata else full)
    end = max(first, _end(pieces))
    grown = None if before is None else partial(_rows_of, work, pieces, first, end)
    ((_, found),) = find_local(work, [PartDraw(definition, part, grown)], timeout=timeout, progress=progress)
    chosen = choose_lowest([held, found], definition.cap)
    kept, numbers = chosen.places
    fetched = shape_sample_rows(sample, pieces.fetch(lake, numbers, sampled_fields(sample, table)))
    rows, row_ids = fetched, pieces.row_ids(numbers)
    if before is not None:
        rows = pa.concat_tables([before.stored.rows.take(pa.array(kept)), fetched])
        row_ids = np.concatenate([before.stored.row_ids[kept], row_ids])
    order = np.argsort(row_ids, kind="stable")
    return CurrentSample(
        rows=rows.take(pa.array(order)),
        progress=SampleProgress(next_row_id=end, of_snapshot=snapshot.id, cardinalities=chosen.cardinalities),
        fetched=fetched.num_rows,
        rows_changed=before is None or len(kept) < len(before.stored.row_ids) or bool(fetched.num_rows),
        row_ids=row_ids[order],
    )


def _find_before(work: Workspace, sample: SampleRecord, table: Table, snapshot: Snapshot) -> _Before | None:
    with work.lake.reading() as connection:
        progress = read_progress(connection, sample.table.uuid, snapshot.id)
    if progress.of_snapshot < 0 or not has_only_grown(work.lake, table, progress.of_snapshot, snapshot):
        return None
    try:
        stored = read_stored(work.lake, sample, work.lake.scan(sample.table, snapshot))
    except CatalogueError:
        return None  # an earlier version drew it, in another way
    return _Before(stored=stored, progress=progress)


def _with_row_ids(lake: Lake, pieces: Pieces) -> Pieces:
    """The same with the ids of rows that do not follow each other: files of changed rows say which they are."""

    def read(piece: Piece) -> Piece:
        if isinstance(piece.source, InlinedTable) or not has_row_ids(lake, piece.source, pieces.scan.snapshot):
            return piece
        raw, kept = read_raw(lake, piece.source, pieces.scan.snapshot, fields=(), hidden=(ROW_ID,))
        own = find_column(raw, ROW_ID)
        if own is None:
            return piece
        first, last = np.searchsorted(kept.to_numpy(zero_copy_only=False), (piece.low, piece.source.record_count))
        return replace(piece, row_ids=own.to_numpy()[first:last])

    with ThreadPoolExecutor(max_workers=_THREADS) as pool:
        return replace(pieces, parts=tuple(pool.map(read, pieces.parts)))


def _from_row(first: int, pieces: Pieces) -> Pieces:
    """The same without files of changed rows that were there before: such a file begins with the id that the next new row has."""
    parts = tuple(piece for piece in pieces.parts if piece.row_ids is None or piece.row_ids.max() >= first)
    return replace(pieces, parts=parts)


def _rows_of(work: Workspace, pieces: Pieces, first: int, end: int) -> DataFrame:
    """The rows from one id up to another, where Spark has to look at them."""
    files = {piece.source.id for piece in pieces.parts if not isinstance(piece.source, InlinedTable)}
    scan = replace(pieces.scan, files=tuple(file for file in pieces.scan.files if file.id in files))
    return rows_of(work.session, work.lake, Range(scan=scan, first_row_id=first, next_row_id=end), hidden=ROW_IDS)


def _end(pieces: Pieces) -> int:
    """The first row id that no row here has, which may lie before the end of a file of changed rows: those keep their ids."""
    ends = [0]
    for piece in pieces.parts:
        if piece.row_ids is not None:
            ends.append(int(piece.row_ids.max()) + 1)
        elif not isinstance(piece.source, InlinedTable):
            ends.append((piece.source.row_id_start or 0) + piece.source.record_count)
    return max(ends)
