"""`find_table_batch` and `run_table_batch`: what was appended to a table, for a stream; whole files are shared, other rows copied."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from platform_plugin.errors import InvalidValue, PlatformError, StorageError
from platform_plugin.lake.catalogue.relations import read_declaration
from platform_plugin.lake.catalogue.table_statistics import read_next_row_id
from platform_plugin.lake.catalogue.tables import read_snapshot
from platform_plugin.lake.cursors.cursor import CURSOR_TABLES
from platform_plugin.lake.files.files import ROW_ID, fit_rows
from platform_plugin.lake.read.evolution import adapt_rows
from platform_plugin.lake.read.inlined import read_inlined
from platform_plugin.lake.read.last_change import differs_since
from platform_plugin.lake.read.read import find_column, read_raw
from platform_plugin.lake.read.scan import read_scan
from platform_plugin.relations import hooks
from platform_plugin.relations.follow.maintained import WaitingInput
from platform_plugin.relations.streams.feed_step import FeedStep
from platform_plugin.relations.streams.feeds.ingest import IngestReport
from platform_plugin.relations.streams.feeds.positions import Position, move_position, read_position
from platform_plugin.relations.streams.feeds.sources import SourceGap
from platform_plugin.relations.streams.group import find_by_identity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot, Table
    from platform_plugin.lake.files.files import DataFile
    from platform_plugin.lake.lake import Lake
    from platform_plugin.lake.read.scan import FileScan, TableScan
    from platform_plugin.relations.follow.maintained import RunControl
    from platform_plugin.relations.hooks import AppendPart
    from platform_plugin.relations.streams.feed_step import FeedBatch
    from platform_plugin.relations.streams.feeds.declaration import TableFeed
    from platform_plugin.relations.streams.feeds.ingest import BatchLimits

    _Copied = list[tuple[DataFile, pa.Table | None]]
    """Files, and their rows where these are few enough to be held until the commit."""

_HELD_BYTES = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTable:
    """A table at a snapshot: its scan, and its next row id."""

    scan: TableScan
    next_row_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePlan:
    """The files that the stream shares, the files in which to look for new rows, and the next cursor."""

    whole: tuple[FileScan, ...]
    mixed: tuple[FileScan, ...]
    next_row_id: int
    waiting: int = 0
    waiting_bytes: int = 0


def plan_table_batch(source: SourceTable, position: Position, *, max_files: int, max_bytes: int) -> TablePlan:
    """The batch of a table's new rows, whose ids were given out since. Files of new rows only are taken in order, up to the limits.

    A file may also hold rows that it did not add, after an UPDATE or a merge; then everything new is taken at once, since
    only reading the file tells which rows are.
    """
    newer = [file for file in source.scan.files if (file.partial_max or file.begin_snapshot) > position.snapshot_id]
    # A file's own ids begin where the table's ended when it came, and an UPDATE keeps ids from before that. Only a merge mixes.
    newer = [file for file in newer if file.partial_max or (file.row_id_start or 0) >= position.next_row_id]
    plain = sorted((file for file in newer if file.is_whole and not file.partial_max), key=lambda file: file.row_id_start or 0)
    mixed = [file for file in newer if not (file.is_whole and not file.partial_max)]
    starts = [file.row_id_start or 0 for file in plain[1:]] + [source.next_row_id]
    updated = any((file.row_id_start or 0) + file.record_count > start for file, start in zip(plain, starts, strict=False))
    if mixed or updated or source.scan.inlined:
        return TablePlan(whole=tuple(plain), mixed=tuple(mixed), next_row_id=source.next_row_id)
    taken: list[FileScan] = []
    size = 0
    for file in plain:
        if taken and (len(taken) >= max_files or size + file.size_bytes > max_bytes):
            break
        taken.append(file)
        size += file.size_bytes
    rest = plain[len(taken) :]
    return TablePlan(
        whole=tuple(taken),
        mixed=(),
        next_row_id=(rest[0].row_id_start or 0) if rest else source.next_row_id,
        waiting=len(rest),
        waiting_bytes=sum(file.size_bytes for file in rest),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendBatch:
    """The next rows of a table for a stream that follows its appends."""

    stream: Table
    source: SourceTable
    known: Position | None
    position: Position
    plan: TablePlan

    @property
    def waiting(self) -> WaitingInput:
        """The rows, by the row ids that the table gave out."""
        return WaitingInput(relation=str(self.source.scan.table.name), first=self.position.next_row_id, end=self.plan.next_row_id)

    @property
    def left(self) -> tuple[int, int]:
        """The files that stay for later batches, and their bytes."""
        return self.plan.waiting, self.plan.waiting_bytes

    @property
    def engine(self) -> str:
        """In this process."""
        return "none: files are shared, or copied where they hold other rows too"

    def write(self, work: Workspace, control: RunControl) -> FeedStep:
        """Share the files that have new rows only, and copy the new rows of others."""
        del control
        lake, stream = work.lake, self.stream
        shared, copied = _share(lake, stream, self.plan.whole)
        parts = _copy(lake, stream, self.source.scan, [*copied, *self.plan.mixed], self.position)
        # Bounds are kept by snapshot as long as files are left out; then the rest is looked for among all newer files again.
        seen = self.position.snapshot_id if self.plan.waiting else self.source.scan.snapshot.id
        reached = Position(source_uuid=self.position.source_uuid, snapshot_id=seen, next_row_id=self.plan.next_row_id)
        held = [rows for _, rows in parts if rows is not None]
        # Of shared files nobody has seen the rows, and a run looks at them all.
        is_seen = bool(held) and not shared and len(held) == len(parts)
        written = [file for file, _ in parts]
        return FeedStep(
            stream=stream,
            appended=[*shared, *written],
            files=written,
            move=move_position(stream, reached, expected=self.known),
            held=pa.concat_tables(held) if is_seen else None,
        )


def find_table_batch(work: Workspace, stream: Table, feed: TableFeed, limits: BatchLimits) -> FeedBatch | None:
    """The next batch of a table for a stream, or None if nothing waits in it."""
    lake = work.lake
    lake.prepare_tables(CURSOR_TABLES)
    table = lake.table(_name(feed.table))
    if feed.changes:
        from platform_plugin.relations.streams.feeds.change_ingest import find_change_batch

        return find_change_batch(work, stream, feed, table, limits)
    with lake.reading() as connection:
        known = read_position(connection, stream.uuid)
        newest = read_snapshot(connection)
        if known is not None and known.source_uuid == str(table.uuid) and newest is not None:
            present = lake.find_table(connection, table.name, newest)
            if not differs_since(connection, present, known.snapshot_id, newest, appends_only=True):
                return None
    source, known = _look(lake, table, stream)
    if known is not None and known.source_uuid != str(table.uuid):
        raise SourceGap(
            f'table "{table.name}" is not the one that stream "{stream.name}" read before: it was dropped and created again',
            hint=f"create the stream anew: CREATE OR REPLACE STREAM {stream.name} FROM TABLE {table.name}",
        )
    begin = Position(source_uuid=str(table.uuid), snapshot_id=-1, next_row_id=0)
    if known is None and feed.start == "latest":
        begin = Position(source_uuid=str(table.uuid), snapshot_id=source.scan.snapshot.id, next_row_id=source.next_row_id)
    position = known or begin
    plan = plan_table_batch(source, position, max_files=limits.max_files or feed.max_files, max_bytes=limits.max_bytes or feed.max_bytes)
    if plan.next_row_id == position.next_row_id and known is not None:
        return None
    return AppendBatch(stream=stream, source=source, known=known, position=position, plan=plan)


def run_table_batch(work: Workspace, stream: Table, feed: TableFeed, limits: BatchLimits, control: RunControl) -> IngestReport:
    """Append the next batch of a table to the stream, in a commit of its own."""
    lake = work.lake
    batch = find_table_batch(work, stream, feed, limits)
    if batch is None:
        return IngestReport(stream=str(stream.name))
    step = batch.write(work, control)
    try:
        base = lake.snapshot()
        own = [] if step.held is None else _show(lake, base, stream, step.held)
        with lake.commit(f"ingest into {stream.name}", base=base) as commit:
            step.put(commit)
            for part in own:
                commit.follow(part)
        for part in own:
            part.settle()
    except PlatformError:
        lake.discard(step.files)
        raise
    waiting, waiting_bytes = batch.left
    return IngestReport(
        stream=str(stream.name),
        rows=step.row_count,
        files=len(step.appended),
        waiting=waiting,
        waiting_bytes=waiting_bytes,
        jobs=step.jobs,
        tasks=step.tasks,
        snapshot=commit.made.id,
    )


def refuse_source(lake: Lake, table: Table, stream_schema: str) -> None:
    """Refuse a table whose files a stream can't share."""
    with lake.reading() as connection:
        kind = read_declaration(connection, table.uuid).kind
    if kind == "stream":
        raise InvalidValue(f'"{table.name}" is a stream already', hint="read it, or declare a continuous view on it")
    if table.name.schema != stream_schema:
        raise InvalidValue(
            f'a stream over table "{table.name}" can\'t be in schema "{stream_schema}"',
            hint="it shares the table's files and so its schema",
        )


