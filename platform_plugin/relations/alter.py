"""ALTER and COMMENT ON: one change to a relation, in one commit with the changes that follow from it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from platform_plugin.algebra.types.data_types import Primitive
from platform_plugin.errors import InvalidValue
from platform_plugin.lake.catalogue.relations import read_declaration
from platform_plugin.lake.catalogue.tables import View
from platform_plugin.language import statements as s
from platform_plugin.language.text.places import locate_offset
from platform_plugin.relations.bind.names import lake_name, place_errors
from platform_plugin.relations.kinds import find_kind
from platform_plugin.relations.target import find_existing, find_target, refuse_protected, statement_result

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot, Table
    from platform_plugin.lake.commit.commit import Commit
    from platform_plugin.relations.result import Result


def run_alter(work: Workspace, statement: s.Alter) -> Result:
    """Change one property of a table or stream."""
    lake, base = work.lake, work.lake.snapshot()
    name = lake_name(statement.name)
    if statement.if_exists and find_existing(lake, name, base) is None:
        return statement_result(base, f"{statement.kind.lower()} {name} does not exist")
    found = find_existing(lake, name, base)
    if isinstance(found, View):
        return _alter_view(work, statement, found, base)
    table = find_target(lake, statement.name, base)
    kind = find_kind(lake, table, base)
    actual = kind.name
    if actual != statement.kind.lower():
        raise locate_offset(statement.name.span).attach(
            InvalidValue(f'"{name}" is a {actual}, not a {statement.kind.lower()}', hint=f"write ALTER {actual.upper()}")
        )
    with place_errors(statement.name.span):
        refuse_protected(lake, table)
        with lake.reading() as connection:
            declaration = read_declaration(connection, table.uuid)
        twin = kind.find_twin(work, table, declaration, base, statement)
    with place_errors(statement.span), lake.commit(f"alter {actual} {name}", base=base) as commit:
        _alter(commit, table, statement.change, twin, partial(kind.set_options, commit, table, declaration))
        if twin is not None and not isinstance(statement.change, s.AddColumn | s.RenameRelation | s.SetOptions):
            _alter(commit, twin, statement.change, None, None)
    return statement_result(commit.made, f"{actual} {name} altered")


def _alter_view(work: Workspace, statement: s.Alter, view: View, base: Snapshot) -> Result:
    """Change options of a view; everything else is another view."""
    lake = work.lake
    kind = find_kind(lake, view, base)
    if kind.name != statement.kind.lower():
        raise locate_offset(statement.name.span).attach(
            InvalidValue(f'"{view.name}" is a {kind.name}, not a {statement.kind.lower()}', hint=f"write ALTER {kind.name.upper()}")
        )
    if not isinstance(statement.change, s.SetOptions):
        raise locate_offset(statement.name.span).attach(
            InvalidValue(f'of view "{view.name}" only options can be altered', hint="CREATE OR REPLACE VIEW makes another view of the name")
        )
    with lake.reading() as connection:
        declaration = read_declaration(connection, view.uuid)
    with place_errors(statement.span), lake.commit(f"alter view {view.name}", base=base) as commit:
        kind.set_query_options(work, commit, view, declaration, statement.change.options)
    return statement_result(commit.made, f"view {view.name} altered")


def _alter(
    commit: Commit, table: Table, change: s.Change, twin: Table | None, set_options: Callable[[Sequence[s.Option]], None] | None
) -> None:
    match change:
        case s.AddColumn(column=column, if_not_exists=if_not_exists):
            if column.type == Primitive("uuid") and column.nullable and column.default is not None:
                raise InvalidValue(
                    f'column "{column.name}" of type UUID can\'t be added with a default unless it is NOT NULL',
                    detail="Spark can't tell older rows, which read as the default, from NULL",
                    hint="write NOT NULL, or add it without a default and SET DEFAULT then: rows that are there read as NULL",
                )
            if not (if_not_exists and table.field(column.name)):
                commit.add_column(table, column, twin=twin)
        case s.DropColumn(column=column, if_exists=if_exists):
            if not (if_exists and table.field(column) is None):
                commit.drop_column(table, column)
        case s.RenameColumn(column=column, to=to):
            commit.rename_column(table, column, to=to)
        case s.RenameRelation(to=to):
            target = lake_name(to) if to.schema is not None else replace(table.name, relation=to.relation)
            if target.schema != table.name.schema:
                raise InvalidValue(f'table "{table.name}" can\'t move to schema "{target.schema}"', hint="create a table there and copy")
            commit.rename_table(table, target.relation)
        case s.SetType(column=column, type=kind):
            commit.widen_column(table, column, to=kind)
        case s.SetNullable(column=column, nullable=nullable):
            if not nullable:
                commit.forbid_null(table, column)
            else:
                commit.allow_null(table, column)
        case s.SetDefault(column=column, default=default):
            commit.set_default(table, column, default=default)
        case s.SetOptions(options=options) if set_options is not None:
            set_options(options)


def run_comment(work: Workspace, statement: s.Comment) -> Result:
    """Set the comment of a relation or a column."""
    lake, base = work.lake, work.lake.snapshot()
    table = find_target(lake, statement.name, base)
    with place_errors(statement.name.span), lake.commit(f"comment on {table.name}", base=base) as commit:
        commit.comment(table, statement.text, column=(statement.column,) if statement.column else ())
    return statement_result(commit.made, f"comment on {table.name} {'set' if statement.text is not None else 'dropped'}")
