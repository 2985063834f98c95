"""`propagate`: a statement that has appended rows maintains eager views, and batched ones if enough rows wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

from platform_plugin.cache import Cache
from platform_plugin.errors import PlatformError, ServerLost
from platform_plugin.lake.ring.segments import read_ring
from platform_plugin.relations.views.follow.progress import read_progress
from platform_plugin.relations.views.record import read_propagated

if TYPE_CHECKING:
    from uuid import UUID

    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot, Table

# Who wants the rows of a stream is the same within a schema version, and most streams have nobody.
_WANTING: Cache[tuple[UUID, UUID, int], list[tuple[UUID, int]]] = Cache("views told of appends", weigh=lambda views: 150 * len(views))


def propagate(work: Workspace, stream: Table, snapshot: Snapshot) -> None:
    """Maintain the views that appends to a stream maintain, and store their results.

    The rows are committed already: errors here are reported by the next run, and by reads of the view.
    """
    due = _find_due(work, stream, snapshot)
    if not due:
        return
    from platform_plugin.relations.views.follow.maintain import run_maintenance
    from platform_plugin.relations.views.read.stored import find_result_requests, store_results

    names = [view.name for view in work.lake.views() if view.uuid in due]
    try:
        run_maintenance(work, names, flush=True)
        store_results(work, find_result_requests(work, names, maintained=[str(name) for name in names]))
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
        return {
            view
            for view, row_count in wanting
            if newest - read_progress(connection, view, snapshot.id).get(str(stream.uuid), newest) >= row_count
        }


def _find_wanting(work: Workspace, stream: Table, snapshot: Snapshot) -> list[tuple[UUID, int]]:
    key = (work.lake.uuid, stream.uuid, snapshot.schema_version)
    found = _WANTING.get(key)
    if found is None:
        with work.lake.reading() as connection:
            found = read_propagated(connection, stream.uuid)
        _WANTING.put(key, found)
    return found
