"""`Resolver`: finds the relations that a query names, at the snapshots at which it reads them."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, NamedTuple

from platform_plugin.errors import InvalidValue
from platform_plugin.language.query.plan import NotPlanned
from platform_plugin.relations.arguments import cell_value
from platform_plugin.relations.bind.names import lake_name

if TYPE_CHECKING:
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot, Table, View
    from platform_plugin.lake.lake import Lake
    from platform_plugin.language.query.references import Reference
    from platform_plugin.relations.arguments import Arguments


class ResolvedRelation(NamedTuple):
    """A relation that a query names, at the snapshot at which it is read there."""

    relation: Table | View
    snapshot: Snapshot


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
        version = cell_value(travel.version, arguments)
        if isinstance(version, bool) or not isinstance(version, int) or abs(version) >= 1 << 63:
            raise InvalidValue(f"{version!r} is not a snapshot's number", hint="write AT (VERSION => 3)")
        return lake.snapshot(version)
    moment = cell_value(travel.timestamp, arguments)
    return lake.snapshot(at=_moment(moment))


def _moment(value: object) -> datetime:
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError as error:
            raise InvalidValue(f'"{value}" is not a time', hint="write AT (TIMESTAMP => '2026-01-31 12:00:00')") from error
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    raise InvalidValue(f"{value!r} is not a time", hint="write AT (TIMESTAMP => '2026-01-31 12:00:00')")
