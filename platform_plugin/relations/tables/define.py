"""CREATE, ALTER, COMMENT and DROP: relations as the catalogue knows them, without Spark but for CREATE TABLE … AS."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from platform_plugin.algebra.types.data_types import Field, Primitive
from platform_plugin.errors import InvalidValue, ObjectExists, PlatformError, UnknownObject
from platform_plugin.lake.catalogue.relations import STATE, Declaration, declare, read_declaration
from platform_plugin.lake.catalogue.tables import Table, View
from platform_plugin.language import statements as s
from platform_plugin.language.text.options import STREAM
from platform_plugin.language.text.places import at
from platform_plugin.relations.bind import bind_query, lake_name, pointing_at
from platform_plugin.relations.faults import placed
from platform_plugin.relations.samples.record import Leave, find_sample
from platform_plugin.relations.samples.remove import drop_sample, samples_of
from platform_plugin.relations.streams.declaration import stored_limits, stored_option
from platform_plugin.relations.streams.feeds.declaration import altered_feed, declared_feed
from platform_plugin.relations.streams.feeds.sources import ForgetSources
from platform_plugin.relations.streams.history import find_twin
from platform_plugin.relations.target import find_existing, find_target, outcome, refuse_protected
from platform_plugin.relations.views.define import refuse_consumed
from platform_plugin.relations.views.making import drop_view

if TYPE_CHECKING:
    from datetime import timedelta

    from platform_plugin.engine.spark.session.job import ProgressHandler
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Name, Snapshot
    from platform_plugin.lake.commit.commit import Commit
    from platform_plugin.lake.files.files import DataFile
    from platform_plugin.relations.arguments import Arguments
    from platform_plugin.relations.result import Result


def run_create_table(
    work: Workspace,
    statement: s.CreateTable,
    arguments: Arguments,
    *,
    timeout: timedelta | None = None,
    progress: ProgressHandler | None = None,
) -> Result:
    """Create a history table, empty or filled by a query; table and rows become visible together."""
    name = lake_name(statement.name)
    base = work.lake.snapshot()
    old = find_existing(work.lake, name, base)
    if old is not None and statement.if_not_exists:
        return outcome(base, f"table {name} exists already")
    declaration = Declaration(kind="table", options=_options(statement))
    if statement.query is not None:
        return _create_from_query(work, statement, name, declaration, arguments, timeout=timeout, progress=progress)
    with pointing_at(statement.name.span), work.lake.commit(f"create table {name}", base=base) as commit:
        _make_room(work, commit, old if statement.or_replace else None)
        table = commit.create_table(name, _columns(statement), comment=statement.comment)
        declare(commit, table, declaration)
    return outcome(commit.made, f"table {name} created")


def _columns(statement: s.CreateTable) -> tuple[Field, ...]:
    keys = {key.lower() for key in statement.primary_key}
    known = {column.name.lower() for column in statement.columns}
    for key in statement.primary_key:
        if key.lower() not in known:
            raise UnknownObject(f'key column "{key}" is not a column of the table', hint="name one of its columns in PRIMARY KEY")
    return tuple(replace(column, nullable=False) if column.name.lower() in keys else column for column in statement.columns)


def _options(statement: s.CreateTable) -> dict[str, Any]:
    options: dict[str, Any] = {option.name: option.value for option in statement.options}
    return options | ({"primary_key": list(statement.primary_key)} if statement.primary_key else {})


def _create_from_query(
    work: Workspace,
    statement: s.CreateTable,
    name: Name,
    declaration: Declaration,
    arguments: Arguments,
    *,
    timeout: timedelta | None,
    progress: ProgressHandler | None,
) -> Result:
    from platform_plugin.engine.spark.frames.schema import from_spark_type
    from platform_plugin.engine.spark.frames.write import run_write, shaped

    lake = work.lake
    if statement.query is None:
        message = "a table without a query is created empty"
        raise ValueError(message)
    with lake.lease(holder="create table") as lease:
        old = find_existing(work.lake, name, lease.snapshot)
        if old is not None and not statement.or_replace:
            raise at(statement.name.span).attach(
                ObjectExists(f'table "{name}" exists already', hint="choose another name, or write CREATE OR REPLACE")
            )
        bound = bind_query(work, statement.query, lease.snapshot, arguments)
        with placed(bound.rendered), work.session.job(timeout=timeout):
            schema = bound.frame.schema
        with pointing_at(statement.query):
            fields = tuple(Field(name=part.name, type=from_spark_type(part.dataType, column=part.name)) for part in schema.fields)
        files: list[DataFile] = []
        try:
            with pointing_at(statement.name.span), lake.commit(f"create table {name}", base=lease.snapshot) as commit:
                _make_room(work, commit, old)
                table = commit.create_table(name, fields, comment=statement.comment)
                declare(commit, table, declaration)
                with placed(bound.rendered):
                    frame = shaped(bound.frame, table.fields, [field.name for field in fields])
                    files, metrics = run_write(work.session, lake, table, frame, timeout=timeout, progress=progress)
                commit.append(table, files)
        except PlatformError:
            lake.discard(files)
            raise
    rows = sum(file.record_count for file in files)
    return outcome(commit.made, f"table {name} created with {rows} rows", rows=rows, metrics=metrics)


def run_create_stream(work: Workspace, statement: s.CreateStream) -> Result:
    """Create a stream: a table whose declared retention is noted with it."""
    name = lake_name(statement.name)
    base = work.lake.snapshot()
    old = find_existing(work.lake, name, base)
    if old is not None and statement.if_not_exists:
        return outcome(base, f"stream {name} exists already")
    declared = declared_feed(work.lake, statement, name, base)
    with pointing_at(statement.name.span), work.lake.commit(f"create stream {name}", base=base) as commit:
        _make_room(work, commit, old if statement.or_replace else None)
        table = declared.create(commit, name, statement.comment)
        declare(commit, table, Declaration(kind="stream", options={**stored_limits(statement), **declared.options}))
    return outcome(commit.made, f"stream {name} created")


def run_create_schema(work: Workspace, statement: s.CreateSchema) -> Result:
    """Add a namespace."""
    with work.lake.commit(f"create schema {statement.name}") as commit:
        commit.create_schema(statement.name, if_not_exists=statement.if_not_exists)
    return outcome(commit.made, f"schema {statement.name} created")


def run_drop(work: Workspace, statement: s.Drop) -> Result:
    """End a relation or a schema; with CASCADE a schema's relations end with it."""
    lake, base = work.lake, work.lake.snapshot()
    if statement.kind == "SCHEMA":
        return _drop_schema(work, statement, base)
    name = lake_name(statement.name)
    found = find_existing(work.lake, name, base)
    if found is None:
        if statement.if_exists:
            return outcome(base, f"{statement.kind.lower()} {name} does not exist")
        find_target(lake, statement.name, base)
    actual = kind_of(work, found)
    if actual != statement.kind.lower():
        raise at(statement.name.span).attach(
            InvalidValue(f'"{name}" is a {actual}, not a {statement.kind.lower()}', hint=f"write DROP {actual.upper()}")
        )
    if actual == "stream" and isinstance(found, Table):
        refuse_consumed(work, found, statement, base)
    if actual in ("stream", "sample") and isinstance(found, Table) and (samples := samples_of(lake, found, base)):
        said = "sampled by" if actual == "stream" else "part of"
        raise at(statement.name.span).attach(
            InvalidValue(f'{actual} "{found.name}" is {said} {", ".join(samples)}', hint=f"drop that first: DROP SAMPLE {samples[0]}")
        )
    with pointing_at(statement.name.span), lake.commit(f"drop {actual} {name}", base=base) as commit:
        _drop(work, commit, found, base)
        if actual == "sample" and isinstance(found, Table):
            commit.also(Leave(sample=found))
    return outcome(commit.made, f"{actual} {name} dropped")


