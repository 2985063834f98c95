"""Cursors of feeds over topics and tables, which move in the commit that makes the rows visible."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa

from platform_plugin.lake.catalogue import catalogue as c
from platform_plugin.lake.commit.data_operations import has_table

if TYPE_CHECKING:
    from uuid import UUID

    from sqlalchemy.engine import Connection

    from platform_plugin.lake.catalogue.tables import Table
    from platform_plugin.lake.commit.commit import Commit
    from platform_plugin.lake.commit.writer import Writer

SOURCE_OFFSET = sa.Table(
    "platform_source_offset",
    c.metadata,
    sa.Column("relation_uuid", sa.String, primary_key=True),
    sa.Column("partition_id", sa.Integer, primary_key=True),
    sa.Column("next_offset", sa.BigInteger, nullable=False),
    sa.Column("topic_id", sa.String),
)
SOURCE_TABLE = sa.Table(
    "platform_source_table",
    c.metadata,
    sa.Column("relation_uuid", sa.String, primary_key=True),
    sa.Column("source_uuid", sa.String, nullable=False),
    sa.Column("snapshot_id", sa.BigInteger, nullable=False),
    sa.Column("next_row_id", sa.BigInteger, nullable=False),
)
OFFSET_TABLES = (SOURCE_OFFSET,)
POSITION_TABLES = (SOURCE_TABLE,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """The cursor of a stream in a table: all rows before `next_row_id` were read, as of a snapshot."""

    source_uuid: str
    snapshot_id: int
    next_row_id: int


def read_offsets(connection: Connection, uuid: UUID) -> dict[int, tuple[int, str | None]]:
    """The next offset of each partition of a stream's topic, and the topic's identity when it was stored."""
    if not has_table(connection, SOURCE_OFFSET.name):
        return {}
    t = SOURCE_OFFSET.c
    query = sa.select(t.partition_id, t.next_offset, t.topic_id).where(t.relation_uuid == str(uuid))
    return {row.partition_id: (row.next_offset, row.topic_id) for row in connection.execute(query)}


def read_position(connection: Connection, uuid: UUID) -> Position | None:
    """The cursor of a stream in the table that it follows."""
    if not has_table(connection, SOURCE_TABLE.name):
        return None
    t = SOURCE_TABLE.c
    row = connection.execute(sa.select(t.source_uuid, t.snapshot_id, t.next_row_id).where(t.relation_uuid == str(uuid))).first()
    return None if row is None else Position(source_uuid=row.source_uuid, snapshot_id=row.snapshot_id, next_row_id=row.next_row_id)


def note_offset(commit: Commit, stream: Table, partition: int, next_offset: int, topic_id: str | None, *, expected: int | None) -> None:
    """Move, within a commit, the cursor in a partition from `expected`, which is None if the stream has read nothing of it."""
    commit.put(
        SOURCE_OFFSET,
        expected=None if expected is None else {"next_offset": expected},
        relation_uuid=str(stream.uuid),
        partition_id=partition,
        next_offset=next_offset,
        topic_id=topic_id,
    )


def note_position(commit: Commit, stream: Table, reached: Position, *, expected: Position | None) -> None:
    """Move, within a commit, the cursor in a table from `expected`, which is None if the stream has read nothing of it."""
    commit.put(
        SOURCE_TABLE,
        expected=None if expected is None else {"next_row_id": expected.next_row_id, "source_uuid": expected.source_uuid},
        relation_uuid=str(stream.uuid),
        source_uuid=reached.source_uuid,
        snapshot_id=reached.snapshot_id,
        next_row_id=reached.next_row_id,
    )


def forget_positions(w: Writer, relation_uuid: str) -> None:
    """Delete the cursors of a stream that is dropped in the same commit."""
    for table in (SOURCE_OFFSET, SOURCE_TABLE):
        if has_table(w.connection, table.name):
            w.connection.execute(sa.delete(table).where(table.c.relation_uuid == relation_uuid))
