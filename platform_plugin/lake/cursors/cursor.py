"""The table of cursors, and how it is read: the position of an owner in an input, now and at a snapshot.

An owner is whatever consumes an input: a stored operator of a view, a sample, the feed of a stream, a session, a named consumer. An
input is a relation, or a part of a source outside the lake. A position is the next row id of a stream, the snapshot of a table up to
which its changes were consumed, or the next offset of a source. A row counts from `snapshot_id` up to but not including
`end_snapshot`; the present one has no end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from platform_plugin.lake.catalogue import catalogue as c
from platform_plugin.lake.catalogue.bulk import is_among, split_chunks
from platform_plugin.lake.catalogue.snapshots import snapshot_times
from platform_plugin.lake.migrations.cursors import VERSION, former_cursors
from platform_plugin.lake.migrations.version import read_version

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from uuid import UUID

    from sqlalchemy.engine import Connection

CURSOR = sa.Table(
    "platform_cursor",
    c.metadata,
    sa.Column("owner", sa.String, primary_key=True),
    sa.Column("input", sa.String, primary_key=True),
    sa.Column("snapshot_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("end_snapshot", sa.BigInteger),
    sa.Column("position", sa.BigInteger, nullable=False),
    sa.Column("note", sa.String),
    # Rows of the past are many more than those of the present, so nobody may have to read them to find the others.
    sa.Index("platform_cursor_by_input", "end_snapshot", "input", "owner"),
    sa.Index("platform_cursor_by_owner", "end_snapshot", "owner"),
)
CURSOR_TABLES = (CURSOR,)


@dataclass(frozen=True, slots=True, kw_only=True)
class InputCursor:
    """An owner's position in an input since a snapshot; `note` is what else the owner has to know, such as the identity of a topic."""

    owner: str
    input: str
    position: int
    since: int
    note: str | None = None


def has_cursors(connection: Connection) -> bool:
    """Whether the catalogue has the table of cursors, which comes with the first consumer."""
    return read_version(connection) < VERSION or sa.inspect(connection).has_table(CURSOR.name)


def _rows(connection: Connection) -> sa.FromClause:
    """The table; of a lake that nobody has written to since an earlier version, what stands for it there."""
    return CURSOR if read_version(connection) >= VERSION else former_cursors(connection)


def find_cursor(connection: Connection, owner: UUID | str, input_: UUID | str) -> InputCursor | None:
    """The present cursor of an owner in an input, or None if it does not consume it."""
    query = _PRESENT if read_version(connection) >= VERSION else _plan_present(former_cursors(connection))
    row = connection.execute(query, {"whose": str(owner), "of": str(input_)}).first()
    return None if row is None else _cursor(str(owner), str(input_), row)


def read_cursor(connection: Connection, owner: UUID | str, input_: UUID | str) -> int | None:
    """The present position of an owner in an input, or None if it does not consume it."""
    found = find_cursor(connection, owner, input_)
    return None if found is None else found.position


def read_cursors(connection: Connection, owners: Iterable[UUID | str]) -> dict[tuple[str, str], InputCursor]:
    """The present cursors of owners, by owner and input."""
    t = _rows(connection).c
    query = sa.select(t.owner, t.input, t.position, t.snapshot_id, t.note).where(t.end_snapshot.is_(None))
    return {
        (row.owner, row.input): _cursor(row.owner, row.input, row)
        for part in split_chunks(sorted({str(owner) for owner in owners}))
        for row in connection.execute(query.where(is_among(connection, t.owner, part)))
    }


def _cursor(owner: str, input_: str, row: Any) -> InputCursor:
    return InputCursor(owner=owner, input=input_, position=row.position, since=row.snapshot_id, note=row.note)


def read_owners(connection: Connection, input_: UUID | str) -> dict[str, int]:
    """The owners with a present cursor in an input, each with its position."""
    query = _OWNERS if read_version(connection) >= VERSION else _plan_owners(former_cursors(connection))
    return {row.owner: row.position for row in connection.execute(query, {"of": str(input_)})}


def read_lowest(connection: Connection, input_: UUID | str) -> int | None:
    """The lowest present position in an input, or None if nobody consumes it."""
    return min(read_owners(connection, input_).values(), default=None)


def read_cursors_at(connection: Connection, snapshot_id: int, owners: Iterable[UUID | str] | None = None) -> dict[str, dict[str, int]]:
    """The positions at a snapshot of all owners, or of these, by owner and input."""
    t = _rows(connection).c
    found: dict[str, dict[str, int]] = {}
    parts = [None] if owners is None else split_chunks(sorted({str(owner) for owner in owners}))
    for part in parts:
        own = [] if part is None else [is_among(connection, t.owner, part)]
        query = sa.select(t.owner, t.input, t.position).where(t.snapshot_id <= snapshot_id, *own)
        # Two queries in one, each of which has an index; a condition with OR has none.
        both = sa.union_all(query.where(t.end_snapshot.is_(None)), query.where(t.end_snapshot > snapshot_id))
        for row in connection.execute(both):
            found.setdefault(row.owner, {})[row.input] = row.position
    return found


def read_last_moves(connection: Connection) -> dict[str, int]:
    """The snapshot at which each owner's cursor moved last or was made."""
    t = _rows(connection).c
    newest = sa.select(t.owner, sa.func.max(t.snapshot_id)).where(t.end_snapshot.is_(None)).group_by(t.owner)
    return {owner: int(snapshot_id) for owner, snapshot_id in connection.execute(newest)}


def read_moves(connection: Connection) -> Sequence[c.AnyRow]:
    """Owner, input, time and position of every move that is still recorded, in the order of snapshots."""
    t, times = _rows(connection).c, snapshot_times()
    query = sa.select(t.owner, t.input, times.c.snapshot_time, t.position)
    return connection.execute(query.join(times, times.c.snapshot_id == t.snapshot_id).order_by(t.snapshot_id)).all()


def present_cursors(input_: sa.ColumnElement[str] | None = None, connection: Connection | None = None) -> sa.Subquery:
    """Owner, input and position of the present cursors, all or those in one input, to be joined with other rows.

    Who may meet a lake of an earlier version, because nothing is written, gives the `connection`.
    """
    t = (CURSOR if connection is None else _rows(connection)).c
    query = sa.select(t.owner, t.input, t.position).where(t.end_snapshot.is_(None))
    return (query if input_ is None else query.where(t.input == input_)).subquery()


def _plan_present(rows: sa.FromClause = CURSOR) -> sa.Select[Any]:
    t = rows.c
    own = t.owner == sa.bindparam("whose", type_=sa.String), t.input == sa.bindparam("of", type_=sa.String)
    return sa.select(t.position, t.snapshot_id, t.note).where(*own, t.end_snapshot.is_(None))


def _plan_owners(rows: sa.FromClause = CURSOR) -> sa.Select[Any]:
    t = rows.c
    return sa.select(t.owner, t.position).where(t.input == sa.bindparam("of", type_=sa.String), t.end_snapshot.is_(None))


# Made once: to put a statement together takes longer than to run it.
_PRESENT, _OWNERS = _plan_present(), _plan_owners()
