"""The sample sensor: decides when samples of streams should consume what has arrived."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from platform_plugin.lake.catalogue.relations import read_declaration
from platform_plugin.lake.catalogue.tables import read_tables
from platform_plugin.lake.cursors.cursor import has_cursors, read_cursor
from platform_plugin.lake.ring.arrivals import read_arrived_beyond
from platform_plugin.lake.ring.segments import read_ring
from platform_plugin.orchestration.sensors.estimating import estimate_tags
from platform_plugin.orchestration.sensors.firing import Decision, build_sensor, checks_of, find_unreported
from platform_plugin.orchestration.sensors.refreshing import plan_refresh
from platform_plugin.orchestration.sensors.waiting import WaitingView, share_of_ring
from platform_plugin.relations.samples.record import all_samples, read_progress
from platform_plugin.relations.samples.waiting import read_pending

if TYPE_CHECKING:
    from collections.abc import Callable

    import dagster as dg

    from platform_plugin.lake.catalogue.tables import Name, Snapshot
    from platform_plugin.lake.lake import Lake
    from platform_plugin.orchestration.runs.jobs import Jobs
    from platform_plugin.orchestration.sensors.firing import Moment
    from platform_plugin.orchestration.sensors.refreshing import RefreshPolicy

SENSOR_NAME = "reservoir_merge"
POOL = "samples"


def read_sample_waiting(lake: Lake, snapshot: Snapshot) -> list[WaitingView]:
    """Every sample of a stream, with the rows without a reservoir; until then readers draw from these rows themselves."""
    found = []
    for sample in all_samples(lake, snapshot):
        if sample.definition.source != "stream":
            continue
        with lake.reading() as connection:
            streams = read_tables(connection, snapshot.id, uuids=[UUID(sample.definition.relation)])
            if not streams:
                # The stream was dropped; reads of the sample tell of it.
                continue
            stream = streams[0]
            ring = read_ring(connection, stream.uuid)
            options = read_declaration(connection, stream.uuid).options
            progress = read_progress(connection, sample.table.uuid, snapshot.id)
            since = read_arrived_beyond(connection, stream.uuid, progress.next_row_id)
            holds = has_cursors(connection) and read_cursor(connection, sample.table.uuid, stream.uuid) is not None
            pending = read_pending(connection, sample.table.uuid, sample.definition.relation, snapshot.id)
        # What was picked when it came is in the sample for every reader, and joins the stored one when there is much of it.
        rows = max(ring.next_row_id - progress.next_row_id, 0) if pending.is_due else 0
        found.append(
            WaitingView(
                view=sample.table.name,
                streams=frozenset({str(stream.uuid)}),
                rows=rows,
                since=since if rows else None,
                taken_up=max(progress.snapshot_id, 0),
                position=progress.next_row_id,
                # Only a sample of all rows that ever came keeps rows from leaving.
                fullness=share_of_ring(rows, options) if holds else 0.0,
            )
        )
    return found


def build_sample_sensor(
    url: str,
    jobs: Jobs,
    *,
    asset_key: Callable[[Name], dg.AssetKey],
    policy: RefreshPolicy | None = None,
    running: bool = True,
) -> dg.SensorDefinition:
    """The sensor that lets samples consume what has arrived before much of it waits, by the same rules as views."""

    def decide(moment: Moment) -> Decision:
        samples = [each for each in read_sample_waiting(moment.lake, moment.snapshot) if jobs.can_run(asset_key(each.view), moment)]
        if not samples:
            return Decision(reason="there is no sample of a stream")
        lost = find_unreported(moment.runs, POOL)
        untold = {each.view for each in samples if asset_key(each.view).to_user_string() in lost}
        due = plan_refresh(samples, moment.now, runs=moment.runs, pool=POOL, policy=policy, untold=untold, noun="samples")
        if isinstance(due, str):
            return Decision(reason=due)
        first = min(each.taken_up for each in due.views)
        needs = due.needs(asset_key)
        checks = checks_of(moment, (need.key for need in needs))
        tags = estimate_tags(moment.lake, due.views)
        asks = jobs.ask(needs, checks, pool=POOL, runs=moment.runs, first=first, last=moment.snapshot.id, tags=tags)
        return Decision(asks=tuple(asks))

    return build_sensor(
        SENSOR_NAME,
        url,
        decide,
        description="Lets samples of streams consume new rows.",
        jobs=jobs.all,
        running=running,
    )
