"""`find_change_batch`: the changes of a table, each with its kind and weight, since the snapshot that a stream has come to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from platform_plugin.algebra.types.data_types import Field, Primitive
from platform_plugin.errors import InvalidValue, PlatformError, SnapshotExpired
from platform_plugin.lake.catalogue.relations import read_declaration
from platform_plugin.lake.catalogue.snapshots import list_snapshots
from platform_plugin.lake.catalogue.tables import read_snapshot, read_tables
from platform_plugin.lake.cursors.cursor import read_cursors
from platform_plugin.lake.cursors.holding import holding_note
from platform_plugin.lake.cursors.move import MoveCursor
from platform_plugin.lake.files.files import fit_rows
from platform_plugin.lake.read.changes import nullable_fields
from platform_plugin.lake.read.last_change import differs_since
from platform_plugin.lake.read.read import iter_rows
from platform_plugin.lake.read.scan import read_scan
from platform_plugin.relations.follow.maintained import WaitingInput
from platform_plugin.relations.streams.feed_step import FeedStep
from platform_plugin.relations.streams.feeds.ingest import BatchLimits
from platform_plugin.relations.streams.feeds.sources import SourceGap
from platform_plugin.relations.versions.changes import is_read_by_spark, is_small, without_missing_images
from platform_plugin.state.change import read_change

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlalchemy.engine import Connection

    from platform_plugin.engine.spark.session.metrics import JobMetrics
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot, Table
    from platform_plugin.lake.files.files import DataFile
    from platform_plugin.lake.lake import Lake
    from platform_plugin.relations.follow.maintained import RunControl
    from platform_plugin.relations.streams.feeds.declaration import TableFeed
    from platform_plugin.state.change import Change

CHANGE_TYPE, WEIGHT = "_change_type", "_weight"
_INSERT, _DELETE, _BEFORE, _AFTER = "insert", "delete", "update_before", "update_after"


def change_columns(table: Table) -> tuple[Field, ...]:
    """The columns of a stream of a table's changes: those of the table, and the kind and the weight of each change."""
    names = {field.name.lower() for field in table.fields}
    if clash := names.intersection((CHANGE_TYPE, WEIGHT)):
        raise InvalidValue(f'table "{table.name}" has a column "{min(clash)}" of its own', hint="rename it to follow its changes")
    plain = (Field(name=field.name, type=field.type, comment=field.comment) for field in nullable_fields(table))
    return (*plain, Field(name=CHANGE_TYPE, type=Primitive("varchar")), Field(name=WEIGHT, type=Primitive("int64")))


def refuse_changes_of(lake: Lake, table: Table) -> None:
    """Refuse a relation that is no table."""
    with lake.reading() as connection:
        kind = read_declaration(connection, table.uuid).kind
    if kind != "table":
        raise InvalidValue(f'"{table.name}" is a {kind}, not a table', hint="a stream is followed by continuous views and samples")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeBatch:
    """The changes of a table after the snapshot that a stream has come to, up to and including another; of the first batch all its rows."""

    stream: Table
    table: Table
    start: str
    after: Snapshot | None
    until: Snapshot
    newest: Snapshot
    change: Change | None
    row_count: int
    is_large: bool = False

    @property
    def waiting(self) -> WaitingInput:
        """The snapshots, and at most how many changes they made; the first batch begins before all of them."""
        first = -1 if self.after is None else self.after.id
        return WaitingInput(relation=str(self.table.name), first=first, end=self.until.id, changes=self.row_count)

    @property
    def left(self) -> tuple[int, int]:
        """How many snapshots stay for later batches; their bytes are not known."""
        return self.newest.id - self.until.id, 0

    @property
    def engine(self) -> str:
        """In this process, or by Spark's tasks."""
        return "spark_sql: more changes than a client reads" if self.is_large else "local"

    def write(self, work: Workspace, control: RunControl) -> FeedStep:
        """Write the changes as rows of the stream, in the order of row ids."""
        # The rows of a batch are read under a lease: an expiry may come before its commit.
        with work.lake.lease(self.until, holder="ingest"):
            if self.is_large and self.change is not None:
                files, metrics = _write_by_spark(work, self.stream, self.change, control)
                return self._step(files, jobs=metrics.jobs or 0, tasks=metrics.tasks)
            return self._write_here(work.lake)

    def _write_here(self, lake: Lake) -> FeedStep:
        if self.change is not None:
            parts = iter([_changed_rows(lake, self.change)])
        else:
            parts = _present_rows(lake, self.table, self.until) if self.start == "earliest" else iter(())
        written: list[DataFile] = []
        held: list[pa.Table] = []
        try:
            for part in parts:
                if part.num_rows:
                    rows = fit_rows(_of_stream(part, self.stream), self.stream.fields)
                    written.append(lake.write(self.stream, rows))
                    held = [rows] if len(written) == 1 else []
        except PlatformError:
            lake.discard(written)
            raise
        return self._step(written, held=held[0] if held else None)

    def _step(self, files: Sequence[DataFile], *, held: pa.Table | None = None, jobs: int = 0, tasks: int = 0) -> FeedStep:
        move = _move(self.stream, self.table, None if self.after is None else self.after.id, self.until)
        return FeedStep(stream=self.stream, appended=files, files=files, move=move, held=held, jobs=jobs, tasks=tasks)


