"""A run's process that is killed at a point of its work. Started by test_killed.py.

    python -m tests.orchestration.round_killed PROJECT HOME POINT

POINT is `module:function:when`, `when` being before or after; the first call of the function is the last thing that the process does.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
from pathlib import Path

import dagster as dg

from platform_plugin.orchestration.assets.assets import build_assets
from platform_plugin.orchestration.assets.inventory import read_inventory
from platform_plugin.orchestration.assets.translator import Translator
from platform_plugin.orchestration.components.model import read_models
from platform_plugin.orchestration.runs.resource import PlatformResource
from platform_plugin.orchestration.sensors.loops import build_loops


def definitions(project: Path) -> dg.Definitions:
    url = str(project / "lake")
    built = build_assets(read_models(project / "dbt_like_sql"), read_inventory(url), Translator())
    loops = build_loops(url, Translator(), targets=built.targets, checked=built.checked)
    own = dg.Definitions(
        assets=list(built.assets), asset_checks=list(built.checks), resources={"platform": PlatformResource(url=url, create=True)}
    )
    return dg.Definitions.merge(own, loops)


def arm(point: str) -> None:
    """Let a function be the last that is called."""
    module, name, when = point.split(":")
    place = importlib.import_module(module)
    original = getattr(place, name)

    def last(*arguments, **options):
        if when == "after":
            original(*arguments, **options)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(place, name, last)


if __name__ == "__main__":
    project, home, point, config, tags = sys.argv[1:]
    with dg.DagsterInstance.local_temp(home) as instance:
        job = definitions(Path(project)).resolve_job_def("maintain_views_together")
        arm(point)
        job.execute_in_process(instance=instance, run_config=json.loads(config), tags=json.loads(tags))
