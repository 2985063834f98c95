"""The figures of a continuous view: what waits for it, what it stores, and how it is split."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from platform_plugin.errors import PlatformError
from platform_plugin.views.plans import plan_view
from platform_plugin.views.read import part_tables, view_ranges
from platform_plugin.views.twins import find_twins

if TYPE_CHECKING:
    from platform_plugin.lake.tables import Snapshot
    from platform_plugin.spark.workspace import Workspace
    from platform_plugin.views.record import ViewRecord


def view_facts(work: Workspace, name: str, record: ViewRecord, snapshot: Snapshot) -> dict[str, Any]:
    """What DESCRIBE EXTENDED says of a continuous view, from the catalogue alone."""
    facts: dict[str, Any] = {"maintenance": record.options.get("maintenance", "split")}
    try:
        plan = plan_view(work, record, snapshot)
        for stream, tail in view_ranges(work, name, record, plan, snapshot).items():
            facts[f"taken up of {stream}"] = f"up to row {tail.first_row_id - 1}, {tail.row_count} rows wait and are merged when it is read"
    except PlatformError as error:
        return facts | {"trouble": str(error)}
    if twins := find_twins(work, record, snapshot):
        facts["shares its states with"] = ", ".join(twins)
    for part, table in part_tables(work, record, snapshot).items():
        scan = work.lake.scan(table, snapshot)
        rows = sum(file.record_count for file in scan.files)
        facts[part] = f"{rows} rows, {scan.size_bytes} bytes, in {len(scan.files)} files of {table.name}"
    return facts
