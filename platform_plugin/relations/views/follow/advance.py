"""Operations of a commit that let the nodes of a view consume streams, and that move their cursors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from platform_plugin.lake.cursors.move import AddCursor, MoveCursor
from platform_plugin.lake.ring.segments import read_ring

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from uuid import UUID

    from platform_plugin.lake.catalogue.tables import Table
    from platform_plugin.lake.commit.writer import Writer
    from platform_plugin.operators.group.parts import SplitPlan
    from platform_plugin.relations.follow.ranges import Range
    from platform_plugin.relations.views.record import ViewRecord


@dataclass(frozen=True, slots=True)
class AttachNode:
    """Lets a new node consume a stream from a row on."""

    node: UUID
    stream: Table
    next_row_id: int

    def apply(self, w: Writer) -> None:
        ring = read_ring(w.connection, self.stream.uuid)
        if ring.first_row_id > self.next_row_id:
            raise w.conflict(f'rows of stream "{self.stream.name}" left before the view could hold them')
        AddCursor(owner=self.node, input=self.stream.uuid, position=self.next_row_id).apply(w)


def plan_moves(name: str, record: ViewRecord, plan: SplitPlan, ranges: Mapping[str, Range]) -> Iterator[MoveCursor]:
    """The moves of a view's nodes over the ranges that its stream parts consume, by stream."""
    from platform_plugin.relations.views.follow.progress import consuming_part

    moving = {(consuming_part(plan, record, part), part.stream): None for part in plan.streams if part.stream in ranges}
    for part, stream in moving:
        taken = ranges[stream]
        yield MoveCursor(
            owner=record.parts[part],
            input=taken.stream.uuid,
            expected=taken.first_row_id,
            position=taken.next_row_id,
            consumer=f'view "{name}"',
        )
