"""Loops: the sensors of a lake with the jobs that they ask for. A new noun adds its own here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import dagster as dg

from platform_plugin.orchestration.arrivals import build_arrivals_sensor
from platform_plugin.orchestration.refreshing import build_refresh_sensor

if TYPE_CHECKING:
    from platform_plugin.orchestration.assets import Built
    from platform_plugin.orchestration.translator import Translator

REFRESH_JOB = "maintain_views"


def build_loops(built: Built, url: str, translator: Translator, *, refresh: bool = True, arrivals: bool = True) -> dg.Definitions:
    """The sensors that keep what was built current, and their jobs."""
    sensors, jobs = [], []
    if refresh and built.bases:
        job = dg.define_asset_job(
            REFRESH_JOB,
            selection=list(built.bases),
            description="Lets continuous views take up what has arrived; the sensor split_refresh says which.",
            executor_def=dg.in_process_executor,
        )
        jobs.append(job)
        sensors.append(build_refresh_sensor(url, job, pools=built.pools, asset_key=translator.base_key))
    if arrivals:
        sensors.append(build_arrivals_sensor(url, translator))
    return dg.Definitions(sensors=sensors, jobs=jobs)
