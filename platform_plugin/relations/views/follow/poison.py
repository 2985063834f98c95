"""`place_failure`: finds the rows for which a view fails, and names them in the error."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from platform_plugin.algebra.types.data_types import quote_identifier
from platform_plugin.errors import QueryFailed
from platform_plugin.relations.views.read.view import run_stream_part, static_frames

if TYPE_CHECKING:
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.errors import PlatformError
    from platform_plugin.lake.catalogue.tables import Snapshot
    from platform_plugin.operators.group.parts import StreamPart
    from platform_plugin.relations.follow.ranges import Range
    from platform_plugin.relations.views.follow.pending import PendingView

# Looking for the row costs a job for each half; a run must not look for ever.
_SEARCH_SECONDS = 30.0


def place_failure(work: Workspace, snapshot: Snapshot, view: PendingView, error: PlatformError) -> PlatformError:
    """The error of a view's queries with the rows for which they fail; any other error as it is."""
    if not isinstance(error, QueryFailed):
        return error
    found = next(filter(None, (_search(work, snapshot, view, part) for part in view.plan.streams if part.stream in view.ranges)), None)
    if found is None:
        return error
    first, last = found.first_row_id, found.next_row_id - 1
    rows = f"row {first}" if first == last else f"rows {first} to {last}, together,"
    where = f"_row_id = {first}" if first == last else f"_row_id BETWEEN {first} AND {last}"
    # Named, since `*` leaves the hidden column out, and what it leaves out can't be asked for.
    columns = ", ".join(quote_identifier(field.name) for field in found.stream.fields)
    detail = f"{rows} of stream {found.stream.name}: SELECT {columns} FROM {found.stream.name} WHERE {where}"
    told = QueryFailed(
        f'view "{view.name}" can\'t consume what has arrived: {error.message}',
        detail=detail if error.detail is None else f"{detail}; {error.detail}",
        hint="other views go on; make this one anew with CREATE OR REPLACE VIEW, with try_… functions or a WHERE that leaves such rows out",
    )
    told.__cause__ = error
    return told


def _search(work: Workspace, snapshot: Snapshot, view: PendingView, part: StreamPart) -> Range | None:
    """The smallest range that fails by itself, found by halves; None if what failed was something else."""
    deadline = time.monotonic() + _SEARCH_SECONDS
    tail = view.ranges[part.stream]
    if not _fails(work, snapshot, view, part, tail):
        return None
    while tail.row_count > 1 and time.monotonic() < deadline:
        middle = (tail.first_row_id + tail.next_row_id) // 2
        halves = (replace(tail, next_row_id=middle), replace(tail, first_row_id=middle))
        half = next((half for half in halves if _fails(work, snapshot, view, part, half)), None)
        if half is None:
            break
        tail = half
    return tail


def _fails(work: Workspace, snapshot: Snapshot, view: PendingView, part: StreamPart, tail: Range) -> bool:
    try:
        frame = run_stream_part(work, part, tail, static_frames(work, view.plan, view.tables, snapshot))
        with work.session.arrow(frame) as answer:
            for _ in answer:
                pass
    except QueryFailed:
        return True
    return False
