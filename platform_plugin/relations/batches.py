"""Batch ids: which batches a relation has taken already, so that a batch sent twice is added once."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import sqlalchemy as sa

from platform_plugin.errors import CommitConflict, InvalidValue
from platform_plugin.lake.catalogue import catalogue as c
from platform_plugin.lake.catalogue.bulk import split_chunks
from platform_plugin.lake.catalogue.forgotten import is_forgotten

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from uuid import UUID

    from sqlalchemy.engine import Connection

    from platform_plugin.lake.catalogue.forgotten import Folding
    from platform_plugin.lake.catalogue.tables import Table
    from platform_plugin.lake.commit.writer import Writer
    from platform_plugin.lake.lake import Lake

# An id is forgotten when it is this old, or when this many newer ones of its relation are known.
KEPT = timedelta(days=7)
KEPT_PER_RELATION = 1_000_000
LONGEST_ID = 255

BATCH = sa.Table(
    "platform_batch",
    c.metadata,
    sa.Column("relation_uuid", sa.String, primary_key=True),
    sa.Column("batch_id", sa.String, primary_key=True),
    sa.Column("snapshot_id", sa.BigInteger, nullable=False),
    sa.Column("row_count", sa.BigInteger, nullable=False),
    sa.Column("committed_at", c.UtcTimestamp, nullable=False),
    sa.Index("platform_batch_by_snapshot", "relation_uuid", "snapshot_id"),
    sa.Index("platform_batch_by_time", "committed_at"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A batch that a relation has taken: its rows, snapshot and time."""

    batch_id: str
    snapshot_id: int
    row_count: int
    committed_at: datetime


class BatchAlreadyTaken(CommitConflict):
    """Another commit has taken a batch with this id; its rows exist, and these were not added again."""


def check_batch_id(batch_id: object) -> None:
    """Refuse an id that one catalogue database can store and the other can't.

    >>> check_batch_id("orders-2026-01-31/17")
    """
    if not isinstance(batch_id, str) or not 0 < len(batch_id) <= LONGEST_ID or not batch_id.isprintable():
        raise InvalidValue(
            f"{ascii(batch_id)[:40]} can't be the id of a batch", hint=f"give a text of 1 to {LONGEST_ID} printable characters"
        )


def read_batches(lake: Lake, uuid: UUID, ids: Collection[str]) -> dict[str, Batch]:
    """Those of the ids that a relation has taken already."""
    lake.prepare_tables([BATCH])
    with lake.reading() as connection:
        return _read(connection, uuid, ids)


def _read(connection: Connection, uuid: UUID, ids: Collection[str]) -> dict[str, Batch]:
    b = BATCH.c
    found = {}
    for part in split_chunks(list(ids)):
        query = sa.select(b.batch_id, b.snapshot_id, b.row_count, b.committed_at)
        for row in connection.execute(query.where(b.relation_uuid == str(uuid), b.batch_id.in_(part))):
            found[row.batch_id] = Batch(**row._mapping)  # noqa: SLF001  SQLAlchemy's public name for it
    return found


@dataclass(frozen=True, slots=True)
class TakeBatches:
    """Records the batches of a table that a commit takes; a batch that another commit has taken is a conflict."""

    table: Table
    row_counts: Mapping[str, int]
    forgets: bool = False

    def apply(self, w: Writer) -> None:
        w.flush()
        taken = _read(w.connection, self.table.uuid, self.row_counts)
        if taken:
            first = next(iter(taken.values()))
            raise BatchAlreadyTaken(
                f'batch "{first.batch_id}" of "{self.table.name}" is in snapshot {first.snapshot_id} already',
                detail=f"{first.row_count} rows, committed at {first.committed_at:%Y-%m-%d %H:%M:%S} UTC",
                hint="its rows are there; nothing was added",
            )
        now = datetime.now(UTC)
        for batch_id, count in self.row_counts.items():
            w.insert(BATCH, relation_uuid=str(self.table.uuid), batch_id=batch_id, snapshot_id=w.id, row_count=count, committed_at=now)
        if self.forgets:
            self._forget(w, now)

    def _forget(self, w: Writer, now: datetime) -> None:
        w.flush()
        b = BATCH.c
        own = b.relation_uuid == str(self.table.uuid)
        newest = sa.select(b.snapshot_id).where(own).order_by(b.snapshot_id.desc()).offset(KEPT_PER_RELATION).limit(1)
        too_many = w.connection.execute(newest).scalar()
        # Those of relations that were dropped go by their age.
        w.connection.execute(sa.delete(BATCH).where(b.committed_at < now - KEPT))
        if too_many is not None:
            w.connection.execute(sa.delete(BATCH).where(own, b.snapshot_id <= too_many))


def fold_batches(rows: Folding) -> int:
    """Delete the ids that are old enough, and those of relations that no kept snapshot has, also where nobody appends any more."""
    b = BATCH.c
    gone = sa.or_(b.committed_at < datetime.now(UTC) - KEPT, is_forgotten(b.relation_uuid))
    return rows.delete(BATCH, gone)
