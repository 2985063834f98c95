"""`build_sensor`: the frame of every sensor of the platform; a sensor adds a decision and a job.

A tick reads the catalogue, never rows, and starts no Spark. It requests at most one run for each pool: none while one of its runs is under
way there, and none while a run of any sensor is starting. What it did, or the reason why it did nothing, is in the run's tags or in the
tick's skip reason.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import dagster as dg

from platform_plugin.errors import PlatformError
from platform_plugin.lake.catalogue.tables import DEFAULT_SCHEMA, display_name
from platform_plugin.lake.lake import Lake
from platform_plugin.language.text.counting import count_text
from platform_plugin.orchestration.assets.inventory import absence_text
from platform_plugin.orchestration.preview import quieten_copies
from platform_plugin.orchestration.sensors.reporting import report_events

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from platform_plugin.lake.catalogue.tables import Name, Snapshot
    from platform_plugin.orchestration.internals import AssetJob

FOR, WHY, FAILED = "for", "why", "platform/failed"
"""Tags of a run: what it was requested for and why, and afterwards what failed. The page of runs shows them in a narrow column."""
ESTIMATE = "platform/estimated_seconds"
"""The tag of a run with what it was estimated to take before it was asked for."""
SENSOR, RUN_KEY = "dagster/sensor_name", "dagster/run_key"
"""Dagster's own tags of a run: what asked for it; and in which pool, over which snapshots and for the how-manieth time."""
USUAL_POOL = "spark"
_CURSOR_VERSION = 1
_KEY = re.compile(r"(?:(?P<pool>.+) )?(?P<snapshots>\d+-\d+)(?: attempt (?P<attempt>\d+))?", re.DOTALL)
_REMEMBERED_RUNS = 20
_MOST_NAMED = 5
_LONGEST_TAG = 240
_LONGEST_START = timedelta(minutes=10)


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRun:
    """An earlier run that this sensor requested; `seconds` is its duration, None while it is under way."""

    pool: str
    snapshots: str = ""
    attempt: int = 1
    ended: datetime | None = None
    seconds: float | None = None
    succeeded: bool = False
    failed: frozenset[str] = frozenset()
    """The assets that failed, if the run has reported them; empty for a run that ended without a report."""
    assets: frozenset[str] = frozenset()
    """The assets that it was requested for."""

    @property
    def is_under_way(self) -> bool:
        """Whether it has not ended."""
        return self.ended is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """The input of a decision: the lake at its newest snapshot, the time, earlier runs (newest first), and the memory of the last tick."""

    lake: Lake
    snapshot: Snapshot
    now: datetime
    runs: tuple[PastRun, ...] = ()
    keys: frozenset[dg.AssetKey] = frozenset()
    """The assets of the code location that can be materialized."""
    checks: frozenset[dg.AssetCheckKey] = frozenset()
    """The checks of the code location."""
    memory: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """The request of one run: over the snapshots from `first` to `last`, for some assets, or with a configuration of one of the jobs."""

    job: str | None = None
    """The name of the job, if the sensor has several."""
    first: int
    last: int
    reason: str
    relations: tuple[Name, ...] = ()
    """The relations that it is for; `reason` is that of the first."""
    pool: str = USUAL_POOL
    assets: tuple[dg.AssetKey, ...] = ()
    checks: tuple[dg.AssetCheckKey, ...] = ()
    config: Mapping[str, Any] | None = None
    tags: Mapping[str, str] = field(default_factory=dict)

    @property
    def told(self) -> str:
        """What it is for and why, for the skip reason of a tick that can't request it now."""
        return f"{name_list(self.relations)}: {self.reason}" if self.relations else self.reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The result of a tick; `reason` says why no run is requested, and `memory` is passed to the next tick."""

    asks: tuple[Ask, ...] = ()
    reason: str = "nothing to do"
    events: Sequence[dg.AssetMaterialization] = ()
    memory: Mapping[str, Any] = field(default_factory=dict)
    partitions: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """New partitions, by the name of the partitions definition that they are added to."""


Decide = Callable[[Moment], Decision]


def build_sensor(
    name: str,
    url: str,
    decide: Decide,
    *,
    description: str,
    jobs: Sequence[AssetJob | dg.JobDefinition] = (),
    interval_seconds: int = 5,
    running: bool = True,
) -> dg.SensorDefinition:
    """A sensor that requests runs of its jobs as the decision says, at most one for each pool at a time."""

    @dg.sensor(
        name=name,
        description=description,
        minimum_interval_seconds=interval_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING if running else dg.DefaultSensorStatus.STOPPED,
        jobs=list(jobs) or None,
    )
    def tick(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        runs = read_runs(context.instance, name) if jobs else ()
        try:
            with Lake.open(url) as lake:
                keys, checks = read_keys(context)
                moment = Moment(
                    lake=lake,
                    snapshot=lake.snapshot(),
                    now=datetime.now(UTC),
                    runs=runs,
                    keys=keys,
                    checks=checks,
                    memory=read_memory(context.cursor),
                )
                decision = decide(moment)
        except PlatformError as error:
            return dg.SensorResult(skip_reason=dg.SkipReason(absence_text(error)))
        cursor = json.dumps({"v": _CURSOR_VERSION, **decision.memory})
        busy = {run.pool for run in runs if run.is_under_way}
        wanted = request_runs([ask for ask in decision.asks if ask.pool not in busy], runs)
        starting = count_starting(context.instance) if wanted else 0
        report_events(context.instance, decision.events, checks)
        added = [dg.DynamicPartitionsDefinition(name=of).build_add_request(keys) for of, keys in decision.partitions.items() if keys]
        if starting:
            # Starting takes more of a busy machine than the work itself; what is due now is due at the next tick too.
            reason = f"{starting} {'run of a sensor is' if starting == 1 else 'runs of sensors are'} starting: {decision.asks[0].told}"
            return dg.SensorResult(skip_reason=dg.SkipReason(reason), cursor=cursor, dynamic_partitions_requests=added)
        if wanted:
            return dg.SensorResult(run_requests=wanted, cursor=cursor, dynamic_partitions_requests=added)
        waiting = sorted({ask.pool for ask in decision.asks if ask.pool in busy})
        told = f"notified Dagster of {count_text(len(decision.events), 'asset')}" if decision.events else decision.reason
        reason = f"a run is under way in pool {', '.join(waiting)}: {decision.asks[0].told}" if waiting else told
        return dg.SensorResult(skip_reason=dg.SkipReason(reason), cursor=cursor, dynamic_partitions_requests=added)

    return quieten_copies(tick)


def request_runs(asks: Sequence[Ask], runs: Sequence[PastRun]) -> list[dg.RunRequest]:
    """The run requests, one for each pool; the run key has the number of the attempt, since Dagster runs no key twice.

    >>> from platform_plugin.lake.catalogue.tables import Name
    >>> (request,) = request_runs([Ask(first=3, last=9, relations=(Name.of("impact"),), reason="lag 9 s of 10 s")], [])
    >>> request.run_key, dict(request.tags)
    ('3-9', {'for': 'impact', 'why': 'lag 9 s of 10 s'})
    """
    found: dict[str, dg.RunRequest] = {}
    for ask in asks:
        if ask.pool in found:
            continue
        snapshots = f"{ask.first}-{ask.last}"
        attempt = 1 + max((run.attempt for run in runs if (run.pool, run.snapshots) == (ask.pool, snapshots)), default=0)
        key = snapshots + (f" attempt {attempt}" if attempt > 1 else "")
        found[ask.pool] = dg.RunRequest(
            run_key=key if ask.pool == USUAL_POOL else f"{ask.pool} {key}",
            job_name=ask.job,
            asset_selection=list(ask.assets) or None,
            # None would mean all checks of the job.
            asset_check_keys=list(ask.checks) if ask.assets else None,
            run_config=dict(ask.config) if ask.config is not None else None,
            tags={
                **ask.tags,
                **({FOR: name_list(ask.relations)[:_LONGEST_TAG]} if ask.relations else {}),
                WHY: ask.reason[:_LONGEST_TAG],
            },
        )
    return list(found.values())


def name_list(names: Sequence[Name]) -> str:
    """Names as a text for people: without the default schema, and only the first of very many.

    >>> from platform_plugin.lake.catalogue.tables import Name
    >>> name_list([Name.of("sales"), Name.of(("raw", "clicks"))]), name_list([Name.of(f"v{number}") for number in range(7)])
    ('sales, raw.clicks', 'v0, v1, v2, v3, v4 and 2 more')
    """
    said = [display_name(name.relation) if name.schema == DEFAULT_SCHEMA else str(name) for name in names]
    return ", ".join(said[:_MOST_NAMED]) + (f" and {len(said) - _MOST_NAMED} more" if len(said) > _MOST_NAMED else "")


def count_starting(instance: dg.DagsterInstance) -> int:
    """How many runs of the platform's sensors are starting; one that is stuck counts for a limited time only."""
    since = datetime.now(UTC) - _LONGEST_START
    waiting = dg.RunsFilter(statuses=[dg.DagsterRunStatus.NOT_STARTED, dg.DagsterRunStatus.STARTING], created_after=since)
    return sum({SENSOR, WHY} <= run.tags.keys() for run in instance.get_runs(filters=waiting, limit=_REMEMBERED_RUNS))


