"""`make_view`: creates a continuous view's tables and fills them, then replaces the old view, in one commit."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

from platform_plugin.algebra.types.data_types import Field
from platform_plugin.errors import PlatformError, QueryFailed, RefusedView
from platform_plugin.lake.catalogue.relations import RELATION_TABLES, STATE, Declaration, declare_relation
from platform_plugin.lake.catalogue.tables import Name, View
from platform_plugin.lake.commit.dependents import AddDependent, RemoveDependent
from platform_plugin.lake.ring.segments import RING_TABLES
from platform_plugin.operators.group.split import read_plan
from platform_plugin.relations.answers import put_answers
from platform_plugin.relations.bind import new_name, read_named
from platform_plugin.relations.follow.ranges import empty_range, read_first_row_id, rows_of
from platform_plugin.relations.views.follow.advance import AttachBeside, AttachView
from platform_plugin.relations.views.follow.shared_states import SAME, DropStates, StateSharer, find_twin, sharing_key
from platform_plugin.relations.views.follow.strategy import BATCH, BATCH_ROWS, DEFERRED, EAGER, SPLIT, rows_parts, wants_row_ids
from platform_plugin.relations.views.gates import find_gate, put_judged
from platform_plugin.relations.views.read.shared_results import find_shared_results, tables_in_use
from platform_plugin.relations.views.read.view import part_tables, run_stream_part, split_name
from platform_plugin.relations.views.record import (
    CREATED,
    FROM,
    ON_TABLE_CHANGE,
    PINNED_TABLES,
    REFUSE,
    RESULT_PART,
    VIEW_TABLES,
    DetachView,
    ViewRecord,
    note_propagated,
    note_view,
    read_records,
    shown_columns,
)
from platform_plugin.relations.views.rehearsal import rehearse_states
from platform_plugin.relations.views.relations import find_needs, note_meaning, used_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from uuid import UUID

    from pyspark.sql import DataFrame

    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot, Table
    from platform_plugin.lake.commit.commit import Commit
    from platform_plugin.lake.files.files import DataFile
    from platform_plugin.operators.group.parts import SplitPlan
    from platform_plugin.relations.answers import StateTarget
    from platform_plugin.relations.views.relations import QueryMeaning

    Filling = Callable[["BegunView"], tuple[list[tuple[StateTarget, list[DataFile]]], Mapping[str, int]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewView:
    """A continuous view to create; `begins` has the first row of each stream that it covers, where that is given."""

    name: Name
    query: str
    columns: tuple[str, ...]
    comment: str | None
    options: Mapping[str, Any]
    plan: SplitPlan
    meaning: QueryMeaning
    begins: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class BegunView:
    """A view whose tables can be written, in a commit that is not made yet.

    `written` are the files of its parts, by their tables, and `reached` is the row of each stream up to which they go.
    """

    new: NewView
    uuid: Any
    streams: Mapping[str, Table]
    tables: Mapping[str, Table]
    statics: Mapping[str, DataFrame]
    begins: Mapping[str, int]
    reached: Mapping[str, int]
    written: Mapping[UUID, list[DataFile]]
    is_deferred: bool


def make_view(work: Workspace, new: NewView, snapshot: Snapshot, *, old: View | None, fill: Filling | None = None) -> Snapshot:
    """Create a view in place of an old one, if there is one; if anything fails, the old view stays as it is.

    `fill` adds rows to its states before the commit, and returns how far it has come. A view with a gate is created together with its
    result, if that passes, and shares its states with no other view.
    """
    lake, name, plan = work.lake, new.name, new.plan
    gate = find_gate(work, name, plan)
    is_deferred = new.options.get("maintenance", SPLIT) == DEFERRED
    streams = {stream: lake.table(split_name(stream), snapshot) for stream in plan.stream_names}
    frames = _analyse(work, plan, streams, snapshot)
    if is_deferred:
        for stream, part in rows_parts(plan).items():
            frames[part] = rows_of(work.session, lake, empty_range(streams[stream], snapshot), row_ids=wants_row_ids(plan, stream))
    kept = find_shared_results(work, plan, snapshot, but=old)
    written: defaultdict[UUID, list[DataFile]] = defaultdict(list)
    lake.prepare_tables([*RELATION_TABLES, *RING_TABLES, *VIEW_TABLES])
    try:
        fields = _fields(work, name, frames)
        covered = first_rows(work, plan, snapshot, earliest=new.options.get("start") == "earliest", known=new.begins)
        begins = {stream: covered[str(table.uuid)] for stream, table in streams.items()}
        alone = fill is not None or gate is not None
        twin = None if alone else find_twin(work, sharing_key(plan, kept, new.options), covered, snapshot, fields=fields, but=old)
        with lake.commit(f"create view {name}", base=snapshot) as commit:
            if old is not None:
                drop_view(work, commit, old, snapshot)
            uuid = commit.create_view(name, new.query, columns=new.columns, comment=new.comment)
            commit.expect_unchanged(*kept.values())
            refuses = new.options.get(ON_TABLE_CHANGE) == REFUSE
            used = used_columns(read_plan(new.query, new.meaning.relations))
            needs = find_needs(work, plan, used, snapshot, refuses=refuses, keeps_rows=is_deferred)
            commit.expect_unchanged(*(need.relation for need in needs if need.rows and not isinstance(need.relation, View)))
            commit.also(AddDependent(uuid, needs))
            parts: dict[str, Table] = {**kept, **({} if twin is None else twin.states)}
            parts |= _create_tables(commit, new, uuid, {part: found for part, found in fields.items() if part not in parts})
            begun = BegunView(
                new=new,
                uuid=uuid,
                streams=streams,
                tables=parts,
                statics={static.name: frames[static.name] for static in plan.statics if static.feeds is None},
                begins=begins,
                reached=begins,
                written=written,
                is_deferred=is_deferred,
            )
            for static in plan.statics:
                if static.name not in kept:
                    table = parts[static.feeds or static.name]
                    written[table.uuid] += (found := _write(work, table, frames[static.name]))
                    commit.append(table, found)
            if fill is not None:
                filled, reached = fill(begun)
                begun = replace(begun, reached=reached)
                for target, files in filled:
                    written[target.table.uuid] += files
                put_answers(commit, filled)
            if gate is not None:
                with lake.lease(None if fill is not None else snapshot, holder="gate") as lease:
                    written[parts[RESULT_PART].uuid] += put_judged(work, commit, begun, gate, lease.snapshot)
            _attach(commit, new, uuid, streams, begun.reached if twin is None else twin)
            pinned = {PINNED_TABLES: list(plan.static_tables)} if plan.static_tables else {}
            known = {RESULT_PART: shown_columns(fields[RESULT_PART]), CREATED: snapshot.id, FROM: covered, **pinned}
            note_view(commit, _record(new, uuid, parts, {**known, SAME: sharing_key(plan, parts, new.options) if gate is None else None}))
            note_meaning(commit, uuid, new.meaning, used)
    except PlatformError:
        lake.discard(file for files in written.values() for file in files)
        raise
    return commit.made


def _create_tables(commit: Commit, new: NewView, uuid: UUID, fields: Mapping[str, tuple[Field, ...]]) -> dict[str, Table]:
    """The tables of a view's parts; static rows that feed a state have none of their own."""
    fed = [static.name for static in new.plan.statics if static.feeds is not None]
    made = {}
    for part in (part for part in fields if part not in fed):
        made[part] = commit.create_table((new.name.schema, f"{new.name.relation}__{part}_{str(uuid)[-8:]}"), fields[part])
        declare_relation(commit, made[part], Declaration(kind=STATE, options={"view": str(uuid)}))
    return made


