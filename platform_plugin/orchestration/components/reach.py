"""`Lake`: the component that gives runs and asset arguments access to the project's lake."""

from __future__ import annotations

import os

import dagster as dg
from pydantic import Field

from platform_plugin.orchestration.assets.inputs import MANAGER, ViewReader
from platform_plugin.orchestration.components.place import URL_VARIABLE, lake_url
from platform_plugin.orchestration.runs.resource import PlatformResource
from platform_plugin.orchestration.runs.step import RESOURCE_KEY


class Lake(dg.Component, dg.Model, dg.Resolvable):
    """The lake of a project's assets: the resources `platform` and `platform_views`, and an executor that runs in one process.

    A project has one, beside its folders of SQL; or it defines the two resources itself, in Python.
    """

    url: str | None = Field(default=None, description="The lake; by default the one in PLATFORM_URL, or .platform/lake in the project.")
    create: bool = Field(default=True, description="Whether the first run creates the lake where it is a local folder that is not there.")
    limits: dict[str, int | str] = Field(default={}, description="Limits of the engines by name, in the process of a run.")
    engine: str | None = Field(default=None, description="The engine that maintains relations: auto, local, executors or spark_sql.")
    in_process: bool = Field(default=True, description="Whether all steps of a run share a process, unless a job says otherwise.")

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """The resources, and the executor."""
        # A URL from the environment may hold a password, so Dagster is told only where to find it.
        named = dg.EnvVar(URL_VARIABLE) if os.environ.get(URL_VARIABLE) else lake_url(context.project_root)
        platform = PlatformResource(
            url=self.url or named,
            create=self.create,
            limits={name: str(value) for name, value in self.limits.items()},
            engine=self.engine,
        )
        return dg.Definitions(
            resources={RESOURCE_KEY: platform, MANAGER: ViewReader(platform=platform)},
            executor=dg.in_process_executor if self.in_process else None,
        )
