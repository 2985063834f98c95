"""Reading a changed view without Spark: where state and tail are small, and its plan is one that means the same over Arrow."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from platform_plugin.algebra.change import columns_in
from platform_plugin.errors import PlatformError
from platform_plugin.lake.read import read_rows
from platform_plugin.lake.tables import Name, View
from platform_plugin.lake.types import arrow_schema
from platform_plugin.views.arrow_calls import is_grouped
from platform_plugin.views.arrow_plans import run_plan
from platform_plugin.views.arrow_values import NotLocal
from platform_plugin.views.plans import plan_view
from platform_plugin.views.ranges import arrow_rows_of
from platform_plugin.views.read import part_tables, split_name, view_ranges
from platform_plugin.views.record import RESULT_PART, read_records
from platform_plugin.views.strategy import DEFERRED, strategy_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from platform_plugin.algebra.types import Field
    from platform_plugin.lake.scan import Scan
    from platform_plugin.lake.tables import Snapshot, Table
    from platform_plugin.spark.workspace import Workspace
    from platform_plugin.views.parts import State
    from platform_plugin.views.record import ViewRecord

    ReadWhole = Callable[[Workspace, Table, Snapshot], pa.Table | None]

# Beyond, Spark's cores are worth its jobs.
_STATE_BYTES = 64 * 1024 * 1024
_TAIL_ROWS = 250_000
_KEPT_BYTES = 256 * 1024 * 1024
# From so many groups on, those that an addition does not touch are set apart, if it has few against them.
_MANY_GROUPS, _FEW = 50_000, 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Local:
    """A view's rows at a snapshot, and the table whose columns they have."""

    table: Table
    rows: pa.Table


def read_local(work: Workspace, view: View, snapshot: Snapshot, read_whole: ReadWhole) -> Local | None:
    """A view's rows at a snapshot, or None where they are Spark's to compute; `read_whole` gives the rows of small tables."""
    with work.lake.reading() as connection:
        record = read_records(connection, only=view.uuid).get(view.uuid)
    if record is None or strategy_of(record) == DEFERRED or _REFUSED.holds(work, record, snapshot):
        return None
    try:
        return _read(work, view, record, snapshot, read_whole)
    except NotLocal as refused:
        if not refused.args:
            _REFUSED.add(work, record, snapshot)
        return None
    except PlatformError:
        return None  # told by the way that every other query goes


def _read(work: Workspace, view: View, record: ViewRecord, snapshot: Snapshot, read_whole: ReadWhole) -> Local:
    plan = plan_view(work, record, snapshot)
    tables = part_tables(work, record, snapshot)
    ranges = view_ranges(work, str(view.name), record, plan, snapshot)
    scans = {state.name: work.lake.scan(tables[state.name], snapshot) for state in plan.states}
    if (
        plan.volatile
        or sum(scan.size_bytes for scan in scans.values()) > _STATE_BYTES
        or any(found.row_count > _TAIL_ROWS or not found.is_whole for found in ranges.values())
        or any(part.row_id for part in plan.streams)
    ):
        raise NotLocal("for now")
    known: dict[str, pa.Table] = {
        static.name: _whole(read_whole, work, tables[static.name], snapshot) for static in plan.statics if static.feeds is None
    }
    for relation in plan.upper_tables:
        with work.lake.reading() as connection:
            found = work.lake.find_relation(connection, Name.of(split_name(relation)), snapshot)
        if isinstance(found, View):
            raise NotLocal
        known[relation] = _whole(read_whole, work, found, snapshot)
    wanted = {part.stream: {column.name for column in columns_in(part.query)} for part in plan.streams}
    tails = {stream: arrow_rows_of(work.lake, found, wanted[stream]) for stream, found in ranges.items() if not found.is_empty}
    for state in plan.states:
        fields = tables[state.name].fields
        made = [
            fitted(run_plan(part.query, {**known, part.stream: tails[part.stream]}), fields)
            for part in plan.streams
            if part.state == state.name and part.stream in tails
        ]
        rows = _MERGED.get(work, state, scans[state.name])
        # A state without keys is one row even if nothing has come.
        known[state.name] = merged(state, rows, made, fields) if made or not state.keys else rows
    table = tables[RESULT_PART]
    return Local(table=table, rows=fitted(run_plan(plan.upper, known), table.fields))


