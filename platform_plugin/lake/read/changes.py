"""The change feed: which rows were added to a table and which were deleted, by commit, between two snapshots.

Rows that only moved, because files were merged or deleted rows were removed from files, are not changes.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import sqlalchemy as sa

from platform_plugin.errors import InvalidValue, SnapshotExpired
from platform_plugin.lake.catalogue import catalogue as c
from platform_plugin.lake.catalogue.bulk import split_chunks
from platform_plugin.lake.catalogue.formats import inlined_rows
from platform_plugin.lake.catalogue.tables import Snapshot, Table, read_snapshot
from platform_plugin.lake.commit.data_operations import has_table, inlined_data_tables
from platform_plugin.lake.files.files import ROW_ID, SNAPSHOT_ID
from platform_plugin.lake.read.evolution import adapt_rows, make_nullable
from platform_plugin.lake.read.inlined import decode_rows, fetch_counted_rows
from platform_plugin.lake.read.moves import read_expired_snapshots, read_moves, remove_moves
from platform_plugin.lake.read.read import find_column, read_delete_file, read_raw
from platform_plugin.lake.read.scan import DeleteList, FileScan, delete_list, fields_of_version, file_scan_of
from platform_plugin.lake.values.types import arrow_schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.engine import Connection

    from platform_plugin.algebra.types.data_types import Field
    from platform_plugin.lake.lake import Lake

INSERT, DELETE = "insert", "delete"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteVersion:
    """One delete file of a data file, with the first snapshot that it counts for."""

    begin_snapshot: int
    list: DeleteList


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedFile:
    """A data file in which rows were added or deleted within the feed."""

    file: FileScan
    end_snapshot: int | None
    delete_versions: tuple[DeleteVersion, ...]
    inlined_deletes: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The files and catalogue rows that hold a table's changes after one snapshot, up to and including another.

    `moves` are snapshots that only moved rows. `forgotten` are expired snapshots in the range, whose lists of changes are gone.
    """

    table: Table
    after: Snapshot
    until: Snapshot
    files: tuple[ChangedFile, ...]
    inlined: tuple[tuple[str, tuple[Any, ...], tuple[int, int]], ...]
    moves: frozenset[int] = frozenset()
    forgotten: frozenset[int] = frozenset()

    @property
    def is_empty(self) -> bool:
        """Whether there can be no changes."""
        return not self.files and not self.inlined

    def read(self, lake: Lake) -> pa.Table:
        """All changes as Arrow: snapshot_id, rowid, change_type, then the table's columns."""
        parts = [part for changed in self.files for part in self._of_file(lake, changed)]
        if self.inlined:
            with lake.reading() as connection:
                parts += [part for inlined in self.inlined for part in self._of_inlined(connection, *inlined)]
        # An `empty_table` can't be made where a UUID is inside of another value.
        rows = pa.concat_tables(parts) if parts else pa.Table.from_batches([], schema=pa.schema([*_HEAD, *arrow_schema(self.fields)]))
        return remove_moves(rows, moves=self.moves, forgotten=self.forgotten)

    @property
    def fields(self) -> tuple[Field, ...]:
        """The table's columns in the feed, all with NULL allowed, since a deleted row may hold NULL where the table no longer allows it."""
        return tuple(make_nullable(field) for field in self.table.fields)

    def _of_file(self, lake: Lake, changed: ChangedFile) -> list[pa.Table]:
        file = changed.file
        raw, _ = read_raw(lake, file, self.until, fields=self.fields, hidden=(ROW_ID, SNAPSHOT_ID))
        added = find_column(raw, SNAPSHOT_ID)
        added_in = np.full(file.record_count, file.begin_snapshot) if added is None else added.to_numpy()
        ids = find_column(raw, ROW_ID)
        row_ids = (file.row_id_start or 0) + np.arange(file.record_count) if ids is None else ids.to_numpy()
        deleted_in = self._deleted_in(lake, changed)
        rows = adapt_rows(raw, self.fields)
        # A row that came deleted, as the history of a stream takes it up, was never there.
        seen = deleted_in > added_in
        inserted = np.flatnonzero(seen & (added_in > self.after.id) & (added_in <= self.until.id))
        removed = np.flatnonzero(seen & (deleted_in > self.after.id) & (deleted_in <= self.until.id))
        return [
            _with_head(rows.take(inserted), added_in[inserted], row_ids[inserted], INSERT),
            _with_head(rows.take(removed), deleted_in[removed], row_ids[removed], DELETE),
        ]

    def _deleted_in(self, lake: Lake, changed: ChangedFile) -> np.ndarray[Any, np.dtype[np.int64]]:
        """For each position the snapshot that deleted it, or a number beyond all of them."""
        never = np.iinfo(np.int64).max
        end = never if changed.end_snapshot is None else changed.end_snapshot
        snapshots = np.full(changed.file.record_count, end, dtype=np.int64)
        for version in changed.delete_versions:
            positions, at = read_delete_file(lake, version.list, self.until, limit=changed.file.record_count)
            snapshots[positions] = np.minimum(snapshots[positions], version.begin_snapshot if at is None else at)
        for position, snapshot_id in changed.inlined_deletes:
            snapshots[position] = min(snapshots[position], snapshot_id)
        return snapshots

    def _of_inlined(self, connection: Connection, name: str, fields: tuple[Any, ...], counts: tuple[int, int]) -> list[pa.Table]:
        columns: list[sa.ColumnClause[Any]] = [c.user_column(field.name) for field in fields]
        source = inlined_rows(connection, name)
        parts = []
        for kind, moment, count in ((INSERT, source.c.begin_snapshot, counts[0]), (DELETE, source.c.end_snapshot, counts[1])):
            query = sa.select(source.c.row_id, moment, *columns).where(moment > self.after.id, moment <= self.until.id)
            rows, row_ids, snapshots = decode_rows(
                fetch_counted_rows(connection, name, query, count), fields, replace(self.table, fields=self.fields)
            )
            parts.append(_with_head(rows, np.array(snapshots, dtype=np.int64), np.array(row_ids, dtype=np.int64), kind))
        return parts


