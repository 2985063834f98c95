"""Retention: an append evicts the oldest segments of a stream, as a change of the catalogue that moves no rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import sqlalchemy as sa

from platform_plugin.errors import StreamOverrun
from platform_plugin.lake.catalogue import catalogue as c
from platform_plugin.lake.catalogue.bulk import split_chunks
from platform_plugin.lake.catalogue.formats import inlined_rows
from platform_plugin.lake.catalogue.relations import Declaration, filter_streams, read_declarations
from platform_plugin.lake.catalogue.snapshots import read_times
from platform_plugin.lake.catalogue.table_statistics import table_totals, write_totals
from platform_plugin.lake.commit.data_operations import has_table, inlined_data_tables
from platform_plugin.lake.cursors.cursor import read_owners
from platform_plugin.lake.cursors.move import write_reader
from platform_plugin.lake.read.scan import resolve_path
from platform_plugin.lake.ring.history import move_to_history
from platform_plugin.lake.ring.segments import (
    LEFT_FILE,
    SEGMENT,
    RetentionLimits,
    Ring,
    Segment,
    plan_eviction,
    read_ring,
    read_segment_rows,
    read_segments,
    unlog_segments,
    write_ring,
)
from platform_plugin.lake.upkeep.holders import has_holder_ended, this_holder
from platform_plugin.lake.upkeep.leased import SESSION, read_leased_snapshots_if_any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta
    from uuid import UUID

    from platform_plugin.lake.catalogue.tables import Table
    from platform_plugin.lake.commit.writer import Writer
    from platform_plugin.lake.lake import Lake

_READ_AT_ONCE = 256


class RingFull(StreamOverrun):
    """A stream that waits for its readers is full; the commit is tried again for the time `wait`."""

    def __init__(self, message: str, *, wait: timedelta, hint: str) -> None:
        super().__init__(message, hint=hint)
        self.wait = wait


@dataclass(frozen=True, slots=True)
class KeepRings:
    """Records the rows that this commit appended to streams as segments, and evicts what the limits no longer keep; tables are ignored."""

    tables: tuple[Table, ...]

    def apply(self, w: Writer) -> None:
        w.flush()
        for table, declaration in _streams(w, self.tables):
            keep_ring(w, table, declaration)


def _streams(w: Writer, tables: Sequence[Table]) -> list[tuple[Table, Declaration]]:
    by_uuid = {str(table.uuid): table for table in tables}
    found = filter_streams(w.connection, by_uuid)
    if not found:
        return []
    declarations = read_declarations(w.connection, only=found)
    return [(by_uuid[uuid], declarations[uuid]) for uuid in found]


def keep_ring(w: Writer, table: Table, declaration: Declaration) -> None:
    """Record the rows that were added to a stream since the last call, and evict what its limits no longer keep."""
    table_id = w.table_id(table)
    known = read_ring(w.connection, table.uuid)
    grown = _count_in(w, table, table_id, known)
    limits = RetentionLimits.of(declaration.options)
    cut = _find_cut(w, table, table_id, grown, limits)
    kept = grown
    if cut > grown.first_row_id:
        kept = _let_go(w, table, table_id, grown, cut, borrowed=bool(declaration.options.get("borrows_files")))
    released = _release(w, table, limits)
    kept = replace(kept, released_snapshot=max(kept.released_snapshot, released))
    if kept != known or not known.next_row_id:
        write_ring(w, table, kept)


def _count_in(w: Writer, table: Table, table_id: int, known: Ring) -> Ring:
    """Make segments of rows that are not counted yet: this commit's own, and what other clients inserted before it."""
    totals = table_totals(w, [table_id]).get(table_id)
    next_row_id = totals[1] if totals else 0
    if next_row_id <= known.next_row_id:
        return known
    f = c.DATA_FILE.c
    query = (
        sa.select(f.begin_snapshot, sa.func.min(f.row_id_start), sa.func.sum(f.file_size_bytes))
        .where(f.table_id == table_id, f.end_snapshot.is_(None), f.row_id_start >= known.next_row_id)
        .group_by(f.begin_snapshot)
        .order_by(sa.func.min(f.row_id_start))
    )
    found = [(snapshot, first, int(size)) for snapshot, first, size in w.connection.execute(query)]
    times = read_times(w.connection, [snapshot for snapshot, _, _ in found if snapshot != w.id])
    ring, writer = known, this_holder("writer")
    # A segment reaches to the next one: rows that a client keeps in the catalogue count with the files after them.
    starts = [known.next_row_id if place == 0 else first for place, (_, first, _) in enumerate(found)] or [known.next_row_id]
    for place, start in enumerate(starts):
        snapshot, _, size = found[place] if found else (w.id, start, 0)
        end = starts[place + 1] if place + 1 < len(starts) else next_row_id
        w.insert(
            SEGMENT,
            relation_uuid=str(table.uuid),
            first_row_id=start,
            next_row_id=end,
            size_bytes=size,
            arrived_at=times.get(snapshot, w.time),
            snapshot_id=snapshot,
            writer=writer if snapshot == w.id else None,
        )
        ring = replace(
            ring,
            next_row_id=end,
            row_count=ring.row_count + end - start,
            size_bytes=ring.size_bytes + size,
            segment_count=ring.segment_count + 1,
        )
    return ring