def count_failures(runs: Sequence[PastRun], pool: str, what: str | None = None) -> int:
    """How many of the newest runs of a pool failed in a row: any of them, or those in which `what` failed."""
    count = 0
    for run in runs:
        if run.pool != pool or run.is_under_way:
            continue
        if run.succeeded or (what is not None and what not in run.failed):
            break
        count += 1
    return count


def pause_seconds(failures: int) -> float:
    """The pause after so many failures in a row; it doubles with each failure.

    >>> [pause_seconds(failures) for failures in (0, 1, 2, 30)]
    [0.0, 10.0, 20.0, 600.0]
    """
    return 0.0 if not failures else min(600.0, 10.0 * 2.0 ** (min(failures, 10) - 1))


def read_runs(instance: dg.DagsterInstance, sensor: str) -> tuple[PastRun, ...]:
    """The newest runs that a sensor requested, newest first."""
    records = instance.get_run_records(filters=dg.RunsFilter(tags={SENSOR: sensor}), limit=_REMEMBERED_RUNS)
    return tuple(_past_run(record) for record in records)


def read_keys(context: dg.SensorEvaluationContext) -> tuple[frozenset[dg.AssetKey], frozenset[dg.AssetCheckKey]]:
    """The assets and checks of a sensor's code location."""
    repository = context.repository_def
    if repository is None:
        return frozenset(), frozenset()
    return frozenset(repository.asset_graph.executable_asset_keys), frozenset(repository.asset_graph.asset_check_keys)


