"""Advancing: the operations of a commit by which views begin to take up streams, and go on."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa

from platform_plugin.lake.catalogue.bulk import among, chunks
from platform_plugin.lake.ring.segments import CONSUMER, read_ring
from platform_plugin.relations.views.follow.progress import note_progress
from platform_plugin.relations.views.record import PART

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Self
    from uuid import UUID

    from platform_plugin.lake.catalogue.tables import Table
    from platform_plugin.lake.commit.writer import Writer
    from platform_plugin.relations.follow.ranges import Range
    from platform_plugin.relations.views.record import ViewRecord


@dataclass(frozen=True, slots=True)
class Attach:
    """A view begins to consume a stream; what arrives from now on waits for it."""

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
    """A view begins to consume streams as far as a twin has come, whose states it shares; a conflict if that one is there no more."""

    view: UUID
    twin: UUID
    streams: tuple[Table, ...]

    def apply(self, w: Writer) -> None:
        for stream in self.streams:
            own = sa.and_(CONSUMER.c.relation_uuid == str(stream.uuid), CONSUMER.c.consumer == str(self.twin))
            found = w.connection.execute(sa.select(CONSUMER.c.next_row_id).where(own)).scalar()
            if found is None:
                raise w.conflict("the view whose states it was to share was dropped")
            _begin(w, self.view, stream, found)


def _begin(w: Writer, view: UUID, stream: Table, next_row_id: int) -> None:
    w.insert(CONSUMER, relation_uuid=str(stream.uuid), consumer=str(view), next_row_id=next_row_id)
    note_progress(w, [(str(view), str(stream.uuid), next_row_id)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Advance:
    """A view goes on from the row of a stream at which it is expected to be; who shares one of its `states` goes with it."""

    view: UUID
    stream: Table
    expected: int
    next_row_id: int
    states: frozenset[UUID] = frozenset()

    @classmethod
    def over(cls, record: ViewRecord, taken: Range) -> Self:
        """The view has taken up this range."""
        states = frozenset(record.parts[part] for part in record.states)
        return cls(view=record.uuid, stream=taken.stream, expected=taken.first_row_id, next_row_id=taken.next_row_id, states=states)


@dataclass(frozen=True, slots=True)
class Advances:
    """Views have taken up ranges of streams in this same commit; a conflict if another run has taken up any of that."""

    moves: Sequence[Advance]

    def apply(self, w: Writer) -> None:
        views = _read_sharing(w, {state for move in self.moves for state in move.states})
        moving = [({str(move.view), *(view for state in move.states for view in views[str(state)])}, move) for move in self.moves]
        reached = _read_reached(w, {view for together, _ in moving for view in together})
        noted: list[tuple[str, str, int]] = []
        for together, move in moving:
            stream = str(move.stream.uuid)
            for view in sorted(together):
                now = reached.get((view, stream))
                if now is None and view != str(move.view):
                    continue  # it was dropped, and left its states to its twins
                if now != move.expected:
                    raise w.conflict(f'another run has maintained the view on stream "{move.stream.name}" up to row {now}')
                w.update_later(CONSUMER, {"relation_uuid": stream, "consumer": view}, {"next_row_id": move.next_row_id})
                noted.append((view, stream, move.next_row_id))
        note_progress(w, noted)


def _read_sharing(w: Writer, states: Iterable[UUID]) -> dict[str, list[str]]:
    """The views, dropped ones included, that have or had each state's table."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for part in chunks(sorted(str(state) for state in states)):
        query = sa.select(PART.c.table_uuid, PART.c.view_uuid).where(among(w.connection, PART.c.table_uuid, part))
        for row in w.connection.execute(query):
            found[row.table_uuid].append(row.view_uuid)
    return found


def _read_reached(w: Writer, views: Iterable[str]) -> dict[tuple[str, str], int]:
    found: dict[tuple[str, str], int] = {}
    for part in chunks(sorted(views)):
        query = sa.select(CONSUMER.c.consumer, CONSUMER.c.relation_uuid, CONSUMER.c.next_row_id)
        for row in w.connection.execute(query.where(among(w.connection, CONSUMER.c.consumer, part))):
            found[row.consumer, row.relation_uuid] = row.next_row_id
    return found
