"""Scaffolding: the example files that `dg scaffold defs platform_plugin.orchestration.…` writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dagster as dg

from platform_plugin.templates import write_templates

if TYPE_CHECKING:
    from collections.abc import Mapping

_QUERY = "SELECT\n    product_id,\n    count(*) AS orders\nFROM orders\nGROUP BY product_id"


def example_attributes(noun: str, name: str) -> Mapping[str, Any]:
    """The attributes of an example component, with the name of the folder that it is put into.

    >>> example_attributes("Stream", "clicks")["name"]
    'clicks'
    """
    examples: dict[str, dict[str, Any]] = {
        "Stream": {"columns": {"visitor": "STRING", "product_id": "INT"}, "retention_rows": 1_000_000},
        "ContinuousView": {"query": _QUERY, "target_lag": "30 seconds"},
        "Sample": {"relation": "orders", "size": 1_000},
        "HistoryTable": {"columns": {"id": "INT", "name": "STRING"}, "primary_key": ["id"]},
    }
    return {"name": name, "description": "What people should know of it.", **examples.get(noun, {})}


class NounScaffolder(dg.Scaffolder[Any]):
    """Writes a complete example of a relation."""

    def scaffold(self, request: dg.ScaffoldRequest[Any]) -> None:
        """Write the YAML file."""
        noun = request.type_name.rpartition(".")[2]
        dg.scaffold_component(request, dict(example_attributes(noun, request.target_path.name)))


class FolderScaffolder(dg.Scaffolder[Any]):
    """Writes a folder of SQL files as `platform new` does: a stream with a feed, a table, a continuous view over both, and a sample."""

    def scaffold(self, request: dg.ScaffoldRequest[Any]) -> None:
        """Write the YAML file, and those files of `platform new` that do not exist yet."""
        dg.scaffold_component(request, {"path": "sql"})
        write_templates(request.target_path / "sql", "sql")
