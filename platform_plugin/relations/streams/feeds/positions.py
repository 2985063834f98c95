"""Cursors of feeds over topics and tables, which move in the commit that makes the rows visible."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from platform_plugin.lake.cursors.cursor import has_cursors, read_cursors
from platform_plugin.lake.cursors.move import MoveCursor

if TYPE_CHECKING:
    from uuid import UUID

    from sqlalchemy.engine import Connection

    from platform_plugin.lake.catalogue.tables import Table
    from platform_plugin.lake.commit.commit import Commit

# The input of a feed over a topic: one of its partitions. That over a table is the table's identity.
PARTITION = "partition "


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """The cursor of a stream in a table: all rows before `next_row_id` were read, as of a snapshot."""

    source_uuid: str
    snapshot_id: int
    next_row_id: int

    @property
    def note(self) -> str:
        """What the cursor notes beside the snapshot."""
        return json.dumps({"next_row_id": self.next_row_id})


def read_offsets(connection: Connection, uuid: UUID) -> dict[int, tuple[int, str | None]]:
    """The next offset of each partition of a stream's topic, and the topic's identity when it was stored."""
    cursors = read_cursors(connection, [uuid]).values() if has_cursors(connection) else ()
    return {
        int(cursor.input.removeprefix(PARTITION)): (cursor.position, cursor.note)
        for cursor in cursors
        if cursor.input.startswith(PARTITION)
    }


def read_position(connection: Connection, uuid: UUID) -> Position | None:
    """The cursor of a stream in the table that it follows."""
    cursors = read_cursors(connection, [uuid]).values() if has_cursors(connection) else ()
    for cursor in cursors:
        if cursor.note is not None and not cursor.input.startswith(PARTITION):
            next_row_id = json.loads(cursor.note)["next_row_id"]
            return Position(source_uuid=cursor.input, snapshot_id=cursor.position, next_row_id=next_row_id)
    return None


def note_offset(
    commit: Commit, stream: Table, partition: int, next_offset: int, topic_id: str | None, *, expected: tuple[int, str | None] | None
) -> None:
    """Move, within a commit, the cursor in a partition from what was read, which is None if the stream has read nothing of it."""
    move = MoveCursor(
        owner=stream.uuid,
        input=f"{PARTITION}{partition}",
        expected=None if expected is None else expected[0],
        expected_note=None if expected is None else expected[1],
        position=next_offset,
        note=topic_id,
        consumer=f'the feed of stream "{stream.name}"',
        is_traced=False,
    )
    commit.also(move)


def move_position(stream: Table, reached: Position, *, expected: Position | None) -> MoveCursor:
    """The move of the cursor in a table from what was read, which is None if the stream has read nothing of it."""
    return MoveCursor(
        owner=stream.uuid,
        input=reached.source_uuid,
        expected=None if expected is None else expected.snapshot_id,
        expected_note=None if expected is None else expected.note,
        position=reached.snapshot_id,
        note=reached.note,
        consumer=f'the feed of stream "{stream.name}"',
        is_traced=False,
    )