def merged(state: State, rows: pa.Table, added: Sequence[pa.Table], fields: tuple[Field, ...]) -> pa.Table:
    """One row for each group of rows that are that already and of what is added to them; groups that get nothing stay as they are."""
    few = sum(part.num_rows for part in added)
    key = state.keys[0].name if len(state.keys) == 1 else None
    if key is None or rows.num_rows < _MANY_GROUPS or few * _FEW > rows.num_rows or not is_grouped(rows.column(key).type):
        return fitted(run_plan(state.merge, {"rows": pa.concat_tables([rows, *added])}), fields)
    touched = pc.is_in(rows.column(key), value_set=pa.chunked_array([chunk for part in added for chunk in part.column(key).chunks]))
    changed = fitted(run_plan(state.merge, {"rows": pa.concat_tables([rows.filter(touched), *added])}), fields)
    return pa.concat_tables([rows.filter(pc.invert(touched)), changed])


def fitted(rows: pa.Table, fields: tuple[Field, ...]) -> pa.Table:
    """The rows, if they have the columns and the types that Spark gives them: anything else means that something was misread."""
    schema = arrow_schema(fields)
    if rows.column_names != schema.names or rows.schema.types != schema.types:
        raise NotLocal
    return pa.Table.from_arrays(rows.columns, schema=schema)


def _whole(read_whole: ReadWhole, work: Workspace, table: Table, snapshot: Snapshot) -> pa.Table:
    rows = read_whole(work, table, snapshot)
    if rows is None:
        raise NotLocal("for now")
    return rows


class _Refused:
    """Views that are Spark's whatever their rows are, so that nobody tries again."""

    def __init__(self) -> None:
        self._known: set[tuple[Any, ...]] = set()

    def holds(self, work: Workspace, record: ViewRecord, snapshot: Snapshot) -> bool:
        return (work.lake.uuid, record.uuid, snapshot.schema_version) in self._known

    def add(self, work: Workspace, record: ViewRecord, snapshot: Snapshot) -> None:
        if len(self._known) > 10_000:
            self._known.clear()
        self._known.add((work.lake.uuid, record.uuid, snapshot.schema_version))


_REFUSED = _Refused()


class _Merged:
    """Merged states in memory, by the files that they are of: of additions made since, only those are read."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[Any, ...], tuple[frozenset[int], pa.Table]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, work: Workspace, state: State, scan: Scan) -> pa.Table:
        """One row for each group of a state's files."""
        if scan.inlined or not all(file.is_whole for file in scan.files):
            raise NotLocal("for now")
        files = frozenset(file.id for file in scan.files)
        key = (work.lake.uuid, str(work.lake.location), scan.table.uuid, scan.snapshot.schema_version)
        with self._lock:
            known = self._known.get(key)
        if known is not None and known[0] == files:
            return known[1]
        before: list[pa.Table] = []
        if known is not None and known[0] < files:
            before.append(known[1])
            scan = replace(scan, files=tuple(file for file in scan.files if file.id not in known[0]))
        rows = read_rows(work.lake, scan)
        if before:
            rows = merged(state, before[0], [rows], scan.table.fields).combine_chunks()
        elif len(scan.files) > 1:
            rows = merged(state, rows.slice(0, 0), [rows], scan.table.fields).combine_chunks()
        with self._lock:
            self._known[key] = (files, rows)
            self._known.move_to_end(key)
            size = sum(table.nbytes for _, table in self._known.values())
            while size > _KEPT_BYTES and len(self._known) > 1:
                _, (_, oldest) = self._known.popitem(last=False)
                size -= oldest.nbytes
        return rows


_MERGED = _Merged()
