"""The change feed: which rows were added to a table and which were deleted, by commit, between two snapshots.

Rows that only moved, because files were merged or deleted rows were removed from files, are not changes. Where a commit left before-images,
these are read instead of the data files that it deleted rows from.
"""

from __future__ import annotations

from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import sqlalchemy as sa

from platform_plugin.algebra.predicates.conditions import ALWAYS
from platform_plugin.errors import InvalidValue, SnapshotExpired, UnknownObject
from platform_plugin.lake.catalogue import catalogue as c
from platform_plugin.lake.catalogue.bulk import split_chunks
from platform_plugin.lake.catalogue.formats import inlined_rows
from platform_plugin.lake.catalogue.tables import Snapshot, Table, read_snapshot
from platform_plugin.lake.commit.before_images import BeforeImages, read_before_images, was_imaged
from platform_plugin.lake.commit.data_operations import has_table, inlined_data_tables
from platform_plugin.lake.read.before_images import ImageRows, ImagesMissing, read_at, read_image_file, take_places
from platform_plugin.lake.read.evolution import make_nullable
from platform_plugin.lake.read.inlined import decode_rows, fetch_counted_rows
from platform_plugin.lake.read.matching import find_rows_within
from platform_plugin.lake.read.moves import read_expired_snapshots, read_moves, remove_moves
from platform_plugin.lake.read.pruning import plan_exclusions
from platform_plugin.lake.read.read import has_row_ids, read_delete_file
from platform_plugin.lake.read.scan import DeleteList, FileScan, delete_list, fields_of_version, file_scan_of
from platform_plugin.lake.values.types import arrow_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray
    from sqlalchemy.engine import Connection

    from platform_plugin.algebra.predicates.conditions import Condition
    from platform_plugin.algebra.predicates.ranges import Domain
    from platform_plugin.algebra.types.data_types import Field
    from platform_plugin.lake.lake import Lake

