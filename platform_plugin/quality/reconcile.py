"""`run_reconcile`: compares a continuous view with its query over all rows, at one snapshot, for some of its groups."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from platform_plugin.algebra.plan.nodes import outputs
from platform_plugin.algebra.plan.render import render
from platform_plugin.errors import InvalidValue, PlatformError
from platform_plugin.lake.catalogue.tables import Name, View
from platform_plugin.lake.ring.history import read_history
from platform_plugin.language.text.writing import identifier, type_text
from platform_plugin.operators.group.parts import find_hidden
from platform_plugin.relations.bind.names import new_name
from platform_plugin.relations.bind.read import read_named
from platform_plugin.relations.follow.ranges import oldest_row_id, read_range_with_history, rows_of
from platform_plugin.relations.views.plans import find_plan, read_unsplit_plan
from platform_plugin.relations.views.read.view import read_view, split_name
from platform_plugin.relations.views.record import CREATED, FROM, read_records

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot
    from platform_plugin.operators.group.parts import SplitPlan
    from platform_plugin.relations.views.record import ViewRecord

_TOLERANCE = 1e-9
_MOST_SHOWN = 20
_INEXACT = ("FLOAT", "DOUBLE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciliation:
    """The outcome of a comparison. `why_not` says why none was possible; `differences` are rows that only one side has."""

    snapshot: int
    rows: int = 0
    differences: tuple[Mapping[str, str], ...] = ()
    why_not: str | None = None

    @property
    def agrees(self) -> bool:
        """Whether both sides have the same rows, with floats compared to nine digits."""
        return not self.differences


def run_reconcile(work: Workspace, name: Name, *, parts: int = 1, part: int = 0) -> Reconciliation:
    """Compare a view with its query over all rows that it covers, both at the newest snapshot.

    Of `parts` that the values of its first exact column are divided into, only one is compared; the filter reaches the groups below.
    """
    with work.lake.lease(holder="reconcile") as lease:
        snapshot = lease.snapshot
        with work.lake.reading() as connection:
            view = work.lake.find_relation(connection, name, snapshot)
            record = read_records(connection, only=view.uuid).get(view.uuid)
        if not isinstance(view, View) or record is None:
            raise InvalidValue(f'"{name}" is not a continuous view', hint="other views are computed when they are read")
        plan = find_plan(work, record, snapshot)
        if plan.volatile:
            return Reconciliation(snapshot=snapshot.id, why_not="its answer depends on the time of the read")
        try:
            whole = _batch(work, view, record, plan, snapshot)
        except PlatformError as error:
            return Reconciliation(snapshot=snapshot.id, why_not=error.message)
        kept = read_view(work, str(name), record, snapshot, lambda other: read_named(work, other, snapshot))
        exact = next((column.name for column in plan.columns if column.type is not None and type_text(column.type) not in _INEXACT), None)
        names = list(kept.columns)
        ours, theirs = (_rows(work, frame.toDF(*names), exact, parts, part) for frame in (kept, whole))
    return Reconciliation(snapshot=snapshot.id, rows=len(theirs), differences=tuple(find_differences(names, ours, theirs)))


def _batch(work: Workspace, view: View, record: ViewRecord, plan: SplitPlan, snapshot: Snapshot) -> DataFrame:
    """The query over all rows that the view covers. What its states were given at its creation is read as it was then."""
    from platform_plugin.engine.spark.frames.scan import query_relations

    lake = work.lake
    begins: Mapping[str, int] = record.options.get(FROM, {})
    below = {table for static in plan.statics for table in static.tables}
    if below & set(plan.upper_tables):
        raise InvalidValue("a table is read both as it was at its creation and as it is now", hint="compare it by hand")
    query = read_unsplit_plan(work, record, snapshot)
    frames: dict[str, DataFrame] = {}
    names: dict[tuple[str, ...], str] = {}
    for stream in plan.stream_names:
        table = lake.table(split_name(stream), snapshot)
        with lake.reading() as connection:
            history = read_history(connection, table, snapshot.id)
        oldest = oldest_row_id(lake, table, history, snapshot)
        begin = begins.get(str(table.uuid), oldest)
        if oldest > begin:
            raise InvalidValue(
                f'rows {begin} to {oldest - 1} of stream "{table.name}" have left', hint="keep them: CREATE TABLE … AS HISTORY"
            )
        names[split_name(stream)] = new_name()
        covered = read_range_with_history(lake, table, history, snapshot, begin, view=str(view.name))
        frames[names[split_name(stream)]] = rows_of(work.session, lake, covered, hidden=find_hidden(query, split_name(stream)))
    created = lake.snapshot(int(record.options[CREATED])) if below and CREATED in record.options else snapshot
    for other in {*below, *plan.upper_tables}:
        names[split_name(other)] = new_name()
        frames[names[split_name(other)]] = read_named(work, split_name(other), created if other in below else snapshot)
    if len(outputs(query)) != len(plan.columns):
        raise InvalidValue("its columns can't be told apart", hint="name each column")
    return query_relations(work.session, render(query, names), frames)


def _rows(work: Workspace, frame: DataFrame, exact: str | None, parts: int, part: int) -> list[tuple[Any, ...]]:
    if exact is not None and parts > 1:
        frame = frame.where(f"pmod(xxhash64({identifier(exact)}), {int(parts)}) = {int(part)}")
    most = work.limits.reconcile_rows
    with work.session.arrow(frame.limit(most + 1)) as stream:
        table = pa.Table.from_batches(list(stream), schema=stream.schema)
    if table.num_rows > most:
        raise InvalidValue(f"more than {most:,} rows to compare", hint="divide them into more parts, or raise the limit reconcile_rows")
    return [tuple(row.values()) for row in table.to_pylist()]


def find_differences(names: list[str], ours: list[tuple[Any, ...]], theirs: list[tuple[Any, ...]]) -> list[Mapping[str, str]]:
    """The rows that only one side has; what is inexact may differ in its last digits."""
    mine, other = Counter(map(_rounded, ours)), Counter(map(_rounded, theirs))
    only_view, only_query = list((mine - other).elements()), list((other - mine).elements())
    # Two values on the two sides of a rounding are still the same, so what is left is compared pair by pair.
    for row in list(only_view):
        twin = next((one for one in only_query if _same(row, one)), None)
        if twin is not None:
            only_view.remove(row)
            only_query.remove(twin)
    found = [("the view", row) for row in only_view] + [("the query", row) for row in only_query]
    return [{"only in": side, **dict(zip(names, map(str, row), strict=True))} for side, row in found[:_MOST_SHOWN]]


def _rounded(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(_hashable(float(f"{value:.9g}") if isinstance(value, float) and math.isfinite(value) else value) for value in row)


def _hashable(value: Any) -> Any:
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, Decimal):
        return value.normalize()
    if isinstance(value, list):
        # Lists are collected in no order.
        return repr(sorted(value, key=repr))
    return repr(value) if isinstance(value, dict) else value


def _same(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    return all(
        math.isclose(a, b, rel_tol=_TOLERANCE) if isinstance(a, float) and isinstance(b, float) else a == b
        for a, b in zip(one, other, strict=True)
    )
