"""`SENSORS`, the list of the sensors of a lake, and the jobs that each of them requests."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import dagster as dg

from platform_plugin.lake.catalogue.location import Location
from platform_plugin.orchestration.assets.assets import INTAKE_POOLS, UPKEEP
from platform_plugin.orchestration.preview import every_asset
from platform_plugin.orchestration.runs.jobs import Jobs
from platform_plugin.orchestration.runs.pools import find_slot
from platform_plugin.orchestration.runs.rounds import build_round
from platform_plugin.orchestration.runs.work import run_each, run_views
from platform_plugin.orchestration.sensors.arrivals import build_arrivals_sensor
from platform_plugin.orchestration.sensors.firing import USUAL_POOL
from platform_plugin.orchestration.sensors.ingesting import build_ingestion_sensor
from platform_plugin.orchestration.sensors.notices import build_notices, webhook
from platform_plugin.orchestration.sensors.refreshing import build_refresh_sensor
from platform_plugin.orchestration.sensors.sampling import build_sample_sensor

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from platform_plugin.orchestration.assets.checks import CheckedRelation
    from platform_plugin.orchestration.assets.translator import Translator
    from platform_plugin.orchestration.runs.jobs import MaintainedAsset
    from platform_plugin.orchestration.runs.rounds import Work
    from platform_plugin.orchestration.sensors.arrivals import RowPartitionedTable

REFRESH_JOB = "maintain_views"
INGEST_JOB = "ingest_streams"
SAMPLE_JOB = "merge_reservoirs"
REBUILD_SENSOR = "rebuilding"


@dataclass(frozen=True, slots=True, kw_only=True)
class SensorSetting:
    """What sensors are built from: the lake, the translator of a code location, and the attributes of its components.

    `targets` are kept current together, `built` are tables that runs build, `notices` names the variable with the address of a webhook.
    """

    url: str
    translator: Translator
    targets: Sequence[MaintainedAsset] = ()
    checked: Sequence[CheckedRelation] = ()
    built: Collection[dg.AssetKey] = ()
    ranged: Collection[RowPartitionedTable] = ()
    notices: str | None = None
    running: bool = True


class SensorKind(NamedTuple):
    """An entry of the list: the components' attribute that switches the sensor on, and the function that builds it with its jobs."""

    switch: str
    build: Callable[[SensorSetting], dg.Definitions]


def build_loops(
    url: str,
    translator: Translator,
    *,
    targets: Sequence[MaintainedAsset] = (),
    checked: Sequence[CheckedRelation] = (),
    built: Collection[dg.AssetKey] = (),
    ranged: Collection[RowPartitionedTable] = (),
    notices: str | None = None,
    running: bool = True,
    without: Collection[str] = (),
) -> dg.Definitions:
    """The sensors that keep the assets of a code location current, and their jobs; those named in `without` are left out.

    `targets` are kept current together, and `built` are tables that runs make.
    """
    setting = SensorSetting(
        url=url,
        translator=translator,
        targets=targets,
        checked=checked,
        built=built,
        ranged=ranged,
        notices=notices,
        running=running,
    )
    return dg.Definitions.merge(dg.Definitions(), *(kind.build(setting) for kind in SENSORS if kind.switch not in without))


def _build_refresh(setting: SensorSetting) -> dg.Definitions:
    said = "Maintains continuous views; the sensor split_refresh says which."
    jobs = build_jobs(REFRESH_JOB, "maintain", run_views, "view", setting, description=said)
    names = setting.translator
    sensor = build_refresh_sensor(setting.url, jobs, base_key=names.base_key, view_key=names.asset_key, running=setting.running)
    return dg.Definitions(sensors=[sensor], jobs=jobs.all)


def _build_ingestion(setting: SensorSetting) -> dg.Definitions:
    said = "Ingests a batch of the feed of each stream; the sensor bounded_ingestion says which."
    jobs = build_jobs(INGEST_JOB, "ingest", run_each, "stream", setting, description=said)
    sensor = build_ingestion_sensor(setting.url, jobs, asset_key=setting.translator.asset_key, running=setting.running)
    return dg.Definitions(sensors=[sensor], jobs=jobs.all)


def _build_samples(setting: SensorSetting) -> dg.Definitions:
    said = "Lets samples consume new rows; the sensor reservoir_merge says which."
    jobs = build_jobs(SAMPLE_JOB, "sample", run_each, "sample", setting, description=said)
    sensor = build_sample_sensor(setting.url, jobs, asset_key=setting.translator.asset_key, running=setting.running)
    return dg.Definitions(sensors=[sensor], jobs=jobs.all)


def _build_arrivals(setting: SensorSetting) -> dg.Definitions:
    sensor = build_arrivals_sensor(setting.url, setting.translator, built=setting.built, ranged=setting.ranged, running=setting.running)
    return dg.Definitions(sensors=[sensor])


def _build_rebuilding(setting: SensorSetting) -> dg.Definitions:
    status = dg.DefaultSensorStatus.RUNNING if setting.running else dg.DefaultSensorStatus.STOPPED
    sensor = dg.AutomationConditionSensorDefinition(
        REBUILD_SENSOR, target=every_asset(), default_status=status, minimum_interval_seconds=10
    )
    return dg.Definitions(sensors=[sensor])


def _build_notices(setting: SensorSetting) -> dg.Definitions:
    if setting.notices is None:
        return dg.Definitions()
    return dg.Definitions(sensors=[build_notices(webhook(setting.notices), running=setting.running)])


SENSORS = [
    SensorKind("refresh", _build_refresh),
    SensorKind("ingest", _build_ingestion),
    SensorKind("sample", _build_samples),
    SensorKind("report_arrivals", _build_arrivals),
    SensorKind("rebuild", _build_rebuilding),
    SensorKind("notices", _build_notices),
]
"""The sensors of a lake. A new one is a module with its decision, and a line here."""


def build_jobs(name: str, upkeep: str, work: Work, kind: str, setting: SensorSetting, *, description: str) -> Jobs:
    """The jobs of one kind of upkeep for relations of a kind: those of the setting together, any other apart."""
    targets = [target for target in setting.targets if target.kind == kind]
    endpoint = Location.parse(setting.url).spark
    return _build_jobs(name, upkeep, work, targets, setting.checked, endpoint=endpoint, description=description)


def _build_jobs(
    name: str,
    upkeep: str,
    work: Work,
    targets: Sequence[MaintainedAsset],
    checked: Sequence[CheckedRelation],
    *,
    endpoint: str | None,
    description: str,
) -> Jobs:
    """A job for each pool of some relations; and one for all assets of the code location that are kept current in that way."""
    together = {}
    pools = sorted({target.pool for target in targets})
    for pool in pools:
        own = [target for target in targets if target.pool == pool]
        usual = pool == INTAKE_POOLS.get(upkeep, USUAL_POOL)
        called = f"{name}_together" if usual else f"{name}_together_{re.sub(r'[^A-Za-z0-9_]', '_', pool)}"
        # Views are made and maintained by one run at a time, whoever asks for it.
        slot = find_slot(pool, endpoint, upkeep=upkeep)
        together[pool] = build_round(called, work, own, checked, pool=slot, description=description)
    chosen = (dg.AssetSelection.tag(UPKEEP, upkeep) & dg.AssetSelection.all()).without_checks() | dg.AssetSelection.all_asset_checks()
    apart = dg.define_asset_job(
        name,
        selection=chosen,
        description=f"{description} One asset at a time; sensors run {name}_together." if together else description,
        executor_def=dg.in_process_executor,
    )
    return Jobs(apart=apart, together=together, pools={target.key: target.pool for target in targets})
