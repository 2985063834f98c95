"""`read_sample`: a sample's rows at a snapshot, those included that no run has consumed yet."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from platform_plugin.cache import Cache
from platform_plugin.lake.read.read import read_rows
from platform_plugin.relations.samples.draw.merged import merge_parts
from platform_plugin.relations.samples.draw.source_draw import draw_anew, find_current, find_stored
from platform_plugin.relations.samples.keys.weights import drawn_rows
from platform_plugin.relations.samples.reservoir.growing import CurrentSample, find_pending, read_current_sample
from platform_plugin.relations.samples.reservoir.sliding import find_window, run_window
from platform_plugin.relations.samples.sources import find_parts, shape_sample_rows

if TYPE_CHECKING:
    from datetime import timedelta
    from uuid import UUID

    from platform_plugin.engine.spark.session.job import ProgressHandler
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot
    from platform_plugin.lake.read.scan import TableScan
    from platform_plugin.relations.samples.record import SampleRecord


def read_sample(
    work: Workspace,
    sample: SampleRecord,
    snapshot: Snapshot,
    *,
    timeout: timedelta | None = None,
    progress: ProgressHandler | None = None,
) -> CurrentSample:
    """A sample of its relation at a snapshot. The same snapshot always gives the same rows."""
    kept = _SAMPLES.get(_key(work, sample, snapshot))
    if kept is None:
        kept = _read(work, sample, snapshot, timeout=timeout, progress=progress)
        _SAMPLES.put(_key(work, sample, snapshot), kept)
    return kept


def find_scan(work: Workspace, sample: SampleRecord, snapshot: Snapshot) -> TableScan | None:
    """The files that hold exactly the sample at a snapshot; None where it must be merged or drawn."""
    definition = sample.definition
    if definition.is_windowed:
        return None
    if definition.source == "stream":
        behind = find_pending(work, sample, snapshot)
        # What is stored of a weighted one has the row beyond.
        return behind.scan if behind.tail.is_empty and not definition.is_weighted else None
    return None if find_current(work, sample, snapshot) is None else work.lake.scan(sample.table, snapshot)


def is_drawn_here(work: Workspace, sample: SampleRecord, snapshot: Snapshot) -> bool:
    """Whether a sample is read without Spark: it is stored, or its rows are only counted."""
    definition = sample.definition
    if (definition.is_counted or definition.is_weighted) and definition.source in ("stream", "table"):
        return True
    if _SAMPLES.has(_key(work, sample, snapshot)) or find_scan(work, sample, snapshot) is not None:
        return True
    parts = find_parts(work.lake, sample, snapshot) if sample.definition.parts else []
    return bool(parts) and all(is_drawn_here(work, part, snapshot) for part in parts)


def draw_sample(
    work: Workspace,
    sample: SampleRecord,
    snapshot: Snapshot,
    *,
    timeout: timedelta | None = None,
    progress: ProgressHandler | None = None,
) -> CurrentSample:
    """The sample of a table, a view or other samples, drawn from them at a snapshot whether it is stored or not."""
    if not sample.definition.parts:
        return draw_anew(work, sample, snapshot, timeout=timeout, progress=progress)
    parts = find_parts(work.lake, sample, snapshot)
    read = [read_sample(work, part, snapshot, timeout=timeout, progress=progress) for part in parts]
    merged = merge_parts(sample.definition, parts, read, snapshot)
    return replace(merged, rows=shape_sample_rows(sample, merged.rows))


def _read(
    work: Workspace, sample: SampleRecord, snapshot: Snapshot, *, timeout: timedelta | None, progress: ProgressHandler | None
) -> CurrentSample:
    if sample.definition.source != "stream":
        stored = find_stored(work, sample, snapshot)
        return stored or draw_sample(work, sample, snapshot, timeout=timeout, progress=progress)
    if sample.definition.is_windowed:
        return run_window(work, find_window(work, sample, snapshot), timeout=timeout, progress=progress)
    behind = find_pending(work, sample, snapshot)
    if behind.tail.is_empty:
        found = CurrentSample(rows=read_rows(work.lake, behind.scan), progress=behind.progress)
    else:
        found = read_current_sample(work, behind, timeout=timeout, progress=progress)
    return replace(found, rows=drawn_rows(found.rows), row_ids=None) if sample.definition.is_weighted else found


# What was read of a sample at a snapshot holds for ever.
_SAMPLES: Cache[tuple[UUID, str, UUID, int], CurrentSample] = Cache("rows of samples", weigh=lambda sample: sample.rows.nbytes)


def _key(work: Workspace, sample: SampleRecord, snapshot: Snapshot) -> tuple[UUID, str, UUID, int]:
    return work.lake.uuid, str(work.lake.location), sample.table.uuid, snapshot.id
