"""`build_round`: the plain job that keeps many relations current at once and reports all of them, as sensors request it.

It reports materializations itself, since a run of an asset job costs Dagster three events and some bookkeeping for each asset.
"""

# Dagster compares the annotation of an op's context with its own classes, so annotations must not be text in this module.

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import dagster as dg
from pydantic import Field

from platform_plugin.errors import UnknownObject
from platform_plugin.language.text.places import suggest_word
from platform_plugin.orchestration.assets.checks import CheckedRelation, evaluate
from platform_plugin.orchestration.preview import VERSION_TAG, version_tags
from platform_plugin.orchestration.runs.batching import report_materializations
from platform_plugin.orchestration.runs.failure import combine_failures, error_metadata, note_failed, raise_failures
from platform_plugin.orchestration.runs.jobs import MaintainedAsset, op_name
from platform_plugin.orchestration.runs.step import RESOURCE_KEY
from platform_plugin.orchestration.runs.work import RunOutcome, is_new, view_event
from platform_plugin.orchestration.sensors.firing import ESTIMATE

Work = Callable[[Any, Sequence[MaintainedAsset], Any], RunOutcome]


class RoundPurpose(dg.Config):
    """The assets and the checks of a round."""

    assets: list[str] = Field(
        default_factory=list, description="The assets, as `impact/impact_base`; all that the job is for if none is named."
    )
    checks: dict[str, list[str]] = Field(default_factory=dict, description="What is asserted afterwards: names of checks, by asset.")


def build_round(
    name: str, work: Work, targets: Sequence[MaintainedAsset], checked: Sequence[CheckedRelation], *, pool: str | None, description: str
) -> dg.JobDefinition:
    """The job, whose one op may be requested for any of its targets."""
    by_key = {target.key.to_user_string(): target for target in targets}

    @dg.op(name=op_name(name), pool=pool, required_resource_keys={RESOURCE_KEY}, description=description, out=dg.Out(dg.Nothing))
    def do_round(context: dg.OpExecutionContext, config: RoundPurpose) -> Iterator[Any]:
        resource = getattr(context.resources, RESOURCE_KEY)
        with raise_failures():
            chosen = [_target(by_key, key) for key in config.assets or by_key]
            inputs = read_inputs(context.instance, chosen)
            done = work(resource, chosen, context.log)
        estimate = estimate_metadata(context.run.tags)
        told = {str(each.name).lower(): each for each in done.told}
        report_materializations(
            context,
            [
                dg.AssetMaterialization(
                    target.key,
                    metadata={**found.metadata, **estimate},
                    tags=_tags(target, found.version, inputs, run_id=context.run.run_id),
                )
                for target in chosen
                if (found := told.get(str(target.name).lower())) is not None
            ]
            + [
                view_event(target, found)
                for target in chosen
                if target.view is not None and (found := told.get(str(target.name).lower())) is not None and is_new(found)
            ],
        )
        context.log.info(done.summary)
        failed = {str(name).lower(): error for name, error in done.failed.items()}
        for target in chosen:
            error = failed.get(str(target.name).lower())
            if error is not None:
                yield dg.AssetObservation(target.key, description=str(error), metadata=error_metadata(error))
        asked = [dg.AssetCheckKey(dg.AssetKey.from_user_string(key), check) for key, names in config.checks.items() for check in names]
        yield from (_evaluation(result) for result in evaluate(context.instance, resource.platform, checked, asked))
        if done.failed:
            note_failed(context.instance, context.run.run_id, done.failed)
            raise combine_failures(done.failed)
        yield dg.Output(None, metadata={**done.shared, **estimate})

    @dg.job(name=name, description=description, executor_def=dg.in_process_executor)
    def job() -> None:
        do_round()

    return job


def estimate_metadata(tags: Mapping[str, str]) -> dict[str, float]:
    """What a run was estimated to take when it was asked for, beside the `seconds` that it took.

    >>> estimate_metadata({"platform/estimated_seconds": "0.25"}), estimate_metadata({})
    ({'estimated_seconds': 0.25}, {})
    """
    return {"estimated_seconds": float(tags[ESTIMATE])} if ESTIMATE in tags else {}


def _target(known: Mapping[str, MaintainedAsset], key: str) -> MaintainedAsset:
    if key not in known:
        raise UnknownObject(
            f'asset "{key}" is not among those that this job is for', hint=suggest_word(key, known) or "reload the code location"
        )
    return known[key]


def read_inputs(instance: dg.DagsterInstance, targets: Sequence[MaintainedAsset]) -> dict[dg.AssetKey, tuple[str, int]]:
    """The last reported data version and event of each input of some targets."""
    found: dict[dg.AssetKey, tuple[str, int]] = {}
    for record in instance.get_asset_records(list({key for target in targets for key in target.parents})):
        last = record.asset_entry.last_materialization_record
        tags = last.asset_materialization.tags if last is not None and last.asset_materialization is not None else None
        if last is not None and tags and VERSION_TAG in tags:
            found[record.asset_entry.asset_key] = (tags[VERSION_TAG], last.storage_id)
    return found


def _tags(target: MaintainedAsset, version: int | None, inputs: Mapping[dg.AssetKey, tuple[str, int]], *, run_id: str) -> dict[str, str]:
    """What Dagster itself writes on a materialization, so that its page says whether code or inputs have changed since."""
    if version is None:
        return {}
    return version_tags(str(version), target.code_version or run_id, {key: inputs.get(key) for key in target.parents})


def _evaluation(result: dg.AssetCheckResult) -> dg.AssetCheckEvaluation:
    return dg.AssetCheckEvaluation(
        asset_key=result.asset_key or dg.AssetKey([]),
        check_name=result.check_name or "",
        passed=result.passed,
        metadata=result.metadata,
        severity=result.severity,
        description=result.description,
        blocking=False,
    )
