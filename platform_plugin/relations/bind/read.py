"""Reading what a query names: every relation, views included, becomes a DataFrame at one snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from platform_plugin.errors import InvalidValue
from platform_plugin.lake.catalogue.relations import read_streams
from platform_plugin.lake.catalogue.tables import Name
from platform_plugin.language.query.staleness import read_duration
from platform_plugin.relations.arguments import cell_value
from platform_plugin.relations.bind.names import lake_name, place_errors
from platform_plugin.relations.bind.resolve import Resolver
from platform_plugin.relations.kinds import find_kind
from platform_plugin.relations.reading import ReadContext, ReadRequest
from platform_plugin.relations.versions.changes import read_changed
from platform_plugin.relations.versions.passed import read_passed

if TYPE_CHECKING:
    from datetime import timedelta

    from pyspark.sql import DataFrame

    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot
    from platform_plugin.language.query.plan import QueryPlan
    from platform_plugin.language.query.query import Query
    from platform_plugin.language.query.references import Reference
    from platform_plugin.relations.arguments import Arguments
    from platform_plugin.relations.reading import RelationRows


def read_reference(reading: ReadContext, reference: Reference, resolver: Resolver, need: ReadRequest) -> RelationRows:
    """The rows of one relation that a query names."""
    with place_errors(reference.span):
        if reference.session is not None:
            raise InvalidValue("a session can't be read here", hint="read SESSION(…) in a SELECT of its own, not in a view or a statement")
        if reference.travel is not None and reference.travel.passed:
            return read_passed(reading, lake_name(reference.name), resolver.snapshot, need)
        relation, moment, changed = resolver(reference)
        if changed is not None:
            return read_changed(reading, changed, need)
        return find_kind(reading.work.lake, relation, moment).read(reading, relation, moment, need)


def read_named(work: Workspace, name: tuple[str, str], snapshot: Snapshot) -> DataFrame:
    """All rows of one relation at a snapshot."""
    with work.lake.reading() as connection:
        reading = ReadContext(work, snapshot, read_streams(connection))
    return read_part(reading, name, snapshot, ())


def read_part(reading: ReadContext, name: tuple[str, str], snapshot: Snapshot, within: tuple[Name, ...]) -> DataFrame:
    """All rows of one relation, read for another query and counted in `reading`."""
    lake = reading.work.lake
    with lake.reading() as connection:
        relation = lake.find_relation(connection, Name.of(name), snapshot)
    return find_kind(lake, relation, snapshot).read(reading, relation, snapshot, ReadRequest(within=within)).frame


def find_streams(reading: ReadContext, query: Query) -> None:
    """Note which relations are streams; only joins want to know."""
    if reading.streams is None and len(query.relations) > 1:
        with reading.work.lake.reading() as connection:
            reading.streams = read_streams(connection)


def request_rows(plan: QueryPlan, query: Query, reference: Reference, arguments: Arguments, within: tuple[Name, ...]) -> ReadRequest:
    """What a query needs of one of its relations."""
    return ReadRequest(
        columns=plan.columns_of(query, reference),
        formula=plan.formula_of(reference, arguments),
        conditions=plan.conditions_of(reference),
        arguments=arguments,
        staleness=_staleness(reference, arguments),
        within=within,
    )


def read_beside_sessions(
    work: Workspace, query: Query, plan: QueryPlan, snapshot: Snapshot, arguments: Arguments
) -> dict[Reference, RelationRows]:
    """The relations that a query reads besides its sessions, each as a DataFrame at the snapshot."""
    reading, resolver = ReadContext(work, snapshot), Resolver(work, snapshot, arguments)
    find_streams(reading, query)
    return {
        reference: read_reference(reading, reference, resolver, request_rows(plan, query, reference, arguments, ()))
        for reference in query.relations
        if reference.session is None
    }


def _staleness(reference: Reference, arguments: Arguments) -> timedelta | None:
    """By how much what is read of a view may be behind."""
    if reference.travel is None or reference.travel.staleness is None:
        return None
    return read_duration(cell_value(reference.travel.staleness, arguments))
