"""Loops: the sensors of a lake with the jobs that they ask for. A new noun adds its own here."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import dagster as dg

from platform_plugin.orchestration.assets.assets import INTAKE_POOLS, UPKEEP
from platform_plugin.orchestration.preview import every_asset
from platform_plugin.orchestration.runs.jobs import Jobs
from platform_plugin.orchestration.runs.rounds import build_round
from platform_plugin.orchestration.runs.work import run_each, run_views
from platform_plugin.orchestration.sensors.arrivals import build_arrivals_sensor
from platform_plugin.orchestration.sensors.firing import USUAL_POOL
from platform_plugin.orchestration.sensors.ingesting import build_ingestion_sensor
from platform_plugin.orchestration.sensors.notices import build_notices, webhook
from platform_plugin.orchestration.sensors.refreshing import build_refresh_sensor
from platform_plugin.orchestration.sensors.sampling import build_sample_sensor

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

    from platform_plugin.orchestration.assets.checks import CheckedRelation
    from platform_plugin.orchestration.assets.translator import Translator
    from platform_plugin.orchestration.runs.jobs import MaintainedAsset
    from platform_plugin.orchestration.runs.rounds import Work
    from platform_plugin.orchestration.sensors.arrivals import RowPartitionedTable

REFRESH_JOB = "maintain_views"
INGEST_JOB = "ingest_streams"
SAMPLE_JOB = "merge_reservoirs"
REBUILD_SENSOR = "rebuilding"


def build_loops(
    url: str,
    translator: Translator,
    *,
    targets: Sequence[MaintainedAsset] = (),
    checked: Sequence[CheckedRelation] = (),
    built: Collection[dg.AssetKey] = (),
    ranged: Collection[RowPartitionedTable] = (),
    refresh: bool = True,
    ingest: bool = True,
    sample: bool = True,
    arrivals: bool = True,
    rebuild: bool = True,
    notices: str | None = None,
    running: bool = True,
) -> dg.Definitions:
    """The sensors that keep the assets of a code location current, and their jobs.

    `targets` are kept current together, and `built` are tables that runs make.
    """
    sensors: list[dg.SensorDefinition] = []
    jobs: list[dg.JobDefinition | UnresolvedAssetJobDefinition] = []
    if refresh:
        views = [target for target in targets if target.kind == "view"]
        said = "Maintains continuous views; the sensor split_refresh says which."
        made = _build_jobs(REFRESH_JOB, "maintain", run_views, views, checked, description=said)
        jobs += made.all
        sensors.append(build_refresh_sensor(url, made, base_key=translator.base_key, view_key=translator.asset_key, running=running))
    if ingest:
        streams = [target for target in targets if target.kind == "stream"]
        said = "Lets streams read a batch of their sources; the sensor bounded_ingestion says which."
        made = _build_jobs(INGEST_JOB, "ingest", run_each, streams, checked, description=said)
        jobs += made.all
        sensors.append(build_ingestion_sensor(url, made, asset_key=translator.asset_key, running=running))
    if sample:
        samples = [target for target in targets if target.kind == "sample"]
        said = "Adds the rows that wait to samples; the sensor reservoir_merge says which."
        made = _build_jobs(SAMPLE_JOB, "sample", run_each, samples, checked, description=said)
        jobs += made.all
        sensors.append(build_sample_sensor(url, made, asset_key=translator.asset_key, running=running))
    if arrivals:
        sensors.append(build_arrivals_sensor(url, translator, built=built, ranged=ranged, running=running))
    if rebuild:
        status = dg.DefaultSensorStatus.RUNNING if running else dg.DefaultSensorStatus.STOPPED
        everything = every_asset()
        sensors.append(
            dg.AutomationConditionSensorDefinition(REBUILD_SENSOR, target=everything, default_status=status, minimum_interval_seconds=10)
        )
    if notices is not None:
        sensors.append(build_notices(webhook(notices), running=running))
    return dg.Definitions(sensors=sensors, jobs=jobs)


def _build_jobs(
    name: str, upkeep: str, work: Work, targets: Sequence[MaintainedAsset], checked: Sequence[CheckedRelation], *, description: str
) -> Jobs:
    """A job for each pool of some relations; and one for all assets of the code location that are kept current in that way."""
    together = {}
    pools = sorted({target.pool for target in targets})
    for pool in pools:
        own = [target for target in targets if target.pool == pool]
        usual = pool == INTAKE_POOLS.get(upkeep, USUAL_POOL)
        called = f"{name}_together" if usual else f"{name}_together_{re.sub(r'[^A-Za-z0-9_]', '_', pool)}"
        # Views are made and maintained by one run at a time, whoever asks for it.
        slot = pool if upkeep == "maintain" else None
        together[pool] = build_round(called, work, own, checked, pool=slot, description=description)
    chosen = (dg.AssetSelection.tag(UPKEEP, upkeep) & dg.AssetSelection.all()).without_checks() | dg.AssetSelection.all_asset_checks()
    apart = dg.define_asset_job(
        name,
        selection=chosen,
        description=f"{description} One asset at a time; sensors run {name}_together." if together else description,
        executor_def=dg.in_process_executor,
    )
    return Jobs(apart=apart, together=together, pools={target.key: target.pool for target in targets})
