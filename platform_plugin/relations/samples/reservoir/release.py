"""Release: the cursors of a stream's samples move over appends of which these have all picks, so that the stream may evict the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from platform_plugin.lake.cursors.cursor import present_cursors
from platform_plugin.lake.cursors.move import move_present
from platform_plugin.relations.samples.reservoir.picks import has_pick_tables, unmerged_picks

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from sqlalchemy.engine import Connection

    from platform_plugin.lake.commit.writer import Writer


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRelease:
    """The row ids up to which the cursors of a stream's samples can move, and the most appends that one of them would pass."""

    cursors: Mapping[str, int]
    appends: int


def find_release(connection: Connection, stream: UUID) -> StreamRelease:
    """What could be released of a stream, by the picks and cursors in the catalogue. A gap between picks ends what a sample releases."""
    cursors: dict[str, int] = {}
    appends: dict[str, int] = {}
    # Somebody may look before the first write to a lake of an earlier version.
    ahead = _AHEAD if has_pick_tables(connection) else _select_ahead(connection)
    for sample, seen, first, end in connection.execute(ahead, {"stream": str(stream)}):
        reached = cursors.get(sample, seen)
        if first <= reached < end:
            cursors[sample] = end
            appends[sample] = appends.get(sample, 0) + 1
    return StreamRelease(cursors=cursors, appends=max(appends.values(), default=0))


def release_stream_rows(w: Writer, stream: UUID) -> None:
    """Move the cursors of samples over the rows of which they have all picks, so that the stream may evict these."""
    w.flush()
    move_present(w, stream, find_release(w.connection, stream).cursors)


def _select_ahead(connection: Connection | None = None) -> sa.Select[Any]:
    """The picks of the samples of a stream after their cursors, in order."""
    cursors, picks = present_cursors(sa.bindparam("stream", type_=sa.String), connection), unmerged_picks(connection)
    n, p = cursors.c, picks.c
    ahead = sa.and_(p.sample_uuid == n.owner, p.first_row_id >= n.position)
    query = sa.select(n.owner, n.position, p.first_row_id, p.next_row_id).join_from(cursors, picks, ahead)
    return query.order_by(n.owner, p.first_row_id)


# Made once: to put a statement together takes longer than to run it.
_AHEAD = _select_ahead()
