"""CREATE VIEW and DROP VIEW: over a stream a view is continuous, and its parts are made with it in one commit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import sqlalchemy as sa

from platform_plugin.algebra.types import Field
from platform_plugin.errors import InvalidValue, ObjectExists, PlatformError, RefusedView
from platform_plugin.lake.data_operations import has_table
from platform_plugin.lake.relations import RELATION, STATE, Declaration, declare
from platform_plugin.lake.segments import CONSUMER, RING_TABLES
from platform_plugin.lake.tables import Table
from platform_plugin.language.places import at
from platform_plugin.queries.bind import bind_query, lake_name, new_name, pointing_at, read_named
from platform_plugin.queries.result import Result
from platform_plugin.queries.select import placed
from platform_plugin.streams.declaration import stored_option
from platform_plugin.tables.target import find_existing, outcome
from platform_plugin.views.explain import explain_split
from platform_plugin.views.kept import find_kept, tables_in_use
from platform_plugin.views.plans import plan_query, read_plans
from platform_plugin.views.ranges import empty_range, first_uncovered
from platform_plugin.views.read import part_tables, run_part, split_name
from platform_plugin.views.record import (
    CREATED,
    RESULT_PART,
    VIEW_TABLES,
    Attach,
    Detach,
    ViewRecord,
    note_view,
    read_records,
    shown_columns,
)
from platform_plugin.views.sharing import ViewParts, plan_sharing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from platform_plugin.lake.commit import Commit
    from platform_plugin.lake.files import DataFile
    from platform_plugin.lake.tables import Name, Snapshot, View
    from platform_plugin.language import statements as s
    from platform_plugin.spark.workspace import Workspace
    from platform_plugin.views.parts import SplitPlan


def run_create_view(work: Workspace, statement: s.CreateView) -> Result:
    """Store a query under a name. Over a stream it is maintained from now on, or refused with the rule that it breaks."""
    name = lake_name(statement.name)
    with work.lake.lease(holder="create view") as lease:
        old = find_existing(work.lake, name, lease.snapshot)
        if old is not None and statement.if_not_exists:
            return outcome(lease.snapshot, f"view {name} exists already")
        if isinstance(old, Table):
            raise at(statement.name.span).attach(ObjectExists(f'"{name}" is a table', hint="choose another name"))
        if old is not None and not statement.or_replace:
            raise at(statement.name.span).attach(
                ObjectExists(f'view "{name}" exists already', hint="choose another name, or write CREATE OR REPLACE")
            )
        # Bound once as it is, so that what Spark can't read is told in the words of any query.
        bound = bind_query(work, statement.query, lease.snapshot, within=(name,))
        with placed(bound.rendered), work.session.job():
            found = bound.frame.schema
        aliases = tuple(alias.name for alias in statement.aliases)
        if aliases and len(aliases) != len(found.fields):
            raise at(statement.query).attach(
                InvalidValue(f"the view names {len(aliases)} columns, its query gives {len(found.fields)}", hint="name each of them")
            )
        wanted = statement.continuous or bool(statement.options)
        try:
            plan = plan_query(work, statement.query, lease.snapshot, columns=aliases)
        except RefusedView as refused:
            # Without a grouping there is nothing to maintain: the view is the query itself, unless maintenance was asked for.
            if wanted or refused.rule != "R9":
                raise
            plan = None
        if plan is None or not plan.streams:
            if wanted:
                raise at(statement.name.span).attach(
                    InvalidValue(f'view "{name}" reads no stream', hint="leave out CONTINUOUS and WITH: it is computed when it is read")
                )
            return _create_plain(work, statement, name, aliases, lease.snapshot)
        return _create_continuous(work, statement, plan, lease.snapshot, old)


def run_explain_view(work: Workspace, statement: s.CreateView) -> Result:
    """How a view would be split and what it would share with others on its streams, or the rule that it breaks; nothing is made."""
    snapshot = work.lake.snapshot()
    name = lake_name(statement.name)
    plan = plan_query(work, statement.query, snapshot, columns=tuple(alias.name for alias in statement.aliases))
    if not plan.streams:
        text = f"view {name} reads no stream: it is computed when it is read"
    else:
        others = [view for view in read_plans(work, snapshot) if view.view != str(name)]
        mine = ViewParts(view=str(name), plan=plan)
        shared = [
            plan_sharing([*(view for view in others if stream in view.plan.stream_names), mine], stream) for stream in plan.stream_names
        ]
        text = "\n".join([explain_split(plan), *(found.explain() for found in shared)])
    return Result(pa.table({"plan": text.splitlines()}), snapshot=snapshot)


def _create_plain(work: Workspace, statement: s.CreateView, name: Name, aliases: tuple[str, ...], snapshot: Snapshot) -> Result:
    with pointing_at(statement.name.span), work.lake.commit(f"create view {name}", base=snapshot) as commit:
        commit.create_view(name, statement.query.text, columns=aliases, comment=statement.comment, or_replace=statement.or_replace)
    return outcome(commit.made, f"view {name} created; it is computed when it is read")


def _create_continuous(work: Workspace, statement: s.CreateView, plan: SplitPlan, snapshot: Snapshot, old: View | None) -> Result:
    from platform_plugin.spark.schema import from_spark_type
    from platform_plugin.spark.write import run_write, shaped

    lake, name = work.lake, lake_name(statement.name)
    other = next((option for option in statement.options if option.name == "maintenance" and option.value != "split"), None)
    if other is not None:
        raise at(other.span).attach(
            InvalidValue(f"maintenance = '{other.value}' is not available yet", hint="leave it out: views are split")
        )
    aliases = tuple(alias.name for alias in statement.aliases)
    options = dict(stored_option(option) for option in statement.options)
    streams = {stream: lake.table(split_name(stream), snapshot) for stream in plan.stream_names}
    frames = _analyse(work, plan, streams, snapshot)
    kept = find_kept(work, plan, snapshot, but=old)
    files: list[DataFile] = []
    lake.prepare_tables([RELATION, *RING_TABLES, *VIEW_TABLES])
    try:
        with work.session.job():
            fields = {
                part: tuple(
                    Field(name=found.name, type=from_spark_type(found.dataType, column=found.name)) for found in frame.schema.fields
                )
                for part, frame in frames.items()
            }
        with pointing_at(statement.name.span), lake.commit(f"create view {name}", base=snapshot) as commit:
            if old is not None:
                drop_view(work, commit, old, snapshot)
            uuid = commit.create_view(name, statement.query.text, columns=aliases, comment=statement.comment)
            suffix = str(uuid)[-8:]
            parts: dict[str, Table] = {}
            commit.expect_unchanged(*kept.values())
            parts |= kept
            own = [static.name for static in plan.statics if static.feeds is None and static.name not in kept]
            for part in (*(state.name for state in plan.states), *own):
                table = commit.create_table((name.schema, f"{name.relation}__{part}_{suffix}"), fields[part])
                declare(commit, table, Declaration(kind=STATE, options={"view": str(uuid)}))
                parts[part] = table
            parts[RESULT_PART] = commit.create_table((name.schema, f"{name.relation}__{RESULT_PART}_{suffix}"), fields[_RESULT])
            declare(commit, parts[RESULT_PART], Declaration(kind=STATE, options={"view": str(uuid)}))
            for static in plan.statics:
                if static.name in kept:
                    continue
                table = parts[static.feeds or static.name]
                frame = shaped(frames[static.name], table.fields, [field.name for field in table.fields])
                written, _ = run_write(work.session, lake, table, frame)
                files += written
                commit.append(table, written)
            for table in streams.values():
                commit.also(Attach(uuid, table, first_uncovered(lake, table, snapshot, earliest=options.get("start") == "earliest")))
            record = ViewRecord(
                uuid=uuid,
                query=statement.query.text,
                columns=aliases,
                options=options | {RESULT_PART: shown_columns(fields[_RESULT]), CREATED: snapshot.id},
                parts={part: table.uuid for part, table in parts.items()},
            )
            note_view(commit, record)
    except PlatformError:
        lake.discard(files)
        raise
    return outcome(commit.made, f"view {name} created; it is maintained from now on")


_RESULT = "the result"


def _analyse(work: Workspace, plan: SplitPlan, streams: Mapping[str, Table], snapshot: Snapshot) -> dict[str, DataFrame]:
    """The static parts as they are at the snapshot; states and the result without a row, whose types only Spark can tell."""
    from platform_plugin.spark.relation import query_relations

    frames: dict[str, DataFrame] = {}

    def read(relations: tuple[str, ...]) -> tuple[dict[str, str], dict[str, DataFrame]]:
        names = {relation: new_name() for relation in relations}
        return names, {names[relation]: read_named(work, split_name(relation), snapshot) for relation in relations}

    for static in plan.statics:
        names, known = read(static.tables)
        frames[static.name] = query_relations(work.session, static.sql(names), known)
    statics = {static.name: frames[static.name] for static in plan.statics if static.feeds is None}
    for part in plan.streams:
        if part.state not in frames:
            frames[part.state] = run_part(work, part, empty_range(streams[part.stream], snapshot), statics)
    names, known = read(plan.upper_tables)
    for part_name in (*(state.name for state in plan.states), *statics):
        names[part_name] = new_name()
        known[names[part_name]] = frames[part_name]
    frames[_RESULT] = query_relations(work.session, plan.upper_sql(names), known)
    return frames


def drop_view(work: Workspace, commit: Commit, view: View, snapshot: Snapshot) -> None:
    """End a view, and its parts if it is a continuous one."""
    commit.drop_view(view)
    with work.lake.reading() as connection:
        record = read_records(connection, only=view.uuid).get(view.uuid)
    if record is not None:
        needed = tables_in_use(work, snapshot, but=view)
        for table in part_tables(work, record, snapshot).values():
            if table.uuid not in needed:
                commit.drop_table(table)
        commit.also(Detach(view.uuid))


def refuse_consumed(work: Workspace, stream: Table, statement: s.Drop, snapshot: Snapshot) -> None:
    """Refuse to drop a stream that continuous views are made over."""
    lake = work.lake
    with lake.reading() as connection:
        if not has_table(connection, CONSUMER.name):
            return
        consumers = set(connection.execute(sa.select(CONSUMER.c.consumer).where(CONSUMER.c.relation_uuid == str(stream.uuid))).scalars())
    views = sorted(str(view.name) for view in lake.views(snapshot) if str(view.uuid) in consumers)
    if views:
        raise at(statement.name.span).attach(
            InvalidValue(f'stream "{stream.name}" is read by {", ".join(views)}', hint=f"drop what reads it first: DROP VIEW {views[0]}")
        )
