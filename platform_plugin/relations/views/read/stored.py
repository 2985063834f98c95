"""Stored results of views, which are served until something that the view reads has changed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from platform_plugin.cache import Cache
from platform_plugin.errors import InvalidValue
from platform_plugin.lake.catalogue.tables import Name, View, read_snapshot, read_tables
from platform_plugin.lake.read.last_change import has_changed
from platform_plugin.relations.kinds import find_kind
from platform_plugin.relations.lookups import RecentResult
from platform_plugin.relations.reading import Dependency, UnknownDependency
from platform_plugin.relations.views.plans import find_plan
from platform_plugin.relations.views.read.static_tables import check_static_tables
from platform_plugin.relations.views.read.view import split_name
from platform_plugin.relations.views.record import RESULT_PART, read_records, read_result

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import timedelta
    from uuid import UUID

    from sqlalchemy.engine import Connection

    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot, Table
    from platform_plugin.relations.views.record import ViewRecord


def find_stored(work: Workspace, view: View, snapshot: Snapshot) -> Table | None:
    """The table with a view's answer at a snapshot, or None if the view must be computed."""
    return _RESULTS.find((work.lake.uuid, view.uuid, snapshot.id), lambda: _find(work, view, snapshot))


def find_recent(work: Workspace, view: View, snapshot: Snapshot, staleness: timedelta) -> RecentResult | None:
    """The stored result of a view, if it is no older than `staleness`."""
    lake = work.lake
    with lake.reading() as connection:
        record = read_records(connection, only=view.uuid).get(view.uuid)
        of = _newest(connection, record, snapshot)
        answered = None if of is None else read_snapshot(connection, id=of)
        if record is None or answered is None or answered.time < datetime.now(UTC) - staleness:
            return None
        tables = read_tables(connection, snapshot.id, uuids=[record.parts[RESULT_PART]])
    return RecentResult(table=tables[0], snapshot=answered) if tables else None


def _newest(connection: Connection, record: ViewRecord | None, snapshot: Snapshot) -> int | None:
    """The snapshot that a view's stored result is the answer at, as of another."""
    if record is None or RESULT_PART not in record.parts:
        return None
    return read_result(connection, record, snapshot.id)


# What was found for a view at a snapshot holds for ever.
_RESULTS: Cache[tuple[UUID, UUID, int], Table | None] = Cache("stored results of views", weigh=lambda table: 0 if table is None else 4_000)


def _find(work: Workspace, view: View, snapshot: Snapshot) -> Table | None:
    with work.lake.reading() as connection:
        record = read_records(connection, only=view.uuid).get(view.uuid)
        of = _newest(connection, record, snapshot)
        if record is None or of is None:
            return None
    inputs = find_inputs(work, record, snapshot)
    if inputs is None or any(has_changed(work.lake, table, of, snapshot, appends_only=appends_only) for table, appends_only in inputs):
        return None
    try:
        check_static_tables(work, str(view.name), record, find_plan(work, record, snapshot), snapshot)
    except InvalidValue:
        return None  # told by who asks for the answer
    with work.lake.reading() as connection:
        found = read_tables(connection, snapshot.id, uuids=[record.parts[RESULT_PART]])
    return found[0] if found else None


def _inputs(work: Workspace, record: ViewRecord, snapshot: Snapshot) -> Iterator[Dependency]:
    """All that a view's answer depends on: streams, of which only appends count, and tables, of which every change does."""
    plan = find_plan(work, record, snapshot)
    for stream in plan.stream_names:
        yield Dependency(work.lake.table(split_name(stream), snapshot), appends_only=True)
    for name in plan.upper_tables:
        with work.lake.reading() as connection:
            relation = work.lake.find_relation(connection, Name.of(split_name(name)), snapshot)
        yield Dependency(relation, appends_only=False)
        yield from find_kind(work.lake, relation, snapshot).dependencies(work, relation, snapshot)


def find_dependencies(work: Workspace, view: View, snapshot: Snapshot) -> Iterator[Dependency]:
    """The relations that a continuous view's answer depends on; those of another view are not known."""
    with work.lake.reading() as connection:
        record = read_records(connection, only=view.uuid).get(view.uuid)
    if record is None or find_plan(work, record, snapshot).volatile:
        raise UnknownDependency
    yield from _inputs(work, record, snapshot)


def find_inputs(work: Workspace, record: ViewRecord, snapshot: Snapshot) -> list[Dependency] | None:
    """The relations that a view's answer depends on, each with whether only appends count; None if the time or chance counts too.

    For other views that it reads, their own dependencies count, and whether their definitions are the same.
    """
    if find_plan(work, record, snapshot).volatile:
        return None
    try:
        return list(_inputs(work, record, snapshot))
    except UnknownDependency:
        return None
