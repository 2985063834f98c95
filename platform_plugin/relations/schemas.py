"""CREATE SCHEMA: adds a namespace for relations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from platform_plugin.relations.target import statement_result

if TYPE_CHECKING:
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.language import statements as s
    from platform_plugin.relations.result import Result


def run_create_schema(work: Workspace, statement: s.CreateSchema) -> Result:
    """Add a namespace."""
    with work.lake.commit(f"create schema {statement.name}") as commit:
        commit.create_schema(statement.name, if_not_exists=statement.if_not_exists)
    return statement_result(commit.made, f"schema {statement.name} created")
