"""`run_end_stream`: END STREAM, which tells sessions that no more rows come."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from platform_plugin.errors import InvalidValue
from platform_plugin.lake.catalogue.relations import read_declaration
from platform_plugin.lake.ring.ends import END_TABLES, MarkStreamEnd
from platform_plugin.relations.bind.names import place_errors
from platform_plugin.relations.result import Result
from platform_plugin.relations.target import find_target

if TYPE_CHECKING:
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.language.statements.create_stream import EndStream


def run_end_stream(work: Workspace, statement: EndStream) -> Result:
    """Commit a mark behind the rows of a stream."""
    lake = work.lake
    stream = find_target(lake, statement.name)
    with lake.reading() as connection, place_errors(statement.name.span):
        if read_declaration(connection, stream.uuid).kind != "stream":
            raise InvalidValue(f'"{stream.name}" is not a stream', hint="only a stream has an end, which its sessions wait for")
    lake.prepare_tables(END_TABLES)
    with lake.commit(f"end of {stream.name}") as commit:
        commit.also(MarkStreamEnd(stream))
    return Result(pa.table({}), snapshot=commit.made, message=f"stream {stream.name} ended: its sessions answer")
