"""`read_local`: the rows of a continuous view with Arrow, where its states and unconsumed rows are small."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from platform_plugin.algebra.plan.traversal import columns_in
from platform_plugin.cache import Cache
from platform_plugin.engine.arrow.plans import run_plan
from platform_plugin.engine.arrow.values import NotSupportedByArrow
from platform_plugin.errors import PlatformError
from platform_plugin.lake.catalogue.tables import Name, View
from platform_plugin.relations.follow.ranges import arrow_rows_of
from platform_plugin.relations.kinds import find_kind
from platform_plugin.relations.lookups import read_small
from platform_plugin.relations.views.follow.strategy import DEFERRED, hidden_columns, strategy_of
from platform_plugin.relations.views.plans import find_plan
from platform_plugin.relations.views.read.view import part_tables, split_name, view_ranges
from platform_plugin.relations.views.record import RESULT_PART, read_records
from platform_plugin.relations.views.stores import store_of
from platform_plugin.state.merged import read_merged
from platform_plugin.state.store import check_schema

if TYPE_CHECKING:
    from uuid import UUID

    import pyarrow as pa

    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot, Table
    from platform_plugin.relations.views.record import ViewRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalResult:
    """A view's rows at a snapshot, and the table that has their columns."""

    table: Table
    rows: pa.Table


def read_local(work: Workspace, view: View, snapshot: Snapshot) -> LocalResult | None:
    """A view's rows at a snapshot, or None where they are left to Spark."""
    with work.lake.reading() as connection:
        record = read_records(connection, only=view.uuid).get(view.uuid)
    if record is None or strategy_of(record) == DEFERRED or _REFUSED.has((work.lake.uuid, record.uuid, snapshot.schema_version)):
        return None
    try:
        return _read(work, view, record, snapshot)
    except NotSupportedByArrow as refused:
        if refused.refusal.for_good:
            _REFUSED.put((work.lake.uuid, record.uuid, snapshot.schema_version), None)
        return None
    except PlatformError:
        return None  # told by the way that every other query goes


def _read(work: Workspace, view: View, record: ViewRecord, snapshot: Snapshot) -> LocalResult:
    plan = find_plan(work, record, snapshot)
    tables = part_tables(work, record, snapshot)
    ranges = view_ranges(work, str(view.name), record, plan, snapshot)
    scans = {state.name: work.lake.scan(tables[state.name], snapshot) for state in plan.states}
    if (
        plan.volatile
        or sum(scan.size_bytes for scan in scans.values()) >= work.limits.client_state_bytes
        or any(found.row_count > work.limits.client_tail_rows or not found.is_whole for found in ranges.values())
    ):
        raise NotSupportedByArrow("a large input", for_good=False)
    known: dict[str, pa.Table] = {
        static.name: _whole(work, tables[static.name], snapshot) for static in plan.statics if static.feeds is None
    }
    for relation in plan.upper_tables:
        with work.lake.reading() as connection:
            found = work.lake.find_relation(connection, Name.of(split_name(relation)), snapshot)
        if isinstance(found, View):
            raise NotSupportedByArrow("a view in the upper query")
        # A sample is more than what it has stored.
        small = find_kind(work.lake, found, snapshot).find_small(work, found, snapshot)
        if small is None or small.rows is None:
            raise NotSupportedByArrow("a large relation in the upper query", for_good=False)
        known[relation] = small.rows
    wanted: defaultdict[str, set[str]] = defaultdict(set)
    for part in plan.streams:
        wanted[part.stream] |= {column.name for column in columns_in(part.query)}
    rows_of: dict[tuple[str, int], pa.Table] = {}
    tails: dict[str, pa.Table] = {}
    for part in plan.streams:
        tail = ranges[part.name]
        key = (part.stream, tail.first_row_id)
        if not tail.is_empty:
            if key not in rows_of:
                rows_of[key] = arrow_rows_of(work.lake, tail, wanted[part.stream], hidden=hidden_columns(plan, part.stream))
            tails[part.name] = rows_of[key]
    for state in plan.states:
        fields = tables[state.name].fields
        made = [
            check_schema(run_plan(part.query, {**known, part.stream: tails[part.name]}), fields)
            for part in plan.streams
            if part.state == state.name and part.name in tails
        ]
        store = store_of(state, tables[state.name])
        rows = read_merged(work.lake, store, scans[state.name])
        # A state without keys is one row even if nothing has come.
        known[state.name] = store.merge_into(rows, made) if made or not state.keys else rows
    table = tables[RESULT_PART]
    return LocalResult(table=table, rows=check_schema(run_plan(plan.upper, known), table.fields))


def _whole(work: Workspace, table: Table, snapshot: Snapshot) -> pa.Table:
    rows = read_small(work, table, snapshot)
    if rows is None:
        raise NotSupportedByArrow("a large state", for_good=False)
    return rows


# Views that are Spark's whatever their rows are.
_REFUSED: Cache[tuple[UUID, UUID, int], None] = Cache("views that Arrow refuses")
