"""The history of a stream: a table that receives evicted segments, in the same commit and without copying files."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from uuid import UUID

import sqlalchemy as sa

from platform_plugin.lake.catalogue import catalogue as c
from platform_plugin.lake.catalogue.bulk import split_chunks
from platform_plugin.lake.catalogue.statistics import ColumnStatistics
from platform_plugin.lake.catalogue.tables import read_fields, read_tables
from platform_plugin.lake.commit.data_operations import append_described, has_table
from platform_plugin.lake.files.files import DataFile
from platform_plugin.lake.read.scan import resolve_path
from platform_plugin.lake.ring.segments import SEGMENT, STREAM, read_ring, write_ring

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.engine import Connection

    from platform_plugin.lake.catalogue.tables import Table
    from platform_plugin.lake.commit.writer import Writer


@dataclass(frozen=True, slots=True)
class FollowStream:
    """Makes a table of this commit the history of a stream, if the stream's definition is still the one that the table was planned for."""

    stream: Table
    history: Table

    def apply(self, w: Writer) -> None:
        table_id = w.table_id(self.stream)
        w.flush()
        if read_fields(w.connection, w.id, [table_id]).get(table_id) != self.stream.fields:
            raise w.conflict(f'the columns of stream "{self.stream.name}" were altered')
        ring = read_ring(w.connection, self.stream.uuid)
        known = _find(w.connection, ring.history_uuid, w.id) if ring.history_uuid else None
        if known is not None:
            raise w.conflict(f'stream "{self.stream.name}" was given the history "{known.name}"')
        write_ring(w, self.stream, replace(ring, history_uuid=str(self.history.uuid)))


def read_history(connection: Connection, stream: Table, snapshot_id: int) -> Table | None:
    """The table that receives the evicted rows of a stream, or None."""
    if not has_table(connection, STREAM.name):
        return None
    uuid = read_ring(connection, stream.uuid).history_uuid
    return _find(connection, uuid, snapshot_id) if uuid else None


def _find(connection: Connection, uuid: str, snapshot_id: int) -> Table | None:
    """The history table of that identity, or None if it was dropped."""
    t = c.TABLE.c
    ids = connection.execute(sa.select(t.table_id).where(t.table_uuid == UUID(uuid), t.end_snapshot.is_(None))).scalars().all()
    found = read_tables(connection, snapshot_id, ids=ids) if ids else []
    return found[0] if found else None


def move_to_history(w: Writer, uuid: str, stream: Table, files: Sequence[c.AnyRow], *, before: int) -> Table | None:
    """Append evicted files, with the arrival times of their rows, to the stream's history; None if the history was dropped."""
    history = _find(w.connection, uuid, w.id)
    if history is None:
        return None
    statistics = _read_statistics(w, [row.data_file_id for row in files])
    described = [
        DataFile(
            path=resolve_path(stream.path, row.path, relative=row.path_is_relative),
            record_count=row.record_count,
            size_bytes=row.file_size_bytes,
            footer_bytes=row.footer_size,
            statistics=statistics.get(row.data_file_id, ()),
            partial_max=row.partial_max,
        )
        for row in files
    ]
    ids = append_described(w, history, described, [row.row_id_start for row in files], next_row_id=before)
    new_ids = {row.data_file_id: new for row, new in zip(files, ids, strict=True)}
    _take_up_deletes(w, history, new_ids)
    _take_up_inlined_deletes(w, stream, history, new_ids)
    s = SEGMENT.c
    columns = ("first_row_id", "next_row_id", "size_bytes", "arrived_at", "snapshot_id", "writer")
    moved = sa.select(sa.literal(uuid), *(s[name] for name in columns)).where(s.relation_uuid == str(stream.uuid), s.first_row_id < before)
    w.connection.execute(sa.insert(SEGMENT).from_select(["relation_uuid", *columns], moved))
    return history


def _read_statistics(w: Writer, file_ids: Sequence[int]) -> dict[int, tuple[ColumnStatistics, ...]]:
    found: dict[int, list[ColumnStatistics]] = {}
    f = c.FILE_COLUMN_STATS.c
    for part in split_chunks(file_ids):
        for row in w.connection.execute(sa.select(c.FILE_COLUMN_STATS).where(f.data_file_id.in_(part))):
            found.setdefault(row.data_file_id, []).append(
                ColumnStatistics(
                    column_id=row.column_id,
                    size_bytes=row.column_size_bytes,
                    value_count=row.value_count,
                    null_count=row.null_count,
                    min_value=row.min_value,
                    max_value=row.max_value,
                    contains_nan=row.contains_nan,
                )
            )
    return {file_id: tuple(statistics) for file_id, statistics in found.items()}


def _take_up_deletes(w: Writer, history: Table, new_ids: dict[int, int]) -> None:
    """Rows that another client deleted from the stream stay deleted."""
    d = c.DELETE_FILE
    for part in split_chunks(list(new_ids)):
        for row in w.connection.execute(sa.select(d).where(d.c.data_file_id.in_(part), d.c.end_snapshot.is_(None))):
            values = dict(row._mapping)  # noqa: SLF001  its public name
            values |= {
                "delete_file_id": w.new_file_id(),
                "table_id": w.table_id(history),
                "data_file_id": new_ids[row.data_file_id],
                "begin_snapshot": w.id,
            }
            w.insert(d, **values)


def _take_up_inlined_deletes(w: Writer, stream: Table, history: Table, new_ids: dict[int, int]) -> None:
    """The same for deletes of a few rows, which that client notes in a table of the catalogue that it makes at the first."""
    source, target = c.inlined_delete_table(w.table_id(stream)), c.inlined_delete_table(w.table_id(history))
    if not has_table(w.connection, source.name):
        return
    found = [
        row
        for part in split_chunks(list(new_ids))
        for row in w.connection.execute(sa.select(source.c.file_id, source.c.row_id).where(source.c.file_id.in_(part)))
    ]
    if not found:
        return
    if not has_table(w.connection, target.name):
        quote = w.connection.dialect.identifier_preparer.quote_identifier
        w.connection.exec_driver_sql(f"CREATE TABLE {quote(target.name)} (file_id BIGINT, row_id BIGINT, begin_snapshot BIGINT)")
    rows = [{"file_id": new_ids[row.file_id], "row_id": row.row_id, "begin_snapshot": w.id} for row in found]
    w.connection.execute(sa.insert(target), rows)
