"""Leases: taking, renewing and releasing a reader's claim to a snapshot and its files."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Self

import sqlalchemy as sa

from platform_plugin.errors import SnapshotExpired
from platform_plugin.lake.catalogue import catalogue as c
from platform_plugin.lake.catalogue.identifiers import new_uuid
from platform_plugin.lake.catalogue.tables import Snapshot, read_snapshot
from platform_plugin.lake.read.missing import explain_failed_query
from platform_plugin.lake.upkeep.holders import this_holder
from platform_plugin.lake.upkeep.leased import LEASE_TABLES

if TYPE_CHECKING:
    from types import TracebackType

    from sqlalchemy.engine import Connection

    from platform_plugin.lake.lake import Lake

DURATION = timedelta(hours=1)


@dataclass(slots=True)
class Lease:
    """A reader's claim to a snapshot. Leaving the `with` block releases it; the lease of a killed process ends by itself."""

    lake: Lake
    id: str
    snapshot: Snapshot
    acquired_at: datetime
    expires_at: datetime

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        # Whatever ran under the lease, a file that is gone is told as what it is; while the lease is there to be told of.
        told = explain_failed_query(self.lake, error, self.snapshot)
        self.release()
        if told is not None:
            raise told from error

    def renew(self, duration: timedelta = DURATION) -> None:
        """Extend the lease; raises `SnapshotExpired` if it had ended and its snapshot is gone."""
        lease = c.PLATFORM_LEASE
        with self.lake.writing(shared=True) as connection:
            if read_snapshot(connection, id=self.snapshot.id) is None:
                raise _gone(self.snapshot.id)
            newest = read_snapshot(connection)
            # By a clock that is behind it would end at once for everybody else.
            self.expires_at = max(datetime.now(UTC), self.acquired_at, *(() if newest is None else (newest.time,))) + duration
            renewed = connection.execute(sa.update(lease).where(lease.c.lease_id == self.id).values(expires_at=self.expires_at)).rowcount
            if not renewed:
                # As old as it was: files that were replaced since are what its reader may still be reading.
                _insert(connection, self, None)

    def release(self) -> None:
        """End the lease; doing it twice is harmless."""
        with self.lake.writing(shared=True) as connection:
            connection.execute(sa.delete(c.PLATFORM_LEASE).where(c.PLATFORM_LEASE.c.lease_id == self.id))


def acquire_lease(lake: Lake, snapshot: Snapshot | None, *, holder: str | None, duration: timedelta) -> Lease:
    """Take a lease on a snapshot, by default the newest; an error if the snapshot is gone."""
    lake.prepare_tables(LEASE_TABLES)
    with lake.writing(shared=True) as connection:
        newest = read_snapshot(connection)
        found = newest if snapshot is None else read_snapshot(connection, id=snapshot.id)
        if found is None or newest is None:
            raise _gone(snapshot.id if snapshot else None)
        # Never before the newest commit, even if the clock went back: vacuum compares these times.
        now = max(datetime.now(UTC), newest.time)
        lease = Lease(lake=lake, id=str(new_uuid()), snapshot=found, acquired_at=now, expires_at=now + duration)
        _insert(connection, lease, holder)
    return lease


def _insert(connection: Connection, lease: Lease, holder: str | None) -> None:
    connection.execute(
        sa.insert(c.PLATFORM_LEASE).values(
            lease_id=lease.id,
            snapshot_id=lease.snapshot.id,
            holder=this_holder(holder),
            acquired_at=lease.acquired_at,
            expires_at=lease.expires_at,
        )
    )


def _gone(snapshot_id: int | None) -> SnapshotExpired:
    return SnapshotExpired(f"snapshot {snapshot_id} is no longer kept", hint="read the newest one; take a lease before a long read")
