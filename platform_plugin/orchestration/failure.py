"""Failures: a platform error as Dagster shows it, with its detail and its hint."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import dagster as dg

from platform_plugin.errors import PlatformError

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def told_as_failure() -> Iterator[None]:
    """Turn a platform error into a failure of the step, whose first line is the message and whose metadata say the rest."""
    try:
        yield
    except PlatformError as error:
        metadata: dict[str, Any] = {"error": type(error).__name__}
        if error.detail:
            metadata["detail"] = dg.MetadataValue.md(f"```\n{error.detail}\n```")
        if error.hint:
            metadata["hint"] = error.hint
        raise dg.Failure(description=str(error), metadata=metadata) from error
