"""Poison: finds the rows for which a view fails, names them in the error, and tries the view at growing intervals."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from platform_plugin.algebra.types.data_types import quote_identifier
from platform_plugin.cache import Cache
from platform_plugin.errors import PlatformError, QueryFailed
from platform_plugin.lake.catalogue.tables import Name
from platform_plugin.lake.commit.gates import GateRefusal
from platform_plugin.relations.views.read.view import run_stream_part, split_name, static_frames

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot
    from platform_plugin.operators.group.parts import StreamPart
    from platform_plugin.relations.follow.ranges import Range
    from platform_plugin.relations.views.follow.maintain import PendingView

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 2.0, 600.0
# Looking for the row costs a job for each half; a run must not look for ever.
_SEARCH_SECONDS = 30.0

Key = tuple["UUID", "UUID", tuple[tuple[str, int], ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Failure:
    error: PlatformError
    times: int
    again_at: float


# What is forgotten is tried again at once.
_FAILURES: Cache[Key, _Failure] = Cache("views that failed", weigh=lambda _: 10_000)


def split_poisoned(work: Workspace, behind: Sequence[PendingView]) -> tuple[list[PendingView], dict[str, PlatformError]]:
    """The views to try now, and the errors of those that failed on the same rows a short time ago.

    The unconsumed rows of a failing view grow in number, and so would the cost of trying it in every run. A view that a gate refused is
    tried at once if it has no gate any more.
    """
    now = time.monotonic()
    failures = {view.name: known for view in behind if (known := _FAILURES.get(_key(work, view))) is not None and known.again_at > now}
    held = {name: known.error for name, known in failures.items() if not _is_lifted(work, name, known.error)}
    return [view for view in behind if view.name not in held], held


def _is_lifted(work: Workspace, view: str, error: PlatformError) -> bool:
    return isinstance(error, GateRefusal) and work.lake.gates.find(Name.of(split_name(view))) is None


def note_failure(work: Workspace, snapshot: Snapshot, view: PendingView, error: PlatformError) -> PlatformError:
    """Remember that a view failed, and name the row in the error; the row is searched at the first failure."""
    key = _key(work, view)
    known = _FAILURES.get(key)
    if known is None:
        error = _with_place(work, snapshot, view, error)
    elif isinstance(error, QueryFailed):
        error = known.error
    times = 1 if known is None else known.times + 1
    pause = min(FIRST_PAUSE_SECONDS * 2 ** min(times - 1, 20), LONGEST_PAUSE_SECONDS)
    _FAILURES.put(key, _Failure(error=error, times=times, again_at=time.monotonic() + pause))
    return error


def _key(work: Workspace, view: PendingView) -> Key:
    return work.lake.uuid, view.record.uuid, tuple(sorted((stream, tail.first_row_id) for stream, tail in view.ranges.items()))


def _with_place(work: Workspace, snapshot: Snapshot, view: PendingView, error: PlatformError) -> PlatformError:
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