def checks_of(moment: Moment, keys: Iterable[dg.AssetKey]) -> tuple[dg.AssetCheckKey, ...]:
    """The checks of some assets, in a stable order."""
    wanted = set(keys)
    return tuple(sorted((check for check in moment.checks if check.asset_key in wanted), key=str))


def _past_run(record: dg.RunRecord) -> PastRun:
    run = record.dagster_run
    key = _KEY.fullmatch(run.tags.get(RUN_KEY, ""))
    known = PastRun(
        pool="" if key is None else key["pool"] or USUAL_POOL,
        snapshots="" if key is None else key["snapshots"],
        attempt=1 if key is None else int(key["attempt"] or 1),
        assets=frozenset(_assets(run)),
    )
    if not run.is_finished:
        return known
    # A run that died before it started has no times of its own.
    ended = datetime.fromtimestamp(record.end_time, UTC) if record.end_time else record.update_timestamp.astimezone(UTC)
    return replace(
        known,
        ended=ended,
        seconds=record.end_time - record.start_time if record.end_time and record.start_time else None,
        succeeded=run.is_success,
        failed=frozenset(json.loads(run.tags.get(FAILED, "[]"))),
    )


def _assets(run: dg.DagsterRun) -> Iterator[str]:
    yield from (key.to_user_string() for key in run.asset_selection or ())
    ops: Any = run.run_config.get("ops", {})
    for op in ops.values():
        assets = op.get("config", {}).get("assets") if isinstance(op, dict) else None
        yield from assets if isinstance(assets, list) else ()


def find_unreported(runs: Sequence[PastRun], pool: str) -> frozenset[str]:
    """The assets of a pool's last run if it was killed or lost its machine: it may have done its work without reporting it.

    >>> find_unreported([PastRun(pool="spark", ended=datetime.now(UTC), assets=frozenset({"impact/impact_base"}))], "spark")
    frozenset({'impact/impact_base'})
    """
    last = next((run for run in runs if run.pool == pool and not run.is_under_way), None)
    return last.assets if last is not None and not last.succeeded and not last.failed else frozenset()


def read_memory(cursor: str | None) -> dict[str, Any]:
    """The memory of the last tick; a cursor of another version gives an empty one."""
    try:
        known = json.loads(cursor or "{}")
    except ValueError:
        return {}
    return known if isinstance(known, dict) and known.get("v") == _CURSOR_VERSION else {}
