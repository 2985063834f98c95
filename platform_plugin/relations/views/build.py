"""`make_view`: creates a continuous view's tables and fills them, then replaces the old view, in one commit."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from platform_plugin.engine.figures import note_runs
from platform_plugin.errors import PlatformError
from platform_plugin.lake.catalogue.relations import RELATION_TABLES, STATE, Declaration, declare_relation
from platform_plugin.lake.catalogue.tables import Name, View
from platform_plugin.lake.commit.dependents import AddDependent, RemoveDependent
from platform_plugin.lake.ring.segments import RING_TABLES
from platform_plugin.relations.answers import put_answers
from platform_plugin.relations.follow.ranges import read_first_row_id
from platform_plugin.relations.views.columns import ask_columns, infer_columns
from platform_plugin.relations.views.follow.advance import AttachNode
from platform_plugin.relations.views.follow.shared_states import find_shared_states, nodes_in_use, state_likeness
from platform_plugin.relations.views.follow.strategy import DEFERRED, SPLIT, rows_parts
from platform_plugin.relations.views.gates import find_gate, put_judged
from platform_plugin.relations.views.read.shared_results import find_shared_results, static_likeness
from platform_plugin.relations.views.read.view import part_tables, split_name
from platform_plugin.relations.views.record import (
    CREATED,
    FROM,
    ON_TABLE_CHANGE,
    PINNED_TABLES,
    REFUSE,
    RESULT_PART,
    VIEW_TABLES,
    ViewRecord,
    note_view,
    read_records,
    shown_columns,
)
from platform_plugin.relations.views.relations import find_needs, note_meaning
from platform_plugin.state.node import Node, ReleaseNodes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from uuid import UUID

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from platform_plugin.algebra.types.data_types import Field
    from platform_plugin.engine.figures import EngineRun
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot, Table
    from platform_plugin.lake.commit.commit import Commit
    from platform_plugin.lake.files.files import DataFile
    from platform_plugin.lake.lake import Lake
    from platform_plugin.operators.group.parts import SplitPlan
    from platform_plugin.relations.answers import StateTarget
    from platform_plugin.relations.views.columns import PartColumns
    from platform_plugin.relations.views.relations import QueryMeaning

    Filling = Callable[["BegunView"], "FilledStates"]


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
    """The rows of static parts that are looked up, where Spark computes them."""
    static_rows: Mapping[str, pa.Table]
    """The rows of those that this process has computed."""
    begins: Mapping[str, int]
    reached: Mapping[str, int]
    written: Mapping[UUID, list[DataFile]]
    is_deferred: bool


class FilledStates(NamedTuple):
    """The files that were added to the states of a view, the row of each stream up to which they go, and the engines that ran."""

    written: list[tuple[StateTarget, list[DataFile]]]
    reached: Mapping[str, int]
    runs: Sequence[EngineRun]


@dataclass(slots=True)
class CommitViews:
    """The views of one commit: those that it replaces, the rows at which new ones begin, the parts that later ones share, and its files."""

    replaced: tuple[View, ...] = ()
    begins: dict[str, int] = field(default_factory=dict)
    statics: dict[str, Table] = field(default_factory=dict)
    states: dict[str, Table] = field(default_factory=dict)
    written: defaultdict[UUID, list[DataFile]] = field(default_factory=lambda: defaultdict(list))

    def discard(self, lake: Lake) -> None:
        """Remove all files that were written for the commit."""
        lake.discard(file for files in self.written.values() for file in files)


def make_view(
    work: Workspace,
    new: NewView,
    snapshot: Snapshot,
    *,
    old: View | None,
    fill: Filling | None = None,
    whole: Callable[[], DataFrame] | None = None,
) -> Snapshot:
    """Create a view in place of an old one, if there is one; if anything fails, the old view stays as it is.

    `fill` adds rows to its states before the commit, and returns how far it has come. Where Spark is asked for columns, it looks at the
    `whole` query as well.
    """
    lake = work.lake
    lake.prepare_tables([*RELATION_TABLES, *RING_TABLES, *VIEW_TABLES])
    views = CommitViews(replaced=() if old is None else (old,))
    try:
        with lake.commit(f"create view {new.name}", base=snapshot) as commit:
            drop_views(work, commit, views.replaced, snapshot)
            put_view(work, commit, new, snapshot, views, fill=fill, whole=whole)
    except PlatformError:
        views.discard(lake)
        raise
    return commit.made


def put_view(
    work: Workspace,
    commit: Commit,
    new: NewView,
    snapshot: Snapshot,
    views: CommitViews,
    *,
    fill: Filling | None = None,
    whole: Callable[[], DataFrame] | None = None,
) -> None:
    """Add the creation of a view to a commit; the view shares states and results of static parts with others where it can.

    A view with a gate is created together with its result, if that passes, and shares its states with no other view.
    """
    lake, name, plan = work.lake, new.name, new.plan
    gate = find_gate(work, name, plan)
    is_deferred = new.options.get("maintenance", SPLIT) == DEFERRED
    streams = {stream: lake.table(split_name(stream), snapshot) for stream in plan.stream_names}
    stored = find_shared_results(work, plan, snapshot, but=views.replaced)
    digests = static_likeness(plan)
    kept = {part: views.statics[digest] for part, digest in digests.items() if digest in views.statics} | stored
    alone = fill is not None or gate is not None
    # Judging runs on Spark.
    columns = None if gate is not None or is_deferred else infer_columns(work, plan, streams, snapshot, kept)
    if columns is None:
        columns = ask_columns(work, name, plan, streams, snapshot, is_deferred=is_deferred, whole=whole)
    fields = columns.fields
    covered = _covered_rows(work, new, snapshot, views)
    begins = {stream: covered[str(table.uuid)] for stream, table in streams.items()}
    at = {stream: (str(table.uuid), begins[stream]) for stream, table in streams.items()}
    shared: dict[str, Table] = {}
    if not alone:
        alike = state_likeness(plan, kept, new.options, at)
        shared = find_shared_states(work, alike, snapshot, fields=fields, but=views.replaced)
        shared |= {state: views.states[digest] for state, digest in alike.items() if digest in views.states}
    uuid = commit.create_view(name, new.query, columns=new.columns, comment=new.comment)
    commit.expect_unchanged(*stored.values())
    needs = find_needs(work, plan, new.meaning.used, snapshot, refuses=new.options.get(ON_TABLE_CHANGE) == REFUSE, keeps_rows=is_deferred)
    commit.expect_unchanged(*(need.relation for need in needs if need.rows and not isinstance(need.relation, View)))
    commit.also(AddDependent(uuid, needs))
    parts: dict[str, Table] = {**kept, **shared}
    made = _create_tables(commit, new, uuid, {part: found for part, found in fields.items() if part not in parts})
    parts |= made
    begun = BegunView(
        new=new,
        uuid=uuid,
        streams=streams,
        tables=parts,
        statics={static.name: columns.frames[static.name] for static in plan.statics if static.feeds is None and columns.frames},
        static_rows={name: rows for name, rows in columns.rows.items() if name in parts},
        begins=begins,
        reached=begins,
        written=views.written,
        is_deferred=is_deferred,
    )
    for static in plan.statics:
        if static.name not in kept:
            _put_static(work, commit, parts[static.feeds or static.name], columns, part=static.name, views=views)
    if fill is not None:
        filled = fill(begun)
        begun = replace(begun, reached=filled.reached)
        for target, files in filled.written:
            views.written[target.table.uuid] += files
        put_answers(commit, filled.written)
        commit.add_notes(note_runs(filled.runs))
    if gate is not None:
        with lake.lease(None if fill is not None else snapshot, holder="gate") as lease:
            views.written[parts[RESULT_PART].uuid] += put_judged(work, commit, begun, gate, lease.snapshot)
    likeness = {} if gate is not None else state_likeness(plan, parts, new.options, at)
    _note_nodes(commit, begun, made, static_likeness(plan) | likeness, {RESULT_PART: shown_columns(fields[RESULT_PART]), FROM: covered})
    _attach(commit, begun, made)
    note_meaning(commit, uuid, new.meaning)
    views.statics |= {digest: parts[part] for part, digest in digests.items()}
    views.states |= {digest: parts[state] for state, digest in likeness.items()}


def _covered_rows(work: Workspace, new: NewView, snapshot: Snapshot, views: CommitViews) -> dict[str, int]:
    """The first row of each stream, by its identity, that a view covers; where streams end at a snapshot is read once for a commit."""
    if new.options.get("start") == "earliest":
        return first_rows(work, new.plan, snapshot, earliest=True, known=new.begins)
    covered = first_rows(work, new.plan, snapshot, earliest=False, known={**views.begins, **new.begins})
    if not new.begins:
        views.begins |= {stream: covered[str(work.lake.table(split_name(stream), snapshot).uuid)] for stream in new.plan.stream_names}
    return covered


def _create_tables(commit: Commit, new: NewView, uuid: UUID, fields: Mapping[str, tuple[Field, ...]]) -> dict[str, Table]:
    """The tables of a view's parts; static rows that feed a state have none of their own."""
    fed = [static.name for static in new.plan.statics if static.feeds is not None]
    made = {}
    for part in (part for part in fields if part not in fed):
        made[part] = commit.create_table((new.name.schema, f"{new.name.relation}__{part}_{str(uuid)[-8:]}"), fields[part])
        declare_relation(commit, made[part], Declaration(kind=STATE, options={"view": str(uuid)}))
    return made


