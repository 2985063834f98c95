"""Snapshots under lease: which ones, since when and until when; leases that ended are removed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import sqlalchemy as sa

from platform_plugin.lake.catalogue import catalogue as c
from platform_plugin.lake.catalogue.bulk import split_chunks
from platform_plugin.lake.commit.data_operations import has_table
from platform_plugin.lake.upkeep.holders import has_holder_ended

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

LEASE_TABLES = (c.PLATFORM_LEASE,)
SESSION = "session"
"""The prefix of a holder's name that marks a session, which has a cursor of its own for what it has read of a stream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeasedSnapshots:
    """The snapshots under all current leases, and the time of the oldest lease."""

    snapshots: frozenset[int] = frozenset()
    since: datetime | None = None
    has_readers: bool = False
    """Whether there are holders other than sessions."""


def read_leased_snapshots(connection: Connection) -> LeasedSnapshots:
    """The snapshots under lease and the time of the oldest lease; leases that ran out, or whose process died, are removed."""
    lease = c.PLATFORM_LEASE
    now = datetime.now(UTC)
    connection.execute(sa.delete(lease).where(lease.c.expires_at < now))
    found = connection.execute(sa.select(lease.c.lease_id, lease.c.holder, lease.c.snapshot_id, lease.c.acquired_at)).all()
    dead = [row.lease_id for row in found if row.holder and has_holder_ended(row.holder)]
    for ids in split_chunks(dead):
        connection.execute(sa.delete(lease).where(lease.c.lease_id.in_(ids)))
    rows = [row for row in found if row.lease_id not in set(dead)]
    return LeasedSnapshots(
        snapshots=frozenset(row.snapshot_id for row in rows),
        since=min((row.acquired_at for row in rows), default=None),
        has_readers=any(not (row.holder or "").startswith(SESSION) for row in rows),
    )


def read_leased_snapshots_if_any(connection: Connection) -> LeasedSnapshots:
    """The same for a lake that may have no table of leases."""
    return read_leased_snapshots(connection) if has_table(connection, c.PLATFORM_LEASE.name) else LeasedSnapshots()


def read_lease_end(connection: Connection, snapshot_id: int) -> datetime | None:
    """The time at which a snapshot's last lease ends, or None."""
    if not has_table(connection, c.PLATFORM_LEASE.name):
        return None
    lease = c.PLATFORM_LEASE.c
    query = sa.select(sa.func.max(lease.expires_at)).where(lease.snapshot_id == snapshot_id, lease.expires_at > datetime.now(UTC))
    return connection.execute(query).scalar()


def read_newest_lease(connection: Connection) -> datetime | None:
    """The time at which the newest lease was taken, or None; the lake must have leases."""
    return connection.execute(sa.select(sa.func.max(c.PLATFORM_LEASE.c.acquired_at))).scalar()
