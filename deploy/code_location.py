"""The code location: what the Dagster web server, its daemon and its runs load."""

from __future__ import annotations

from pathlib import Path

import dagster as dg

import resources

PROJECT = Path(__file__).resolve().parent.parent


def load() -> dg.Definitions:
    """The definitions under `assets/`, with the resources they ask for."""
    return dg.Definitions.merge(
        dg.load_from_defs_folder(path_within_project=PROJECT / "assets"),
        # All steps of a run share its process: they attach to one Spark server, and starting a process costs more than most of them do.
        dg.Definitions(resources={"platform": resources.platform(), "platform_views": resources.views()}, executor=dg.in_process_executor),
    )


@dg.definitions
def defs() -> dg.Definitions:
    """What Dagster looks for."""
    return load()
