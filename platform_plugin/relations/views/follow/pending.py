"""`PendingView` and `find_pending_views`: the views with unconsumed rows, and the stream parts that a run has to run for each."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from platform_plugin.errors import PlatformError, ServerError
from platform_plugin.relations.follow.maintained import Selection, WaitingInput
from platform_plugin.relations.views.follow.passes import ViewTask
from platform_plugin.relations.views.follow.progress import consuming_part, find_idle_cursors, read_all_progress
from platform_plugin.relations.views.follow.strategy import DEFERRED, rows_wanted, strategy_of
from platform_plugin.relations.views.plans import find_plan
from platform_plugin.relations.views.read.static_tables import check_static_tables
from platform_plugin.relations.views.read.view import part_ranges, part_tables, static_frames
from platform_plugin.relations.views.record import read_records

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot, Table
    from platform_plugin.operators.group.parts import SplitPlan, StreamPart
    from platform_plugin.relations.follow.ranges import Range
    from platform_plugin.relations.views.record import ViewRecord

KIND = "view"


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingView:
    """A view with unconsumed rows, and the views that share states which a run for it maintains.

    The plan has the stream parts that are to run: those of one range of each stream, whose states no other view of the run maintains.
    """

    name: str
    record: ViewRecord
    plan: SplitPlan
    tables: dict[str, Table]
    ranges: dict[str, Range]
    twins: tuple[str, ...] = ()
    idle_cursors: tuple[tuple[str, str], ...] = ()
    """Cursors of its states in streams that these do not read; lakes of earlier versions have them, and the run ends them."""

    @property
    def kind(self) -> str:
        """The kind of relation."""
        return KIND

    @property
    def uuid(self) -> UUID:
        """The view's identity."""
        return self.record.uuid

    @property
    def inputs(self) -> tuple[WaitingInput, ...]:
        """The ranges that it has to consume, by stream."""
        return tuple(WaitingInput(relation=stream, first=tail.first_row_id, end=tail.next_row_id) for stream, tail in self.ranges.items())

    def task(self, work: Workspace, snapshot: Snapshot) -> ViewTask:
        """Its task for Spark."""
        return ViewTask(
            name=self.name,
            uuid=self.record.uuid,
            plan=self.plan,
            tables=self.tables,
            ranges=self.ranges,
            statics=static_frames(work, self.plan, self.tables, snapshot),
            is_deferred=strategy_of(self.record) == DEFERRED,
        )


def find_pending_views(work: Workspace, snapshot: Snapshot, selection: Selection) -> tuple[list[PendingView], dict[str, PlatformError]]:
    """The selected views with rows to consume, and those that can't be maintained."""
    lake = work.lake
    with lake.reading() as connection:
        records = read_records(connection)
        progress = read_all_progress(connection, snapshot.id) if records else {}
    views = [view for view in lake.views(snapshot) if view.uuid in records]
    users: defaultdict[UUID, list[str]] = defaultdict(list)
    for view in views:
        for node in records[view.uuid].parts.values():
            users[node].append(str(view.name))
    found: list[PendingView] = []
    failed: dict[str, PlatformError] = {}
    known: dict[tuple[str, int], Range] = {}
    taken: set[UUID] = set()
    for view in views:
        if not selection.has(view.name, KIND):
            continue
        record, name = records[view.uuid], str(view.name)
        try:
            plan = find_plan(work, record, snapshot)
            nodes = {part.name: record.parts[consuming_part(plan, record, part)] for part in plan.streams}
            if taken.issuperset(nodes.values()):
                continue
            check_static_tables(work, name, record, plan, snapshot)
            tails = part_ranges(work, name, record, snapshot, plan=plan, progress=progress, known=known)
            waiting = {part: tail for part, tail in tails.items() if not tail.is_empty and nodes[part] not in taken}
            if waiting and (selection.flush or max(tail.row_count for tail in waiting.values()) >= rows_wanted(record)):
                tables = part_tables(work, record, snapshot)
                twins = {other: None for part in waiting for other in users[nodes[part]] if other != name}
                idle = find_idle_cursors(record, plan, {part: str(tail.stream.uuid) for part, tail in tails.items()}, progress)
                for ranges, parts in divide_parts(plan, waiting):
                    restricted = replace(plan, streams=parts) if len(parts) < len(plan.streams) else plan
                    found.append(
                        PendingView(
                            name=name, record=record, plan=restricted, tables=tables, ranges=ranges, twins=tuple(twins), idle_cursors=idle
                        )
                    )
                taken |= {nodes[part] for part in waiting}
        except ServerError:
            raise  # not the view's fault, and another server will do
        except PlatformError as error:
            failed[name] = error
    return found, failed


def divide_parts(plan: SplitPlan, waiting: Mapping[str, Range]) -> list[tuple[dict[str, Range], tuple[StreamPart, ...]]]:
    """The stream parts with rows, in groups with at most one range of each stream; usually all are in one group.

    A state that another view has maintained alone is further than the others.
    """
    groups: list[tuple[dict[str, Range], list[StreamPart]]] = []
    for part in plan.streams:
        if part.name in waiting:
            tail = waiting[part.name]
            group = next((group for group in groups if group[0].setdefault(part.stream, tail) is tail), None)
            if group is None:
                groups.append(group := ({part.stream: tail}, []))
            group[1].append(part)
    return [(ranges, tuple(parts)) for ranges, parts in groups]
