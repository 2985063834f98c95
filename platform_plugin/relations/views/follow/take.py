"""`take_locally`: a run over a small range with Arrow, for the views whose parts mean the same there."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from platform_plugin.cache import Cache
from platform_plugin.engine.arrow.plans import ArrowTables
from platform_plugin.engine.arrow.values import NotSupportedByArrow
from platform_plugin.engine.refusal import Refusal
from platform_plugin.errors import PlatformError
from platform_plugin.operators.group.groupings import Groupings
from platform_plugin.operators.group.sharing import ViewParts
from platform_plugin.relations.answers import StateTarget
from platform_plugin.relations.follow.ranges import arrow_rows_of
from platform_plugin.relations.lookups import read_small
from platform_plugin.relations.views.follow.strategy import DEFERRED, hidden_columns, strategy_of
from platform_plugin.relations.views.stores import store_of
from platform_plugin.state.store import check_schema

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Executor, Future

    import pyarrow as pa

    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot, Table
    from platform_plugin.lake.files.files import DataFile
    from platform_plugin.operators.group.parts import StreamPart
    from platform_plugin.relations.views.follow.pending import PendingView

    Written = list[tuple[StateTarget, list[DataFile]]]

# Groups are made, and files of them written, by so many at a time.
_THREADS = min(4, os.cpu_count() or 1)

_LARGE = Refusal(why="many rows, or rows that were changed", for_good=False)
_DEFERRED = Refusal(why="rows are stored as they are, for reads to group", operator="deferred")

# Parts that are Spark's whatever the rows are.
_REFUSED: Cache[tuple[Any, ...], Refusal] = Cache("parts that Arrow refuses")
_GROUPINGS: Cache[tuple[Any, ...], Groupings] = Cache("groupings by Arrow", weigh=lambda _: 250_000)


def take_locally(
    work: Workspace, snapshot: Snapshot, stream: str, views: Sequence[PendingView]
) -> tuple[list[tuple[PendingView, Refusal]], Written]:
    """The files that a range adds to views that need no engine, and the views that are left to Spark."""
    tail = views[0].ranges[stream]
    limits = work.limits
    if not tail.is_whole or tail.row_count > limits.client_range_rows or tail.scan.size_bytes > limits.client_range_bytes:
        return [(view, _LARGE) for view in views], []
    mine: list[PendingView] = []
    rest: list[tuple[PendingView, Refusal]] = []
    for view in views:
        refusal = _find_refusal(work, snapshot, stream, view)
        if refusal is None:
            mine.append(view)
        else:
            rest.append((view, refusal))
    if not mine:
        return rest, []
    writing: list[tuple[StateTarget, Future[list[DataFile]] | None]] = []
    with ThreadPoolExecutor(max_workers=_THREADS) as pool:
        try:
            taking = _ArrowRun(work, snapshot, stream, mine, pool)
            for view in mine:
                try:
                    made = taking.make(view)
                except NotSupportedByArrow as refused:
                    if refused.refusal.for_good:
                        _REFUSED.put(_key(work, snapshot, stream, view), refused.refusal)
                    rest.append((view, refused.refusal))
                    continue
                for target, rows in made:
                    writing.append((target, pool.submit(target.write, work.lake, rows) if rows.num_rows else None))
            return rest, [(target, [] if files is None else files.result()) for target, files in writing]
        except BaseException:
            pool.shutdown(cancel_futures=True)
            work.lake.discard(
                file
                for _, files in writing
                if files is not None and not files.cancelled() and files.exception() is None
                for file in files.result()
            )
            raise


def foresee_engine(work: Workspace, snapshot: Snapshot, view: PendingView) -> str:
    """The engine that would group what waits for a view, and why it would be Spark, as far as that is known before rows are read."""
    limits = work.limits
    for stream, tail in view.ranges.items():
        refusal = _find_refusal(work, snapshot, stream, view)
        if not tail.is_whole or tail.row_count > limits.client_range_rows or tail.scan.size_bytes > limits.client_range_bytes:
            refusal = refusal or _LARGE
        if refusal is not None:
            return f"spark: {refusal.why}"
    return "arrow"


def _key(work: Workspace, snapshot: Snapshot, stream: str, view: PendingView) -> tuple[Any, ...]:
    return (work.lake.uuid, view.record.uuid, snapshot.schema_version, stream)


def _find_refusal(work: Workspace, snapshot: Snapshot, stream: str, view: PendingView) -> Refusal | None:
    """Why a view's part of a range is Spark's, where that is known before its rows are read."""
    if strategy_of(view.record) == DEFERRED:
        return _DEFERRED
    return _REFUSED.get(_key(work, snapshot, stream, view))


class _ArrowRun:
    """A range of a stream that some views consume, with its groupings and the tables that it looks up."""

    def __init__(self, work: Workspace, snapshot: Snapshot, stream: str, views: Sequence[PendingView], pool: Executor) -> None:
        self._stream = stream
        groupings = _groupings(work, snapshot, stream, views)
        hidden: frozenset[str] = frozenset().union(*(hidden_columns(view.plan, stream) for view in views))
        known = ArrowTables(tables={stream: arrow_rows_of(work.lake, views[0].ranges[stream], groupings.columns, hidden=hidden)})
        self._missing: set[str] = set()
        for view in views:
            for part in self._parts(view):
                for static in part.statics:
                    self._look_up(work, snapshot, view.tables[static], known)
        self._grouped = groupings.begin(known, pool)

    def _parts(self, view: PendingView) -> list[StreamPart]:
        return [part for part in view.plan.streams if part.stream == self._stream]

    def _look_up(self, work: Workspace, snapshot: Snapshot, table: Table, known: ArrowTables) -> None:
        name = _result(table)
        if name in known.tables or name in self._missing:
            return
        try:
            found = read_small(work, table, snapshot)
        except PlatformError:
            found = None  # told by Spark, if it stays so
        if found is None:
            self._missing.add(name)
        else:
            known.tables[name] = found

    def make(self, view: PendingView) -> list[tuple[StateTarget, pa.Table]]:
        """The rows that the range adds to a view's states; `NotSupportedByArrow` where it is left to Spark."""
        made = []
        states = {state.name: state for state in view.plan.states}
        for part in self._parts(view):
            if any(_result(view.tables[static]) in self._missing for static in part.statics):
                raise NotSupportedByArrow("a large table that is looked up", for_good=False)
            table = view.tables[part.state]
            target = StateTarget(table=table, store=store_of(states[part.state], table))
            made.append((target, check_schema(self._grouped.rows_of(view.name, part.name), table.fields)))
        return made


def _result(table: Table) -> str:
    """A name for the result of a static part, the same for all views that look it up."""
    return f"static_{table.uuid.hex}"


def _groupings(work: Workspace, snapshot: Snapshot, stream: str, views: Sequence[PendingView]) -> Groupings:
    once = (
        work.lake.uuid,
        snapshot.schema_version,
        stream,
        tuple(sorted((str(view.record.uuid), *(part.name for part in view.plan.streams)) for view in views)),
    )
    known = _GROUPINGS.get(once)
    if known is None:
        parts = []
        for view in views:
            statics = {part.name: _result(view.tables[part.name]) for part in view.plan.statics if part.feeds is None}
            parts.append(ViewParts(view=view.name, plan=view.plan, statics=statics))
        known = _GROUPINGS.put(once, Groupings(parts, stream))
    return known
