"""A table's statement, from what the lake keeps of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from platform_plugin.language import statements as s
from platform_plugin.language.statements.registry import statement_text
from platform_plugin.relations.tables.history import HISTORY_OF, find_source
from platform_plugin.relations.target import written_name

if TYPE_CHECKING:
    from platform_plugin.lake.catalogue.relations import Declaration
    from platform_plugin.lake.catalogue.tables import Snapshot, Table
    from platform_plugin.lake.lake import Lake


def table_text(lake: Lake, table: Table, declaration: Declaration, snapshot: Snapshot) -> str:
    """The statement that makes a table like this one, empty."""
    name = written_name(table)
    if (stream := find_source(lake, declaration, snapshot)) is not None:
        return statement_text(s.CreateHistory(name=name, stream=written_name(stream)))
    others = tuple(s.Option(name=key, value=value) for key, value in declaration.options.items() if key not in {"primary_key", HISTORY_OF})
    return statement_text(
        s.CreateTable(name=name, columns=table.fields, primary_key=declaration.primary_key, comment=table.comment, options=others)
    )
