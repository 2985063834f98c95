"""The steps of asset jobs: `build_asset` for one model, `build_upkeep` for the continuous views of a pool."""

# Dagster compares the annotation of a step's context with its own classes, so annotations must not be text in this module.

import re
import time
from collections.abc import Iterator, Sequence

import dagster as dg

from platform_plugin.lake.catalogue.tables import Name
from platform_plugin.orchestration.assets.checks import CheckedRelation, check_specs, evaluate
from platform_plugin.orchestration.assets.ranges import plan_spans
from platform_plugin.orchestration.components.apply import applied_text, run_model, run_parts
from platform_plugin.orchestration.components.documentation import DayPartitions, RowPartitions
from platform_plugin.orchestration.components.model import Model
from platform_plugin.orchestration.runs.failure import combine_failures, note_failed, raise_failures
from platform_plugin.orchestration.runs.jobs import MaintainedAsset
from platform_plugin.orchestration.runs.progress import log_progress
from platform_plugin.orchestration.runs.work import is_new, run_views, view_event
from platform_plugin.orchestration.shown.metadata import applied_metadata, view_metadata

RESOURCE_KEY = "platform"


def build_asset(model: Model, spec: dg.AssetSpec, *, checked: Sequence[CheckedRelation] = ()) -> dg.AssetsDefinition:
    """The asset of a model: materializing it makes the lake agree with the file; the checks of `checked` run in the same step."""
    parts = model.documentation.partitions
    checks = check_specs(checked)

    @dg.multi_asset(
        name=_step_name(model),
        specs=[spec],
        required_resource_keys={RESOURCE_KEY},
        partitions_def=_partitions(model),
        # One statement builds any number of parts that meet.
        backfill_policy=dg.BackfillPolicy.single_run() if parts is not None else None,
        check_specs=checks,
        can_subset=bool(checks),
    )
    def materialize(context: dg.AssetExecutionContext) -> Iterator[dg.MaterializeResult[None] | dg.AssetCheckResult]:
        if not checks or spec.key in context.selected_asset_keys:
            yield run(context)
        if checks:
            platform = getattr(context.resources, RESOURCE_KEY).platform
            yield from evaluate(context.instance, platform, checked, sorted(context.selected_asset_check_keys, key=str))

    def run(context: dg.AssetExecutionContext) -> dg.MaterializeResult[None]:
        started = time.monotonic()
        try:
            with raise_failures():
                platform = getattr(context.resources, RESOURCE_KEY).platform
                progress = log_progress(context.log)
                match parts:
                    case None:
                        applied = run_model(platform, model, progress=progress)
                    case DayPartitions():
                        window = context.partition_time_window
                        applied = run_parts(platform, model, [(window.start.date(), window.end.date())], progress=progress)
                    case _:
                        applied = run_parts(platform, model, plan_spans(context.partition_keys), progress=progress)
        except dg.Failure:
            note_failed(context.instance, context.run.run_id, [str(model.name)])
            raise
        context.log.info("%s at snapshot %d", applied_text(applied, model.kind, model.name), applied.snapshot)
        return dg.MaterializeResult(
            asset_key=spec.key,
            metadata=applied_metadata(applied, model.documentation.columns, seconds=time.monotonic() - started),
            data_version=dg.DataVersion(str(applied.changed)) if applied.changed is not None else None,
        )

    return materialize


def _partitions(model: Model) -> dg.PartitionsDefinition | None:
    match model.documentation.partitions:
        case DayPartitions(start=start):
            return dg.DailyPartitionsDefinition(start.isoformat())
        case RowPartitions():
            # A sensor adds the ranges as the stream grows.
            return dg.DynamicPartitionsDefinition(name=str(model.name))
        case _:
            return None


def build_upkeep(
    pool: str,
    step: str,
    targets: Sequence[MaintainedAsset],
    specs: Sequence[tuple[Name, dg.AssetSpec]],
    *,
    checked: Sequence[CheckedRelation] = (),
) -> dg.AssetsDefinition:
    """The continuous views of a pool as assets of one step, from which any can be selected; `specs` are those of bases and views.

    The checks of `checked` run in the same step.
    """
    by_key = {spec.key: name for name, spec in specs}
    virtual = {spec.key for _, spec in specs if spec.is_virtual}
    said = {target.name: target.model.documentation.columns for target in targets if target.model is not None}

    @dg.multi_asset(
        name=f"maintain_{re.sub(r'[^A-Za-z0-9_]', '_', step)}",
        specs=[spec.replace_attributes(skippable=True) for _, spec in specs],
        can_subset=True,
        check_specs=check_specs(checked),
        pool=pool,
        required_resource_keys={RESOURCE_KEY},
    )
    def maintain(context: dg.AssetExecutionContext) -> Iterator[dg.MaterializeResult[None] | dg.AssetCheckResult]:
        chosen = set(context.selected_asset_keys)
        asked = {by_key[key] for key in chosen}
        with raise_failures():
            done = run_views(getattr(context.resources, RESOURCE_KEY), [each for each in targets if each.name in asked], context.log)
        told = {str(each.name).lower(): each for each in done.told}
        for target in targets:
            made = told.get(str(target.name).lower())
            # Nobody materializes a view itself, but its page must not say for ever that it waits for its first run.
            if made is not None and target.view is not None and target.view not in chosen and is_new(made):
                context.log_event(view_event(target, made))
        for key in sorted(chosen, key=str):
            found = told.get(str(by_key[key]).lower())
            if found is not None and found.kept is not None:
                shown = view_metadata(found.kept, said.get(by_key[key], {})) if key in virtual else {}
                yield dg.MaterializeResult(
                    asset_key=key, metadata={**shown, **found.metadata}, data_version=dg.DataVersion(str(found.version))
                )
        context.log.info(done.summary)
        if done.failed:
            note_failed(context.instance, context.run.run_id, done.failed)
            raise combine_failures(done.failed)
        if checked:
            platform = getattr(context.resources, RESOURCE_KEY).platform
            yield from evaluate(context.instance, platform, checked, sorted(context.selected_asset_check_keys, key=str))

    return maintain


def _step_name(model: Model) -> str:
    """A name that Dagster takes for a step, unlike that of any other relation."""
    plain = re.sub(r"\W", "_", f"{model.name.schema}__{model.name.relation}", flags=re.ASCII)
    return plain if plain == f"{model.name.schema}__{model.name.relation}" else f"{plain}__{model.code_version}"
