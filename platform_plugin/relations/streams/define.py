"""CREATE STREAM: creates a stream's table, with its retention and its feed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from platform_plugin.lake.catalogue.relations import Declaration, declare_relation
from platform_plugin.relations.bind.names import lake_name, place_errors
from platform_plugin.relations.drop import drop_replaced
from platform_plugin.relations.streams.declaration import stored_limits
from platform_plugin.relations.streams.feeds.declaration import declared_feed
from platform_plugin.relations.target import find_existing, statement_result

if TYPE_CHECKING:
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.language import statements as s
    from platform_plugin.relations.result import Result


def run_create_stream(work: Workspace, statement: s.CreateStream) -> Result:
    """Create a stream: a table and its declaration."""
    name = lake_name(statement.name)
    base = work.lake.snapshot()
    old = find_existing(work.lake, name, base)
    if old is not None and statement.if_not_exists:
        return statement_result(base, f"stream {name} exists already")
    declared = declared_feed(work.lake, statement, name, base)
    with place_errors(statement.name.span), work.lake.commit(f"create stream {name}", base=base) as commit:
        drop_replaced(work, commit, old if statement.or_replace else None)
        table = declared.create(commit, name, statement.comment)
        declare_relation(commit, table, Declaration(kind="stream", options={**stored_limits(statement), **declared.options}))
    return statement_result(commit.made, f"stream {name} created")