def find_change_batch(work: Workspace, stream: Table, feed: TableFeed, table: Table, limits: BatchLimits) -> ChangeBatch | None:
    """The table's net changes since the last batch, or None if it has not changed.

    The first batch gives all rows of the table as inserts, or, if the feed starts with the latest, none. Changes that are more than a batch
    may have are taken up to an older snapshot, so that those of one snapshot are together.
    """
    lake = work.lake
    newest = lake.snapshot()
    with lake.reading() as connection:
        cursors = list(read_cursors(connection, [stream.uuid]).values())
        cursor = next((each for each in cursors if each.input == str(table.uuid)), None)
        if cursors and cursor is None:
            raise SourceGap(
                f'table "{table.name}" is not the one that stream "{stream.name}" read before: it was dropped and created again',
                hint=f"create the stream anew: CREATE OR REPLACE STREAM {stream.name} FROM TABLE {table.name}",
            )
        if cursor is None:
            rows = read_scan(connection, table, newest).record_count if feed.start == "earliest" else 0
            return ChangeBatch(
                stream=stream, table=table, start=feed.start, after=None, until=newest, newest=newest, change=None, row_count=rows
            )
        after = read_snapshot(connection, id=cursor.position)
        if after is None:
            raise SnapshotExpired(
                f'stream "{stream.name}" has read table "{table.name}" up to snapshot {cursor.position}, which has expired',
                detail="what has changed since is not known any more",
                hint=f"create the stream anew: CREATE OR REPLACE STREAM {stream.name} FROM TABLE {table.name} …; and leave out"
                " on_unconsumed = 'drop' of the table to keep what its feeds need",
            )
        if not differs_since(connection, table, after.id, newest):
            return None
        most = BatchLimits(max_files=limits.max_files or feed.max_files, max_bytes=limits.max_bytes or feed.max_bytes)
        change = _find_bounded(connection, table, after, newest, most)
    return ChangeBatch(
        stream=stream,
        table=change.relation,
        start=feed.start,
        after=after,
        until=change.until,
        newest=newest,
        change=change,
        row_count=change.row_count,
        is_large=not is_small(work, change) and is_read_by_spark(change) and _is_written_by_spark(stream),
    )


