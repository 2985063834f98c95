"""The definition of a table: from CREATE TABLE, back to its text, and compared with a file's."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from platform_plugin.lake.files.file_options import NAMES as FILE_OPTIONS
from platform_plugin.language import statements as s
from platform_plugin.language.statements.registry import statement_text
from platform_plugin.relations.bind.names import lake_name
from platform_plugin.relations.declarations import DeclaredRelation
from platform_plugin.relations.differences import column_differences, fold_names, option_differences
from platform_plugin.relations.tables.history import HISTORY_OF, find_source
from platform_plugin.relations.target import statement_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from platform_plugin.algebra.types.data_types import Field
    from platform_plugin.lake.catalogue.relations import Declaration
    from platform_plugin.lake.catalogue.tables import Snapshot, Table
    from platform_plugin.lake.lake import Lake


def table_text(lake: Lake, table: Table, declaration: Declaration, snapshot: Snapshot) -> str:
    """The statement that creates an empty table like this one."""
    name = statement_name(table)
    if (stream := find_source(lake, declaration, snapshot)) is not None:
        return statement_text(s.CreateHistory(name=name, stream=statement_name(stream)))
    declared = dict(table.file_options.declared)
    noted = {key: value for key, value in declaration.options.items() if key not in {"primary_key", HISTORY_OF, *FILE_OPTIONS}}
    others = tuple(s.Option(name=key, value=value) for key, value in {**declared, **noted}.items())
    return statement_text(
        s.CreateTable(name=name, columns=table.fields, primary_key=declaration.primary_key, comment=table.comment, options=others)
    )


def read_declared(statement: s.Statement) -> DeclaredRelation | None:
    """The definition in a CREATE TABLE."""
    match statement:
        case s.CreateTable(name=name, columns=columns, primary_key=key, comment=comment, query=query):
            return DeclaredRelation(name=name, columns=columns, primary_key=key, comment=comment, query=query, is_built=query is not None)
        case s.CreateHistory(name=name, stream=stream):
            return DeclaredRelation(name=name, reads=(stream,), like=stream)
    return None


def table_differences(declared: s.Statement, stored: s.Statement) -> Iterator[str]:
    """The differences between a file's definition of a table and the lake's."""
    match declared, stored:
        case s.CreateTable(), s.CreateTable():
            yield from column_differences(_with_keys(declared), _with_keys(stored))
            if fold_names(declared.primary_key) != fold_names(stored.primary_key):
                yield f"the key is ({', '.join(declared.primary_key)}) in the file, ({', '.join(stored.primary_key)}) in the lake"
            ours, theirs = ({option.name: option.value for option in each.options} for each in (declared, stored))
            yield from option_differences(ours, theirs)
        case s.CreateHistory(), s.CreateHistory():
            streams = [str(lake_name(each.stream)) for each in (declared, stored)]
            if streams[0].lower() != streams[1].lower():
                yield f"it is the history of {streams[0]} in the file, of {streams[1]} in the lake"


def _with_keys(statement: s.CreateTable) -> tuple[Field, ...]:
    keys = fold_names(statement.primary_key)
    return tuple(replace(column, nullable=column.nullable and column.name.lower() not in keys) for column in statement.columns)
