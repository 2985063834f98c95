"""`sample_locally`: the local phase with Arrow in this process, where the sample's condition certainly means the same as in Spark."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

from platform_plugin.engine.refusal import RefusedByEngine
from platform_plugin.lake.read.scan import InlinedTable
from platform_plugin.relations.samples.draw.numbered import read_numbered
from platform_plugin.relations.samples.reservoir.condition import RowCondition, matching_pieces
from platform_plugin.relations.samples.reservoir.local_draw import LocalDraw, join_reservoirs

if TYPE_CHECKING:
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.lake import Lake
    from platform_plugin.relations.samples.definition import Key, SampleDefinition
    from platform_plugin.relations.samples.draw.pieces import Piece
    from platform_plugin.relations.samples.keys.lowest import LowestRows
    from platform_plugin.relations.samples.reservoir.local import RelationPart

_THREADS = min(8, os.cpu_count() or 1)


def sample_locally(work: Workspace, definition: SampleDefinition, part: RelationPart) -> dict[Key, LowestRows] | None:
    """The local reservoirs of a part, read by this process; None where it is left to Spark."""
    lake, pieces = work.lake, part.pieces
    # Files elsewhere come to this machine anyway where Spark is a server of it.
    if not lake.storage.is_local and lake.location.spark is not None:
        return None
    is_too_large = work.find_engine(definition.engine) != "local" and pieces.row_count > work.limits.client_draw_rows
    if is_too_large or any(isinstance(piece.source, InlinedTable) for piece in pieces.parts):
        return None
    found: dict[Key, LowestRows] = {}
    pool = ThreadPoolExecutor(max_workers=_THREADS)
    try:
        condition = None if definition.where is None else RowCondition(pieces.scan.table, definition.where)
        draw = part.draw(definition, condition)
        looked = matching_pieces(lake, pieces, condition)
        looks = [pool.submit(_look, lake, draw, part, piece) for _, piece in looked]
        for (start, _), done in zip(looked, looks, strict=True):
            for key, held in done.result().items():
                found[key] = join_reservoirs(found.get(key), replace(held, places=held.places + start), part.size)
    except RefusedByEngine:
        return None
    finally:
        pool.shutdown(cancel_futures=True)
    return found


def _look(lake: Lake, draw: LocalDraw, part: RelationPart, piece: Piece) -> dict[Key, LowestRows]:
    """The local reservoirs of one file."""
    scan = part.pieces.scan
    if isinstance(piece.source, InlinedTable):
        raise RefusedByEngine("inlined rows", for_good=False)
    low, high = piece.span
    rows, _, ids = read_numbered(lake, piece.source, scan.snapshot, draw.fields(scan.table), low=low, high=high)
    if rows.num_rows != piece.count:
        raise RefusedByEngine("a file that is not as the catalogue says", for_good=False)
    return draw.draw(rows, ids)
