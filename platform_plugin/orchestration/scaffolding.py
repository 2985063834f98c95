"""Scaffolding: what `dg scaffold defs platform_plugin.orchestration.…` writes, so that a beginner has an example to change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dagster as dg

if TYPE_CHECKING:
    from collections.abc import Mapping

_QUERY = "SELECT\n    uid,\n    count(*) AS posts\nFROM posts\nGROUP BY uid"

_FILES = {
    "streams/posts.sql": """-- What is being posted. The newest million posts stay.
CREATE STREAM posts (
    uid INT,
    score INT
)
WITH (retention_rows = 1000000);
""",
    "views/impact.sql": """-- How far the posts of each user reach, as of now.
CREATE VIEW impact WITH (start = 'earliest', target_lag = '30 seconds') AS
SELECT
    uid,
    count(*) AS posts,
    avg(score) AS score
FROM posts
GROUP BY uid;
""",
}


def example_attributes(noun: str, name: str) -> Mapping[str, Any]:
    """The attributes of a component of a noun, called after the folder that it is put into.

    >>> example_attributes("Stream", "clicks")["name"]
    'clicks'
    """
    examples: dict[str, dict[str, Any]] = {
        "Stream": {"columns": {"uid": "INT", "score": "INT"}, "retention_rows": 1_000_000},
        "ContinuousView": {"query": _QUERY, "target_lag": "30 seconds"},
        "Sample": {"relation": "posts", "size": 1_000},
        "HistoryTable": {"columns": {"id": "INT", "region": "STRING"}, "primary_key": ["id"]},
    }
    return {"name": name, "description": "What people should know of it.", **examples.get(noun, {})}


class NounScaffolder(dg.Scaffolder[Any]):
    """Writes a relation that is complete and can be changed."""

    def scaffold(self, request: dg.ScaffoldRequest[Any]) -> None:
        """Write the YAML file."""
        noun = request.type_name.rpartition(".")[2]
        dg.scaffold_component(request, dict(example_attributes(noun, request.target_path.name)))


class FolderScaffolder(dg.Scaffolder[Any]):
    """Writes a folder of SQL files with a stream and a continuous view over it."""

    def scaffold(self, request: dg.ScaffoldRequest[Any]) -> None:
        """Write the YAML file, and the SQL files that are not there yet."""
        dg.scaffold_component(request, {"path": "sql"})
        for name, text in _FILES.items():
            path = request.target_path / "sql" / name
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
