"""The step of a model: what runs when its asset is materialized."""

# Dagster compares the annotation of a step's context with its own classes, so annotations must not be text in this module.

import re
import time

import dagster as dg

from platform_plugin.orchestration.apply import run_model
from platform_plugin.orchestration.failure import told_as_failure
from platform_plugin.orchestration.metadata import job_metadata, stored_metadata
from platform_plugin.orchestration.model import Model

RESOURCE_KEY = "platform"


def build_asset(model: Model, spec: dg.AssetSpec) -> dg.AssetsDefinition:
    """A model as an asset: materializing it makes the lake hold what the file declares."""

    @dg.multi_asset(name=_step_name(model), specs=[spec], required_resource_keys={RESOURCE_KEY})
    def materialize(context: dg.AssetExecutionContext) -> dg.MaterializeResult[None]:
        started = time.monotonic()
        with told_as_failure():
            applied = run_model(getattr(context.resources, RESOURCE_KEY).platform, model)
        context.log.info("%s %s %s at snapshot %d", model.kind, model.name, applied.action, applied.snapshot)
        return dg.MaterializeResult(
            asset_key=spec.key,
            metadata={
                **stored_metadata(applied.stored, applied.snapshot, model.documentation.columns),
                **job_metadata(applied.metrics),
                **{name: value for name, value in applied.work.items() if value is not None},
                "action": applied.action,
                "seconds": round(time.monotonic() - started, 3),
            },
            data_version=dg.DataVersion(str(applied.changed)) if applied.changed is not None else None,
        )

    return materialize


def _step_name(model: Model) -> str:
    """A name that Dagster takes for a step, unlike that of any other relation."""
    plain = re.sub(r"\W", "_", f"{model.name.schema}__{model.name.relation}", flags=re.ASCII)
    return plain if plain == f"{model.name.schema}__{model.name.relation}" else f"{plain}__{model.code_version}"
