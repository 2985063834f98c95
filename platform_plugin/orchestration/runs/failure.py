"""Errors of the platform as failures in Dagster, with their details and hints."""

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
    """Turn a platform error into a failure of the step, with the message on its first line and the rest as metadata."""
    try:
        yield
    except PlatformError as error:
        # The frames of the platform say nothing to whoever reads the page of a run, and would stand below the message.
        raise as_failure(error) from None


def as_failure(error: PlatformError) -> dg.Failure:
    """The failure of a step for one error."""
    return dg.Failure(description=str(error), metadata=error_metadata(error))


def error_metadata(error: PlatformError) -> dict[str, Any]:
    """The metadata of an error: all but its message."""
    metadata: dict[str, Any] = {"error": type(error).__name__}
    if error.detail:
        metadata["detail"] = dg.MetadataValue.md(f"```\n{error.detail}\n```")
    if error.hint:
        metadata["hint"] = error.hint
    return metadata


def combine_failures(errors: Mapping[str, PlatformError]) -> dg.Failure:
    """One failure for the errors of several relations, which names each; successes are reported before."""
    if len(errors) == 1:
        name, error = next(iter(errors.items()))
        return dg.Failure(description=f"{name}: {error}", metadata=error_metadata(error))
    told = "\n\n".join(f"{name}: {error}" for name, error in errors.items())
    return dg.Failure(description=f"{len(errors)} relations failed\n{told}", metadata={"failed": len(errors)})


def note_failed(instance: dg.DagsterInstance, run_id: str, names: Iterable[str]) -> None:
    """Add to a run's tags which relations failed, so that a sensor pauses these only."""
    run = instance.get_run_by_id(run_id)
    known = json.loads(run.tags.get(FAILED, "[]")) if run is not None else []
    if run is not None:
        instance.add_run_tags(run_id, {FAILED: json.dumps(sorted({*known, *names}))})
