"""`propagate`: a statement that has appended rows maintains eager views, and batched ones if enough rows wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

from platform_plugin.cache import Cache
from platform_plugin.errors import PlatformError, ServerLost
from platform_plugin.lake.cursors.cursor import read_owners
from platform_plugin.lake.ring.segments import read_ring
from platform_plugin.maintenance.run import run_maintenance
from platform_plugin.relations.views.follow.progress import read_consuming_views
from platform_plugin.relations.views.follow.strategy import BATCH, EAGER, rows_wanted, strategy_of
from platform_plugin.relations.views.record import read_records

if TYPE_CHECKING:
    from uuid import UUID

    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot, Table

    EagerView = tuple[UUID, list[str], int]
    """A view that appends maintain, its nodes that consume the stream, and how many rows must wait for them."""

# Who wants the rows of a stream is the same within a schema version, and most streams have nobody.
_WANTING: Cache[tuple[UUID, UUID, int], list[EagerView]] = Cache("views told of appends", weigh=lambda views: 300 * len(views))


def propagate(work: Workspace, stream: Table, snapshot: Snapshot) -> None:
    """Maintain the views that appends to a stream maintain, and store their results.

    The rows are committed already: errors here are reported by the next run, and by reads of the view.
    """
    due = _find_due(work, stream, snapshot)
    if not due:
        return
    names = [view.name for view in work.lake.views() if view.uuid in due]
    try:
        run_maintenance(work, names, flush=True)
    except ServerLost:
        work.forget_session()
    except PlatformError:
        return


def _find_due(work: Workspace, stream: Table, snapshot: Snapshot) -> set[UUID]:
    """The views that want what waits for them now."""
    wanting = _find_wanting(work, stream, snapshot)
    if not wanting:
        return set()
    with work.lake.reading() as connection:
        newest = read_ring(connection, stream.uuid).next_row_id
        positions = read_owners(connection, stream.uuid)
    return {view for view, nodes, row_count in wanting if newest - min(positions.get(node, newest) for node in nodes) >= row_count}


def _find_wanting(work: Workspace, stream: Table, snapshot: Snapshot) -> list[EagerView]:
    key = (work.lake.uuid, stream.uuid, snapshot.schema_version)
    found = _WANTING.get(key)
    if found is None:
        with work.lake.reading() as connection:
            owners = list(read_owners(connection, stream.uuid))
            records = read_records(connection, only=read_consuming_views(connection, owners)) if owners else {}
        found = [
            (record.uuid, [str(node) for node in record.parts.values() if str(node) in owners], rows_wanted(record))
            for record in records.values()
            if strategy_of(record) in (EAGER, BATCH)
        ]
        _WANTING.put(key, found)
    return found