INSERT, DELETE = "insert", "delete"
_THREADS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteVersion:
    """One delete file of a data file, with the first snapshot that it counts for."""

    id: int
    begin_snapshot: int
    list: DeleteList


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedFile:
    """A data file in which rows were added within the feed, if `is_added`, or deleted by commits that left no before-images."""

    file: FileScan
    end_snapshot: int | None
    delete_versions: tuple[DeleteVersion, ...]
    inlined_deletes: tuple[tuple[int, int], ...]
    is_added: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The files and catalogue rows that hold a table's changes after one snapshot, up to and including another.

    `moves` are snapshots that only moved rows. `forgotten` are expired snapshots in the range, whose lists of changes are gone. `images`
    have the rows that went in some commits. Of rows that can't be within the condition `where` none are given.
    """

    table: Table
    after: Snapshot
    until: Snapshot
    files: tuple[ChangedFile, ...]
    inlined: tuple[tuple[str, tuple[Any, ...], tuple[int, int]], ...]
    images: tuple[BeforeImages, ...] = ()
    moves: frozenset[int] = frozenset()
    forgotten: frozenset[int] = frozenset()
    where: Condition = ALWAYS

    def within(self, lake: Lake, row_ids: Domain) -> Changes:
        """The same without files that have no row with one of these ids; other rows may be left in."""
        return replace(self, files=tuple(part for part in self.files if may_have_ids(lake, part.file, self.until, row_ids)))

    @property
    def is_empty(self) -> bool:
        """Whether there can be no changes."""
        return not self.files and not self.inlined and not self.images

    @property
    def fields(self) -> tuple[Field, ...]:
        """The table's columns in the feed, all with NULL allowed, since a deleted row may hold NULL where the table no longer allows it."""
        return nullable_fields(self.table)

    @property
    def row_count(self) -> int:
        """At most so many steps are in files, as far as the catalogue tells."""
        return sum(part.file.record_count for part in self.files) + sum(images.row_count for images in self.images)

    @property
    def size_bytes(self) -> int:
        """Bytes of the files that have them."""
        return sum(part.file.size_bytes for part in self.files) + sum(images.size_bytes for images in self.images)

    def read(self, lake: Lake, *, columns: Sequence[str] | None = None) -> pa.Table:
        """All changes as Arrow: snapshot_id, rowid, change_type, then the table's columns, or some of them."""
        try:
            return self.read_places(lake, columns)
        except ImagesMissing:
            with lake.reading() as connection:
                plain = read_changes(connection, self.table, after=self.after, until=self.until, where=self.where, with_images=False)
            return plain.read_places(lake, columns)

    def read_places(self, lake: Lake, columns: Sequence[str] | None) -> pa.Table:
        """The same from exactly these places; raises `ImagesMissing` if before-images are gone."""
        wanted, read = chosen_fields(self.table, columns, self.where)
        loads: list[Callable[[], list[_Steps]]] = [lambda part=part: self._of_file(lake, part, read) for part in self.files]  # type: ignore[misc]
        loads += [lambda part=part: self._of_images(lake, part, read) for part in self.images]  # type: ignore[misc]
        with ThreadPoolExecutor(max_workers=_THREADS) as pool:
            parts = [part for found in pool.map(lambda load: load(), loads) for part in found]
        found = [_finished(part, read, wanted, self.where) for part in parts if len(part.row_ids)]
        rows = join_steps([*found, self.read_inlined(lake, columns)], wanted)
        return remove_moves(rows, moves=self.moves, forgotten=self.forgotten)

    def read_inlined(self, lake: Lake, columns: Sequence[str] | None) -> pa.Table:
        """Those of them that are of rows in the catalogue, rows that only moved included."""
        wanted, read = chosen_fields(self.table, columns, self.where)
        if not self.inlined:
            return join_steps([], wanted)
        with lake.reading() as connection:
            parts = [part for inlined in self.inlined for part in self._of_inlined(connection, *inlined, read)]
        return join_steps([_finished(part, read, wanted, self.where) for part in parts if len(part.row_ids)], wanted)

    def _of_file(self, lake: Lake, changed: ChangedFile, fields: Sequence[Field]) -> list[_Steps]:
        deleted = find_deletions(lake, changed, self.until)
        image_snapshots = np.array(sorted({file.snapshot_id for file in self.images if file.snapshot_id is not None}), dtype=np.int64)
        inside = (deleted > self.after.id) & (deleted <= self.until.id) & ~np.isin(deleted, image_snapshots)
        positions = None if changed.is_added else np.flatnonzero(inside)
        rows = read_at(lake, changed.file, self.until, fields, positions)
        moments = deleted if positions is None else deleted[positions]
        leaves = inside if positions is None else inside[positions]
        # A row that came deleted, as the history of a stream takes it up, was never there.
        seen = moments > rows.added
        came = np.flatnonzero(seen & (rows.added > self.after.id) & (rows.added <= self.until.id))
        went = np.flatnonzero(seen & leaves)
        inserted, removed = rows.take(came), rows.take(went)
        return [
            _Steps(rows=inserted.rows, row_ids=inserted.row_ids, snapshots=inserted.added, kind=INSERT),
            _Steps(rows=removed.rows, row_ids=removed.row_ids, snapshots=moments[went], kind=DELETE),
        ]

    def _of_images(self, lake: Lake, images: BeforeImages, fields: Sequence[Field]) -> list[_Steps]:
        rows, ended = read_image_file(lake, images, self.until, fields), images.snapshot_id or 0
        return [_Steps(rows=rows.rows, row_ids=rows.row_ids, snapshots=np.full(len(rows.row_ids), ended), kind=DELETE)]

    def _of_inlined(
        self, connection: Connection, name: str, own: tuple[Any, ...], counts: tuple[int, int], fields: tuple[Field, ...]
    ) -> list[_Steps]:
        ids = {field.id for field in fields}
        found = tuple(field for field in own if field.id in ids)
        columns: list[sa.ColumnClause[Any]] = [c.user_column(field.name) for field in found]
        source = inlined_rows(connection, name)
        images = {file.snapshot_id for file in self.images}
        parts = []
        for kind, moment, count in ((INSERT, source.c.begin_snapshot, counts[0]), (DELETE, source.c.end_snapshot, counts[1])):
            query = sa.select(source.c.row_id, moment, *columns).where(moment > self.after.id, moment <= self.until.id)
            rows, row_ids, snapshots = decode_rows(
                fetch_counted_rows(connection, name, query, count), found, replace(self.table, fields=fields)
            )
            part = ImageRows(rows=rows, row_ids=np.array(row_ids, dtype=np.int64), added=np.array(snapshots, dtype=np.int64))
            if kind == DELETE and images:
                part = part.take(np.flatnonzero([number not in images for number in snapshots]))
            parts.append(_Steps(rows=part.rows, row_ids=part.row_ids, snapshots=part.added, kind=kind))
        return parts


