"""`weigh_part`: the local phase of weighted samples, always with Arrow, since one program must compute the keys."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from platform_plugin.engine.refusal import RefusedByEngine
from platform_plugin.errors import InvalidValue
from platform_plugin.lake.read.inlined import read_inlined
from platform_plugin.lake.read.scan import InlinedTable
from platform_plugin.lake.values.types import arrow_schema
from platform_plugin.relations.samples.draw.numbered import read_numbered
from platform_plugin.relations.samples.reservoir.condition import RowCondition, matching_pieces
from platform_plugin.relations.samples.reservoir.local_draw import join_reservoirs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from platform_plugin.algebra.types.data_types import Field
    from platform_plugin.lake.catalogue.tables import Table
    from platform_plugin.lake.lake import Lake
    from platform_plugin.relations.samples.definition import Key, SampleDefinition
    from platform_plugin.relations.samples.draw.pieces import Piece
    from platform_plugin.relations.samples.keys.lowest import LowestRows
    from platform_plugin.relations.samples.reservoir.local import RelationPart

    Integers = NDArray[np.int64]

_THREADS = min(8, os.cpu_count() or 1)


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
    draw = part.draw(definition, condition)
    fields = draw.fields(part.pieces.scan.table)
    found: dict[Key, LowestRows] = {}

    def look(piece: Piece) -> dict[Key, LowestRows]:
        return draw.draw(*_read(lake, part, piece, fields))

    looked = matching_pieces(lake, part.pieces, condition)
    pool = ThreadPoolExecutor(max_workers=_THREADS)
    try:
        for (start, _), drawn in zip(looked, pool.map(look, (piece for _, piece in looked)), strict=True):
            for key, held in drawn.items():
                found[key] = join_reservoirs(found.get(key), replace(held, places=held.places + start), part.size)
    except RefusedByEngine as error:
        raise InvalidValue(
            "the condition of a weighted sample can't be judged without Spark for every row that is there",
            hint="NaN and overflows are Spark's to judge: keep such rows elsewhere, or leave that column out of the condition",
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)
    return found


def _read(lake: Lake, part: RelationPart, piece: Piece, fields: Sequence[Field]) -> tuple[pa.Table, Integers]:
    """The columns that count of a piece's rows, and their row ids."""
    scan = part.pieces.scan
    if isinstance(piece.source, InlinedTable):
        with lake.reading() as connection:
            rows, _, _ = read_inlined(connection, piece.source, scan.table, scan.snapshot, fields=fields)
        ordinals = np.arange(piece.count, dtype=np.int64)
        return rows.take(pa.array(piece.position_of(ordinals))), piece.row_ids_of(ordinals)
    low, high = piece.span
    rows, _, ids = read_numbered(lake, piece.source, scan.snapshot, fields, low=low, high=high)
    return rows, ids
