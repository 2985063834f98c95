"""`Resolver`: finds the relations that a query names, at the snapshots at which it reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from platform_plugin.language.query.plan import NotPlanned
from platform_plugin.relations.arguments import cell_value
from platform_plugin.relations.bind.names import lake_name, place_errors
from platform_plugin.relations.versions.changes import ChangedRelation, find_changed
from platform_plugin.relations.versions.travel import find_version, read_moment

if TYPE_CHECKING:
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot, Table, View
    from platform_plugin.lake.lake import Lake
    from platform_plugin.language.query.references import Reference
    from platform_plugin.relations.arguments import Arguments


class ResolvedRelation(NamedTuple):
    """A relation that a query names, at the snapshot at which it is read there, or the range whose changes are read."""

    relation: Table | View
    snapshot: Snapshot
    changes: ChangedRelation | None = None


class Resolver:
    """Finds the relations of references at the snapshots at which they are read, each once."""

    def __init__(self, work: Workspace, snapshot: Snapshot, arguments: Arguments = ()) -> None:
        self.work = work
        self.snapshot = snapshot
        self._arguments = arguments
        self._resolved: dict[Reference, ResolvedRelation] = {}

    def __call__(self, reference: Reference) -> ResolvedRelation:
        """The relation of a reference."""
        if reference not in self._resolved:
            if reference.travel is not None and reference.travel.passed:
                raise NotPlanned("a version that passed a gate has columns of its own")
            lake = self.work.lake
            if reference.changes is not None:
                with place_errors(reference.changes.span):
                    changed = find_changed(lake, lake_name(reference.name), reference.changes, self.snapshot, self._arguments)
                self._resolved[reference] = ResolvedRelation(changed.table, changed.until, changed)
                return self._resolved[reference]
            moment = _travelled(lake, reference, self.snapshot, self._arguments)
            with lake.reading() as connection:
                relation = lake.find_relation(connection, lake_name(reference.name), moment)
            self._resolved[reference] = ResolvedRelation(relation, moment)
        return self._resolved[reference]


def _travelled(lake: Lake, reference: Reference, snapshot: Snapshot, arguments: Arguments) -> Snapshot:
    travel = reference.travel
    if travel is None or travel.staleness is not None:
        return snapshot
    if travel.version is not None:
        return find_version(lake, cell_value(travel.version, arguments))
    return lake.snapshot(at=read_moment(cell_value(travel.timestamp, arguments)))
