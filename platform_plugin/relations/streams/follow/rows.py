"""`Follower`: reads the rows of a stream as they arrive, each once and in order, until none comes for a while."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from platform_plugin.errors import StreamOverrun
from platform_plugin.lake.catalogue.identifiers import new_uuid
from platform_plugin.lake.catalogue.relations import read_declaration
from platform_plugin.lake.catalogue.table_statistics import read_next_row_id
from platform_plugin.lake.cursors.move import write_reader
from platform_plugin.lake.read.scan import TableScan, read_files_beyond, read_scan
from platform_plugin.lake.ring.ends import read_end
from platform_plugin.lake.ring.segments import RING_TABLES, RetentionLimits, read_ring, read_segments
from platform_plugin.lake.upkeep.holders import this_holder
from platform_plugin.lake.upkeep.leased import SESSION

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from pyspark.sql import DataFrame
    from sqlalchemy.engine import Connection

    from platform_plugin.engine.spark.session.session import Session
    from platform_plugin.lake.catalogue.tables import Snapshot, Table
    from platform_plugin.lake.lake import Lake
    from platform_plugin.lake.upkeep.leases import Lease


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrivedRows:
    """Rows from `first_row_id` up to but not including `next_row_id`, and the files that hold them, perhaps with others."""

    scan: TableScan
    first_row_id: int
    next_row_id: int

    @property
    def row_count(self) -> int:
        """The number of row ids in the range."""
        return self.next_row_id - self.first_row_id

    @property
    def is_exact(self) -> bool:
        """Whether the files hold exactly these rows."""
        return not self.scan.inlined and self.scan.record_count == self.row_count

    def read(self, session: Session, lake: Lake, columns: Sequence[str] | None, *, row_id: str | None = None) -> DataFrame:
        """The rows as a DataFrame; `row_id` names a column for their ids."""
        from pyspark.sql.connect import functions as f

        from platform_plugin.engine.spark.frames.scan import HIDDEN, ROWID, read_relation

        if self.is_exact and row_id is None:
            return read_relation(session, lake, self.scan, columns=columns)
        rows = read_relation(session, lake, self.scan, columns=columns, hidden=True)
        rows = rows.where((f.col(ROWID) >= self.first_row_id) & (f.col(ROWID) < self.next_row_id))
        return (rows if row_id is None else rows.withColumn(row_id, f.col(ROWID))).drop(*HIDDEN)


class Follower:
    """One reader of a stream. Between two calls of `take` its lease keeps the files that it has not read yet."""

    def __init__(self, lake: Lake, table: Table, *, idle: timedelta, earliest: bool, lease: Lease) -> None:
        self.table = table
        self.idle = idle
        self.ended = False
        self.row_count = 0
        self.segment_count = 0
        self._lake = lake
        self._lease: Lease | None = None
        self._seen = lease.snapshot
        lake.prepare_tables(RING_TABLES)
        with lake.reading() as connection:
            ring, self._newest = read_ring(connection, table.uuid), self._read_next(connection)
            limits = RetentionLimits.of(read_declaration(connection, table.uuid).options)
        # Rows that other clients have added are part of the ring only after the next commit that counts them.
        self.position = ring.first_row_id if earliest else self._newest
        # A stream that waits for its readers is told how far this one has come; any other may let rows go.
        self._consumer = this_holder(f"{SESSION} {new_uuid()}") if limits.blocks else None
        self._note_position()
        self._began = (self.position, lease.snapshot.id)
        self._arrived_at: datetime | None = None
        self._alive_at = self._polled_at = time.monotonic()

    @property
    def lag_rows(self) -> int:
        """The number of rows that have arrived and were not taken yet."""
        return self._newest - self.position

    @property
    def idle_seconds(self) -> float:
        """The seconds since the last arrival."""
        return time.monotonic() - self._alive_at

    def begin(self) -> None:
        """Count the time without arrivals from now on; rows that came before can be taken."""
        self._alive_at = self._polled_at = time.monotonic()

    def poll(self) -> bool:
        """Whether there are rows to take; ends the session when none have come for its idle time."""
        if self.ended:
            return False
        with self._lake.reading() as connection:
            newest, marked = self._read_next(connection), self._read_end(connection)
            last = read_segments(connection, self.table.uuid, limit=1, newest_first=True) if newest > self._newest else []
        now = time.monotonic()
        if newest > self._newest:
            # When it came, as its commit says; a clock that differs from ours is believed only as far as we know otherwise.
            ago = (datetime.now(UTC) - last[0].arrived_at).total_seconds() if last else 0.0
            self._alive_at = min(max(now - ago, self._polled_at), now)
            self._newest = newest
        self._polled_at = now
        if newest > self.position and marked != self.position:
            return True
        self.ended = marked is not None or now - self._alive_at >= self.idle.total_seconds()
        return False

    def _read_end(self, connection: Connection) -> int | None:
        """Where the producer has said that the stream ends."""
        first_row_id, snapshot_id = self._began
        return read_end(connection, self.table.uuid, first_row_id=first_row_id, after=snapshot_id)

    def _read_next(self, connection: Connection) -> int:
        return read_next_row_id(connection, self.table.id)

    def take(self) -> ArrivedRows | None:
        """All rows that have arrived and were not taken, up to the end of the session; None if that comes first.

        A session ends with a pause of its idle time, or where its producer has marked the end of the stream.
        """
        lease = self._lake.lease(holder=SESSION)
        try:
            with self._lake.reading() as connection:
                ends = [each for each in (self._pause(connection), self._read_end(connection)) if each is not None]
                end = min(ends, default=None)
                arrived = None if end is not None and end <= self.position else self._plan(connection, lease.snapshot, end)
        except BaseException:
            lease.release()
            raise
        self._let_go()
        self._lease, self._seen = lease, lease.snapshot
        if end is not None:
            self.ended = True
        if arrived is None:
            return None
        self.position = arrived.next_row_id
        self.row_count += arrived.row_count
        self.segment_count += len(arrived.scan.files)
        # Whoever waits for this reader may go on: the files themselves stay until the leases end.
        self._note_position()
        return arrived

    def _note_position(self) -> None:
        if self._consumer is None:
            return
        with self._lake.writing(shared=True) as connection:
            write_reader(connection, self._consumer, self.table.uuid, None if self.ended else self.position)

    def _pause(self, connection: Connection) -> int | None:
        """Where a pause between two arrivals ends the session, though the reader was too busy to see it."""
        for segment in reversed(read_segments(connection, self.table.uuid, limit=_SEGMENTS_LOOKED_AT, newest_first=True)):
            if segment.next_row_id <= self.position:
                continue
            before, self._arrived_at = self._arrived_at, segment.arrived_at
            if before is not None and segment.arrived_at - before >= self.idle:
                return segment.first_row_id
        return None

    def _plan(self, connection: Connection, snapshot: Snapshot, end: int | None) -> ArrivedRows:
        scan = read_scan(connection, self.table, snapshot)
        if scan.inlined:
            reached = max(self._read_next(connection), self.position)
            cut = reached if end is None else min(end, reached)
            return ArrivedRows(scan=scan, first_row_id=self.position, next_row_id=cut)
        files, cursor = [], self.position
        # Also those that have come and left since the last look, which the lease has kept.
        for file in read_files_beyond(connection, self.table, self.position, snapshot, since=self._seen):
            start, until = file.row_id_start or 0, (file.row_id_start or 0) + file.record_count
            if until <= cursor or (end is not None and start >= end):
                continue
            if start > cursor:
                raise self._overrun(connection, start)
            files.append(file)
            cursor = until
        return ArrivedRows(
            scan=replace(scan, files=tuple(files)), first_row_id=self.position, next_row_id=cursor if end is None else min(cursor, end)
        )

    def _overrun(self, connection: Connection, start: int) -> StreamOverrun:
        ring = read_ring(connection, self.table.uuid)
        return StreamOverrun(
            f'a session of stream "{self.table.name}" was overrun: rows {self.position} to {start - 1} left before they were read',
            detail=f"it was {self._read_next(connection) - self.position} rows behind; the stream holds {ring.row_count} rows",
            hint="keep more with retention, declare on_overrun = 'block', or ask for less work per row",
        )

    def release(self) -> None:
        """Release the files of the last `take` and all later ones."""
        self.ended = True
        self._let_go()
        self._note_position()
        self._consumer = None

    def _let_go(self) -> None:
        if self._lease is not None:
            self._lease.release()
            self._lease = None


_SEGMENTS_LOOKED_AT = 10_000
