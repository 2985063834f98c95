"""`find_shared_results`: the stored results of static parts that a new view can share with other views."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from platform_plugin.lake.catalogue.tables import Name, View, read_tables
from platform_plugin.lake.read.last_change import has_changed
from platform_plugin.relations.views.follow.shared_states import nodes_in_use
from platform_plugin.relations.views.read.view import split_name
from platform_plugin.relations.views.record import CREATED
from platform_plugin.state.node import find_alike, has_nodes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot, Table
    from platform_plugin.operators.group.parts import SplitPlan, StaticPart


def find_shared_results(work: Workspace, plan: SplitPlan, snapshot: Snapshot, *, but: Sequence[View] = ()) -> dict[str, Table]:
    """For the static parts of a new view, tables of other views with the same result; `but` are views that are replaced."""
    found: dict[str, Table] = {}
    for part in plan.statics:
        if part.feeds is None:
            table = _find_shared(work, part, snapshot, but)
            found |= {} if table is None else {part.name: table}
    return found


def static_likeness(plan: SplitPlan) -> dict[str, str]:
    """The digests of the static parts of a plan, by part; those that feed a state have no result to share."""
    return {part.name: _digest(part) for part in plan.statics if part.feeds is None}


def _digest(part: StaticPart) -> str:
    return hashlib.sha256(part.sql().encode()).hexdigest()


def _find_shared(work: Workspace, part: StaticPart, snapshot: Snapshot, but: Sequence[View]) -> Table | None:
    with work.lake.reading() as connection:
        # What an older node has read of a table may have changed since.
        alike = find_alike(connection, _digest(part), newest_first=True) if has_nodes(connection) else []
    if not alike:
        return None
    staying = nodes_in_use(work, [node.uuid for node in alike], but=but)
    for node in alike:
        created = node.options.get(CREATED) if node.uuid in staying else None
        if created is None or _changed_since(work, part, created, snapshot):
            continue
        with work.lake.reading() as connection:
            tables = read_tables(connection, snapshot.id, uuids=[node.uuid])
        if tables:
            return tables[0]
    return None


def _changed_since(work: Workspace, part: StaticPart, created: int, snapshot: Snapshot) -> bool:
    for name in part.tables:
        with work.lake.reading() as connection:
            relation = work.lake.find_relation(connection, Name.of(split_name(name)), snapshot)
        if isinstance(relation, View) or has_changed(work.lake, relation, created, snapshot):
            return True
    return False
