"""`infer_columns` and `ask_columns`: the columns of a new view's parts, without Spark where they are certain, else in one request.

A type is certain where two ways that do not know of each other agree on it: the types of the algebra, and the Arrow kernel, which runs the
part over relations without rows. The kernel refuses what it does not answer as Spark does, so that what both accept need not be asked.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING

from platform_plugin.algebra.types.data_types import Field
from platform_plugin.engine.certain_columns import certain_fields, empty_rows
from platform_plugin.engine.kernel_run import compute
from platform_plugin.engine.refusal import RefusedByEngine
from platform_plugin.errors import QueryFailed, RefusedView
from platform_plugin.lake.catalogue.tables import Name, Table
from platform_plugin.lake.values.types import arrow_schema
from platform_plugin.relations.bind.names import new_name
from platform_plugin.relations.bind.read import read_named
from platform_plugin.relations.follow.ranges import empty_range, rows_of
from platform_plugin.relations.kinds import find_kind
from platform_plugin.relations.lookups import read_small
from platform_plugin.relations.views.follow.strategy import hidden_columns, rows_parts
from platform_plugin.relations.views.read.view import run_stream_part, split_name
from platform_plugin.relations.views.record import RESULT_PART
from platform_plugin.relations.views.rehearsal import rehearse_states

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from platform_plugin.algebra.plan.nodes import Output
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot
    from platform_plugin.operators.group.parts import SplitPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class PartColumns:
    """The columns of each part of a view, its result included, and the static parts as rows or as Spark queries."""

    fields: Mapping[str, tuple[Field, ...]]
    rows: Mapping[str, pa.Table] = field(default_factory=dict)
    frames: Mapping[str, DataFrame] = field(default_factory=dict)


def infer_columns(
    work: Workspace, plan: SplitPlan, streams: Mapping[str, Table], snapshot: Snapshot, shared: Mapping[str, Table]
) -> PartColumns | None:
    """The columns of a view's parts without Spark, and the rows of static parts that are not `shared`; None where only Spark can tell."""
    try:
        return _infer(work, plan, streams, snapshot, shared)
    except RefusedByEngine:
        return None


def _infer(work: Workspace, plan: SplitPlan, streams: Mapping[str, Table], snapshot: Snapshot, shared: Mapping[str, Table]) -> PartColumns:
    fields: dict[str, tuple[Field, ...]] = {}
    rows: dict[str, pa.Table] = {}
    known: dict[str, pa.Table] = {}

    def note(part: str, columns: Sequence[Output]) -> None:
        fields[part] = certain_fields(columns)
        known[part] = arrow_schema(fields[part]).empty_table()

    for static in plan.statics:
        if static.feeds is not None:
            raise RefusedByEngine("rows of tables that a state begins with")
        note(static.name, static.columns)
        if static.name not in shared:
            tables = {name: _small_rows(work, name, snapshot) for name in static.tables}
            rows[static.name] = compute(static.query, tables, fields[static.name])
        elif [(field.name, field.type) for field in shared[static.name].fields] != [(c.name, c.type) for c in fields[static.name]]:
            raise RefusedByEngine("a shared result of other columns", for_good=False)
    for state in plan.states:
        note(state.name, state.columns)
        compute(state.merge, {"rows": known[state.name]}, fields[state.name])
    for part in plan.streams:
        compute(part.query, {**known, part.stream: empty_rows(streams[part.stream].fields, part.hidden)}, fields[part.state])
    for name in plan.upper_tables:
        known[name] = arrow_schema(_find_table(work, name, snapshot).fields).empty_table()
    fields[RESULT_PART] = certain_fields(plan.columns)
    compute(plan.upper, known, fields[RESULT_PART])
    return PartColumns(fields=fields, rows=rows)


def _find_table(work: Workspace, name: str, snapshot: Snapshot) -> Table:
    with work.lake.reading() as connection:
        relation = work.lake.find_relation(connection, Name.of(split_name(name)), snapshot)
    # What is read of other kinds is more than their files.
    if not isinstance(relation, Table) or find_kind(work.lake, relation, snapshot).planned_as != "table":
        raise RefusedByEngine("a relation that is no table")
    return relation


def _small_rows(work: Workspace, name: str, snapshot: Snapshot) -> pa.Table:
    rows = read_small(work, _find_table(work, name, snapshot), snapshot)
    if rows is None:
        raise RefusedByEngine("a large table that is looked up", for_good=False)
    return rows


def ask_columns(
    work: Workspace,
    name: Name,
    plan: SplitPlan,
    streams: Mapping[str, Table],
    snapshot: Snapshot,
    *,
    is_deferred: bool,
    whole: Callable[[], DataFrame] | None,
) -> PartColumns:
    """The same from Spark, which analyses all parts, and the `whole` query, in one request; the part that it refuses is named."""
    from platform_plugin.engine.spark.frames.analysis import ask_schemas

    frames = _part_frames(work, plan, streams, snapshot)
    if is_deferred:
        for stream, part in rows_parts(plan).items():
            frames[part] = rows_of(work.session, work.lake, empty_range(streams[stream], snapshot), hidden=hidden_columns(plan, stream))
    # The query itself is looked at as well; the caller does that again, where it is what Spark refuses.
    asked = [*frames.values(), *([] if whole is None else [whole()])]
    try:
        schemas = ask_schemas(work.session, asked)[: len(frames)]
    except QueryFailed as error:
        raise RefusedView(
            f'view "{name}" can\'t be maintained: Spark refuses what it is split into',
            detail="\n".join(filter(None, (error.message, error.detail))),
            hint="write the sub-queries of its conditions as joins in FROM, or read the query with a plain SELECT",
        ) from error
    return PartColumns(fields=dict(zip(frames, map(_fields_of, schemas), strict=True)), frames=frames)


def _fields_of(schema: StructType) -> tuple[Field, ...]:
    from platform_plugin.engine.spark.frames.schema import from_spark_type

    return tuple(Field(name=found.name, type=from_spark_type(found.dataType, column=found.name)) for found in schema.fields)


def _part_frames(work: Workspace, plan: SplitPlan, streams: Mapping[str, Table], snapshot: Snapshot) -> dict[str, DataFrame]:
    """The static parts as they are at the snapshot; states and the result without a row."""
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