def _drop_schema(work: Workspace, statement: s.Drop, base: Snapshot) -> Result:
    name = statement.name.relation
    if name not in work.lake.schemas(base) and statement.if_exists:
        return outcome(base, f"schema {name} does not exist")
    with pointing_at(statement.name.span), work.lake.commit(f"drop schema {name}", base=base) as commit:
        if statement.cascade:
            relations: list[Table | View] = [*work.lake.tables(base), *work.lake.views(base)]
            for relation in relations:
                # Parts go with the view or sample that they belong to.
                if relation.name.schema == name and kind_of(work, relation) != STATE:
                    _drop(work, commit, relation, base)
        commit.drop_schema(name)
    return outcome(commit.made, f"schema {name} dropped")


def run_alter(work: Workspace, statement: s.Alter) -> Result:
    """Change one thing about a table or stream."""
    lake, base = work.lake, work.lake.snapshot()
    name = lake_name(statement.name)
    if statement.if_exists and find_existing(work.lake, name, base) is None:
        return outcome(base, f"{statement.kind.lower()} {name} does not exist")
    table = find_target(lake, statement.name, base)
    actual = kind_of(work, table)
    if actual != statement.kind.lower():
        raise at(statement.name.span).attach(
            InvalidValue(f'"{name}" is a {actual}, not a {statement.kind.lower()}', hint=f"write ALTER {actual.upper()}")
        )
    with pointing_at(statement.name.span):
        refuse_protected(lake, table)
    twin = find_twin(work, table, base, statement)
    with pointing_at(statement.span), lake.commit(f"alter {actual} {name}", base=base) as commit:
        _alter(work, commit, table, statement.change, twin)
        if twin is not None and not isinstance(statement.change, s.AddColumn | s.RenameRelation | s.SetOptions):
            _alter(work, commit, twin, statement.change, None)
    return outcome(commit.made, f"{actual} {name} altered")


