"""Dagster: relations of the lake as assets, sensors and components. Dagster's component registry imports this package."""

from __future__ import annotations

from importlib.util import find_spec

from platform_plugin.distribution import install_line

if find_spec("dagster") is None:
    message = f"Dagster is not installed: {install_line('dagster')}"
    raise ModuleNotFoundError(message, name="dagster")

from platform_plugin.orchestration.assets.automation import upstream_changed
from platform_plugin.orchestration.assets.inputs import ContinuousViewInput, ViewReader
from platform_plugin.orchestration.assets.translator import Relation, Translator
from platform_plugin.orchestration.components.decorators import continuous_view, history_table, sample, stream
from platform_plugin.orchestration.components.folder import SqlFolder
from platform_plugin.orchestration.components.nouns import ContinuousView, HistoryTable, Sample, Stream, Upkeep
from platform_plugin.orchestration.components.place import lake_url
from platform_plugin.orchestration.components.reach import Lake
from platform_plugin.orchestration.runs.resource import PlatformResource
from platform_plugin.orchestration.sensors.firing import Ask, Decision, Moment, build_sensor

__all__ = [
    "Ask",
    "ContinuousView",
    "ContinuousViewInput",
    "Decision",
    "HistoryTable",
    "Lake",
    "Moment",
    "PlatformResource",
    "Relation",
    "Sample",
    "SqlFolder",
    "Stream",
    "Translator",
    "Upkeep",
    "ViewReader",
    "build_sensor",
    "continuous_view",
    "history_table",
    "lake_url",
    "sample",
    "stream",
    "upstream_changed",
]