def _find_cut(w: Writer, table: Table, table_id: int, ring: Ring, limits: RetentionLimits) -> int:
    """The row id before which everything leaves."""
    w.flush()
    due = _due(w, table.uuid, ring, limits)
    if not due:
        return ring.first_row_id
    held = _held_from(w, table, limits)
    cut = due[-1].next_row_id
    if held is not None and held < cut:
        # A stream that blocks grows to twice its limits while somebody needs its oldest rows; then its writers wait.
        overdue = _due(w, table.uuid, ring, limits.times(2)) if limits.blocks else []
        if overdue and overdue[-1].next_row_id > held:
            raise RingFull(
                f'stream "{table.name}" is full: its readers still need rows that have to leave',
                wait=limits.overrun_grace,
                hint="end the slow reader, raise the stream's retention, or declare on_overrun = 'abort'",
            )
        cut = max((segment.next_row_id for segment in due if segment.next_row_id <= held), default=ring.first_row_id)
    if ring.history_uuid:
        # Rows that another client keeps in the catalogue have no file that could be taken up; they wait for a merge.
        for name in inlined_data_tables(w.connection, table_id):
            rows = inlined_rows(w.connection, name)
            first = w.connection.execute(sa.select(sa.func.min(rows.c.row_id)).where(rows.c.end_snapshot.is_(None))).scalar()
            cut = cut if first is None else _at_edge(due, ring, first, cut)
    # Files leave whole: one that was merged from several segments stays until all of them may go.
    f = c.DATA_FILE.c
    live = sa.and_(f.table_id == table_id, f.end_snapshot.is_(None))
    while cut > ring.first_row_id:
        staying = w.connection.execute(
            sa.select(sa.func.min(f.row_id_start)).where(live, f.row_id_start < cut, f.row_id_start + f.record_count > cut)
        ).scalar()
        if staying is None:
            break
        cut = _at_edge(due, ring, staying, cut)
    return cut


def _at_edge(due: Sequence[Segment], ring: Ring, row_id: int, cut: int) -> int:
    """The last end of a segment up to a row that stays: segments leave whole, as files do."""
    return max((segment.next_row_id for segment in due if segment.next_row_id <= min(row_id, cut)), default=ring.first_row_id)


def _due(w: Writer, uuid: UUID, ring: Ring, limits: RetentionLimits) -> list[Segment]:
    """The segments that leave by the limits, read from the oldest on and no further than needed."""
    if limits.rows is None and limits.age is None and limits.size_bytes is None:
        return []
    limit = _READ_AT_ONCE
    while True:
        segments = read_segment_rows(w.connection, uuid, limit=limit)
        if segments and segments[0].first_row_id > ring.first_row_id:
            # The stream had no limits until now. Where rows are missing for another reason, this changes nothing.
            unlog_segments(w.connection, uuid)
            segments = read_segment_rows(w.connection, uuid, limit=limit)
        leaving = plan_eviction(segments, ring, limits, w.time)
        if len(leaving) < len(segments) or len(segments) < limit:
            return leaving
        limit *= 8


def _held_from(w: Writer, table: Table, limits: RetentionLimits) -> int | None:
    """The oldest row that a consumer, or under `on_overrun = 'block'` any reader, still needs; None if nothing is held."""
    needed = []
    for consumer, next_row_id in read_owners(w.connection, table.uuid).items():
        is_session = consumer.startswith(SESSION)
        if is_session and has_holder_ended(consumer):
            write_reader(w.connection, consumer, table.uuid, None)
        elif is_session or not limits.drops_unconsumed:
            needed.append(next_row_id)
    if limits.blocks and read_leased_snapshots_if_any(w.connection).has_readers:
        return 0
    return min(needed, default=None)


