"""Orchestration: SQL files and relations of the lake as Dagster assets. Dagster's component registry imports this package."""

from __future__ import annotations

from platform_plugin.orchestration.folder import SqlFolder
from platform_plugin.orchestration.place import lake_url
from platform_plugin.orchestration.resource import PlatformResource
from platform_plugin.orchestration.translator import Relation, Translator

__all__ = ["PlatformResource", "Relation", "SqlFolder", "Translator", "lake_url"]