def _attach(commit: Commit, begun: BegunView, made: Mapping[str, Table]) -> None:
    """Let the new nodes of a view consume their streams from where they were filled up to."""
    plan = begun.new.plan
    consuming = {(rows_parts(plan)[part.stream] if begun.is_deferred else part.state, part.stream): None for part in plan.streams}
    for part, stream in consuming:
        if part in made:
            commit.also(AttachNode(made[part].uuid, begun.streams[stream], begun.reached[stream]))


def _note_nodes(commit: Commit, begun: BegunView, made: Mapping[str, Table], likeness: Mapping[str, str], known: Mapping[str, Any]) -> None:
    """Write the definition of a view, and its new nodes with the likeness by which other views find them."""
    new, plan = begun.new, begun.new.plan
    pinned = {PINNED_TABLES: list(plan.static_tables)} if plan.static_tables else {}
    created = {CREATED: commit.base.id}
    record = ViewRecord(
        uuid=begun.uuid,
        query=new.query,
        columns=new.columns,
        options={**new.options, **known, **created, **pinned},
        parts={part: table.uuid for part, table in begun.tables.items()},
    )
    nodes = [
        Node(uuid=table.uuid, kind=part.partition("_")[0], likeness=likeness.get(part), plan=node_plan(plan, part), options=created)
        for part, table in made.items()
    ]
    note_view(commit, record, nodes)


