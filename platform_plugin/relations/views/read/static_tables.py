"""`check_static_tables`: refuses a view with `on_table_change = 'refuse'` whose tables another client has changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from platform_plugin.cache import Cache
from platform_plugin.errors import InvalidValue, UnknownObject
from platform_plugin.lake.catalogue.tables import Name, Table
from platform_plugin.lake.commit.data_operations import is_row_change
from platform_plugin.lake.read.last_change import has_changed
from platform_plugin.relations.views.record import CREATED, ON_TABLE_CHANGE, REFUSE

if TYPE_CHECKING:
    from uuid import UUID

    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot
    from platform_plugin.operators.group.parts import SplitPlan
    from platform_plugin.relations.views.record import ViewRecord

_CHANGES: Cache[tuple[UUID, UUID, int], InvalidValue | None] = Cache("changes of static tables")


def check_static_tables(work: Workspace, name: str, record: ViewRecord, plan: SplitPlan, snapshot: Snapshot) -> None:
    """Refuse to read or maintain a view that refuses changes of tables if one below its grouping has changed since its creation."""
    if record.options.get(ON_TABLE_CHANGE) != REFUSE or CREATED not in record.options:
        return
    key = (work.lake.uuid, record.uuid, snapshot.id)
    found = _CHANGES.find(key, lambda: _find_change(work, name, plan, int(record.options[CREATED]), snapshot))
    if found is not None:
        raise found


def find_changed_tables(work: Workspace, record: ViewRecord, plan: SplitPlan, snapshot: Snapshot) -> tuple[str, ...]:
    """The tables below a view's grouping that are not what they were when the view read them, told from the catalogue alone."""
    if CREATED not in record.options:
        return ()
    found = []
    for written in plan.static_tables:
        schema, _, relation = written.partition(".")
        try:
            with work.lake.reading() as connection:
                table = work.lake.find_relation(connection, Name(schema=schema, relation=relation), snapshot)
        except UnknownObject:
            found.append(written)
            continue
        if has_changed(work.lake, table, int(record.options[CREATED]), snapshot):
            found.append(written)
    return tuple(found)


def _find_change(work: Workspace, name: str, plan: SplitPlan, created: int, snapshot: Snapshot) -> InvalidValue | None:
    hint = f"REBUILD VIEW {name} reads it as it is now; a view made WITH (on_table_change = 'pin') keeps it as it was"
    for written in plan.static_tables:
        schema, _, relation = written.partition(".")
        try:
            with work.lake.reading() as connection:
                table = work.lake.find_relation(connection, Name(schema=schema, relation=relation), snapshot)
        except UnknownObject:
            return _changed(written, name, "another client has dropped or renamed it", hint)
        if not isinstance(table, Table) or not has_changed(work.lake, table, created, snapshot):
            continue
        commits = work.lake.commits(after=created, until=snapshot.id)
        by = next((found for found in commits if any(is_row_change(word, table.id or -1) for word in found.changes.split(","))), None)
        if by is not None or (table.begin_snapshot or 0) > created:
            return _changed(written, name, "another client has replaced it" if by is None else f"by {by}", hint)
        if len(commits) < snapshot.id - created:
            return _changed(written, name, "which snapshot did it has expired", hint)
    return None


def _changed(table: str, view: str, detail: str, hint: str) -> InvalidValue:
    return InvalidValue(f'table "{table}" has changed, which view "{view}" was made to refuse', detail=detail, hint=hint)
