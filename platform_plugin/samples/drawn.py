"""Samples of tables and views: at every snapshot one that was drawn from the rows of that snapshot, and the same for each who asks.

Two versions' samples are independent. What was stored is used as long as nothing has changed since.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from platform_plugin.lake.read import read_rows
from platform_plugin.queries.bind import new_name, read_named
from platform_plugin.samples.growing import Grown
from platform_plugin.samples.keys import sample_seed
from platform_plugin.samples.local import Part, find_local
from platform_plugin.samples.lowest import choose_lowest
from platform_plugin.samples.merge import draw_picks
from platform_plugin.samples.pieces import read_pieces
from platform_plugin.samples.record import Progress, read_progress
from platform_plugin.samples.reservoir import draw_positions
from platform_plugin.samples.seeds import generator
from platform_plugin.samples.sources import find_parts, find_table, find_view, in_shape, wanted_fields
from platform_plugin.samples.strata import group, sortable
from platform_plugin.samples.task import CARDINALITY, TASK, sampler
from platform_plugin.samples.weighing import weigh_part
from platform_plugin.samples.weights import drawn_rows, with_weights
from platform_plugin.views.changes import last_change
from platform_plugin.views.record import read_records
from platform_plugin.views.stored import find_inputs

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

    from platform_plugin.lake.tables import Snapshot, Table, View
    from platform_plugin.samples.definition import Key
    from platform_plugin.samples.pieces import Pieces
    from platform_plugin.samples.record import Sample
    from platform_plugin.spark.job import ProgressHandler
    from platform_plugin.spark.workspace import Workspace


def find_stored(work: Workspace, sample: Sample, snapshot: Snapshot) -> Grown | None:
    """The stored sample if it is of the relation as it is at the snapshot, or None."""
    progress = find_current(work, sample, snapshot)
    if progress is None:
        return None
    return Grown(rows=read_rows(work.lake, work.lake.scan(sample.table, snapshot)), progress=progress)


def find_current(work: Workspace, sample: Sample, snapshot: Snapshot) -> Progress | None:
    """What the stored sample stands for, if it is of the relation as it is at the snapshot."""
    with work.lake.reading() as connection:
        progress = read_progress(connection, sample.table.uuid, snapshot.id)
    if progress.of_snapshot < 0:
        return None
    changed = version_of(work, sample, snapshot)
    return None if changed is None or changed > progress.of_snapshot else progress


def version_of(work: Workspace, sample: Sample, snapshot: Snapshot) -> int | None:
    """The newest snapshot that changed what a sample is drawn from; None where that can't be told."""
    definition = sample.definition
    if definition.source == "samples":
        versions = [version_of(work, part, snapshot) for part in find_parts(work.lake, sample, snapshot)]
        known = [version for version in versions if version is not None]
        return max(known) if len(known) == len(versions) else None
    if definition.source != "view":
        # A window of time moves with every snapshot.
        appends_only = definition.source == "stream" and not definition.is_windowed
        table = find_table(work.lake, sample, snapshot)
        return None if definition.window_seconds is not None else last_change(work, table, snapshot, appends_only=appends_only)
    view = find_view(work.lake, sample, snapshot)
    with work.lake.reading() as connection:
        record = read_records(connection, only=view.uuid).get(view.uuid)
    if record is None:
        return None
    inputs = find_inputs(work, record, snapshot)
    return (
        None
        if inputs is None
        else max((last_change(work, table, snapshot, appends_only=appends_only) for table, appends_only in inputs), default=0)
    )