@dataclass(frozen=True, slots=True, kw_only=True)
class _Steps:
    """Rows of one kind of change, with their row ids and the snapshots of their changes."""

    rows: pa.Table
    row_ids: Any
    snapshots: Any
    kind: str


def may_have_ids(lake: Lake, file: FileScan, snapshot: Snapshot, row_ids: Domain) -> bool:
    """Whether a row of a file may have one of some row ids; only a file without ids of its own tells, by where these begin."""
    first = file.row_id_start
    if first is None or row_ids.overlaps(first, first + max(file.record_count - 1, 0), has_null=False):
        return True
    return file.partial_max is not None or has_row_ids(lake, file, snapshot)


def find_deletions(lake: Lake, changed: ChangedFile, until: Snapshot) -> NDArray[np.int64]:
    """For each position of a file the snapshot that deleted it, or a number beyond all of them."""
    never = np.iinfo(np.int64).max
    end = never if changed.end_snapshot is None else changed.end_snapshot
    snapshots = np.full(changed.file.record_count, end, dtype=np.int64)
    for version in changed.delete_versions:
        positions, at = read_delete_file(lake, version.list, until, limit=changed.file.record_count)
        snapshots[positions] = np.minimum(snapshots[positions], version.begin_snapshot if at is None else at)
    for position, snapshot_id in changed.inlined_deletes:
        snapshots[position] = min(snapshots[position], snapshot_id)
    return snapshots


_HEAD = (pa.field("snapshot_id", pa.int64()), pa.field("rowid", pa.int64()), pa.field("change_type", pa.string()))


def nullable_fields(table: Table) -> tuple[Field, ...]:
    """The columns of a table with NULL allowed."""
    return tuple(make_nullable(field) for field in table.fields)


def chosen_fields(table: Table, columns: Sequence[str] | None, where: Condition) -> tuple[tuple[Field, ...], tuple[Field, ...]]:
    """The columns that are asked for, and those that must be read for them and for a condition."""
    known = nullable_fields(table)
    if columns is None:
        return known, known
    by_name = {field.name.lower(): field for field in known}
    exact = {field.name: field for field in known}
    for name in columns:
        if name not in exact and name.lower() not in by_name:
            raise UnknownObject(
                f'column "{name}" does not exist in table "{table.name}"',
                hint=f"its columns are {', '.join(field.name for field in known)}",
            )
    wanted = tuple(exact.get(name) or by_name[name.lower()] for name in columns)
    tested = tuple(by_name[name.lower()] for name in where.columns if name.lower() in by_name)
    return wanted, tuple(dict.fromkeys((*wanted, *tested)))


def _finished(part: _Steps, fields: Sequence[Field], wanted: Sequence[Field], where: Condition) -> pa.Table:
    """The rows of a part that may be within the condition, with the columns of the head."""
    rows, row_ids, snapshots = part.rows, part.row_ids, part.snapshots
    places = find_rows_within(rows, fields, where)
    if places is not None:
        rows, row_ids, snapshots = take_places(rows, places), row_ids[places], snapshots[places]
    head = [pa.array(snapshots, pa.int64()), pa.array(row_ids, pa.int64()), pa.repeat(pa.scalar(part.kind), len(row_ids))]
    names = [field.name for field in wanted]
    columns = rows.select(names).columns if names else []
    return pa.Table.from_arrays([*head, *columns], schema=pa.schema([*_HEAD, *arrow_schema(wanted)]))


def join_steps(parts: Sequence[pa.Table], fields: Sequence[Field]) -> pa.Table:
    """The parts of a feed one after the other, or no rows with its columns."""
    # An `empty_table` can't be made where a UUID is inside of another value.
    return pa.concat_tables(parts) if parts else pa.Table.from_batches([], schema=pa.schema([*_HEAD, *arrow_schema(fields)]))


def check_range(connection: Connection, after: Snapshot, until: Snapshot) -> None:
    """Refuse a range whose beginning has expired, since changes could be missing, or whose ends are swapped."""
    if after.id > until.id:
        raise InvalidValue(f"snapshot {after.id} is newer than snapshot {until.id}", hint="name the older one first")
    if read_snapshot(connection, id=after.id) is None:
        raise SnapshotExpired(
            f"snapshot {after.id} is no longer kept, so changes since it are not known", hint="start from an older full read"
        )