def _alter(work: Workspace, commit: Commit, table: Table, change: s.Change, twin: Table | None) -> None:
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
        case s.SetOptions(options=options):
            with work.lake.reading() as connection:
                known = read_declaration(connection, table.uuid)
            fed = altered_feed(known, options, table.fields)
            changed = dict(stored_option(option) for option in options if not fed or option.name in STREAM) | fed
            declare(commit, table, Declaration(kind=known.kind, options={**known.options, **changed}))
            if known.kind == "stream":
                commit.retain(table)


def run_comment(work: Workspace, statement: s.Comment) -> Result:
    """Say what a relation or a column is."""
    lake, base = work.lake, work.lake.snapshot()
    table = find_target(lake, statement.name, base)
    with pointing_at(statement.name.span), lake.commit(f"comment on {table.name}", base=base) as commit:
        commit.comment(table, statement.text, column=(statement.column,) if statement.column else ())
    return outcome(commit.made, f"comment on {table.name} {'set' if statement.text is not None else 'dropped'}")


def kind_of(work: Workspace, relation: Table | View | None) -> str:
    """The word for what a relation is."""
    if isinstance(relation, Table):
        with work.lake.reading() as connection:
            return read_declaration(connection, relation.uuid).kind
    return "view"


def _make_room(work: Workspace, commit: Commit, old: Table | View | None) -> None:
    if old is not None:
        _drop(work, commit, old, commit.base)


def _drop(work: Workspace, commit: Commit, relation: Table | View | None, snapshot: Snapshot) -> None:
    if isinstance(relation, Table):
        refuse_protected(work.lake, relation)
        sample = find_sample(work.lake, relation, snapshot)
        if sample is not None:
            drop_sample(commit, sample)
            return
        commit.drop_table(relation)
        commit.also(ForgetSources(str(relation.uuid)))
    elif relation is not None:
        drop_view(work, commit, relation, snapshot)