_HEAD = (pa.field("snapshot_id", pa.int64()), pa.field("rowid", pa.int64()), pa.field("change_type", pa.string()))


def _with_head(rows: pa.Table, snapshots: Any, row_ids: Any, kind: str) -> pa.Table:
    head = [pa.array(snapshots, pa.int64()), pa.array(row_ids, pa.int64()), pa.array([kind] * len(row_ids), pa.string())]
    return pa.Table.from_arrays([*head, *rows.columns], schema=pa.schema([*_HEAD, *rows.schema]))


def read_changes(connection: Connection, table: Table, *, after: Snapshot, until: Snapshot) -> Changes:
    """Plan the feed. Both snapshots must still exist, or changes between them could be missing."""
    if after.id > until.id:
        raise InvalidValue(f"snapshot {after.id} is newer than snapshot {until.id}", hint="name the older one first")
    if read_snapshot(connection, id=after.id) is None:
        raise SnapshotExpired(
            f"snapshot {after.id} is no longer kept, so changes since it are not known", hint="start from an older full read"
        )
    files = _read_changed_files(connection, table, after, until.id)
    versions = read_delete_versions(connection, table, [file.id for file, _ in files])
    inlined = read_inlined_deletes(connection, table, until.id)
    return Changes(
        table=table,
        after=after,
        until=until,
        files=tuple(
            ChangedFile(
                file=file,
                end_snapshot=end,
                delete_versions=tuple(versions.get(file.id, ())),
                inlined_deletes=tuple(inlined.get(file.id, ())),
            )
            for file, end in files
        ),
        inlined=_read_changed_inlined(connection, table, after.id, until.id),
        moves=read_moves(connection, table.id or 0, after=after.id, until=until.id),
        forgotten=read_expired_snapshots(connection, after=after.id, until=until.id),
    )


def _read_changed_files(connection: Connection, table: Table, start: Snapshot, until: int) -> list[tuple[FileScan, int | None]]:
    """Files that were added, ended or partly deleted in the range."""
    f, d, after = c.DATA_FILE.c, c.DELETE_FILE.c, start.id
    # A delete file written since may hold deletes newer than the snapshot it is dated back to, whether `partial_max` says so or not.
    newer = sa.or_(sa.func.coalesce(d.partial_max, d.begin_snapshot) > after, d.delete_file_id >= start.next_file_id)
    touched = sa.select(d.data_file_id).where(d.table_id == table.id, d.begin_snapshot <= until, newer)
    conditions = [
        sa.func.coalesce(f.partial_max, f.begin_snapshot) > after,
        sa.and_(f.end_snapshot > after, f.end_snapshot <= until),
        f.data_file_id.in_(touched),
    ]
    if has_table(connection, f"ducklake_inlined_delete_{table.id}"):
        deletes = c.inlined_delete_table(table.id or 0).c
        conditions.append(
            f.data_file_id.in_(sa.select(deletes.file_id).where(deletes.begin_snapshot > after, deletes.begin_snapshot <= until))
        )
    query = sa.select(c.DATA_FILE).where(f.table_id == table.id, f.begin_snapshot <= until, sa.or_(*conditions)).order_by(f.data_file_id)
    return [
        (file_scan_of(table, row), row.end_snapshot)
        for row in connection.execute(query)
        if row.end_snapshot is None or row.end_snapshot > after
    ]


def read_delete_versions(connection: Connection, table: Table, file_ids: Sequence[int]) -> dict[int, list[DeleteVersion]]:
    """All delete files of some data files, oldest first."""
    d = c.DELETE_FILE.c
    found: defaultdict[int, list[DeleteVersion]] = defaultdict(list)
    for ids in split_chunks(file_ids):
        query = sa.select(c.DELETE_FILE).where(d.table_id == table.id, d.data_file_id.in_(ids)).order_by(d.begin_snapshot)
        for row in connection.execute(query):
            found[row.data_file_id].append(DeleteVersion(begin_snapshot=row.begin_snapshot, list=delete_list(table, row)))
    return found


def read_inlined_deletes(connection: Connection, table: Table, until: int) -> dict[int, list[tuple[int, int]]]:
    """The deleted positions that the catalogue lists by data file, each with the snapshot that deleted it."""
    found: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    if has_table(connection, f"ducklake_inlined_delete_{table.id}"):
        d = c.inlined_delete_table(table.id or 0).c
        for row in connection.execute(sa.select(d.file_id, d.row_id, d.begin_snapshot).where(d.begin_snapshot <= until)):
            found[row.file_id].append((row.row_id, row.begin_snapshot))
    return found


def _read_changed_inlined(
    connection: Connection, table: Table, after: int, until: int
) -> tuple[tuple[str, tuple[Any, ...], tuple[int, int]], ...]:
    """Tables of inlined rows, the columns these were written with, and how many of them were added and deleted in the range."""
    found = []
    for name, schema_version in inlined_data_tables(connection, table.id or 0).items():
        rows = inlined_rows(connection, name).c
        moments = (rows.begin_snapshot, rows.end_snapshot)
        in_range = [sa.func.count(sa.case((sa.and_(moment > after, moment <= until), 1))) for moment in moments]
        row = connection.execute(sa.select(*in_range)).one()
        added, deleted = int(row[0]), int(row[1])
        if added or deleted:
            found.append((name, fields_of_version(connection, table, table.id or 0, schema_version), (added, deleted)))
    return tuple(found)
