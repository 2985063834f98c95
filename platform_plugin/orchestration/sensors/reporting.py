"""`report_events`: a tick's report of assets to Dagster, which does not overwrite reports of runs and checks."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import dagster as dg

from platform_plugin.orchestration.internals import read_failed_checks
from platform_plugin.orchestration.preview import VERSION_TAG
from platform_plugin.orchestration.runs.batching import report_without_run

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


def report_events(instance: dg.DagsterInstance, events: Sequence[dg.AssetMaterialization], checks: Iterable[dg.AssetCheckKey]) -> None:
    """Report assets; where a run has reported the version already, only figures are reported, and failed checks stay failed."""
    known = _read_versions(instance, [event.asset_key for event in events])
    versions = {event.asset_key: (event.tags or {}).get(VERSION_TAG) for event in events}
    again = [event for event in events if versions[event.asset_key] and known.get(event.asset_key) == versions[event.asset_key]]
    new = [event for event in events if event not in again]
    # A materialization of what a run has made already would set aside what was checked after that run.
    for event in again:
        instance.report_runless_asset_event(dg.AssetObservation(event.asset_key, metadata=event.metadata, tags=event.tags))
    report_without_run(instance, new)
    for evaluation in _failures(instance, {event.asset_key for event in new}, checks):
        instance.report_runless_asset_event(evaluation)


def _read_versions(instance: dg.DagsterInstance, keys: Sequence[dg.AssetKey]) -> dict[dg.AssetKey, str | None]:
    """The data version of the last materialization of some assets."""
    records = instance.get_asset_records(list(keys)) if keys else ()
    last = {record.asset_entry.asset_key: record.asset_entry.last_materialization for record in records}
    told = {key: entry.asset_materialization for key, entry in last.items() if entry is not None}
    return {key: (event.tags or {}).get(VERSION_TAG) for key, event in told.items() if event is not None}


def _failures(
    instance: dg.DagsterInstance, keys: set[dg.AssetKey], checks: Iterable[dg.AssetCheckKey]
) -> Iterator[dg.AssetCheckEvaluation]:
    """What failed when some assets were last checked; Dagster shows it for as long as no other materialization comes."""
    asked: defaultdict[dg.AssetKey, list[dg.AssetCheckKey]] = defaultdict(list)
    for check in checks:
        asked[check.asset_key].append(check)
    wanted = [check for key in sorted(keys) for check in asked.get(key, ())]
    # What was told without a run before holds for all that is.
    yield from read_failed_checks(instance, wanted)
