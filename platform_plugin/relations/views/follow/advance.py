"""Operations of a commit that attach views to streams and move their cursors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from platform_plugin.lake.ring.consumers import add_consumer, move_cursor, read_cursor, read_cursors
from platform_plugin.lake.ring.segments import read_ring
from platform_plugin.relations.views.follow.progress import note_progress
from platform_plugin.relations.views.record import read_sharing

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self
    from uuid import UUID

    from platform_plugin.lake.catalogue.tables import Table
    from platform_plugin.lake.commit.writer import Writer
    from platform_plugin.relations.follow.ranges import Range
    from platform_plugin.relations.views.record import ViewRecord


@dataclass(frozen=True, slots=True)
class AttachView:
    """Lets a view consume a stream from a row on."""

    view: UUID
    stream: Table
    next_row_id: int

    def apply(self, w: Writer) -> None:
        ring = read_ring(w.connection, self.stream.uuid)
        if ring.first_row_id > self.next_row_id:
            raise w.conflict(f'rows of stream "{self.stream.name}" left before the view could hold them')
        _begin(w, self.view, self.stream, self.next_row_id)


@dataclass(frozen=True, slots=True)
class AttachBeside:
    """Gives a view the cursors of a view whose states it shares; a conflict if that view was dropped."""

    view: UUID
    twin: UUID
    streams: tuple[Table, ...]

    def apply(self, w: Writer) -> None:
        w.flush()  # the other one may be of the same commit
        for stream in self.streams:
            found = read_cursor(w.connection, stream.uuid, self.twin)
            if found is None:
                raise w.conflict("the view whose states it was to share was dropped")
            _begin(w, self.view, stream, found)


def _begin(w: Writer, view: UUID, stream: Table, next_row_id: int) -> None:
    add_consumer(w, stream.uuid, view, next_row_id)
    note_progress(w, [(str(view), str(stream.uuid), next_row_id)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Advance:
    """Moves a view's cursor from an expected row; views that share one of its `states` move with it."""

    view: UUID
    stream: Table
    expected: int
    next_row_id: int
    states: frozenset[UUID] = frozenset()

    @classmethod
    def over(cls, record: ViewRecord, taken: Range) -> Self:
        """The move of a view over this range."""
        states = frozenset(record.parts[part] for part in record.states)
        return cls(view=record.uuid, stream=taken.stream, expected=taken.first_row_id, next_row_id=taken.next_row_id, states=states)


@dataclass(frozen=True, slots=True)
class Advances:
    """Moves the cursors of views over ranges; a conflict if another run has consumed any of these."""

    moves: Sequence[Advance]

    def apply(self, w: Writer) -> None:
        views = read_sharing(w.connection, {state for move in self.moves for state in move.states})
        moving = [({str(move.view), *(view for state in move.states for view in views[str(state)])}, move) for move in self.moves]
        reached = read_cursors(w.connection, {view for together, _ in moving for view in together})
        noted: list[tuple[str, str, int]] = []
        for together, move in moving:
            stream = str(move.stream.uuid)
            for view in sorted(together):
                now = reached.get((view, stream))
                if now is None and view != str(move.view):
                    continue  # it was dropped, and left its states to its twins
                if now != move.expected:
                    raise w.conflict(f'another run has maintained the view on stream "{move.stream.name}" up to row {now}')
                move_cursor(w, stream, view, move.next_row_id)
                noted.append((view, stream, move.next_row_id))
        note_progress(w, noted)