def read_changes(
    connection: Connection, table: Table, *, after: Snapshot, until: Snapshot, where: Condition = ALWAYS, with_images: bool = True
) -> Changes:
    """Plan the feed. Both snapshots must still exist, or changes between them could be missing."""
    check_range(connection, after, until)
    forgotten = read_expired_snapshots(connection, after=after.id, until=until.id)
    images = read_before_images(connection, table, after=after.id, until=until.id) if with_images else {}
    used = tuple(file for number, files in images.items() if number - 1 not in forgotten for file in files)
    files = _read_changed_files(connection, table, after, until.id, where, has_images=bool(used))
    versions = read_delete_versions(connection, table, [file.id for file, _, _ in files])
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
                is_added=is_added,
            )
            for file, end, is_added in files
        ),
        inlined=_read_changed_inlined(connection, table, after.id, until.id),
        images=used,
        moves=read_moves(connection, table.id or 0, after=after.id, until=until.id),
        forgotten=forgotten - {file.snapshot_id for file in used},
        where=where,
    )


def _read_changed_files(
    connection: Connection, table: Table, start: Snapshot, until: int, where: Condition, *, has_images: bool
) -> list[tuple[FileScan, int | None, bool]]:
    """Files to which rows were added in the range, or from which rows were deleted by commits that left no before-images."""
    f, after = c.DATA_FILE.c, start.id
    added = sa.func.coalesce(f.partial_max, f.begin_snapshot) > after
    conditions = [added, *deletion_conditions(connection, table, start, until, has_images=has_images)]
    query = sa.select(c.DATA_FILE, added.label("is_added")).where(f.table_id == table.id, f.begin_snapshot <= until, sa.or_(*conditions))
    for exclusion in plan_exclusions(table, where, sqlite=connection.dialect.name == "sqlite"):
        query = query.where(exclusion)
    return [
        (file_scan_of(table, row), row.end_snapshot, bool(row.is_added))
        for row in connection.execute(query.order_by(f.data_file_id))
        if row.end_snapshot is None or row.end_snapshot > after
    ]


def deletion_conditions(
    connection: Connection, table: Table, start: Snapshot, until: int, *, has_images: bool
) -> list[sa.ColumnElement[bool]]:
    """The files of `DATA_FILE` that lost rows in a range; with `has_images` not counting commits that left before-images."""
    f, d, after = c.DATA_FILE.c, c.DELETE_FILE.c, start.id
    # A delete file written since may hold deletes newer than the snapshot it is dated back to, whether `partial_max` says so or not.
    newer = sa.or_(sa.func.coalesce(d.partial_max, d.begin_snapshot) > after, d.delete_file_id >= start.next_file_id)
    touched = sa.select(d.data_file_id).where(d.table_id == table.id, d.begin_snapshot <= until, newer)
    ended = sa.and_(f.end_snapshot > after, f.end_snapshot <= until)
    if has_images:
        touched = touched.where(sa.or_(d.partial_max.is_not(None), ~was_imaged(table, d.begin_snapshot)))
        ended = sa.and_(ended, ~was_imaged(table, f.end_snapshot))
    conditions = [ended, f.data_file_id.in_(touched)]
    if has_table(connection, f"ducklake_inlined_delete_{table.id}"):
        deletes = c.inlined_delete_table(table.id or 0).c
        conditions.append(
            f.data_file_id.in_(sa.select(deletes.file_id).where(deletes.begin_snapshot > after, deletes.begin_snapshot <= until))
        )
    return conditions


def read_delete_versions(connection: Connection, table: Table, file_ids: Sequence[int]) -> dict[int, list[DeleteVersion]]:
    """All delete files of some data files, oldest first."""
    d = c.DELETE_FILE.c
    found: defaultdict[int, list[DeleteVersion]] = defaultdict(list)
    for ids in split_chunks(file_ids):
        query = sa.select(c.DELETE_FILE).where(d.table_id == table.id, d.data_file_id.in_(ids)).order_by(d.begin_snapshot)
        for row in connection.execute(query):
            found[row.data_file_id].append(
                DeleteVersion(id=row.delete_file_id, begin_snapshot=row.begin_snapshot, list=delete_list(table, row))
            )
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
