"""`weigh_part`: the local phase of weighted samples, always with Arrow, since one program must compute the keys."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from platform_plugin.engine.refusal import RefusedByEngine
from platform_plugin.errors import InvalidValue
from platform_plugin.lake.files.files import ROW_ID
from platform_plugin.lake.read.evolution import adapt_rows
from platform_plugin.lake.read.inlined import read_inlined
from platform_plugin.lake.read.read import find_column, read_raw
from platform_plugin.lake.read.scan import InlinedTable
from platform_plugin.lake.values.types import arrow_schema
from platform_plugin.relations.samples.keys.keys import EVERY
from platform_plugin.relations.samples.keys.lowest import LowestRows
from platform_plugin.relations.samples.keys.weights import low_weighted_keys
from platform_plugin.relations.samples.reservoir.condition import RowCondition, matching_pieces

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from platform_plugin.algebra.types.data_types import Field
    from platform_plugin.lake.catalogue.tables import Table
    from platform_plugin.lake.lake import Lake
    from platform_plugin.relations.samples.definition import Key, SampleDefinition
    from platform_plugin.relations.samples.draw.pieces import Piece
    from platform_plugin.relations.samples.reservoir.local import RelationPart

    Integers = NDArray[np.int64]

_THREADS = min(8, os.cpu_count() or 1)
_BLOCK = 1 << 16
_NONE = np.empty(0, dtype=np.int64)


def local_condition(table: Table, definition: SampleDefinition) -> RowCondition | None:
    """The condition of a weighted sample for Arrow; a condition that only Spark can evaluate is refused."""
    if definition.where is None:
        return None
    try:
        condition = RowCondition(table, definition.where)
        condition.mask(pa.Table.from_batches([], schema=arrow_schema(table.fields)))
    except RefusedByEngine as error:
        raise InvalidValue(
            "the condition of a weighted sample can't be judged without Spark",
            hint="compare columns with literals, joined by AND, OR and NOT, or put the rest into a column",
        ) from error
    return condition


def weigh_part(lake: Lake, definition: SampleDefinition, part: RelationPart) -> dict[Key, LowestRows]:
    """The local reservoir of a part: the drawable rows with the lowest keys, and the number of drawable rows."""
    condition = local_condition(part.pieces.scan.table, definition)
    wanted = {name.lower() for name in (definition.weight, definition.time) if name is not None}
    wanted |= {name.lower() for name in condition.columns} if condition is not None else set()
    fields = [field for field in part.pieces.scan.table.fields if field.name.lower() in wanted]
    for name in sorted(wanted - {field.name.lower() for field in fields}):
        raise InvalidValue(f'column "{name}" of "{part.pieces.scan.table.name}" is gone', hint="make the sample anew with another column")
    bound = part.bounds.get((), EVERY)
    found = LowestRows(cardinality=0, bound=bound, keys=_NONE, places=_NONE)

    def look(piece: Piece) -> LowestRows:
        rows, ids = _read(lake, part, piece, fields)
        return _weigh(rows, ids, definition, part, condition)

    looked = matching_pieces(lake, part.pieces, condition)
    pool = ThreadPoolExecutor(max_workers=_THREADS)
    try:
        for (start, _), held in zip(looked, pool.map(look, (piece for _, piece in looked)), strict=True):
            limit = min(found.bound, held.bound)
            one, other = found.up_to(limit), held.up_to(limit)
            keys, places = np.concatenate([one.keys, other.keys]), np.concatenate([one.places, other.places + start])
            count = found.cardinality + held.cardinality
            found = LowestRows(cardinality=count, bound=limit, keys=keys, places=places).lowest(part.size)
    except RefusedByEngine as error:
        raise InvalidValue(
            "the condition of a weighted sample can't be judged without Spark for every row that is there",
            hint="NaN and overflows are Spark's to judge: keep such rows elsewhere, or leave that column out of the condition",
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)
    return {(): found} if found.cardinality else {}


def _weigh(rows: pa.Table, ids: Integers, definition: SampleDefinition, part: RelationPart, condition: RowCondition | None) -> LowestRows:
    found = LowestRows(cardinality=0, bound=part.bounds.get((), EVERY), keys=_NONE, places=_NONE)
    for start in range(0, rows.num_rows, _BLOCK):
        block, own = rows.slice(start, _BLOCK), ids[start : start + _BLOCK]
        inside = None if condition is None else np.flatnonzero(condition.mask(block))
        if inside is not None:
            block, own = block.take(pa.array(inside)), own[inside]
        count, places, keys = low_weighted_keys(definition, part.seed, own, block, found.bound)
        found = LowestRows(
            cardinality=found.cardinality + count,
            bound=found.bound,
            keys=np.concatenate([found.keys, keys]),
            places=np.concatenate([found.places, (places if inside is None else inside[places]) + start]),
        )
        if len(found.keys) > 2 * part.size:
            found = found.lowest(part.size)
    return found.lowest(part.size)


def _read(lake: Lake, part: RelationPart, piece: Piece, fields: Sequence[Field]) -> tuple[pa.Table, Integers]:
    """The columns that count of a piece's rows, and their row ids."""
    scan = part.pieces.scan
    if isinstance(piece.source, InlinedTable):
        with lake.reading() as connection:
            rows, _, _ = read_inlined(connection, piece.source, scan.table, scan.snapshot, fields=fields)
        ordinals = np.arange(piece.count, dtype=np.int64)
        return rows.take(pa.array(piece.position_of(ordinals))), piece.row_ids_of(ordinals)
    raw, kept = read_raw(lake, piece.source, scan.snapshot, fields=fields, hidden=(ROW_ID,))
    rows, own = adapt_rows(raw, fields), find_column(raw, ROW_ID)
    positions = kept.to_numpy(zero_copy_only=False)
    inside = slice(None)
    if piece.positions is None:
        low, high = np.searchsorted(positions, (piece.low, piece.low + piece.count)).tolist()
        inside = slice(low, high)
        rows, positions = rows.slice(low, high - low), positions[inside]
    ids = positions + (piece.source.row_id_start or 0) if own is None else own.to_numpy()[inside]
    return rows, ids
