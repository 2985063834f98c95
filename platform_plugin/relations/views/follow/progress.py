"""The progress of views: how far the nodes of each have consumed its streams, now and at each snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from platform_plugin.lake.cursors.cursor import has_cursors, read_cursors_at, read_last_moves, read_moves
from platform_plugin.relations.views.follow.strategy import DEFERRED, rows_parts, strategy_of
from platform_plugin.relations.views.record import RESULT_PART
from platform_plugin.state.node import read_users, read_uses

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from sqlalchemy.engine import Connection

    from platform_plugin.lake.catalogue import catalogue as c
    from platform_plugin.operators.group.parts import SplitPlan, StreamPart
    from platform_plugin.relations.views.record import ViewRecord

    Positions = Mapping[str, Mapping[str, int]]
    """The position of each node in each stream, by their identities."""


def consuming_part(plan: SplitPlan, record: ViewRecord, part: StreamPart) -> str:
    """The name of the part that consumes the stream of a stream part: its state, or the stored rows of a deferred view."""
    return rows_parts(plan)[part.stream] if strategy_of(record) == DEFERRED else part.state


def read_progress(connection: Connection, records: Iterable[ViewRecord], snapshot_id: int) -> Positions:
    """How far the nodes of views had consumed their streams at a snapshot."""
    return read_cursors_at(connection, snapshot_id, {uuid for record in records for uuid in record.parts.values()})


def read_all_progress(connection: Connection, snapshot_id: int) -> Positions:
    """How far all nodes had consumed their inputs at a snapshot."""
    return read_cursors_at(connection, snapshot_id) if has_cursors(connection) else {}


def users_of_owners(uses: Iterable[c.AnyRow]) -> dict[str, list[str]]:
    """The views that now use each node, by the node's identity."""
    found: dict[str, list[str]] = {}
    for user, _, node, end in uses:
        if end is None:
            found.setdefault(node, []).append(user)
    return found


def read_last_progress(connection: Connection, uses: Iterable[c.AnyRow]) -> dict[str, int]:
    """The snapshot at which each view last consumed rows, or that of its creation."""
    if not has_cursors(connection):
        return {}
    moved = read_last_moves(connection)
    found: dict[str, int] = {}
    for user, part, node, _ in uses:
        moved_at = moved.get(node, 0) if part != RESULT_PART else 0
        found[user] = max(found.get(user, 0), moved_at)
    return found


def read_view_positions(connection: Connection, snapshot_id: int, uses: Iterable[c.AnyRow]) -> dict[str, dict[str, int]]:
    """How far each view has consumed each of its streams: where its slowest node is."""
    found: dict[str, dict[str, int]] = {}
    positions = read_all_progress(connection, snapshot_id)
    for user, part, node, _ in uses:
        for stream, position in positions[node].items() if part != RESULT_PART and node in positions else ():
            reached = found.setdefault(user, {})
            reached[stream] = min(position, reached.get(stream, position))
    return found


def read_steps(connection: Connection) -> Iterator[tuple[str, str, str, datetime, int]]:
    """View, node, stream, time and row id of every recorded step, in the order of snapshots."""
    if not has_cursors(connection):
        return
    users: dict[str, list[str]] = {}
    for user, part, node, _ in read_uses(connection):
        if part != RESULT_PART:
            users.setdefault(node, []).append(user)
    for row in read_moves(connection):
        for user in users.get(row.owner, ()):
            yield user, row.owner, row.input, row.snapshot_time, row.position


def position_of(positions: Positions, node: UUID, stream: UUID) -> int | None:
    """The position of a node in a stream; None if it does not consume it."""
    return positions.get(str(node), {}).get(str(stream))


def find_idle_cursors(record: ViewRecord, plan: SplitPlan, streams: Mapping[str, str], positions: Positions) -> tuple[tuple[str, str], ...]:
    """The cursors of a view's nodes in streams that these do not consume, by node and stream; `streams` are those of its stream parts."""
    needed = {(str(record.parts[consuming_part(plan, record, part)]), streams[part.name]) for part in plan.streams}
    nodes = {str(node) for part, node in record.parts.items() if part != RESULT_PART}
    return tuple((node, stream) for node in sorted(nodes) for stream in positions.get(node, {}) if (node, stream) not in needed)


def read_consuming_views(connection: Connection, owners: Sequence[str]) -> set[UUID]:
    """The views that use any of these nodes; owners that are no nodes have none."""
    nodes = [UUID(owner) for owner in owners if _is_identity(owner)]
    return {user for users in read_users(connection, nodes).values() for user in users}


def _is_identity(owner: str) -> bool:
    try:
        UUID(owner)
    except ValueError:
        return False
    return True
