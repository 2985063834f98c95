"""Consumers of streams and their cursors: the next row id that each of them reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from platform_plugin.lake.catalogue.bulk import is_among, split_chunks
from platform_plugin.lake.commit.data_operations import has_table
from platform_plugin.lake.ring.segments import CONSUMER, SEGMENT, STREAM

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime
    from uuid import UUID

    from sqlalchemy.engine import Connection

    from platform_plugin.lake.commit.writer import Writer


def has_consumers(connection: Connection) -> bool:
    """Whether the catalogue has the table of consumers, which comes with the first stream."""
    return has_table(connection, CONSUMER.name)


def read_consumers(connection: Connection, stream: UUID) -> dict[str, int]:
    """The consumers of a stream, each with its next row id."""
    query = sa.select(CONSUMER.c.consumer, CONSUMER.c.next_row_id).where(CONSUMER.c.relation_uuid == str(stream))
    return {row.consumer: row.next_row_id for row in connection.execute(query)}


def read_cursor(connection: Connection, stream: UUID, consumer: UUID) -> int | None:
    """The next row id of a stream's consumer, or None if it does not consume the stream."""
    return connection.execute(sa.select(CONSUMER.c.next_row_id).where(*_own(stream, consumer))).scalar()


def read_cursors(connection: Connection, consumers: Iterable[str]) -> dict[tuple[str, str], int]:
    """The next row ids of consumers, by consumer and stream."""
    query = sa.select(CONSUMER.c.consumer, CONSUMER.c.relation_uuid, CONSUMER.c.next_row_id)
    return {
        (row.consumer, row.relation_uuid): row.next_row_id
        for part in split_chunks(sorted(consumers))
        for row in connection.execute(query.where(is_among(connection, CONSUMER.c.consumer, part)))
    }


def read_positions(connection: Connection) -> dict[str, int]:
    """How many rows each consumer has consumed, summed over its streams."""
    passed = sa.select(CONSUMER.c.consumer, sa.func.sum(CONSUMER.c.next_row_id)).group_by(CONSUMER.c.consumer)
    return {consumer: int(count) for consumer, count in connection.execute(passed)}


def read_lowest_cursor(connection: Connection, stream: UUID) -> int | None:
    """The lowest next row id of a stream's consumers, or None if it has none."""
    return connection.execute(sa.select(sa.func.min(CONSUMER.c.next_row_id)).where(CONSUMER.c.relation_uuid == str(stream))).scalar()


def read_lagging_consumers(connection: Connection) -> list[tuple[str, str, int]]:
    """The consumers with unconsumed rows: consumer, stream, and the number of these rows."""
    n = CONSUMER.c
    ahead = sa.and_(STREAM.c.relation_uuid == n.relation_uuid, STREAM.c.next_row_id > n.next_row_id)
    query = sa.select(n.consumer, n.relation_uuid, STREAM.c.next_row_id - n.next_row_id).join(STREAM, ahead)
    return [(consumer, stream, int(count)) for consumer, stream, count in connection.execute(query)]


def read_waiting_since(connection: Connection) -> dict[str, datetime]:
    """The arrival time of the oldest unconsumed row of each consumer that has one."""
    later = sa.and_(SEGMENT.c.relation_uuid == CONSUMER.c.relation_uuid, SEGMENT.c.next_row_id > CONSUMER.c.next_row_id)
    query = sa.select(CONSUMER.c.consumer, sa.func.min(SEGMENT.c.arrived_at)).join(SEGMENT, later).group_by(CONSUMER.c.consumer)
    return {row[0]: row[1] for row in connection.execute(query)}


def is_consumer(name: sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
    """The condition that a column's value is the name of a consumer."""
    return sa.exists().where(CONSUMER.c.consumer == name)


def cursors_of(stream: sa.ColumnElement[str]) -> sa.Subquery:
    """The consumers of a stream and their next row ids, to be joined with other rows."""
    return sa.select(CONSUMER.c.consumer, CONSUMER.c.next_row_id).where(CONSUMER.c.relation_uuid == stream).subquery()


def add_consumer(w: Writer, stream: UUID, consumer: UUID, next_row_id: int) -> None:
    """Add, within a commit, a consumer of a stream with its first cursor."""
    w.insert(CONSUMER, relation_uuid=str(stream), consumer=str(consumer), next_row_id=next_row_id)


def move_cursor(w: Writer, stream: UUID | str, consumer: UUID | str, next_row_id: int) -> None:
    """Move a consumer's cursor within a commit; the update is sent together with others."""
    w.update_later(CONSUMER, {"relation_uuid": str(stream), "consumer": str(consumer)}, {"next_row_id": next_row_id})


def move_cursors(w: Writer, stream: UUID, reached: Mapping[str, int]) -> None:
    """Move the cursors of several consumers of a stream at once, within a commit."""
    if reached:
        w.connection.execute(_MOVE, [{"stream": str(stream), "whose": consumer, "reached": row} for consumer, row in reached.items()])


def remove_consumer(w: Writer, consumer: UUID) -> None:
    """Remove a consumer within a commit, so that no stream keeps rows for it."""
    w.connection.execute(sa.delete(CONSUMER).where(CONSUMER.c.consumer == str(consumer)))


def write_reader(connection: Connection, stream: UUID, reader: str, next_row_id: int | None) -> None:
    """Write the cursor of a reader of a stream outside of commits; None removes the reader."""
    connection.execute(sa.delete(CONSUMER).where(CONSUMER.c.consumer == reader))
    if next_row_id is not None:
        connection.execute(sa.insert(CONSUMER).values(relation_uuid=str(stream), consumer=reader, next_row_id=next_row_id))


def _own(stream: UUID, consumer: UUID) -> tuple[sa.ColumnElement[bool], sa.ColumnElement[bool]]:
    return CONSUMER.c.relation_uuid == str(stream), CONSUMER.c.consumer == str(consumer)


def _plan_move() -> sa.Update:
    # A parameter with a column's own name would be its new value.
    stream, whose = sa.bindparam("stream", type_=sa.String), sa.bindparam("whose", type_=sa.String)
    own = CONSUMER.c.relation_uuid == stream, CONSUMER.c.consumer == whose
    return sa.update(CONSUMER).where(*own).values(next_row_id=sa.bindparam("reached", type_=sa.BigInteger))


# Made once: to put a statement together takes longer than to run it.
_MOVE = _plan_move()
