"""`run_views` and `run_each`: what one run does for many relations, and its report on each of them."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import dagster as dg

from platform_plugin.errors import PlatformError
from platform_plugin.language.text.counting import count_text
from platform_plugin.orchestration.components.apply import RelationRun, intake_text, read_applied, run_declared, run_stored
from platform_plugin.orchestration.preview import VERSION_TAG
from platform_plugin.orchestration.runs.progress import log_progress
from platform_plugin.orchestration.runs.upkeep import run_upkeep
from platform_plugin.orchestration.shown.metadata import (
    applied_metadata,
    engine_metadata,
    job_metadata,
    link_metadata,
    task_metadata,
    upkeep_metadata,
    view_metadata,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from platform_plugin.lake.catalogue.tables import Name
    from platform_plugin.orchestration.runs.jobs import MaintainedAsset
    from platform_plugin.orchestration.runs.resource import PlatformResource
    from platform_plugin.orchestration.runs.upkeep import UpkeepResult

# A table of tasks with every one of many views would be most of what a run writes.
_MOST_WITH_TASKS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """A run's report on one relation; `version` is the version of its data, and `kept` has a view's figures."""

    name: Name
    metadata: Mapping[str, Any]
    version: int | None = None
    kept: UpkeepResult | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """What a run did for many relations; `shared` are the figures of Spark for all of them."""

    summary: str
    told: tuple[RunReport, ...] = ()
    failed: Mapping[str, PlatformError] = field(default_factory=dict)
    shared: Mapping[str, Any] = field(default_factory=dict)


def is_new(told: RunReport) -> bool:
    """Whether the run has created or replaced the relation of a report."""
    return told.kept is not None and told.kept.action in ("created", "replaced")


def view_event(target: MaintainedAsset, told: RunReport) -> dg.AssetMaterialization:
    """The event of a view's own asset, when the view exists."""
    said = target.model.documentation.columns if target.model is not None else {}
    shown = view_metadata(told.kept, said) if told.kept is not None else {}
    return dg.AssetMaterialization(target.view or target.key, metadata={**shown, **told.metadata}, tags={VERSION_TAG: str(told.version)})


def run_views(resource: PlatformResource, targets: Sequence[MaintainedAsset], log: Any) -> RunOutcome:
    """Define continuous views as their files say, and let all of them consume what has arrived."""
    models = [target.model for target in targets if target.model is not None]
    done = run_upkeep(resource.platform, [target.name for target in targets], models, progress=log_progress(log))
    shared = {**job_metadata(resource.read_metrics()), "seconds": round(done.seconds, 3), "views": len(done.kept)}
    shared |= engine_metadata(done.engine_runs) | link_metadata(resource.read_links())
    tasks = task_metadata(resource.read_tasks())
    everywhere = {**shared, **(tasks if len(done.kept) <= _MOST_WITH_TASKS else {})}
    rows = sum(each.rows_in for each in done.kept)
    return RunOutcome(
        summary=f"{count_text(len(done.kept), 'view')} consumed {count_text(rows, 'row')} at snapshot {done.snapshot.id}",
        told=tuple(
            RunReport(name=kept.name, metadata={**everywhere, **upkeep_metadata(kept)}, version=kept.taken_up, kept=kept)
            for kept in done.kept
        ),
        failed=done.failed,
        shared={**shared, **tasks},
    )


def run_each(resource: PlatformResource, targets: Sequence[MaintainedAsset], log: Any) -> RunOutcome:
    """Let streams ingest a batch of their sources, and samples consume what has arrived; a failure of one stops no other."""
    done: list[RelationRun] = []
    seconds: dict[Name, float] = {}
    failed: dict[str, PlatformError] = {}
    progress = log_progress(log)
    for target in targets:
        began = time.monotonic()
        try:
            if target.model is not None:
                done.append(run_declared(resource.platform, target.model, progress=progress))
            else:
                done.append(run_stored(resource.platform, target.name, target.kind, progress=progress))
        except PlatformError as error:
            failed[str(target.name)] = error
        seconds[target.name] = time.monotonic() - began
    read = [f"{ran.name}: {text}" for ran in done if (text := intake_text(ran.work))]
    said = {target.name: target.model.documentation.columns for target in targets if target.model is not None}
    told = tuple(
        RunReport(
            name=ran.name,
            metadata=applied_metadata(applied, said.get(ran.name, {}), seconds=seconds[ran.name]),
            version=applied.changed,
        )
        for ran, applied in zip(done, read_applied(resource.platform, done), strict=True)
    )
    return RunOutcome(
        summary="; ".join([f"{len(told)} of {len(targets)} are up to date", *read]),
        told=told,
        failed=failed,
        shared=job_metadata(resource.read_metrics()) | link_metadata(resource.read_links()),
    )
