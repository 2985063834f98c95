"""CREATE TABLE … AS HISTORY OF: a table that receives every segment that a stream evicts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from platform_plugin.errors import InvalidValue, ObjectExists
from platform_plugin.lake.catalogue.identifiers import new_uuid
from platform_plugin.lake.catalogue.relations import RELATION_TABLES, Declaration, declare_relation, read_declaration
from platform_plugin.lake.catalogue.tables import Table
from platform_plugin.lake.commit.schema_operations import CreateTableOp
from platform_plugin.lake.ring.history import FollowStream, read_history
from platform_plugin.lake.ring.segments import RING_TABLES
from platform_plugin.language import statements as s
from platform_plugin.relations.bind.names import lake_name, place_errors
from platform_plugin.relations.target import find_target, statement_result

if TYPE_CHECKING:
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot
    from platform_plugin.lake.lake import Lake
    from platform_plugin.relations.result import Result

HISTORY_OF = "history_of"


def run_create_history(work: Workspace, statement: s.CreateHistory) -> Result:
    """Create the empty history of a stream; it receives what the stream evicts from this commit on."""
    lake, base = work.lake, work.lake.snapshot()
    name = lake_name(statement.name)
    if statement.if_not_exists and any(table.name == name for table in lake.tables(base)):
        return statement_result(base, f"table {name} exists already")
    stream = find_target(lake, statement.stream, base)
    with lake.reading() as connection:
        kind = read_declaration(connection, stream.uuid).kind
        known = read_history(connection, stream, base.id)
    with place_errors(statement.stream.span):
        if kind != "stream":
            raise InvalidValue(f'"{stream.name}" is a {kind}, not a stream', hint="only streams have rows that leave")
        if name.schema != stream.name.schema:
            raise InvalidValue(
                f'the history of stream "{stream.name}" can\'t be in schema "{name.schema}"',
                hint="it shares the stream's files and so its schema",
            )
        if known is not None:
            raise ObjectExists(f'stream "{stream.name}" has a history already', hint=f"read {known.name}, or drop it first")
    lake.prepare_tables([*RELATION_TABLES, *RING_TABLES])
    # The same columns with the same ids, in the same folder: then a file of the stream is a file of its history.
    history = Table(id=None, uuid=new_uuid(), name=name, path=stream.path, fields=stream.fields, comment=f"history of stream {stream.name}")
    with place_errors(statement.name.span), lake.commit(f"create history {name}", base=base) as commit:
        commit.also(CreateTableOp(history))
        declare_relation(commit, history, Declaration(kind="table", options={HISTORY_OF: str(stream.uuid)}))
        commit.also(FollowStream(stream, history))
    return statement_result(commit.made, f"table {name} receives what stream {stream.name} evicts from now on")


def refuse_history(table: Table, declaration: Declaration) -> None:
    """Refuse to append to a history."""
    if HISTORY_OF in declaration.options:
        raise InvalidValue(
            f'table "{table.name}" takes its rows from its stream', hint="write to the stream; its rows come here when they leave it"
        )


def refuse_own_columns(lake: Lake, table: Table, declaration: Declaration, snapshot: Snapshot, statement: s.Alter) -> None:
    """Refuse to alter the columns of a history, which change with those of its stream."""
    stream = find_source(lake, declaration, snapshot)
    if stream is not None and not isinstance(statement.change, s.RenameRelation | s.SetOptions):
        raise InvalidValue(
            f'table "{table.name}" is the history of stream "{stream.name}" and changes with it',
            hint=f"write ALTER STREAM {stream.name}",
        )


def find_source(lake: Lake, declaration: Declaration, snapshot: Snapshot) -> Table | None:
    """The stream whose history a table is, or None if it is no history or the stream was dropped."""
    uuid = declaration.options.get(HISTORY_OF)
    return None if uuid is None else next((table for table in lake.tables(snapshot) if str(table.uuid) == uuid), None)
