"""The figures of a view in DESCRIBE EXTENDED: unconsumed rows, the size of its states, and its split."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from platform_plugin.algebra.plan.nodes import Output, outputs
from platform_plugin.algebra.types.data_types import Field
from platform_plugin.engine.option import ENGINE, narrow_engine
from platform_plugin.errors import PlatformError
from platform_plugin.lake.ring.arrivals import read_arrived_beyond
from platform_plugin.lake.values.stall import pinned_text
from platform_plugin.language.query.plan import NotPlanned
from platform_plugin.language.query.query import analyse_query
from platform_plugin.relations.bind.plans import find_query_plan
from platform_plugin.relations.bind.read import read_named
from platform_plugin.relations.bind.resolve import Resolver
from platform_plugin.relations.views.follow.shared_states import find_twins
from platform_plugin.relations.views.plans import find_plan
from platform_plugin.relations.views.read.static_tables import check_static_tables, find_changed_tables
from platform_plugin.relations.views.read.view import part_tables, split_name, stream_ranges, view_ranges
from platform_plugin.relations.views.record import CREATED, FROM, PINNED_TABLES, read_records, result_fields

if TYPE_CHECKING:
    from collections.abc import Iterable

    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.relations import Declaration
    from platform_plugin.lake.catalogue.tables import Snapshot, View
    from platform_plugin.relations.follow.ranges import Range
    from platform_plugin.relations.views.record import ViewRecord


NEARLY_UNGROUPED = "almost every row is a group of its own, so that what is stored grows with the stream; group by less"
_FEW_ROWS = 1_000


def has_group_per_row(groups: int, rows: int) -> bool:
    """Whether a view has almost as many groups as rows have come, once these are many; fewer rows tell nothing.

    >>> has_group_per_row(950, 1000), has_group_per_row(100, 1000), has_group_per_row(7, 7)
    (True, False, False)
    """
    return rows >= _FEW_ROWS and groups >= 0.9 * rows


def view_facts(work: Workspace, name: str, record: ViewRecord, snapshot: Snapshot, *, internal: bool = False) -> dict[str, Any]:
    """The figures of a continuous view, from the catalogue alone; `internal` adds the names of its states' tables."""
    facts: dict[str, Any] = {
        "maintenance": record.options.get("maintenance", "split"),
        "engine": str(narrow_engine(work.engine_option, relation=record.options.get(ENGINE), run=None)),
    }
    try:
        plan = find_plan(work, record, snapshot)
        ranges = stream_ranges(plan, view_ranges(work, name, record, plan, snapshot))
        for stream, tail in ranges.items():
            seen = f"up to row {tail.first_row_id - 1}" if tail.first_row_id else "nothing"
            facts[f"consumed of {stream}"] = f"{seen}, {tail.row_count} rows wait and are merged when it is read"
        facts |= _lag_facts(work, ranges.values())
    except PlatformError as error:
        return facts | {"trouble": str(error)}
    try:
        check_static_tables(work, name, record, plan, snapshot)
    except PlatformError as error:
        facts["trouble"] = str(error)
    if tables := plan.static_tables:
        facts["read at its creation"] = f"{', '.join(tables)}, below its grouping; REBUILD VIEW {name} reads them again"
        if changed := find_changed_tables(work, record, plan, snapshot):
            facts["changed since its creation"] = ", ".join(changed)
    if twins := find_twins(work, record, snapshot):
        facts["shares its states with"] = ", ".join(twins)
    begins: dict[str, int] = record.options.get(FROM, {})
    taken = {work.lake.table(split_name(stream), snapshot).uuid: tail.first_row_id for stream, tail in ranges.items()}
    covered = sum(next_row_id - begins.get(str(stream), next_row_id) for stream, next_row_id in taken.items())
    for part, table in part_tables(work, record, snapshot).items():
        scan = work.lake.scan(table, snapshot)
        rows = sum(file.record_count for file in scan.files)
        if part in {state.name for state in plan.states} and has_group_per_row(rows, covered):
            facts["warning"] = f"{part} has {rows} rows for {covered} consumed rows: {NEARLY_UNGROUPED}"
        facts[part] = f"{rows} rows, {scan.size_bytes} bytes, in {len(scan.files)} files{f' of {table.name}' if internal else ''}"
    return facts


def _lag_facts(work: Workspace, ranges: Iterable[Range]) -> dict[str, Any]:
    """How many rows wait for a view, and for how long the oldest of them has waited."""
    waiting = [tail for tail in ranges if not tail.is_empty]
    with work.lake.reading() as connection:
        arrivals = [read_arrived_beyond(connection, tail.stream.uuid, tail.first_row_id) for tail in waiting]
    oldest = min((at for at in arrivals if at is not None), default=None)
    lag = 0.0 if oldest is None else max(0.0, (datetime.now(UTC) - oldest).total_seconds())
    return {"rows_waiting": sum(tail.row_count for tail in waiting), "lag_seconds": round(lag, 1)}


def find_facts(work: Workspace, view: View, declaration: Declaration, snapshot: Snapshot, *, internal: bool) -> dict[str, Any]:
    """The figures of any view."""
    with work.lake.reading() as connection:
        record = read_records(connection, only=view.uuid).get(view.uuid)
    options = declaration.options if record is None else record.options
    facts = {"query": view.sql, "comment": view.comment, "suite": options.get("suite")}
    return facts if record is None else {**facts, **view_facts(work, str(view.name), record, snapshot, internal=internal)}


def find_notices(work: Workspace, view: View, snapshot: Snapshot) -> tuple[str, ...]:
    """Which tables below its grouping have changed since a continuous view read them, and what reads them anew."""
    with work.lake.reading() as connection:
        record = read_records(connection, only=view.uuid).get(view.uuid)
    if record is None or not record.options.get(PINNED_TABLES):
        return ()
    try:
        changed = find_changed_tables(work, record, find_plan(work, record, snapshot), snapshot)
    except PlatformError:
        return ()  # a stall or a read of the view says what is wrong with it
    return (pinned_text(str(view.name), changed, int(record.options[CREATED])),) if changed else ()


def planned_view_columns(work: Workspace, view: View, snapshot: Snapshot) -> tuple[Output, ...]:
    """The columns of a view, with those types that are known without Spark."""
    with work.lake.reading() as connection:
        record = read_records(connection, only=view.uuid).get(view.uuid)
    if record is not None:
        return tuple(Output(name=field.name, type=field.type) for field in result_fields(record))
    if view.dialect != "spark":
        raise NotPlanned(f'view "{view.name}" is written in the SQL of {view.dialect}')
    query = analyse_query(view.sql)
    plan = find_query_plan(work, query, snapshot, Resolver(work, snapshot))
    if plan.planned is None:
        raise NotPlanned(f'in view "{view.name}": {plan.why}')
    columns = outputs(plan.planned.plan)
    return tuple(
        replace(column, name=name) for column, name in zip(columns, view.columns or [column.name for column in columns], strict=True)
    )


def view_fields(work: Workspace, view: View, snapshot: Snapshot) -> tuple[Field, ...]:
    """The columns of a continuous view's result; for another view those of its query at a snapshot."""
    with work.lake.reading() as connection:
        record = read_records(connection, only=view.uuid).get(view.uuid)
    if record is not None:
        return result_fields(record)
    from platform_plugin.engine.spark.frames.schema import from_spark_type

    frame = read_named(work, (view.name.schema, view.name.relation), snapshot)
    with work.session.job():
        return tuple(Field(name=part.name, type=from_spark_type(part.dataType, column=part.name)) for part in frame.schema.fields)