def _name(text: str) -> str | tuple[str, str]:
    schema, _, relation = text.rpartition(".")
    return (schema, relation) if schema else relation


def _look(lake: Lake, table: Table, stream: Table) -> tuple[SourceTable, Position | None]:
    """The table and the stream's position in it, at one snapshot."""
    with lake.reading() as connection:
        snapshot = read_snapshot(connection)
        if snapshot is None:
            raise StorageError("the catalogue holds no snapshot", hint="restore it from a copy")
        scan = read_scan(connection, lake.find_table(connection, table.name, snapshot), snapshot)
        return SourceTable(scan=scan, next_row_id=read_next_row_id(connection, scan.table.id)), read_position(connection, stream.uuid)


def _share(lake: Lake, stream: Table, files: Sequence[FileScan]) -> tuple[list[DataFile], list[FileScan]]:
    """The files as the stream's own, as far as they have its columns and rows that were never anywhere else."""
    shared: list[DataFile] = []
    copied: list[FileScan] = []
    for file in files:
        try:
            (described,) = lake.describe_files(stream, [file.path]) if file.mapping_id is None else (None,)
        except (StorageError, InvalidValue):
            described = None  # the table was altered since the stream was created; the columns that both have are copied
        if described is None or described.has_row_ids:
            copied.append(file)
        else:
            shared.append(described)
    return shared, copied