def run_drawing(
    work: Workspace,
    sample: Sample,
    snapshot: Snapshot,
    *,
    timeout: timedelta | None = None,
    progress: ProgressHandler | None = None,
) -> Grown:
    """Draw a sample from its relation as it is at a snapshot."""
    if sample.definition.source == "view":
        return _from_view(work, sample, find_view(work.lake, sample, snapshot), snapshot, timeout=timeout, progress=progress)
    table = find_table(work.lake, sample, snapshot)
    definition = sample.definition
    pieces = read_pieces(work.lake, work.lake.scan(table, snapshot))
    words = ("draw", last_change(work, table, snapshot))
    cardinalities: Mapping[Key, int]
    if definition.is_weighted:
        return _weighted(work, sample, table, pieces, sample_seed(definition.seed, *words))
    if definition.is_counted:
        count = pieces.row_count
        numbers = draw_positions(count, definition.size, generator(definition.seed, *words))
        cardinalities = {(): count} if count else {}
    else:
        part = Part(pieces=pieces, size=definition.cap(1), seed=sample_seed(definition.seed, *words))
        chosen = choose_lowest([find_local(work, definition, part, timeout=timeout, progress=progress)], definition.cap)
        (numbers,), cardinalities = chosen.places, chosen.cardinalities
    rows = in_shape(sample, pieces.fetch(work.lake, numbers, wanted_fields(sample, table)))
    return Grown(rows=rows, progress=Progress(of_snapshot=snapshot.id, cardinalities=cardinalities), fetched=rows.num_rows)


def _weighted(work: Workspace, sample: Sample, table: Table, pieces: Pieces, seed: int) -> Grown:
    definition = sample.definition
    (held,) = weigh_part(work.lake, definition, Part(pieces=pieces, size=definition.cap(1), seed=seed)).values() or (None,)
    if held is None:
        numbers = keys = _NONE
    else:
        order = np.argsort(held.places)
        numbers, keys = held.places[order], held.keys[order]
    cardinalities: dict[Key, int] = {} if held is None else {(): held.cardinality}
    rows = in_shape(sample, pieces.fetch(work.lake, numbers, wanted_fields(sample, table)))
    drawn = drawn_rows(with_weights(definition, rows, keys))
    return Grown(rows=drawn, progress=Progress(of_snapshot=pieces.scan.snapshot.id, cardinalities=cardinalities), fetched=rows.num_rows)


_NONE = np.empty(0, dtype=np.int64)


def _from_view(
    work: Workspace, sample: Sample, view: View, snapshot: Snapshot, *, timeout: timedelta | None, progress: ProgressHandler | None
) -> Grown:
    """A view's rows have no numbers, so tasks hand out the rows themselves."""
    from pyspark.sql import types as t

    from platform_plugin.language.render import identifier
    from platform_plugin.spark.relation import query_relations

    definition = sample.definition
    frame = read_named(work, (view.name.schema, view.name.relation), snapshot)
    words = ("draw", version_of(work, sample, snapshot) or snapshot.id)
    name = new_name()
    if definition.where is not None:
        text = f"SELECT * FROM {name} AS {identifier(view.name.relation)} WHERE ({definition.where})"
        frame = query_relations(work.session, text, {name: frame})
    with work.session.job():
        schema = t.StructType(list(frame.schema.fields))
    own = [field.name for field in schema.fields]
    schema = schema.add(t.StructField(TASK, t.IntegerType())).add(t.StructField(CARDINALITY, t.LongType()))
    picked = frame.mapInArrow(sampler(definition.strata, definition.cap(1), definition.seed, *words), schema)
    with work.session.arrow(picked, timeout=timeout, progress=progress) as stream:
        rows = stream.read_all()
    places, cardinalities = _merge_rows(rows, sample, *words)
    chosen = in_shape(sample, rows.take(pa.array(places)).select(own))
    return Grown(rows=chosen, progress=Progress(of_snapshot=snapshot.id, cardinalities=cardinalities), fetched=rows.num_rows)


def _merge_rows(rows: pa.Table, sample: Sample, *words: object) -> tuple[np.ndarray, dict[Key, int]]:
    definition = sample.definition
    random = generator(definition.seed, "merge tasks", *words)
    tasks, counts = rows.column(TASK).to_numpy(), rows.column(CARDINALITY).to_numpy()
    by_key = group(rows, definition.strata)
    size = definition.cap(len(by_key))
    chosen, cardinalities = [np.empty(0, dtype=np.int64)], {}
    for key in sorted(by_key, key=sortable):
        places = by_key[key]
        parts = [places[tasks[places] == task] for task in np.unique(tasks[places])]
        own = [int(counts[part[0]]) for part in parts]
        chosen.append(np.concatenate(parts)[draw_picks([len(part) for part in parts], own, size, random)])
        cardinalities[key] = sum(own)
    return np.sort(np.concatenate(chosen)), cardinalities
