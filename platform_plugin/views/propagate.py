"""Propagation: a statement that has added rows to a stream lets eager views take them up, and batched ones if enough wait."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import sqlalchemy as sa

from platform_plugin.errors import PlatformError
from platform_plugin.lake.data_operations import has_table
from platform_plugin.lake.segments import read_ring
from platform_plugin.views.progress import read_progress
from platform_plugin.views.record import PROPAGATED

if TYPE_CHECKING:
    from uuid import UUID

    from platform_plugin.lake.tables import Snapshot, Table
    from platform_plugin.spark.workspace import Workspace


def propagate(work: Workspace, stream: Table, snapshot: Snapshot) -> None:
    """Maintain what is to be maintained with every statement, and store the results.

    The rows are in the stream already: what fails here is told by the next run, and by reads of the view that it is about.
    """
    due = _find_due(work, stream, snapshot)
    if not due:
        return
    from platform_plugin.views.maintain import run_maintenance
    from platform_plugin.views.service import find_wanted
    from platform_plugin.views.stored import run_storing

    names = [view.name for view in work.lake.views() if view.uuid in due]
    with suppress(PlatformError):
        run_maintenance(work, names, flush=True)
        run_storing(work, find_wanted(work, names, maintained=[str(name) for name in names]))


def _find_due(work: Workspace, stream: Table, snapshot: Snapshot) -> set[UUID]:
    """The views that want what waits for them now."""
    from uuid import UUID

    with work.lake.reading() as connection:
        if not has_table(connection, PROPAGATED.name):
            return set()
        query = sa.select(PROPAGATED.c.view_uuid, PROPAGATED.c.row_count).where(PROPAGATED.c.stream_uuid == str(stream.uuid))
        found = [(UUID(view), row_count) for view, row_count in connection.execute(query)]
        if not found:
            return set()
        newest = read_ring(connection, stream.uuid).next_row_id
        return {
            view
            for view, row_count in found
            if newest - read_progress(connection, view, snapshot.id).get(str(stream.uuid), newest) >= row_count
        }
