"""Loops: the sensors of a lake with the jobs that they ask for. A new noun adds its own here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import dagster as dg

from platform_plugin.orchestration.arrivals import build_arrivals_sensor
from platform_plugin.orchestration.assets import UPKEEP
from platform_plugin.orchestration.ingesting import build_ingestion_sensor
from platform_plugin.orchestration.notices import build_notices, webhook
from platform_plugin.orchestration.preview import every_asset
from platform_plugin.orchestration.refreshing import build_refresh_sensor
from platform_plugin.orchestration.sampling import build_sample_sensor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

    from platform_plugin.orchestration.translator import Translator

REFRESH_JOB = "maintain_views"
INGEST_JOB = "ingest_streams"
SAMPLE_JOB = "merge_reservoirs"
REBUILD_SENSOR = "rebuilding"


def build_loops(
    url: str,
    translator: Translator,
    *,
    pools: Mapping[str, str] | None = None,
    refresh: bool = True,
    ingest: bool = True,
    sample: bool = True,
    arrivals: bool = True,
    rebuild: bool = True,
    notices: str | None = None,
    running: bool = True,
) -> dg.Definitions:
    """The sensors that keep the assets of a code location current, and their jobs."""
    sensors: list[dg.SensorDefinition] = []
    jobs = []
    if refresh:
        job = _upkeep_job(REFRESH_JOB, "maintain", "Lets continuous views take up what has arrived; the sensor split_refresh says which.")
        jobs.append(job)
        sensors.append(
            build_refresh_sensor(url, job, base_key=translator.base_key, view_key=translator.asset_key, pools=pools or {}, running=running)
        )
    if ingest:
        job = _upkeep_job(INGEST_JOB, "ingest", "Lets streams read a batch of their sources; the sensor bounded_ingestion says which.")
        jobs.append(job)
        sensors.append(build_ingestion_sensor(url, job, asset_key=translator.asset_key, running=running))
    if sample:
        job = _upkeep_job(SAMPLE_JOB, "sample", "Lets samples take up what has arrived; the sensor reservoir_merge says which.")
        jobs.append(job)
        sensors.append(build_sample_sensor(url, job, asset_key=translator.asset_key, running=running))
    if arrivals:
        sensors.append(build_arrivals_sensor(url, translator, running=running))
    if rebuild:
        status = dg.DefaultSensorStatus.RUNNING if running else dg.DefaultSensorStatus.STOPPED
        everything = every_asset()
        sensors.append(
            dg.AutomationConditionSensorDefinition(REBUILD_SENSOR, target=everything, default_status=status, minimum_interval_seconds=10)
        )
    if notices is not None:
        sensors.append(build_notices(webhook(notices), running=running))
    return dg.Definitions(sensors=sensors, jobs=jobs)


def _upkeep_job(name: str, upkeep: str, description: str) -> UnresolvedAssetJobDefinition:
    """A job for all assets that are kept current in one way, and for what is asserted of them."""
    chosen = dg.AssetSelection.tag(UPKEEP, upkeep).without_checks() | dg.AssetSelection.all_asset_checks()
    return dg.define_asset_job(name, selection=chosen, description=description, executor_def=dg.in_process_executor)