def _attach(commit: Commit, new: NewView, uuid: UUID, streams: Mapping[str, Table], reached: Mapping[str, int] | StateSharer) -> None:
    """Let the view consume its streams, from known rows or from the cursors of a view whose states it shares."""
    if isinstance(reached, StateSharer):
        commit.also(AttachBeside(uuid, reached.uuid, tuple(streams.values())))
    else:
        for stream, table in streams.items():
            commit.also(AttachView(uuid, table, reached[stream]))
    strategy = new.options.get("maintenance", SPLIT)
    if strategy in (EAGER, BATCH):
        waiting = 1 if strategy == EAGER else new.options.get("batch_rows") or BATCH_ROWS
        for table in streams.values():
            note_propagated(commit, table.uuid, uuid, waiting)


def _record(new: NewView, uuid: UUID, parts: Mapping[str, Table], known: Mapping[str, Any]) -> ViewRecord:
    return ViewRecord(
        uuid=uuid,
        query=new.query,
        columns=new.columns,
        options={**new.options, **known},
        parts={part: table.uuid for part, table in parts.items()},
    )


def _analyse(work: Workspace, plan: SplitPlan, streams: Mapping[str, Table], snapshot: Snapshot) -> dict[str, DataFrame]:
    """The static parts as they are at the snapshot; states and the result without a row, whose types only Spark can tell."""
    from platform_plugin.engine.spark.frames.scan import query_relations

    frames: dict[str, DataFrame] = {}

    def read(relations: tuple[str, ...]) -> tuple[dict[str, str], dict[str, DataFrame]]:
        names = {relation: new_name() for relation in relations}
        return names, {names[relation]: read_named(work, split_name(relation), snapshot) for relation in relations}

    for static in plan.statics:
        names, known = read(static.tables)
        frames[static.name] = query_relations(work.session, static.sql(names), known)
    statics = {static.name: frames[static.name] for static in plan.statics if static.feeds is None}
    ranges = {stream: empty_range(table, snapshot) for stream, table in streams.items()}
    for part in plan.streams:
        if part.state not in frames:
            frames[part.state] = run_stream_part(work, part, ranges[part.stream], statics)
    # What runs will be given is analysed with it, so that what is accepted can be maintained, merged and read.
    taken = rehearse_states(work, plan, ranges, statics)
    names, known = read(plan.upper_tables)
    for state in plan.states:
        names[state.name], rows = new_name(), new_name()
        both = reduce(type(frames[state.name]).unionAll, taken[state.name], frames[state.name])
        known[names[state.name]] = query_relations(work.session, state.merge_sql(rows), {rows: both})
    for part_name in statics:
        names[part_name] = new_name()
        known[names[part_name]] = frames[part_name]
    frames[RESULT_PART] = query_relations(work.session, plan.upper_sql(names), known)
    return frames


