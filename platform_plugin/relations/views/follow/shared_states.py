"""Shared states: views with equal parts, from the same row of their streams on, share their state tables.

Such a view costs its own result and nothing else: no rows are grouped or written for it, and its cursor moves with the others'.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from platform_plugin.algebra.plan.render import render
from platform_plugin.algebra.plan.traversal import number_aliases
from platform_plugin.errors import PlatformError
from platform_plugin.lake.catalogue.tables import read_views
from platform_plugin.operators.group.sharing import rename_static_results
from platform_plugin.relations.views.follow.strategy import SPLIT
from platform_plugin.relations.views.read.view import part_tables
from platform_plugin.relations.views.record import ON_TABLE_CHANGE, REFUSE, has_sharer, read_alike, read_records

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from uuid import UUID

    from platform_plugin.algebra.types.data_types import Field
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot, Table, View
    from platform_plugin.lake.commit.writer import Writer
    from platform_plugin.operators.group.parts import SplitPlan
    from platform_plugin.relations.views.record import ViewRecord

SAME = "same"
"""The option that stores a view's sharing key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSharer:
    """A view whose states can be shared, with the tables of its states by name."""

    uuid: UUID
    name: str
    states: Mapping[str, Table]


def sharing_key(plan: SplitPlan, statics: Mapping[str, Table], options: Mapping[str, object]) -> str | None:
    """The text that views with shared states have in common; None for a view that shares with none.

    Views with strategies or promises of their own share nothing, and neither do those that begin with rows of tables.
    """
    looked_up = {static.name for static in plan.statics if static.feeds is None}
    if options.get("maintenance", SPLIT) != SPLIT or options.get(ON_TABLE_CHANGE) == REFUSE or len(looked_up) < len(plan.statics):
        return None
    if not looked_up <= statics.keys():
        return None
    names = {name: f"static_{statics[name].uuid.hex}" for name in looked_up}
    lines = [
        f"{part.state} {part.stream} {part.row_id} {render(number_aliases(rename_static_results(part.query, names)), {})}"
        for part in plan.streams
    ]
    lines += [f"{state.name} {[column.name for column in state.columns]} {state.merge_sql()}" for state in plan.states]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def find_twin(
    work: Workspace,
    same: str | None,
    begins: Mapping[str, int],
    snapshot: Snapshot,
    *,
    fields: Mapping[str, tuple[Field, ...]],
    but: Sequence[View] = (),
) -> StateSharer | None:
    """A view whose states a new view can share, given the rows at which it begins and the columns of its parts."""
    for view, record in find_sharers(work, same, begins, snapshot, but=but):
        try:
            tables = part_tables(work, record, snapshot)
        except PlatformError:  # what is wrong with another view must not keep this one from being made
            continue
        states = {part: tables[part] for part in record.states}
        if all(_shape(table.fields) == _shape(fields[part]) for part, table in states.items()):
            return StateSharer(uuid=view.uuid, name=str(view.name), states=states)
    return None


def find_sharers(
    work: Workspace, same: str | None, begins: Mapping[str, int], snapshot: Snapshot, *, but: Sequence[View] = ()
) -> Iterator[tuple[View, ViewRecord]]:
    """The views with this sharing key that begin at the same rows."""
    if same is None:
        return
    with work.lake.reading() as connection:
        alike = [uuid for uuid, _ in read_alike(connection, state_likeness(same, begins))]
        records = read_records(connection, only=alike) if alike else {}
        views = {view.uuid: view for view in read_views(connection, snapshot.id, uuids=alike)} if alike else {}
    for uuid in alike:
        view, record = views.get(uuid), records.get(uuid)
        if view is not None and record is not None and view not in but:
            yield view, record


def state_likeness(same: str, begins: Mapping[str, int]) -> str:
    """The digest of a view's states: its sharing key, and the rows at which it begins."""
    return hashlib.sha256(f"{same} {sorted(begins.items())}".encode()).hexdigest()


def find_twins(work: Workspace, record: ViewRecord, snapshot: Snapshot) -> list[str]:
    """The names of the views that share a view's states."""
    with work.lake.reading() as connection:
        records = read_records(connection)
    own = {record.parts[part] for part in record.states}
    others = [view for view in work.lake.views(snapshot) if view.uuid in records and view.uuid != record.uuid]
    return [str(view.name) for view in others if own & {records[view.uuid].parts[part] for part in records[view.uuid].states}]


def _shape(fields: tuple[Field, ...]) -> list[tuple[str, object]]:
    return [(field.name, field.type) for field in fields]


def find_sharing(records: Mapping[UUID, ViewRecord]) -> dict[UUID, frozenset[UUID]]:
    """The tables of every view's states; views with the same ones share them."""
    return {uuid: frozenset(record.parts[part] for part in record.states) for uuid, record in records.items()}


@dataclass(frozen=True, slots=True)
class DropStates:
    """Drops the tables of a dropped view; a conflict if another view has come to share them meanwhile."""

    view: UUID
    tables: tuple[Table, ...]

    def apply(self, w: Writer) -> None:
        if has_sharer(w.connection, [table.uuid for table in self.tables], but=self.view):
            raise w.conflict("another view shares states with the one that is dropped")