def _let_go(w: Writer, table: Table, table_id: int, ring: Ring, cut: int, *, borrowed: bool) -> Ring:
    """End all that lies before the cut: in the history if there is one, else noted for deletion when no reader needs it."""
    f, s = c.DATA_FILE.c, SEGMENT.c
    leaving = sa.and_(f.table_id == table_id, f.end_snapshot.is_(None), f.row_id_start < cut)
    files = w.connection.execute(sa.select(c.DATA_FILE).where(leaving).order_by(f.row_id_start)).all()
    going = sa.and_(s.relation_uuid == str(table.uuid), s.first_row_id < cut)
    count, size = w.connection.execute(sa.select(sa.func.count(), sa.func.sum(s.size_bytes)).where(going)).one()
    history = move_to_history(w, ring.history_uuid, table, files, before=cut) if ring.history_uuid else None
    if history is None and not borrowed:
        for row in files:
            w.insert(
                LEFT_FILE,
                data_file_id=row.data_file_id,
                relation_uuid=str(table.uuid),
                path=resolve_path(table.path, row.path, relative=row.path_is_relative),
                size_bytes=row.file_size_bytes,
                end_snapshot=w.id,
                left_at=w.time,
            )
    for part in split_chunks([row.data_file_id for row in files]):
        w.end(c.DELETE_FILE, c.DELETE_FILE.c.table_id == table_id, c.DELETE_FILE.c.data_file_id.in_(part))
    w.end(c.DATA_FILE, f.table_id == table_id, f.row_id_start < cut)
    for name in inlined_data_tables(w.connection, table_id):
        rows = inlined_rows(w.connection, name)
        w.connection.execute(sa.update(rows).where(rows.c.row_id < cut, rows.c.end_snapshot.is_(None)).values(end_snapshot=w.id))
    w.connection.execute(sa.delete(SEGMENT).where(going))
    totals = table_totals(w, [table_id]).get(table_id)
    if totals is not None:
        gone = sum(row.record_count for row in files), sum(row.file_size_bytes for row in files)
        write_totals(w, table_id, (max(totals[0] - gone[0], 0), totals[1], max(totals[2] - gone[1], 0)), known=True)
    w.note(f"deleted_from_table:{table_id}")
    return replace(
        ring,
        first_row_id=cut,
        row_count=ring.next_row_id - cut,
        size_bytes=max(ring.size_bytes - int(size or 0), 0),
        segment_count=ring.segment_count - count,
        history_uuid=ring.history_uuid if history is not None else None,
    )


def _release(w: Writer, table: Table, limits: RetentionLimits) -> int:
    """Give files that left free for deletion once no reader needs them, or has for too long; the newest snapshot they end at."""
    w.flush()
    waiting = w.connection.execute(
        sa.select(LEFT_FILE.c.data_file_id, LEFT_FILE.c.path, LEFT_FILE.c.size_bytes, LEFT_FILE.c.end_snapshot, LEFT_FILE.c.left_at).where(
            LEFT_FILE.c.relation_uuid == str(table.uuid)
        )
    ).all()
    if not waiting:
        return 0
    held = read_leased_snapshots_if_any(w.connection).snapshots
    oldest = min(held, default=None)
    free = [
        row
        for row in waiting
        if oldest is None or oldest >= row.end_snapshot or (not limits.blocks and row.left_at + limits.overrun_grace <= w.time)
    ]
    for part in split_chunks([row.data_file_id for row in free]):
        w.connection.execute(sa.delete(LEFT_FILE).where(LEFT_FILE.c.data_file_id.in_(part)))
        # Bounds of files that nobody can open again; their rows stay, so that an old snapshot is an error and never a wrong answer.
        w.connection.execute(sa.delete(c.FILE_COLUMN_STATS).where(c.FILE_COLUMN_STATS.c.data_file_id.in_(part)))
    w.released.update((row.path, row.size_bytes) for row in free)
    return max((row.end_snapshot for row in free), default=0)


def retain_due(lake: Lake) -> list[Table]:
    """Evict segments whose time is over, also from streams without appends; returns the streams that were changed."""
    now = datetime.now(UTC)
    with lake.reading() as connection:
        if not has_table(connection, LEFT_FILE.name):
            return []
        declared = {uuid: found for uuid, found in read_declarations(connection).items() if found.kind == "stream"}
        waiting = set(connection.execute(sa.select(LEFT_FILE.c.relation_uuid).distinct()).scalars())
    due = []
    for table in lake.tables():
        declaration = declared.get(str(table.uuid))
        if declaration is None:
            continue
        with lake.reading() as connection:
            ring, oldest = read_ring(connection, table.uuid), read_segments(connection, table.uuid, limit=1)
        if str(table.uuid) in waiting or plan_eviction(oldest, ring, RetentionLimits.of(declaration.options), now):
            due.append(table)
    if due:
        with lake.commit("retention") as commit:
            commit.retain(*due)
    return due
