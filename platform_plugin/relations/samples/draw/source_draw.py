"""Samples of tables and views: one is drawn from the rows of each snapshot, the same for all readers.

A stored sample is used as long as its relation has not changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from platform_plugin.lake.read.last_change import has_changed, last_change
from platform_plugin.lake.read.read import read_rows
from platform_plugin.relations.kinds import find_kind
from platform_plugin.relations.reading import UnknownDependency
from platform_plugin.relations.samples.draw.pieces import read_pieces
from platform_plugin.relations.samples.draw.standing import draw_standing
from platform_plugin.relations.samples.draw.viewed import draw_from_view
from platform_plugin.relations.samples.keys.keys import sample_seed
from platform_plugin.relations.samples.keys.weights import drawn_rows, with_weights
from platform_plugin.relations.samples.record import SampleProgress, read_progress
from platform_plugin.relations.samples.reservoir.growing import CurrentSample
from platform_plugin.relations.samples.reservoir.local import PartDraw, RelationPart, find_local
from platform_plugin.relations.samples.sources import find_parts, find_table, find_view, sampled_fields, shape_sample_rows

if TYPE_CHECKING:
    from datetime import timedelta

    from platform_plugin.engine.spark.session.job import ProgressHandler
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot, Table
    from platform_plugin.relations.samples.definition import Key
    from platform_plugin.relations.samples.draw.pieces import Pieces
    from platform_plugin.relations.samples.keys.lowest import LowestRows
    from platform_plugin.relations.samples.record import SampleRecord


def find_stored(work: Workspace, sample: SampleRecord, snapshot: Snapshot) -> CurrentSample | None:
    """The stored sample if it is of the relation at the snapshot, or None."""
    progress = find_current(work, sample, snapshot)
    if progress is None:
        return None
    return CurrentSample(rows=read_rows(work.lake, work.lake.scan(sample.table, snapshot)), progress=progress)


def find_current(work: Workspace, sample: SampleRecord, snapshot: Snapshot) -> SampleProgress | None:
    """The progress of the stored sample if it is of the relation at the snapshot, or None."""
    with work.lake.reading() as connection:
        progress = read_progress(connection, sample.table.uuid, snapshot.id)
    if progress.of_snapshot < 0:
        return None
    if sample.definition.source == "table":
        table = find_table(work.lake, sample, snapshot)
        return None if has_changed(work.lake, table, progress.of_snapshot, snapshot) else progress
    changed = source_version(work, sample, snapshot)
    return None if changed is None or changed > progress.of_snapshot else progress


def source_version(work: Workspace, sample: SampleRecord, snapshot: Snapshot) -> int | None:
    """The newest snapshot that changed the relation of a sample; None where that is not known."""
    definition = sample.definition
    if definition.source == "samples":
        versions = [source_version(work, part, snapshot) for part in find_parts(work.lake, sample, snapshot)]
        known = [version for version in versions if version is not None]
        return max(known) if len(known) == len(versions) else None
    if definition.source != "view":
        # A window of time moves with every snapshot.
        appends_only = definition.source == "stream" and not definition.is_windowed
        table = find_table(work.lake, sample, snapshot)
        return None if definition.window_seconds is not None else last_change(work.lake, table, snapshot, appends_only=appends_only)
    view = find_view(work.lake, sample, snapshot)
    try:
        inputs = list(find_kind(work.lake, view, snapshot).dependencies(work, view, snapshot))
    except UnknownDependency:
        return None
    return max((last_change(work.lake, table, snapshot, appends_only=appends_only) for table, appends_only in inputs), default=0)


def draw_anew(
    work: Workspace,
    sample: SampleRecord,
    snapshot: Snapshot,
    *,
    timeout: timedelta | None = None,
    progress: ProgressHandler | None = None,
) -> CurrentSample:
    """Draw a sample from its relation at a snapshot."""
    if sample.definition.source == "view":
        view, version = find_view(work.lake, sample, snapshot), source_version(work, sample, snapshot)
        return draw_from_view(work, sample, view, snapshot, version or snapshot.id, timeout=timeout, progress=progress)
    table = find_table(work.lake, sample, snapshot)
    definition = sample.definition
    if not definition.is_weighted:
        return draw_standing(work, sample, table, snapshot, timeout=timeout, progress=progress)
    pieces = read_pieces(work.lake, work.lake.scan(table, snapshot))
    seed = sample_seed(definition.seed, "draw", last_change(work.lake, table, snapshot))
    part = RelationPart(pieces=pieces, size=definition.cap(1), seed=seed)
    ((_, found),) = find_local(work, [PartDraw(definition, part)], timeout=timeout, progress=progress)
    return _weighted(work, sample, table, pieces, found.get(()))


def _weighted(work: Workspace, sample: SampleRecord, table: Table, pieces: Pieces, held: LowestRows | None) -> CurrentSample:
    definition = sample.definition
    if held is None:
        numbers = keys = _NONE
    else:
        order = np.argsort(held.places)
        numbers, keys = held.places[order], held.keys[order]
    cardinalities: dict[Key, int] = {} if held is None else {(): held.cardinality}
    rows = shape_sample_rows(sample, pieces.fetch(work.lake, numbers, sampled_fields(sample, table)))
    drawn = drawn_rows(with_weights(definition, rows, keys))
    return CurrentSample(
        rows=drawn, progress=SampleProgress(of_snapshot=pieces.scan.snapshot.id, cardinalities=cardinalities), fetched=rows.num_rows
    )


_NONE = np.empty(0, dtype=np.int64)
