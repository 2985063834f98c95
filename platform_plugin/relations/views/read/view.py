"""`read_view`: a continuous view with Spark: merged states with unconsumed rows, under the upper query."""

from __future__ import annotations

from typing import TYPE_CHECKING

from platform_plugin.cache import Cache
from platform_plugin.errors import CatalogueError
from platform_plugin.lake.catalogue.tables import read_tables
from platform_plugin.relations.bind.names import new_name
from platform_plugin.relations.follow.ranges import read_range, rows_of
from platform_plugin.relations.views.follow.progress import consuming_part, position_of, read_progress
from platform_plugin.relations.views.follow.strategy import DEFERRED, hidden_columns, rows_parts, strategy_of
from platform_plugin.relations.views.plans import find_plan
from platform_plugin.relations.views.read.static_tables import check_static_tables
from platform_plugin.state.merged import is_merged

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import DataFrame

    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot, Table
    from platform_plugin.lake.read.scan import TableScan
    from platform_plugin.operators.group.parts import SplitPlan, State, StreamPart
    from platform_plugin.relations.follow.ranges import Range
    from platform_plugin.relations.views.follow.progress import Positions
    from platform_plugin.relations.views.record import ViewRecord

    ReadTable = Callable[[tuple[str, str]], DataFrame]

_TABLES: Cache[tuple[object, ...], dict[str, Table]] = Cache("tables of views", weigh=lambda tables: 4_000 * len(tables))


def read_view(work: Workspace, name: str, record: ViewRecord, snapshot: Snapshot, read_table: ReadTable) -> DataFrame:
    """A view's rows at a snapshot; `read_table` reads the relations of the upper query, by full name."""
    plan = find_plan(work, record, snapshot)
    tables = part_tables(work, record, snapshot)
    ranges = view_ranges(work, name, record, plan, snapshot)
    statics = static_frames(work, plan, tables, snapshot)
    states: dict[str, DataFrame] = {}
    stored = _stored_rows(work, plan, tables, stream_ranges(plan, ranges), snapshot) if strategy_of(record) == DEFERRED else {}
    for state in plan.states:
        live = [
            run_stream_part(work, part, ranges[part.name], statics, rows=stored.get(part.stream))
            for part in plan.streams
            if part.state == state.name and (part.stream in stored or not ranges[part.name].is_empty)
        ]
        states[state.name] = merged_state(work, state, live, work.lake.scan(tables[state.name], snapshot))
    return query_upper(work, plan, states, statics, read_table)


def query_upper(
    work: Workspace, plan: SplitPlan, states: Mapping[str, DataFrame], statics: Mapping[str, DataFrame], read_table: ReadTable
) -> DataFrame:
    """The upper query over merged states and static parts, by name."""
    from platform_plugin.engine.spark.frames.scan import query_relations

    frames: dict[str, DataFrame] = {}
    names: dict[str, str] = {}
    for part, rows in {**states, **statics}.items():
        names[part] = new_name()
        frames[names[part]] = rows
    for relation in plan.upper_tables:
        names[relation] = new_name()
        frames[names[relation]] = read_table(split_name(relation))
    return query_relations(work.session, plan.upper_sql(names), frames)


def part_tables(work: Workspace, record: ViewRecord, snapshot: Snapshot) -> dict[str, Table]:
    """The tables of a view's states and static parts at a snapshot, by part; cached for each schema version."""
    key = (work.lake.uuid, record.uuid, snapshot.schema_version, tuple(record.parts.values()))
    known = _TABLES.get(key)
    if known is not None:
        return known
    with work.lake.reading() as connection:
        found = {table.uuid: table for table in read_tables(connection, snapshot.id, uuids=list(record.parts.values()))}
    missing = next((part for part, uuid in record.parts.items() if uuid not in found), None)
    if missing is not None:
        raise CatalogueError(f'part "{missing}" of a continuous view is missing', hint="make the view anew")
    return _TABLES.put(key, {part: found[uuid] for part, uuid in record.parts.items()})


def view_ranges(work: Workspace, name: str, record: ViewRecord, plan: SplitPlan, snapshot: Snapshot) -> dict[str, Range]:
    """The unconsumed range of each stream part of a view at a snapshot, by part; parts whose states are equally far share one."""
    check_static_tables(work, name, record, plan, snapshot)
    with work.lake.reading() as connection:
        progress = read_progress(connection, [record], snapshot.id)
    return part_ranges(work, name, record, snapshot, plan=plan, progress=progress, known={})


