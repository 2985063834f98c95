"""Shared states: views with an equal part, from the same row of their streams on, use one node for its state.

Such a view costs its own result and nothing else: no rows are grouped or written for it, and the node's cursor is its own.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from platform_plugin.algebra.plan.render import render
from platform_plugin.algebra.plan.traversal import number_aliases
from platform_plugin.lake.catalogue.tables import read_tables
from platform_plugin.operators.group.sharing import rename_static_results
from platform_plugin.relations.views.follow.strategy import SPLIT
from platform_plugin.relations.views.record import ON_TABLE_CHANGE, REFUSE
from platform_plugin.state.node import find_alike, read_users

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from uuid import UUID

    from platform_plugin.algebra.types.data_types import Field
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot, Table, View
    from platform_plugin.operators.group.parts import SplitPlan, State
    from platform_plugin.relations.views.record import ViewRecord


def state_likeness(
    plan: SplitPlan, statics: Mapping[str, Table], options: Mapping[str, object], begins: Mapping[str, tuple[str, int]]
) -> dict[str, str]:
    """The likeness of the states that other views can share, by state.

    `begins` has the identity of each stream and the first row that the view covers, and `statics` the tables of static parts. Views with
    strategies or promises of their own share nothing, and neither do states that begin with rows of tables.
    """
    if options.get("maintenance", SPLIT) != SPLIT or options.get(ON_TABLE_CHANGE) == REFUSE:
        return {}
    fed = {static.feeds for static in plan.statics if static.feeds is not None}
    found = {}
    for state in plan.states:
        looked_up = {static for part in plan.streams if part.state == state.name for static in part.statics}
        if state.name not in fed and looked_up <= statics.keys():
            found[state.name] = _digest(plan, state, {name: f"static_{statics[name].uuid.hex}" for name in looked_up}, begins)
    return found


def _digest(plan: SplitPlan, state: State, statics: Mapping[str, str], begins: Mapping[str, tuple[str, int]]) -> str:
    lines = [
        f"{begins[part.stream]} {part.row_id} {render(number_aliases(rename_static_results(part.query, statics)), {})}"
        for part in plan.streams
        if part.state == state.name
    ]
    lines.append(f"{[column.name for column in state.columns]} {state.merge_sql()}")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def find_shared_states(
    work: Workspace,
    likeness: Mapping[str, str],
    snapshot: Snapshot,
    *,
    fields: Mapping[str, tuple[Field, ...]],
    but: Collection[View] = (),
) -> dict[str, Table]:
    """For the states of a new view, tables of nodes with the same likeness and columns; `but` are views that are replaced."""
    leaving = {view.uuid for view in but}
    found: dict[str, Table] = {}
    with work.lake.reading() as connection:
        for state, digest in likeness.items():
            nodes = [node.uuid for node in find_alike(connection, digest)]
            users = read_users(connection, nodes) if nodes else {}
            staying = [node for node in nodes if set(users.get(node, ())) - leaving]
            tables = read_tables(connection, snapshot.id, uuids=staying) if staying else []
            same = (table for table in tables if _shape(table.fields) == _shape(fields[state]))
            found |= {state: table} if (table := next(same, None)) is not None else {}
    return found


def find_sharers(work: Workspace, likeness: Mapping[str, str], snapshot: Snapshot) -> list[str]:
    """The names of views that have a state with one of these likenesses."""
    with work.lake.reading() as connection:
        nodes = [node.uuid for digest in likeness.values() for node in find_alike(connection, digest)]
        users = {user for users in read_users(connection, nodes).values() for user in users} if nodes else set()
    return sorted(str(view.name) for view in work.lake.views(snapshot) if view.uuid in users)


def find_twins(work: Workspace, record: ViewRecord, snapshot: Snapshot) -> list[str]:
    """The names of the views that share a state with a view."""
    with work.lake.reading() as connection:
        users = read_users(connection, [record.parts[part] for part in record.states])
    others = {user for users in users.values() for user in users} - {record.uuid}
    return [str(view.name) for view in work.lake.views(snapshot) if view.uuid in others] if others else []


def _shape(fields: Sequence[Field]) -> list[tuple[str, str]]:
    """Names and types; the parts of a struct have ids in a table and none in a plan."""
    return [(field.name, str(field.type)) for field in fields]


def nodes_in_use(work: Workspace, nodes: Collection[UUID], *, but: Collection[View]) -> set[UUID]:
    """Those of some nodes that relations other than `but` use."""
    leaving = {view.uuid for view in but}
    with work.lake.reading() as connection:
        users = read_users(connection, nodes) if nodes else {}
    return {node for node, using in users.items() if set(using) - leaving}