def node_plan(plan: SplitPlan, part: str) -> str | None:
    """What fills a part, as SQL; None for stored rows and results, which are the stream and the view themselves."""
    static = next((static.sql() for static in plan.statics if static.name == part), None)
    filling = [found.sql() for found in plan.streams if found.state == part]
    return static if static is not None else "; ".join(filling) or None


def _put_static(work: Workspace, commit: Commit, table: Table, columns: PartColumns, *, part: str, views: CommitViews) -> None:
    views.written[table.uuid] += (found := _write_static(work, table, columns, part))
    commit.append(table, found)


def _write_static(work: Workspace, table: Table, columns: PartColumns, part: str) -> list[DataFile]:
    if part in columns.rows:
        rows = columns.rows[part]
        return [work.lake.write(table, rows)] if rows.num_rows else []
    from platform_plugin.engine.spark.frames.write import run_write, shape_frame

    frame = shape_frame(columns.frames[part], table.fields, [field.name for field in table.fields])
    files, _ = run_write(work.session, work.lake, table, frame)
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


def drop_views(work: Workspace, commit: Commit, views: Sequence[View], snapshot: Snapshot) -> None:
    """Drop views, with the parts of continuous ones that no other view needs."""
    if not views:
        return
    with work.lake.reading() as connection:
        records = read_records(connection, only=[view.uuid for view in views])
    needed = nodes_in_use(work, {node for record in records.values() for node in record.parts.values()}, but=views)
    for view in views:
        commit.drop_view(view)
        if view.uuid in records:
            commit.also(RemoveDependent(view))
    parts = (table for record in records.values() for table in part_tables(work, record, snapshot).values())
    going = {table.uuid: table for table in parts if table.uuid not in needed}
    for table in going.values():
        commit.drop_table(table)
    if records:
        commit.also(ReleaseNodes(users=tuple(records), going=frozenset(going)))
