"""The overview asset: the state of the whole platform, from the catalogue alone."""

# Dagster compares the annotation of a step's context with its own classes, so annotations must not be text in this module.

from datetime import UTC, datetime
from typing import Any

import dagster as dg

from platform_plugin.lake.catalogue.tables import Snapshot
from platform_plugin.lake.lake import Lake
from platform_plugin.orchestration.assets.inventory import read_lake
from platform_plugin.orchestration.runs.failure import raise_failures
from platform_plugin.orchestration.sensors.firing import name_list
from platform_plugin.orchestration.sensors.refreshing import RefreshPolicy
from platform_plugin.orchestration.sensors.waiting import WaitingView, read_waiting
from platform_plugin.orchestration.shown.chart import as_markdown, draw_panels
from platform_plugin.orchestration.shown.history import read_timeline

KEY = dg.AssetKey(["platform", "overview"])
RESOURCE_KEY = "platform"
_MOST_LISTED = 50


def build_overview() -> dg.AssetsDefinition:
    """The asset; a sensor also reports it without a run, so that it stays current."""
    spec = dg.AssetSpec(
        KEY,
        group_name="platform",
        kinds={"overview"},
        description="How the platform is: rows that come, how far views are behind, what is stored. Drawn from the catalogue alone.",
    )

    @dg.multi_asset(name="platform_overview", specs=[spec], required_resource_keys={RESOURCE_KEY})
    def overview(context: dg.AssetExecutionContext) -> dg.MaterializeResult[None]:
        with raise_failures():
            lake = getattr(context.resources, RESOURCE_KEY).platform.lake
            return dg.MaterializeResult(asset_key=KEY, metadata=overview_metadata(lake, lake.snapshot(), datetime.now(UTC)))

    return overview


def overview_metadata(lake: Lake, snapshot: Snapshot, now: datetime) -> dict[str, Any]:
    """The metadata of the overview: a timeline, tables of streams and views, and figures for plots over time."""
    timeline = read_timeline(lake, snapshot, now)
    waiting = read_waiting(lake, snapshot)
    inventory = read_lake(lake)
    since, until = (f"{moment:%H:%M}" for moment in (timeline.since, timeline.until))
    panels = [("Rows that arrive", "/s", timeline.rows_per_second), ("How long rows wait", "s", timeline.lag_seconds)]
    drawn = as_markdown(draw_panels(panels, since=since, until=f"{until} UTC"), said="arrivals and lag over time")
    late = [view for view in waiting if view.lag_seconds(now) > _target_lag_seconds(view)]
    found: dict[str, Any] = {
        "timeline": dg.MetadataValue.md(drawn),
        "snapshot": snapshot.id,
        "streams": sum(stored.kind == "stream" for stored in inventory.relations.values()),
        "views": len(waiting),
        "late_views": len(late),
        "views_without_run": sum(view.waits_for_first_run for view in waiting),
        "tables": sum(stored.kind == "table" for stored in inventory.relations.values()),
        "rows_per_second": round(sum(sum(values[-4:]) / 4 for values in timeline.rows_per_second.values()), 3),
        "rows_waiting": sum(view.rows for view in waiting),
        "lag_seconds": round(max((view.lag_seconds(now) for view in waiting), default=0.0), 3),
        "bytes": sum(stored.size_bytes or 0 for stored in inventory.relations.values()),
    }
    if waiting:
        rows = sorted(waiting, key=lambda view: (-view.lag_seconds(now), str(view.view)))[:_MOST_LISTED]
        found["view_list"] = dg.MetadataValue.table(
            [
                dg.TableRecord(
                    {
                        "view": name_list([view.view]),
                        "status": _status(view, now),
                        "rows waiting": view.rows,
                        "lag, s": round(view.lag_seconds(now), 1),
                        "target lag, s": _target_lag_seconds(view),
                        "maintained at snapshot": view.taken_up,
                    }
                )
                for view in rows
            ]
        )
    return found


def _target_lag_seconds(view: WaitingView) -> float:
    return view.target_lag_seconds or RefreshPolicy().target_lag.total_seconds()


def _status(view: WaitingView, now: datetime) -> str:
    """How a view is kept, in a word or two; what its readers get is current in any case."""
    if view.waits_for_first_run:
        return "waits for its first run"
    return "late" if view.lag_seconds(now) > _target_lag_seconds(view) else "current"
