"""Taking up a small range without Spark: its groups are made with Arrow, for the views whose parts mean the same there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from platform_plugin.errors import PlatformError
from platform_plugin.lake.read import read_rows
from platform_plugin.views.answers import Target
from platform_plugin.views.arrow_plans import run_plan
from platform_plugin.views.arrow_values import NotLocal
from platform_plugin.views.local import fitted
from platform_plugin.views.strategy import DEFERRED, strategy_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from platform_plugin.lake.files import DataFile
    from platform_plugin.lake.tables import Snapshot
    from platform_plugin.spark.workspace import Workspace
    from platform_plugin.views.maintain import Behind
    from platform_plugin.views.ranges import Range

    Written = list[tuple[Target, list[DataFile]]]

# Beyond, Spark's cores are worth its jobs, and so is one query for what several views group alike.
LARGEST_ROWS = 1_000_000
_LARGEST_BYTES = 64 * 1024 * 1024

# Parts that are Spark's whatever the rows are.
_REFUSED: set[tuple[Any, ...]] = set()


def take_locally(work: Workspace, snapshot: Snapshot, stream: str, views: Sequence[Behind]) -> tuple[list[Behind], Written]:
    """What a range adds to those views that need no engine, written; and the views that are left to Spark."""
    tail = views[0].ranges[stream]
    if not tail.is_whole or tail.row_count * len(views) > LARGEST_ROWS or tail.scan.size_bytes > _LARGEST_BYTES:
        return list(views), []
    rest: list[Behind] = []
    written: Written = []
    rows: pa.Table | None = None
    try:
        for view in views:
            if not _may_be_local(work, snapshot, stream, view):
                rest.append(view)
                continue
            rows = _read(work, tail) if rows is None else rows
            try:
                made = _make(work, snapshot, stream, view, rows)
            except NotLocal as refused:
                if not refused.args:
                    _REFUSED.add(_key(work, snapshot, stream, view))
                rest.append(view)
                continue
            written += [(target, [work.lake.write(target.table, found)] if found.num_rows else []) for target, found in made]
    except BaseException:
        work.lake.discard(file for _, files in written for file in files)
        raise
    return rest, written


def _key(work: Workspace, snapshot: Snapshot, stream: str, view: Behind) -> tuple[Any, ...]:
    return (work.lake.uuid, view.record.uuid, snapshot.schema_version, stream)


def _may_be_local(work: Workspace, snapshot: Snapshot, stream: str, view: Behind) -> bool:
    if len(_REFUSED) > 10_000:
        _REFUSED.clear()
    return (
        strategy_of(view.record) != DEFERRED
        and _key(work, snapshot, stream, view) not in _REFUSED
        and not any(part.row_id for part in view.plan.streams if part.stream == stream)
    )


def _read(work: Workspace, tail: Range) -> pa.Table:
    return read_rows(work.lake, tail.scan)


def _make(work: Workspace, snapshot: Snapshot, stream: str, view: Behind, rows: pa.Table) -> list[tuple[Target, pa.Table]]:
    from platform_plugin.queries.lookup import read_small

    known = {stream: rows}
    made = []
    for part in view.plan.streams:
        if part.stream != stream:
            continue
        for static in part.statics:
            if static not in known:
                try:
                    found = read_small(work, view.tables[static], snapshot)
                except PlatformError:
                    found = None  # told by Spark, if it stays so
                if found is None:
                    raise NotLocal("for now")
                known[static] = found
        table = view.tables[part.state]
        made.append((Target(table=table), fitted(run_plan(part.query, known), table.fields)))
    return made
