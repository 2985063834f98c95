"""What waits for a sample's next run: rows of its stream that nobody has looked at, and picks that nobody has merged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa

from platform_plugin.lake import catalogue as c
from platform_plugin.samples.picks import PICK
from platform_plugin.samples.record import read_progress

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from platform_plugin.samples.record import Sample

_MOST_PICKS = 64
_MOST_BYTES = 4 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """What a sample has not merged: rows that have to be read for it, and picks, of which readers have to merge as many themselves."""

    unseen_rows: int
    picks: int
    picked_bytes: int

    @property
    def is_due(self) -> bool:
        """Whether a run is worth its commit."""
        return self.unseen_rows > 0 or self.picks >= _MOST_PICKS or self.picked_bytes >= _MOST_BYTES


def read_pending(connection: Connection, sample: Sample, snapshot_id: int) -> Pending:
    """What waits for the run of a sample of a stream, from the catalogue's counts alone.

    Of a window rows that have left it may count as unseen; whoever looks closer finds nothing to do.
    """
    progress = read_progress(connection, sample.table.uuid, snapshot_id)
    p, uuid = PICK.c, sample.definition.relation
    live = sa.and_(p.sample_uuid == str(sample.table.uuid), c.live(PICK, snapshot_id))
    covered = sa.func.sum(sa.case((p.first_row_id >= progress.next_row_id, p.next_row_id - p.first_row_id), else_=0))
    picks, rows, size = connection.execute(sa.select(sa.func.count(), covered, sa.func.sum(sa.func.length(p.rows))).where(live)).one()
    t, s = c.TABLE.c, c.TABLE_STATS.c
    known = sa.select(s.next_row_id).where(s.table_id == sa.select(t.table_id).where(t.table_uuid == uuid).limit(1).scalar_subquery())
    end = connection.execute(known).scalar() or 0
    return Pending(unseen_rows=max(0, end - progress.next_row_id - int(rows or 0)), picks=picks, picked_bytes=int(size or 0))