def _find_bounded(connection: Connection, table: Table, after: Snapshot, newest: Snapshot, most: BatchLimits) -> Change:
    """The change up to the newest snapshot that keeps to the limits, but at least up to the next one that is still kept."""
    change = read_change(connection, table, after=after, until=newest)
    if _keeps_to(change, most):
        return change
    numbers = list_snapshots(connection, after=after.id, until=newest.id)
    low, high = 0, len(numbers) - 1
    # At `high` it is too much; all between it and `low` is not known yet.
    while low < high:
        middle = (low + high) // 2
        until = read_snapshot(connection, id=numbers[middle])
        tables = [] if until is None else read_tables(connection, until.id, uuids=[table.uuid])
        if until is None or not tables:
            break
        part = read_change(connection, tables[0], after=after, until=until)
        if _keeps_to(part, most) or middle == 0:
            change = part
        if _keeps_to(part, most):
            low = middle + 1
        else:
            high = middle
    return change


def _keeps_to(change: Change, most: BatchLimits) -> bool:
    places = change.places
    files = len(places.added) + len(places.losing) + len(places.images)
    return files <= (most.max_files or files) and change.size_bytes <= (most.max_bytes or change.size_bytes)


def _is_written_by_spark(stream: Table) -> bool:
    from platform_plugin.engine.spark.frames.write import is_written_by_spark

    return is_written_by_spark(stream)


def _write_by_spark(work: Workspace, stream: Table, change: Change, control: RunControl) -> tuple[list[DataFile], JobMetrics]:
    """Let Spark's tasks read the changes and write them as files of the stream: no row comes to the client."""
    from platform_plugin.engine.spark.frames.changes import ROW_ID, change_frame
    from platform_plugin.engine.spark.frames.scan import quoted_column
    from platform_plugin.engine.spark.frames.write import run_write, shape_frame

    fields = nullable_fields(change.relation)
    whole = without_missing_images(work.lake, change)
    own = {field.name for field in stream.fields}
    names = [*(field.name for field in fields if field.name in own), CHANGE_TYPE, WEIGHT]
    with work.session.job(timeout=control.timeout):
        rows = change_frame(work.session, work.lake, whole.places, fields).orderBy(ROW_ID, WEIGHT)
        columns = shape_frame(rows.select(*map(quoted_column, names)), stream.fields, names)
    return run_write(work.session, work.lake, stream, columns, timeout=control.timeout, progress=control.progress)


def _move(stream: Table, table: Table, expected: int | None, until: Snapshot) -> MoveCursor:
    note = holding_note(f"stream {stream.name}")
    return MoveCursor(
        owner=stream.uuid,
        input=table.uuid,
        expected=expected,
        expected_note=None if expected is None else note,
        position=until.id,
        note=note,
        consumer=f'the feed of stream "{stream.name}"',
        is_traced=False,
    )


def _present_rows(lake: Lake, table: Table, snapshot: Snapshot) -> Iterator[pa.Table]:
    """All rows of the table, as rows that came, a file at a time."""
    for rows in iter_rows(lake, lake.scan(table, snapshot)):
        yield _marked(rows, np.full(rows.num_rows, _INSERT), np.ones(rows.num_rows, dtype=np.int64))


def _changed_rows(lake: Lake, change: Change) -> pa.Table:
    rows = change.rows(lake)
    row_ids, weights = rows.column(0).to_numpy(), rows.column(2).to_numpy()
    both = np.intersect1d(row_ids[weights < 0], row_ids[weights > 0])
    is_half = np.isin(row_ids, both)
    kinds = np.where(weights < 0, np.where(is_half, _BEFORE, _DELETE), np.where(is_half, _AFTER, _INSERT))
    order = np.lexsort((weights, row_ids))
    values = rows.select(list(range(3, rows.num_columns)))
    return _marked(values.take(pa.array(order)), kinds[order], weights[order])


def _marked(rows: pa.Table, kinds: np.ndarray, weights: np.ndarray) -> pa.Table:
    marked = rows.append_column(CHANGE_TYPE, pa.array(kinds.tolist(), pa.string()))
    return marked.append_column(WEIGHT, pa.array(weights, pa.int64()))


def _of_stream(rows: pa.Table, stream: Table) -> pa.Table:
    """The columns that the stream has too: the table may have been altered since the stream was created."""
    return rows.select([field.name for field in stream.fields if field.name in rows.column_names])