def part_ranges(
    work: Workspace,
    name: str,
    record: ViewRecord,
    snapshot: Snapshot,
    *,
    plan: SplitPlan,
    progress: Positions,
    known: dict[tuple[str, int], Range],
) -> dict[str, Range]:
    """The same for a given progress of nodes; `known` has the ranges that other views have planned already."""
    lake = work.lake
    streams = {stream: lake.table(split_name(stream), snapshot) for stream in plan.stream_names}
    found = {}
    for part in plan.streams:
        table = streams[part.stream]
        position = position_of(progress, record.parts[consuming_part(plan, record, part)], table.uuid)
        if position is None:
            raise CatalogueError(
                f'stream "{table.name}" is not the one that view "{name}" was made over', hint="it was made anew; make the view anew too"
            )
        key = (str(table.uuid), position)
        if key not in known:
            known[key] = read_range(lake, table, snapshot, position, view=name)
        found[part.name] = known[key]
    return found


def stream_ranges(plan: SplitPlan, ranges: Mapping[str, Range]) -> dict[str, Range]:
    """The longest unconsumed range of each stream, by the stream's full name."""
    found: dict[str, Range] = {}
    for part in plan.streams:
        tail = ranges[part.name]
        if part.stream not in found or tail.first_row_id < found[part.stream].first_row_id:
            found[part.stream] = tail
    return found


def split_name(name: str) -> tuple[str, str]:
    """The schema and the relation of a full name in a plan."""
    schema, _, relation = name.partition(".")
    return schema, relation


def static_frames(work: Workspace, plan: SplitPlan, tables: Mapping[str, Table], snapshot: Snapshot) -> dict[str, DataFrame]:
    """The stored results of the static parts that are looked up, by part."""
    return {part.name: _whole(work, tables[part.name], snapshot) for part in plan.statics if part.feeds is None}


def _whole(work: Workspace, table: Table, snapshot: Snapshot) -> DataFrame:
    from platform_plugin.engine.spark.frames.scan import read_relation

    return read_relation(work.session, work.lake, work.lake.scan(table, snapshot))


def merged_state(work: Workspace, state: State, live: Sequence[DataFrame], scan: TableScan) -> DataFrame:
    """One row for each group of a state, with the live rows included."""
    from platform_plugin.engine.spark.frames.scan import query_relations, read_relation

    rows = read_relation(work.session, work.lake, scan)
    if not live and state.keys and is_merged(scan.files):
        return rows
    for added in live:
        rows = rows.unionAll(added)
    name = new_name()
    return query_relations(work.session, state.merge_sql(name), {name: rows})


def _stored_rows(
    work: Workspace, plan: SplitPlan, tables: Mapping[str, Table], ranges: Mapping[str, Range], snapshot: Snapshot
) -> dict[str, DataFrame]:
    """All rows that a deferred view covers, by stream: those that it has stored, and those that no run has consumed yet."""
    from platform_plugin.engine.spark.frames.scan import read_relation

    found = {}
    for stream, part in rows_parts(plan).items():
        columns = [field.name for field in tables[part].fields]
        rows = read_relation(work.session, work.lake, work.lake.scan(tables[part], snapshot))
        if not ranges[stream].is_empty:
            tail = rows_of(work.session, work.lake, ranges[stream], hidden=hidden_columns(plan, stream))
            rows = rows.unionAll(tail.select(columns))
        found[stream] = rows
    return found


def run_stream_part(
    work: Workspace, part: StreamPart, found: Range, statics: Mapping[str, DataFrame], *, rows: DataFrame | None = None
) -> DataFrame:
    """What a range of a stream adds to a state; `rows` is given if the range's rows are read already."""
    from platform_plugin.engine.spark.frames.scan import query_relations

    names = {part.stream: new_name()} | {name: new_name() for name in part.statics}
    frames = {names[name]: statics[name] for name in part.statics}
    frames[names[part.stream]] = rows if rows is not None else rows_of(work.session, work.lake, found, hidden=part.hidden)
    return query_relations(work.session, part.sql(names), frames)
