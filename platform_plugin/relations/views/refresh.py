"""REFRESH VIEW: lets a view consume what has arrived now, and stores its result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from platform_plugin.errors import InvalidValue
from platform_plugin.lake.catalogue.tables import View
from platform_plugin.language.text.counting import count_text
from platform_plugin.relations.bind import lake_name, place_errors
from platform_plugin.relations.target import statement_result
from platform_plugin.relations.views.figures import NEARLY_UNGROUPED, has_group_per_row
from platform_plugin.relations.views.follow.maintain import run_maintenance
from platform_plugin.relations.views.read.stored import ResultRequest, store_results
from platform_plugin.relations.views.record import read_records

if TYPE_CHECKING:
    from datetime import timedelta

    from platform_plugin.engine.spark.session.job import ProgressHandler
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.language import statements as s
    from platform_plugin.relations.result import Result


def run_refresh(
    work: Workspace, statement: s.RefreshView, *, timeout: timedelta | None = None, progress: ProgressHandler | None = None
) -> Result:
    """Maintain one view, and store its result."""
    lake = work.lake
    snapshot = lake.snapshot()
    with place_errors(statement.name.span), lake.reading() as connection:
        view = lake.find_relation(connection, lake_name(statement.name), snapshot)
        record = read_records(connection, only=view.uuid).get(view.uuid)
        if not isinstance(view, View) or record is None:
            raise InvalidValue(f'"{view.name}" is not a continuous view', hint="only what is maintained can be refreshed")
    done = run_maintenance(work, [view.name], flush=True, again=True, timeout=timeout, progress=progress)
    if done.failed:
        raise next(iter(done.failed.values()))
    stored = store_results(work, [ResultRequest(view=view, record=record)], timeout=timeout, progress=progress)
    if stored.failed:
        raise next(iter(stored.failed.values()))
    message = f"view {view.name} consumed {count_text(done.rows, 'row')} in {count_text(done.groups, 'group')}"
    if has_group_per_row(done.groups, done.rows):
        message += f": {NEARLY_UNGROUPED}"
    return statement_result(done.snapshot, message, rows=done.rows)
