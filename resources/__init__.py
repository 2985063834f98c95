"""Resources of the reference platform: the lake that PLATFORM_URL names, or one in the project's own folder."""

from __future__ import annotations

import os
from pathlib import Path

import dagster as dg

from platform_plugin.orchestration import PlatformResource, ViewReader, lake_url
from platform_plugin.orchestration.components.place import URL_VARIABLE

PROJECT = Path(__file__).resolve().parent.parent


def platform() -> PlatformResource:
    """The platform. A URL from the environment may hold a password, so Dagster is told only where to find it."""
    url = dg.EnvVar(URL_VARIABLE) if os.environ.get(URL_VARIABLE) else lake_url(PROJECT)
    return PlatformResource(url=url, create=True)


def views() -> ViewReader:
    """What hands views to assets that have them as arguments."""
    return ViewReader(platform=platform())