def _fields(work: Workspace, name: Name, frames: Mapping[str, DataFrame]) -> dict[str, tuple[Field, ...]]:
    from platform_plugin.engine.spark.frames.schema import from_spark_type

    try:
        with work.session.job():
            schemas = {part: frame.schema for part, frame in frames.items()}
    except QueryFailed as error:
        # The query itself is one that Spark takes, so it is what became of it.
        found = RefusedView(
            f'view "{name}" can\'t be maintained: Spark refuses what it is split into',
            detail="\n".join(filter(None, (error.message, error.detail))),
            hint="write the sub-queries of its conditions as joins in FROM, or read the query with a plain SELECT",
        )
        raise found from error
    return {
        part: tuple(Field(name=found.name, type=from_spark_type(found.dataType, column=found.name)) for found in schema.fields)
        for part, schema in schemas.items()
    }


def _write(work: Workspace, table: Table, frame: DataFrame) -> list[DataFile]:
    from platform_plugin.engine.spark.frames.write import run_write, shape_frame

    files, _ = run_write(work.session, work.lake, table, shape_frame(frame, table.fields, [field.name for field in table.fields]))
    return files


def first_rows(
    work: Workspace, plan: SplitPlan, snapshot: Snapshot, *, earliest: bool, known: Mapping[str, int] | None = None
) -> dict[str, int]:
    """The first row of each stream, by the stream's identity, that a view created at a snapshot covers."""
    found = {}
    for stream in plan.stream_names:
        table = work.lake.table(split_name(stream), snapshot)
        begin = (known or {}).get(stream)
        found[str(table.uuid)] = read_first_row_id(work.lake, table, snapshot, earliest=earliest) if begin is None else begin
    return found


def drop_view(work: Workspace, commit: Commit, view: View, snapshot: Snapshot) -> None:
    """Drop a view, with its parts if it is continuous."""
    commit.drop_view(view)
    with work.lake.reading() as connection:
        record = read_records(connection, only=view.uuid).get(view.uuid)
    if record is not None:
        needed = tables_in_use(work, snapshot, but=view)
        going = [table for table in part_tables(work, record, snapshot).values() if table.uuid not in needed]
        for table in going:
            commit.drop_table(table)
        commit.also(DropStates(view.uuid, tuple(going)))
        commit.also(RemoveDependent(view))
        commit.also(DetachView(view.uuid))
