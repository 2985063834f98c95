"""`Writer`: the open transaction of one commit, through which operations get ids, check rows and queue inserts."""

from __future__ import annotations

import posixpath
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from platform_plugin.errors import CommitConflict, StorageError
from platform_plugin.lake.catalogue import catalogue as c
from platform_plugin.lake.catalogue.bulk import insert_rows, is_among, update_rows
from platform_plugin.lake.catalogue.formats import files_table, is_newer
from platform_plugin.lake.catalogue.tables import CommitRecord, Snapshot, read_commits
from platform_plugin.lake.read.inlined_tables import follow_shapes

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime
    from uuid import UUID

    from sqlalchemy.engine import Connection

    from platform_plugin.lake.catalogue.tables import Table
    from platform_plugin.lake.files.files import DeleteFile
    from platform_plugin.lake.files.storage import Storage


class Writer:
    """The transaction that operations write through. All of it becomes visible in the snapshot `id`, or nothing does."""

    def __init__(self, connection: Connection, *, head: Snapshot, base: Snapshot, label: str, storage: Storage, time: datetime) -> None:
        self.connection = connection
        self.storage = storage
        self.time = time
        self.id = head.id + 1
        self.base = base
        self.head = head
        self.schema_version = head.schema_version
        self.next_catalog_id = head.next_catalog_id
        self.next_file_id = head.next_file_id
        self.table_ids: dict[UUID, int] = {}
        self.partition_ids: dict[int, int] = {}  # of tables that this commit creates
        self.first_row_ids: dict[UUID, int] = {}  # of what this commit appends to tables
        self.released: dict[str, int] = {}  # files to delete once the commit is made, and their sizes
        self._label = label
        self._words: dict[str, None] = {}
        self._reshaped: dict[int, None] = {}
        self._inserts: defaultdict[sa.Table, list[dict[str, Any]]] = defaultdict(list)
        self._updates: defaultdict[tuple[sa.Table, tuple[str, ...], tuple[str, ...]], list[tuple[dict[str, Any], dict[str, Any]]]] = (
            defaultdict(list)
        )
        self._since_base: list[CommitRecord] | None = None

    def new_catalog_id(self) -> int:
        """An id for a schema, table, view or partitioning."""
        self.next_catalog_id += 1
        return self.next_catalog_id - 1

    def new_file_id(self) -> int:
        """An id for a data file or delete file."""
        self.next_file_id += 1
        return self.next_file_id - 1

    def note(self, word: str) -> None:
        """Add an entry to the snapshot's list of changes, in the words of DuckLake's specification."""
        self._words[word] = None

    def changed_schema(self, table_id: int | None = None) -> None:
        """Record that the definition of relations changes with this snapshot."""
        if self.schema_version == self.head.schema_version:
            self.schema_version += 1
        if table_id is not None:
            self._reshaped[table_id] = None
            row = {"begin_snapshot": self.id, "schema_version": self.schema_version, "table_id": table_id}
            if row not in self._inserts[c.SCHEMA_VERSIONS]:
                self._inserts[c.SCHEMA_VERSIONS].append(row)

    @property
    def reshaped(self) -> frozenset[int]:
        """The ids of tables that have another definition or name from this snapshot on."""
        return frozenset(self._reshaped)

    def insert(self, table: sa.Table, **row: Any) -> None:
        """Queue one row; rows of a table are sent together."""
        self._inserts[table].append(row)

    def insert_delete_file(
        self,
        table_id: int,
        table: Table,
        data_file_id: int,
        file: DeleteFile,
        *,
        begin_snapshot: int | None = None,
        partial_max: int | None = None,
    ) -> None:
        """Queue the row of one delete file; only a merge's delete file serves several snapshots."""
        counted = {"row_group_count": file.row_groups} if is_newer(self.connection) else {}
        self.insert(
            files_table(self.connection, c.DELETE_FILE),
            delete_file_id=self.new_file_id(),
            table_id=table_id,
            begin_snapshot=self.id if begin_snapshot is None else begin_snapshot,
            data_file_id=data_file_id,
            path=posixpath.relpath(file.path, table.path),
            path_is_relative=True,
            format="parquet",
            delete_count=file.delete_count,
            file_size_bytes=file.size_bytes,
            footer_size=file.footer_bytes,
            partial_max=partial_max,
            **counted,
        )

    def update_later(self, table: sa.Table, key: dict[str, Any], values: dict[str, Any]) -> None:
        """Queue the update of one row; updates with the same columns are sent together."""
        self._updates[table, tuple(key), tuple(values)].append((key, values))

    def commits_since_base(self) -> list[CommitRecord]:
        """The commits of others since this commit's base, oldest first."""
        if self._since_base is None:
            self._since_base = read_commits(self.connection, after=self.base.id, until=self.head.id)
        return self._since_base

    def flush(self) -> None:
        """Send queued rows, so that statements of this transaction see them."""
        for table, rows in self._inserts.items():
            if rows:
                insert_rows(self.connection, table, rows)
        self._inserts.clear()
        for (table, _, _), changed in self._updates.items():
            update_rows(self.connection, table, [key for key, _ in changed], [values for _, values in changed])
        self._updates.clear()

    def end(self, table: sa.Table, *conditions: sa.ColumnElement[bool]) -> int:
        """End the live rows that match; returns how many there were."""
        self.flush()
        result = self.connection.execute(sa.update(table).where(table.c.end_snapshot.is_(None), *conditions).values(end_snapshot=self.id))
        return int(result.rowcount)

    def changes(self) -> str:
        """The snapshot's list of changes."""
        return ",".join(self._words)

    def table_id(self, table: Table) -> int:
        """The id of a table that is live or that this commit created; a dropped table is a conflict."""
        known = self.table_ids.get(table.uuid)
        if known is not None:
            return known
        t = c.TABLE
        # A value from the commit that created the table knows no id, but its identity is the same.
        same = t.c.table_uuid == table.uuid if table.id is None else t.c.table_id == table.id
        query = sa.select(t.c.table_id, t.c.end_snapshot).where(same).order_by(t.c.begin_snapshot.desc()).limit(1)
        row = self.connection.execute(query).first()
        if row is None or row.end_snapshot is not None:
            raise self.conflict(f'table "{table.name}" was dropped', row.end_snapshot if row else None)
        self.table_ids[table.uuid] = row.table_id
        return int(row.table_id)

    def require_tables(self, tables: list[Table]) -> None:
        """Look up many tables with one query, so that later calls of `table_id` need none."""
        wanted = {table.id: table for table in tables if table.id is not None and table.uuid not in self.table_ids}
        if len(wanted) > 1:
            t = c.TABLE
            query = sa.select(t.c.table_id).where(is_among(self.connection, t.c.table_id, wanted), t.c.end_snapshot.is_(None))
            for table_id in self.connection.execute(query).scalars():
                self.table_ids[wanted[table_id].uuid] = table_id

    def require_files(self, paths: Iterable[str]) -> None:
        """Refuse files outside the data folder, and files that a vacuum has deleted as left-overs before this commit."""
        found = list(paths)
        for path in found:
            if path.startswith("/") or "://" in path or ".." in path.split("/"):
                self.storage.absolute(path)
        missing = self.storage.missing_local(found)
        if missing is not None:
            raise StorageError(f'file "{missing}" is missing', hint="write it again: a vacuum took it for a left-over")

    def conflict(self, what: str, snapshot_id: int | None = None) -> CommitConflict:
        """The error for something that has changed since this commit's base; it names both commits."""
        other: list[CommitRecord] = []
        if snapshot_id is not None:
            other = read_commits(self.connection, after=snapshot_id - 1, until=snapshot_id)
        elif self.head.id > self.base.id:
            other = read_commits(self.connection, after=self.base.id, until=self.head.id, limit=1)
        return CommitConflict(
            f"commit {self._label} based on snapshot {self.base.id} conflicts: {what}",
            detail=f"by {other[0]}" if other else None,
            hint="read the lake again and repeat the work; nothing of this commit was kept",
        )

    def finish(self, *, author: str, message: str, notes: str) -> None:
        """Write the snapshot's final counters, its list of changes, its author, message and notes."""
        self.flush()
        follow_shapes(self, self._reshaped)
        self.connection.execute(
            sa.update(c.SNAPSHOT)
            .where(c.SNAPSHOT.c.snapshot_id == self.id)
            .values(schema_version=self.schema_version, next_catalog_id=self.next_catalog_id, next_file_id=self.next_file_id)
        )
        self.connection.execute(
            sa.insert(c.SNAPSHOT_CHANGES).values(
                snapshot_id=self.id, changes_made=self.changes(), author=author, commit_message=message, commit_extra_info=notes
            )
        )