def _copy(lake: Lake, stream: Table, scan: TableScan, files: Sequence[FileScan], position: Position) -> _Copied:
    """The new rows of files that can't be shared, and of those that another client keeps in the catalogue, as files of the stream."""
    written: _Copied = []
    try:
        for file in files:
            raw, kept = read_raw(lake, file, scan.snapshot, fields=scan.table.fields, hidden=(ROW_ID,))
            own = find_column(raw, ROW_ID)
            ids = (file.row_id_start or 0) + kept.to_numpy() if own is None else own.to_numpy()
            written += _write(lake, stream, adapt_rows(raw, scan.table.fields), ids >= position.next_row_id)
            if sum(rows.nbytes for _, rows in written if rows is not None) > _HELD_BYTES:
                written = [(written_file, None) for written_file, _ in written]
        with lake.reading() as connection:
            for inlined in scan.inlined:
                rows, row_ids, _ = read_inlined(connection, inlined, scan.table, scan.snapshot)
                written += _write(lake, stream, rows, np.array(row_ids, dtype=np.int64) >= position.next_row_id)
    except PlatformError:
        lake.discard(file for file, _ in written)
        raise
    return written


def _write(lake: Lake, stream: Table, rows: pa.Table, is_new: np.ndarray[Any, np.dtype[np.bool_]]) -> _Copied:
    if not is_new.any():
        return []
    names = [field.name for field in stream.fields if field.name in rows.column_names]
    new = fit_rows(rows.select(names).filter(pa.array(is_new)), stream.fields)
    return [(lake.write(stream, new), new)]


def _show(lake: Lake, base: Snapshot, stream: Table, rows: pa.Table) -> list[AppendPart]:
    """Show rows to who listens to appends, unless they no longer have the stream's shape."""
    return hooks.ask_append_parts(lake, base, stream, rows) if find_by_identity(lake, stream, base) == stream else []
