"""Segments: the rows that one commit appended to a stream, the limits of retention, and which segments leave."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import sqlalchemy as sa

from platform_plugin.errors import StreamOverrun
from platform_plugin.lake.catalogue import catalogue as c
from platform_plugin.lake.cursors.cursor import CURSOR_TABLES
from platform_plugin.lake.ring.arrival_log import ARRIVAL_LOG, read_logged, take_logged

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from sqlalchemy.engine import Connection

    from platform_plugin.lake.catalogue.tables import Snapshot, Table
    from platform_plugin.lake.commit.writer import Writer

# One row a stream: what it holds now. `released_snapshot` is the newest snapshot whose files may be deleted already.
STREAM = sa.Table(
    "platform_stream",
    c.metadata,
    sa.Column("relation_uuid", sa.String, primary_key=True),
    sa.Column("first_row_id", sa.BigInteger, nullable=False),
    sa.Column("next_row_id", sa.BigInteger, nullable=False),
    sa.Column("row_count", sa.BigInteger, nullable=False),
    sa.Column("size_bytes", sa.BigInteger, nullable=False),
    sa.Column("segment_count", sa.BigInteger, nullable=False),
    sa.Column("released_snapshot", sa.BigInteger, nullable=False),
    sa.Column("history_uuid", sa.String),
)
SEGMENT = sa.Table(
    "platform_segment",
    c.metadata,
    sa.Column("relation_uuid", sa.String, primary_key=True),
    sa.Column("first_row_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("next_row_id", sa.BigInteger, nullable=False),
    sa.Column("size_bytes", sa.BigInteger, nullable=False),
    sa.Column("arrived_at", c.UtcTimestamp, nullable=False),
    sa.Column("snapshot_id", sa.BigInteger, nullable=False),
    sa.Column("writer", sa.String),
)
# Files that left a stream and that nothing but a reader may still need; they are deleted when it lets go.
LEFT_FILE = sa.Table(
    "platform_left_file",
    c.metadata,
    sa.Column("data_file_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("relation_uuid", sa.String, nullable=False),
    sa.Column("path", sa.String, nullable=False),
    sa.Column("size_bytes", sa.BigInteger, nullable=False),
    sa.Column("end_snapshot", sa.BigInteger, nullable=False),
    sa.Column("left_at", c.UtcTimestamp, nullable=False),
    sa.Index("platform_left_file_by_stream", "relation_uuid"),
)
RING_TABLES = (STREAM, SEGMENT, LEFT_FILE, ARRIVAL_LOG, *CURSOR_TABLES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """Rows that became visible together: row ids from `first_row_id` up to but not including `next_row_id`."""

    first_row_id: int
    next_row_id: int
    size_bytes: int
    arrived_at: datetime
    snapshot_id: int
    writer: str | None = None

    @property
    def row_count(self) -> int:
        """The number of rows in the segment."""
        return self.next_row_id - self.first_row_id


class SegmentArrival(NamedTuple):
    """The row ids of a segment, up to but not including `until`, and when they came."""

    first: int
    until: int
    arrived_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Ring:
    """The rows that a stream holds: all row ids from `first_row_id` up to but not including `next_row_id`."""

    first_row_id: int = 0
    next_row_id: int = 0
    row_count: int = 0
    size_bytes: int = 0
    segment_count: int = 0
    released_snapshot: int = 0
    history_uuid: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionLimits:
    """How much a stream keeps; a limit that is None does not apply.

    `overrun_grace` is how long a reader may need rows whose time is over. After that a stream that aborts ends the reader, and one that
    blocks refuses the writer. Rows that a continuous view has not consumed stay, unless `drops_unconsumed`.
    """

    rows: int | None = None
    age: timedelta | None = None
    size_bytes: int | None = None
    blocks: bool = False
    drops_unconsumed: bool = False
    overrun_grace: timedelta = timedelta(minutes=1)

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> RetentionLimits:
        """The limits that a stream was declared with.

        >>> RetentionLimits.of({"retention_rows": 5, "retention_seconds": 60}).age
        datetime.timedelta(seconds=60)
        """
        age, grace = options.get("retention_seconds"), options.get("overrun_grace_seconds")
        return cls(
            rows=options.get("retention_rows"),
            age=None if age is None else timedelta(seconds=age),
            size_bytes=options.get("retention_bytes"),
            blocks=options.get("on_overrun") == "block",
            drops_unconsumed=options.get("on_unconsumed") == "drop",
            overrun_grace=timedelta(minutes=1) if grace is None else timedelta(seconds=grace),
        )

    def times(self, factor: int) -> RetentionLimits:
        """The limits multiplied by a factor."""
        return replace(
            self,
            rows=None if self.rows is None else self.rows * factor,
            age=None if self.age is None else self.age * factor,
            size_bytes=None if self.size_bytes is None else self.size_bytes * factor,
        )


def plan_eviction(segments: Iterable[Segment], ring: Ring, limits: RetentionLimits, now: datetime) -> list[Segment]:
    """The oldest segments to evict: those without which the stream still holds all that its limits keep.

    Whole segments are evicted, so up to one more than the limits is kept. The newest rows stay even if a single segment is larger than the
    limits, until others replace them or their time is over.

    >>> from datetime import UTC, datetime
    >>> noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    >>> parts = [Segment(first_row_id=i, next_row_id=i + 10, size_bytes=100, arrived_at=noon, snapshot_id=1) for i in (0, 10, 20)]
    >>> ring = Ring(first_row_id=0, next_row_id=30, row_count=30, size_bytes=300, segment_count=3)
    >>> [part.first_row_id for part in plan_eviction(parts, ring, RetentionLimits(rows=15), noon)]
    [0]
    """
    rows, size = ring.row_count, ring.size_bytes
    leaving = []
    for segment in segments:
        rows, size = rows - segment.row_count, size - segment.size_bytes
        too_many = limits.rows is not None and rows >= limits.rows
        too_large = limits.size_bytes is not None and size >= limits.size_bytes
        too_old = limits.age is not None and segment.arrived_at + limits.age <= now
        if not (too_many or too_large or too_old):
            break
        leaving.append(segment)
    return leaving


def read_ring(connection: Connection, uuid: UUID) -> Ring:
    """The rows that a stream holds now; an empty `Ring` for a stream without appends."""
    row = connection.execute(sa.select(STREAM).where(STREAM.c.relation_uuid == str(uuid))).first()
    if row is None:
        return Ring()
    return Ring(**{name: value for name, value in row._mapping.items() if name != "relation_uuid"})  # noqa: SLF001  its public name


def write_ring(w: Writer, stream: Table, ring: Ring) -> None:
    """Write, within a commit, which rows a stream holds."""
    row = {name: getattr(ring, name) for name in Ring.__slots__}
    changed = w.connection.execute(sa.update(STREAM).where(STREAM.c.relation_uuid == str(stream.uuid)).values(row)).rowcount
    if not changed:
        w.insert(STREAM, relation_uuid=str(stream.uuid), **row)


def refuse_overrun(connection: Connection, table: Table, snapshot: Snapshot) -> None:
    """Refuse to read a stream at a snapshot if some of its rows were evicted and their files deleted."""
    if not sa.inspect(connection).has_table(STREAM.name):
        return
    ring = read_ring(connection, table.uuid)
    if snapshot.id >= ring.released_snapshot:
        return
    f = c.DATA_FILE.c
    then = sa.select(sa.func.max(f.row_id_start + f.record_count)).where(f.table_id == table.id, c.is_visible_at(c.DATA_FILE, snapshot.id))
    reached = connection.execute(then).scalar()
    if reached is None:
        return  # it had no file then; what another client kept in the catalogue is still there
    raise StreamOverrun(
        f'rows of stream "{table.name}" at snapshot {snapshot.id} have left and are deleted',
        detail=f"{ring.next_row_id - reached} rows came since; it holds rows {ring.first_row_id} to {ring.next_row_id - 1} now",
        hint="read the newest snapshot, keep more with retention, or declare on_overrun = 'block'",
    )


def read_segments(connection: Connection, uuid: UUID, *, limit: int | None = None, newest_first: bool = False) -> list[Segment]:
    """The segments that a stream holds now, oldest first unless `newest_first`; those in arrival logs have no writer."""
    rows = read_segment_rows(connection, uuid, limit=limit, newest_first=newest_first)
    if newest_first and limit is not None and len(rows) == limit:
        return rows
    logged = [Segment(**each._asdict()) for each in read_logged(connection, uuid)]
    return [*rows, *reversed(logged)][:limit] if newest_first else [*logged, *rows][:limit]


def read_segment_rows(connection: Connection, uuid: UUID, *, limit: int | None = None, newest_first: bool = False) -> list[Segment]:
    """The same without those in arrival logs."""
    s = SEGMENT.c
    query = sa.select(s.first_row_id, s.next_row_id, s.size_bytes, s.arrived_at, s.snapshot_id, s.writer)
    query = query.where(s.relation_uuid == str(uuid)).order_by(s.first_row_id.desc() if newest_first else s.first_row_id).limit(limit)
    return [Segment(**row._mapping) for row in connection.execute(query)]  # noqa: SLF001  its public name


def unlog_segments(connection: Connection, uuid: UUID) -> None:
    """Give each logged segment of a stream a row of its own again, for a stream that has been given limits and evicts them now."""
    rows = [{"relation_uuid": str(uuid), **each._asdict()} for each in take_logged(connection, uuid)]
    if rows:
        connection.execute(sa.insert(SEGMENT), rows)


def read_arrivals(connection: Connection, uuid: UUID) -> Sequence[SegmentArrival]:
    """Every segment in the catalogue of a relation, in order."""
    s = SEGMENT.c
    query = sa.select(s.first_row_id, s.next_row_id, s.arrived_at).where(s.relation_uuid == str(uuid)).order_by(s.first_row_id)
    logged = [SegmentArrival(each.first_row_id, each.next_row_id, each.arrived_at) for each in read_logged(connection, uuid)]
    return [*logged, *(SegmentArrival(*row) for row in connection.execute(query))]
