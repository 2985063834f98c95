"""Failures: a platform error as Dagster shows it, with its detail and its hint."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import dagster as dg

from platform_plugin.errors import PlatformError
from platform_plugin.orchestration.sensors.firing import FAILED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


@contextmanager
def raise_failures() -> Iterator[None]:
    """Turn a platform error into a failure of the step, whose first line is the message and whose metadata say the rest."""
    try:
        yield
    except PlatformError as error:
        # The frames of the platform say nothing to whoever reads the page of a run, and would stand below the message.
        raise as_failure(error) from None


def as_failure(error: PlatformError) -> dg.Failure:
    """One error as the failure of a step."""
    return dg.Failure(description=str(error), metadata=error_metadata(error))


def error_metadata(error: PlatformError) -> dict[str, Any]:
    """What an error says beside its message."""
    metadata: dict[str, Any] = {"error": type(error).__name__}
    if error.detail:
        metadata["detail"] = dg.MetadataValue.md(f"```\n{error.detail}\n```")
    if error.hint:
        metadata["hint"] = error.hint
    return metadata


def combine_failures(errors: Mapping[str, PlatformError]) -> dg.Failure:
    """The errors of several relations as one failure that names each; what went well has been reported before."""
    if len(errors) == 1:
        return as_failure(next(iter(errors.values())))
    told = "\n\n".join(f"{name}: {error}" for name, error in errors.items())
    return dg.Failure(description=f"{len(errors)} relations failed\n{told}", metadata={"failed": len(errors)})


def note_failed(instance: dg.DagsterInstance, run_id: str, names: Iterable[str]) -> None:
    """Write on a run what of it failed, beside what is written there already, so that a sensor leaves just that alone for a while."""
    run = instance.get_run_by_id(run_id)
    known = json.loads(run.tags.get(FAILED, "[]")) if run is not None else []
    if run is not None:
        instance.add_run_tags(run_id, {FAILED: json.dumps(sorted({*known, *names}))})
