"""`AddCursor` and `MoveCursor`: the operations of a commit that let an owner consume an input, and that say how far it has come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa

from platform_plugin.lake.catalogue.forgotten import is_forgotten
from platform_plugin.lake.cursors.cursor import CURSOR, find_cursor, read_cursors

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from uuid import UUID

    from sqlalchemy.engine import Connection

    from platform_plugin.lake.catalogue.forgotten import Folding
    from platform_plugin.lake.commit.writer import Writer
    from platform_plugin.lake.cursors.cursor import InputCursor

BEFORE_ALL = -1
"""The snapshot from which the cursor of a reader counts, which no commit makes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddCursor:
    """Lets an owner consume an input from a position on."""

    owner: UUID | str
    input: UUID | str
    position: int
    note: str | None = None

    def apply(self, w: Writer) -> None:
        row = {"owner": str(self.owner), "input": str(self.input), "position": self.position, "note": self.note}
        w.insert(CURSOR, snapshot_id=w.id, end_snapshot=None, **row)


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveCursor:
    """Moves an owner's cursor in an input from the position that was read; a conflict if it is somewhere else by now.

    With `expected` None the cursor is new; the note is expected to be as it was read, too. `consumer` names the owner in the error.
    Positions at older snapshots stay known where `is_traced`; a feed, which nobody asks for them, has one row.
    """

    owner: UUID | str
    input: UUID | str
    expected: int | None
    position: int
    consumer: str
    note: str | None = None
    expected_note: str | None = None
    is_traced: bool = True

    @property
    def read(self) -> tuple[int, str | None] | None:
        """Position and note as they were read."""
        return None if self.expected is None else (self.expected, self.expected_note)

    def apply(self, w: Writer) -> None:
        MoveCursors((self,)).apply(w)


@dataclass(frozen=True, slots=True)
class MoveCursors:
    """Several moves of one commit, checked with one query and sent together."""

    moves: Sequence[MoveCursor]

    def apply(self, w: Writer) -> None:
        w.flush()  # one of them may be new in this commit
        present = read_cursors(w.connection, {move.owner for move in self.moves})
        traced: list[MoveCursor] = []
        ended: list[InputCursor] = []
        for move in self.moves:
            found = present.get((str(move.owner), str(move.input)))
            if (None if found is None else (found.position, found.note)) != move.read:
                where = "was dropped" if found is None else f"has consumed its input up to {found.position}"
                raise w.conflict(f"{move.consumer} {where} meanwhile")
            if found is None:
                AddCursor(owner=move.owner, input=move.input, position=move.position, note=move.note).apply(w)
            elif move.is_traced:
                traced.append(move)
                ended.append(found)
            else:
                w.connection.execute(_MOVE, _values(move.owner, move.input, move.position) | {"noted": move.note})
        if traced:
            end_rows(w, ended)
            for move in traced:
                AddCursor(owner=move.owner, input=move.input, position=move.position, note=move.note).apply(w)


@dataclass(frozen=True, slots=True)
class EndCursors:
    """Ends cursors, each by its owner and input, that nothing consumes by."""

    cursors: Sequence[tuple[str, str]]

    def apply(self, w: Writer) -> None:
        w.flush()
        if self.cursors:
            present = read_cursors(w.connection, {owner for owner, _ in self.cursors})
            end_rows(w, [present[key] for key in self.cursors if key in present])


def end_rows(w: Writer, cursors: Iterable[InputCursor]) -> None:
    """End present cursors with this snapshot; those that this snapshot has made go without a trace."""
    keys: dict[bool, list[dict[str, object]]] = {True: [], False: []}
    for cursor in cursors:
        keys[cursor.since == w.id].append({"whose": cursor.owner, "of": cursor.input, "now": w.id})
    for is_new, statement in ((True, _FORGET_NEW), (False, _END)):
        if keys[is_new]:
            w.connection.execute(statement, keys[is_new])


def move_present(w: Writer, input_: UUID | str, positions: Mapping[str, int]) -> None:
    """Move the cursors of several owners in one input within a commit; where they were before is not recorded."""
    if positions:
        w.connection.execute(_ADVANCE, [_values(owner, input_, position) for owner, position in positions.items()])


def end_cursors(w: Writer, owner: UUID | str) -> None:
    """End all cursors of an owner within a commit, so that no input keeps rows for it; where they were stays known to older snapshots."""
    w.flush()
    end_rows(w, read_cursors(w.connection, [owner]).values())


def forget_cursors(w: Writer, owner: UUID | str) -> None:
    """Delete all cursors of an owner within a commit, its past ones included."""
    w.connection.execute(sa.delete(CURSOR).where(CURSOR.c.owner == str(owner)))


def write_reader(connection: Connection, reader: str, input_: UUID | str, position: int | None) -> None:
    """Write the cursor of a reader outside of commits; None removes it."""
    if position is None:
        connection.execute(sa.delete(CURSOR).where(CURSOR.c.owner == reader))
    elif find_cursor(connection, reader, input_) is None:
        row = {"owner": reader, "input": str(input_), "snapshot_id": BEFORE_ALL, "position": position}
        connection.execute(sa.insert(CURSOR).values(**row))
    else:
        connection.execute(_ADVANCE, [_values(reader, input_, position)])


def fold_cursors(rows: Folding) -> int:
    """Delete the rows that ended at or before the oldest snapshot that is kept; returns how many there were."""
    return rows.delete(CURSOR, CURSOR.c.end_snapshot <= rows.oldest)


def fold_lost_cursors(rows: Folding) -> int:
    """Delete the cursors in relations that no kept snapshot has: another client that drops a relation ends no cursor in it."""
    is_relation = CURSOR.c.input.like("________-____-____-____-____________")
    return rows.delete(CURSOR, is_relation, is_forgotten(CURSOR.c.input))


def _values(owner: UUID | str, input_: UUID | str, position: int) -> dict[str, object]:
    return {"whose": str(owner), "of": str(input_), "reached": position}


def _present_row() -> tuple[sa.ColumnElement[bool], ...]:
    # A parameter with a column's own name would be its new value.
    t = CURSOR.c
    own = t.owner == sa.bindparam("whose", type_=sa.String), t.input == sa.bindparam("of", type_=sa.String)
    return (*own, t.end_snapshot.is_(None))


_NOW, _REACHED = sa.bindparam("now", type_=sa.BigInteger), sa.bindparam("reached", type_=sa.BigInteger)
# Made once: to put a statement together takes longer than to run it.
_END = sa.update(CURSOR).where(*_present_row()).values(end_snapshot=_NOW)
_FORGET_NEW = sa.delete(CURSOR).where(*_present_row(), CURSOR.c.snapshot_id == _NOW)
_ADVANCE = sa.update(CURSOR).where(*_present_row()).values(position=_REACHED)
_MOVE = sa.update(CURSOR).where(*_present_row()).values(position=_REACHED, note=sa.bindparam("noted", type_=sa.String))
