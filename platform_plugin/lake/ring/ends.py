"""Ends of streams: marks behind rows, which a producer leaves when it has sent its last one. Sessions end at them.

A mark is no row and evicts nothing; rows that arrive later are behind it. Whoever began before the mark was made, or before the row that it
stands behind, comes to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa

from platform_plugin.lake.catalogue import catalogue as c
from platform_plugin.lake.catalogue.table_statistics import read_next_row_id
from platform_plugin.lake.commit.data_operations import has_table
from platform_plugin.lake.ring.segments import STREAM

if TYPE_CHECKING:
    from uuid import UUID

    from sqlalchemy.engine import Connection

    from platform_plugin.lake.catalogue.forgotten import Folding
    from platform_plugin.lake.catalogue.tables import Table
    from platform_plugin.lake.commit.writer import Writer

STREAM_END = sa.Table(
    "platform_stream_end",
    c.metadata,
    sa.Column("relation_uuid", sa.String, primary_key=True),
    sa.Column("snapshot_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("next_row_id", sa.BigInteger, nullable=False),
    sa.Column("ended_at", c.UtcTimestamp, nullable=False),
)
END_TABLES = (STREAM_END,)


@dataclass(frozen=True, slots=True)
class MarkStreamEnd:
    """Marks the end of a stream behind all rows that it has, those of this commit included."""

    stream: Table

    def apply(self, w: Writer) -> None:
        w.flush()
        row_id = read_next_row_id(w.connection, w.table_id(self.stream))
        w.insert(STREAM_END, relation_uuid=str(self.stream.uuid), snapshot_id=w.id, next_row_id=row_id, ended_at=w.time)


def read_end(connection: Connection, stream: UUID, *, first_row_id: int, after: int) -> int | None:
    """The row id at which a reader comes to the end of a stream: it began at a row id, at the snapshot `after`."""
    if not has_table(connection, STREAM_END.name):
        return None
    e = STREAM_END.c
    # A mark at the reader's first row is one that it has come to only if it was made since.
    reached = sa.or_(e.next_row_id > first_row_id, sa.and_(e.next_row_id == first_row_id, e.snapshot_id > after))
    found = connection.execute(sa.select(sa.func.min(e.next_row_id)).where(e.relation_uuid == str(stream), reached)).scalar()
    return None if found is None else int(found)


def fold_ends(rows: Folding) -> int:
    """Delete the marks of streams that no kept snapshot has, and those before the rows that a stream holds."""
    forgotten = rows.delete_forgotten(STREAM_END, STREAM_END.c.relation_uuid)
    if not rows.has(STREAM):
        return forgotten
    first = sa.select(STREAM.c.first_row_id).where(STREAM.c.relation_uuid == STREAM_END.c.relation_uuid).scalar_subquery()
    return forgotten + rows.delete(STREAM_END, STREAM_END.c.snapshot_id < rows.oldest, STREAM_END.c.next_row_id <= first)
