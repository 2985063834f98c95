"""`sample_locally`: the local phase with Arrow, where the sample's condition certainly means the same as in Spark."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from platform_plugin.engine.refusal import RefusedByEngine
from platform_plugin.lake.files.files import ROW_ID
from platform_plugin.lake.read.evolution import adapt_rows
from platform_plugin.lake.read.read import find_column, read_raw
from platform_plugin.lake.read.scan import InlinedTable
from platform_plugin.relations.samples.keys.keys import EVERY, keys_of_ids
from platform_plugin.relations.samples.keys.lowest import LowestRows, key_bound
from platform_plugin.relations.samples.reservoir.condition import RowCondition, matching_pieces
from platform_plugin.relations.samples.strata import group_positions, strata_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.lake import Lake
    from platform_plugin.relations.samples.definition import Key, SampleDefinition
    from platform_plugin.relations.samples.draw.pieces import Piece
    from platform_plugin.relations.samples.reservoir.local import RelationPart

    Integers = NDArray[np.int64]

_THREADS = min(8, os.cpu_count() or 1)


def sample_locally(work: Workspace, definition: SampleDefinition, part: RelationPart) -> dict[Key, LowestRows] | None:
    """The local reservoirs of a part, read by this process; None where it is left to Spark."""
    lake, pieces = work.lake, part.pieces
    # Files elsewhere come to this machine anyway where Spark is a server of it.
    if not lake.storage.is_local and lake.location.spark is not None:
        return None
    if pieces.row_count > work.limits.client_draw_rows or any(isinstance(piece.source, InlinedTable) for piece in pieces.parts):
        return None
    table = pieces.scan.table
    try:
        condition = None if definition.where is None else RowCondition(table, definition.where)
    except RefusedByEngine:
        return None
    looked = matching_pieces(lake, pieces, condition)
    found: dict[Key, LowestRows] = {}
    pool = ThreadPoolExecutor(max_workers=_THREADS)
    try:
        looks = [pool.submit(_look, lake, definition, part, piece, condition) for _, piece in looked]
        for (start, _), done in zip(looked, looks, strict=True):
            for key, held in done.result().items():
                found[key] = _joined(found.get(key), held, start).lowest(part.size)
    except RefusedByEngine:
        return None
    finally:
        pool.shutdown(cancel_futures=True)
    return found


def _joined(one: LowestRows | None, other: LowestRows, start: int) -> LowestRows:
    moved = LowestRows(cardinality=other.cardinality, bound=other.bound, keys=other.keys, places=other.places + start)
    if one is None:
        return moved
    bound = min(one.bound, other.bound)
    left, right = one.up_to(bound), moved.up_to(bound)
    return LowestRows(
        cardinality=one.cardinality + other.cardinality,
        bound=bound,
        keys=np.concatenate([left.keys, right.keys]),
        places=np.concatenate([left.places, right.places]),
    )


def _look(
    lake: Lake, definition: SampleDefinition, part: RelationPart, piece: Piece, condition: RowCondition | None
) -> dict[Key, LowestRows]:
    """The local reservoirs of one file."""
    scan = part.pieces.scan
    names = {name.lower() for name in (*definition.strata, *(condition.columns if condition is not None else ()))}
    fields = [field for field in scan.table.fields if field.name.lower() in names] or list(scan.table.fields[:1])
    if isinstance(piece.source, InlinedTable):
        raise RefusedByEngine("inlined rows", for_good=False)
    raw, kept = read_raw(lake, piece.source, scan.snapshot, fields=fields, hidden=(ROW_ID,))
    rows, own = adapt_rows(raw, fields), find_column(raw, ROW_ID)
    positions = kept.to_numpy(zero_copy_only=False)
    inside = slice(*np.searchsorted(positions, (piece.low, piece.low + piece.count))) if piece.positions is None else None
    if inside is not None:
        rows, positions = rows.slice(inside.start, inside.stop - inside.start), positions[inside]
    if rows.num_rows != piece.count:
        raise RefusedByEngine("a file that is not as the catalogue says", for_good=False)
    start = piece.source.row_id_start or 0
    ids = positions + start if own is None else own.to_numpy()[inside or slice(None)]
    return lowest_of_rows(rows, keys_of_ids(part.seed, ids), definition, condition, lambda key, count: _bound(part, key, count))


def _bound(part: RelationPart, key: Key, count: int) -> int:
    return min(key_bound(part.size, count), part.bounds.get(key, EVERY))


def lowest_of_rows(
    rows: pa.Table, keys: Integers, definition: SampleDefinition, condition: RowCondition | None, bound: Callable[[Key, int], int]
) -> dict[Key, LowestRows]:
    """Of rows in memory, those that pass and whose keys are at most the bound of their stratum, which depends on its row count."""
    if condition is None:
        inside = None
    else:
        inside = np.flatnonzero(condition.mask(rows))
        keys = keys[inside]
        rows = rows.take(pa.array(inside)) if definition.strata else rows.slice(0, len(inside))
    if not len(keys):
        return {}
    found = {}
    for key, count, limit, places in _low_places(rows, keys, definition, bound):
        chosen = places if inside is None else inside[places]
        found[key] = LowestRows(cardinality=count, bound=limit, keys=keys[places], places=chosen)
    return found


def _low_places(
    rows: pa.Table, keys: Integers, definition: SampleDefinition, bound: Callable[[Key, int], int]
) -> Iterator[tuple[Key, int, int, Integers]]:
    if not definition.strata:
        limit = bound((), len(keys))
        yield (), len(keys), limit, np.flatnonzero(keys <= limit)
        return
    numbers, strata = strata_of(rows, definition.strata)
    counts = np.bincount(numbers, minlength=len(strata)).tolist()
    limits = np.array([bound(key, count) for key, count in zip(strata, counts, strict=True)], dtype=np.int64)
    low = np.flatnonzero(keys <= limits[numbers])
    by_number = group_positions(pa.table({"n": numbers[low]}), ["n"]) if len(low) else {}
    for number, (key, count) in enumerate(zip(strata, counts, strict=True)):
        places = by_number.get((str(number),), np.empty(0, dtype=np.int64))
        yield key, count, int(limits[number]), low[places]
