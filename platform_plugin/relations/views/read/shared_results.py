"""`find_shared_results`: the stored results of static parts that a new view can share with other views."""

from __future__ import annotations

from typing import TYPE_CHECKING

from platform_plugin.errors import PlatformError
from platform_plugin.lake.catalogue.tables import Name, View
from platform_plugin.lake.read.last_change import has_changed
from platform_plugin.relations.views.plans import find_plan
from platform_plugin.relations.views.read.view import part_tables, split_name
from platform_plugin.relations.views.record import CREATED, read_records

if TYPE_CHECKING:
    from uuid import UUID

    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot, Table
    from platform_plugin.operators.group.parts import SplitPlan, StaticPart
    from platform_plugin.relations.views.record import ViewRecord


def find_shared_results(work: Workspace, plan: SplitPlan, snapshot: Snapshot, *, but: View | None) -> dict[str, Table]:
    """For the static parts of a new view, tables of other views with the same result; `but` is a view that is replaced."""
    wanted = {part.sql(): part for part in plan.statics if part.feeds is None}
    found: dict[str, Table] = {}
    with work.lake.reading() as connection:
        records = read_records(connection) if wanted else {}
    for view in work.lake.views(snapshot) if wanted else []:
        record = records.get(view.uuid)
        created = None if record is None else record.options.get(CREATED)
        if record is None or created is None or view == but:
            continue
        for other in _statics(work, record, snapshot):
            part = wanted.get(other.sql()) if other.feeds is None else None
            if part is not None and part.name not in found and not _changed_since(work, part, created, snapshot):
                found[part.name] = part_tables(work, record, snapshot)[other.name]
    return found


def _statics(work: Workspace, record: ViewRecord, snapshot: Snapshot) -> tuple[StaticPart, ...]:
    try:
        return find_plan(work, record, snapshot).statics
    except PlatformError:  # what is wrong with another view must not keep this one from being made
        return ()


def _changed_since(work: Workspace, part: StaticPart, created: int, snapshot: Snapshot) -> bool:
    for name in part.tables:
        with work.lake.reading() as connection:
            relation = work.lake.find_relation(connection, Name.of(split_name(name)), snapshot)
        if isinstance(relation, View) or has_changed(work.lake, relation, created, snapshot):
            return True
    return False


def tables_in_use(work: Workspace, snapshot: Snapshot, *, but: View) -> set[UUID]:
    """The tables that views other than `but` need."""
    with work.lake.reading() as connection:
        records = read_records(connection)
    return {
        table for view in work.lake.views(snapshot) if view.uuid in records and view != but for table in records[view.uuid].parts.values()
    }
