"""`read_scan`: the files, deletes and inlined rows that hold a table's rows at a snapshot, after pruning."""

from __future__ import annotations

import posixpath
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import sqlalchemy as sa

from platform_plugin.algebra.predicates.conditions import ALWAYS
from platform_plugin.errors import SnapshotExpired, StorageError, UnknownObject
from platform_plugin.lake.catalogue import catalogue as c
from platform_plugin.lake.catalogue.bulk import is_among, split_chunks
from platform_plugin.lake.catalogue.formats import own_columns
from platform_plugin.lake.catalogue.tables import Snapshot, Table, read_fields
from platform_plugin.lake.commit.data_operations import has_table, inlined_data_tables
from platform_plugin.lake.read.pruning import plan_exclusions
from platform_plugin.lake.ring.segments import refuse_overrun

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID

    from sqlalchemy.engine import Connection

    from platform_plugin.algebra.predicates.conditions import Condition


DELETE_FORMATS = ("parquet", "puffin")
FILES_AT_ONCE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteList:
    """A delete file; `until` is set when it also lists positions that were deleted after the snapshot, which are still visible in it.

    Its format is `parquet`, or `puffin` for a deletion vector.
    """

    path: str
    delete_count: int
    until: int | None = None
    format: str = "parquet"


class FileScan(NamedTuple):
    """A data file of a scan; `until` is set when it also holds rows that were added after the snapshot, which are not part of it.

    It is a named tuple, since a scan may have a hundred thousand of them and a frozen dataclass takes five times as long to make.
    """

    id: int
    path: str
    record_count: int
    size_bytes: int
    footer_bytes: int
    row_id_start: int | None
    begin_snapshot: int
    until: int | None = None
    partial_max: int | None = None
    mapping_id: int | None = None
    deletes: DeleteList | None = None
    positions: tuple[int, ...] = ()
    partition_id: int | None = None

    @property
    def is_whole(self) -> bool:
        """Whether every row of the file is part of the scan."""
        return self.until is None and self.deletes is None and not self.positions


@dataclass(frozen=True, slots=True, kw_only=True)
class InlinedTable:
    """Rows that another client stores in the catalogue, with the columns that they were written with."""

    name: str
    fields: tuple[Any, ...]
    row_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TableScan:
    """The table, the snapshot and the places of all its rows: what a reader of the table needs."""

    table: Table
    snapshot: Snapshot
    files: tuple[FileScan, ...]
    inlined: tuple[InlinedTable, ...] = ()

    @property
    def record_count(self) -> int:
        """Rows in the files, deleted ones included: an upper bound."""
        return sum(file.record_count for file in self.files)

    @property
    def size_bytes(self) -> int:
        """Bytes of the files."""
        return sum(file.size_bytes for file in self.files)


def read_scan(connection: Connection, table: Table, snapshot: Snapshot, *, where: Condition = ALWAYS) -> TableScan:
    """The scan of a table at a snapshot, without files in which no row can be within a condition."""
    table_id = _id(table)
    own = {"of": table_id, "at": snapshot.id}
    is_kept, is_there, newest = connection.execute(_STANDING, own).one()
    if not is_kept:
        raise SnapshotExpired(f"snapshot {snapshot.id} is no longer kept", hint="read the newest one, or take a lease before a long read")
    if not is_there:
        raise UnknownObject(f'table "{table.name}" does not exist at snapshot {snapshot.id}', hint="it was dropped; read an older snapshot")
    if snapshot.id < newest:
        refuse_overrun(connection, table, snapshot)
    query = _FILES
    for exclusion in plan_exclusions(table, where, sqlite=connection.dialect.name == "sqlite"):
        query = query.where(exclusion)
    delete_lists = _read_delete_lists(connection, table, own)
    positions = _read_inlined_deletes(connection, table_id, snapshot.id)
    blocks = (_readable(rows, table) for rows in connection.execute(query, own).partitions(FILES_AT_ONCE))
    # A block of rows at a time, since the garbage collector searches all rows that are alive, and arguments by position, which take less
    # than those by name: both together are a third of the time of a large table.
    files = tuple(
        FileScan(
            id_,
            resolve_path(table.path, path, relative=relative),
            records,
            size,
            footer,
            row_id_start,
            begin,
            snapshot.id if partial_max is not None and partial_max > snapshot.id else None,
            partial_max,
            mapping_id,
            delete_lists.get(id_),
            tuple(positions[id_]) if id_ in positions else (),
            partition_id,
        )
        for rows in blocks
        for id_, path, relative, _, records, size, footer, row_id_start, begin, partial_max, mapping_id, _, partition_id in rows
    )
    return TableScan(table=table, snapshot=snapshot, files=files, inlined=_read_inlined_tables(connection, table, table_id, snapshot.id))


def read_files_beyond(connection: Connection, table: Table, row_id: int, snapshot: Snapshot, *, since: Snapshot) -> list[FileScan]:
    """The files with rows from a row id on, by row id, including those that were added and removed between the two snapshots."""
    f = c.DATA_FILE.c
    query = (
        sa.select(c.DATA_FILE)
        .where(
            f.table_id == table.id,
            f.begin_snapshot <= snapshot.id,
            f.row_id_start + f.record_count > row_id,
            sa.or_(f.end_snapshot.is_(None), f.end_snapshot > since.id),
        )
        .order_by(f.row_id_start, f.record_count.desc())
    )
    return [
        FileScan(
            id=row.data_file_id,
            path=resolve_path(table.path, row.path, relative=row.path_is_relative),
            record_count=row.record_count,
            size_bytes=row.file_size_bytes,
            footer_bytes=row.footer_size,
            row_id_start=row.row_id_start,
            begin_snapshot=row.begin_snapshot,
            partial_max=row.partial_max,
            mapping_id=row.mapping_id,
        )
        for row in connection.execute(query)
    ]


def read_file_changes(connection: Connection, table: Table, *, after: int, until: int) -> tuple[list[FileScan], set[int]] | None:
    """The files that came to a table between two snapshots, whether or not they are left, and the snapshots that ended files.

    None if a snapshot in between is no longer kept, since files that only it had are forgotten.
    """
    snapshots = sa.select(sa.func.count()).where(c.SNAPSHOT.c.snapshot_id >= after, c.SNAPSHOT.c.snapshot_id <= until)
    if connection.execute(snapshots).scalar_one() != until - after + 1:
        return None
    f = c.DATA_FILE.c
    own = sa.select(c.DATA_FILE).where(f.table_id == _id(table))
    begun = connection.execute(own.where(f.begin_snapshot > after, f.begin_snapshot <= until).order_by(f.data_file_id))
    files = [file_scan_of(table, row) for row in begun]
    ended = connection.execute(own.with_only_columns(f.end_snapshot).where(f.end_snapshot > after, f.end_snapshot <= until))
    return files, set(ended.scalars())


class ListedFile(NamedTuple):
    """The path and size of a data file, for those who don't read it yet."""

    id: int
    path: str
    record_count: int
    size_bytes: int


def list_files(connection: Connection, tables: Sequence[Table], snapshot: Snapshot) -> dict[UUID, list[ListedFile]]:
    """The files of several tables at a snapshot, with their paths as the catalogue has them; a table without files is left out."""
    f = c.DATA_FILE.c
    found: defaultdict[UUID, list[ListedFile]] = defaultdict(list)
    by_id = {_id(table): table.uuid for table in tables}
    for part in split_chunks(list(by_id)):
        query = sa.select(f.table_id, f.data_file_id, f.path, f.record_count, f.file_size_bytes).where(
            is_among(connection, f.table_id, part), c.is_visible_at(c.DATA_FILE, snapshot.id)
        )
        for table_id, *file in connection.execute(query):
            found[by_id[table_id]].append(ListedFile(*file))
    return found


def read_file_sizes(connection: Connection, tables: Sequence[Table], snapshot: Snapshot) -> dict[UUID, list[int]]:
    """The sizes of the files of several tables at a snapshot; a table without files is left out."""
    f = c.DATA_FILE.c
    found: defaultdict[UUID, list[int]] = defaultdict(list)
    by_id = {_id(table): table.uuid for table in tables}
    for part in split_chunks(list(by_id)):
        query = sa.select(f.table_id, f.file_size_bytes).where(
            is_among(connection, f.table_id, part), c.is_visible_at(c.DATA_FILE, snapshot.id)
        )
        for table_id, size in connection.execute(query):
            found[by_id[table_id]].append(size)
    return found


def _id(table: Table) -> int:
    if table.id is None:
        message = f"table {table.name} is not committed yet"
        raise ValueError(message)
    return table.id


def _readable(rows: Sequence[c.AnyRow], table: Table) -> Sequence[c.AnyRow]:
    """The rows as they are; a file that can't be read is refused."""
    for row in rows:
        if row[3] != "parquet" or row[11] is not None:
            what = "is encrypted" if row.encryption_key is not None else f"has the format {row.file_format}"
            raise StorageError(f'file "{row.path}" of table "{table.name}" {what}', hint="only plain Parquet files can be read")
    return rows


def file_scan_of(table: Table, row: c.AnyRow) -> FileScan:
    """The data file of a catalogue row, without its deletes."""
    return FileScan(
        id=row.data_file_id,
        path=resolve_path(table.path, row.path, relative=row.path_is_relative),
        record_count=row.record_count,
        size_bytes=row.file_size_bytes,
        footer_bytes=row.footer_size,
        row_id_start=row.row_id_start,
        begin_snapshot=row.begin_snapshot,
        partial_max=row.partial_max,
        mapping_id=row.mapping_id,
    )


def resolve_path(folder: str, path: str, *, relative: bool) -> str:
    """A file's path below the data folder; whether it really lies there is checked when it is opened."""
    if not relative:
        return path
    return posixpath.normpath(folder + path) if ".." in path else folder + path


def _read_delete_lists(connection: Connection, table: Table, own: Mapping[str, int]) -> dict[int, DeleteList]:
    found = {}
    for row in connection.execute(_DELETES, own):
        until = own["at"] if row.partial_max is not None and row.partial_max > own["at"] else None
        found[row.data_file_id] = delete_list(table, row, until=until)
    return found


def delete_list(table: Table, row: c.AnyRow, *, until: int | None = None) -> DeleteList:
    """The delete file of a catalogue row; an unknown format is refused."""
    if row.format not in DELETE_FORMATS or row.encryption_key is not None:
        what = "is encrypted" if row.encryption_key is not None else f"has the format {row.format}"
        raise StorageError(
            f'delete file "{row.path}" of table "{table.name}" {what}', hint="only plain Parquet files and deletion vectors can be read"
        )
    path = resolve_path(table.path, row.path, relative=row.path_is_relative)
    return DeleteList(path=path, delete_count=row.delete_count, until=until, format=row.format)


def _read_inlined_deletes(connection: Connection, table_id: int, snapshot_id: int) -> dict[int, list[int]]:
    if not has_table(connection, f"ducklake_inlined_delete_{table_id}"):
        return {}
    d = c.inlined_delete_table(table_id).c
    found: defaultdict[int, list[int]] = defaultdict(list)
    for row in connection.execute(sa.select(d.file_id, d.row_id).where(d.begin_snapshot <= snapshot_id).order_by(d.file_id, d.row_id)):
        found[row.file_id].append(row.row_id)
    return found


def _read_inlined_tables(connection: Connection, table: Table, table_id: int, snapshot_id: int) -> tuple[InlinedTable, ...]:
    found = []
    versions = inlined_data_tables(connection, table_id)
    quote = connection.dialect.identifier_preparer.quote
    _, begin, end = own_columns(connection)
    live = f"{begin} <= :at AND ({end} IS NULL OR {end} > :at)"
    # Every shape that a table has had left one, nearly all of them empty: they are asked together, within SQLite's limit of 500.
    names = list(versions)
    for start in range(0, len(names), 100):
        part = names[start : start + 100]
        counts = (f"SELECT {index}, count(*) FROM {quote(name)} WHERE {live}" for index, name in enumerate(part))
        for index, count in connection.execute(sa.text(" UNION ALL ".join(counts)), {"at": snapshot_id}):
            if count:
                fields = fields_of_version(connection, table, table_id, versions[part[index]])
                found.append(InlinedTable(name=part[index], fields=fields, row_count=count))
    return tuple(found)


def fields_of_version(connection: Connection, table: Table, table_id: int, schema_version: int) -> tuple[Any, ...]:
    """The columns that the table had in a schema version of the lake: those of the table's last version up to it."""
    v = c.SCHEMA_VERSIONS.c
    query = sa.select(v.begin_snapshot).where(v.table_id == table_id, v.schema_version <= schema_version)
    begin = connection.execute(query.order_by(v.schema_version.desc()).limit(1)).scalar()
    if begin is None:
        return table.fields
    return read_fields(connection, begin, [table_id]).get(table_id) or table.fields


def _plan_standing(table: sa.ColumnElement[int], snapshot: sa.ColumnElement[int]) -> sa.Select[Any]:
    """Whether a snapshot is kept, whether it has a table, and the newest snapshot."""
    s, t = c.SNAPSHOT.c.snapshot_id, c.TABLE
    newest = sa.select(sa.func.max(s)).scalar_subquery()
    return sa.select(
        sa.exists().where(s == snapshot), sa.exists().where(t.c.table_id == table, c.is_visible_at(t, snapshot)), newest.label("newest")
    )


def _plan_files(table: sa.ColumnElement[int], snapshot: sa.ColumnElement[int]) -> sa.Select[Any]:
    """The data files of a table at a snapshot."""
    f = c.DATA_FILE.c
    columns = (
        f.data_file_id,
        f.path,
        f.path_is_relative,
        f.file_format,
        f.record_count,
        f.file_size_bytes,
        f.footer_size,
        f.row_id_start,
        f.begin_snapshot,
        f.partial_max,
        f.mapping_id,
        f.encryption_key,
        f.partition_id,
    )
    return sa.select(*columns).where(f.table_id == table, c.is_visible_at(c.DATA_FILE, snapshot)).order_by(f.data_file_id)


def _plan_deletes(table: sa.ColumnElement[int], snapshot: sa.ColumnElement[int]) -> sa.Select[Any]:
    """The delete files of a table at a snapshot."""
    d = c.DELETE_FILE.c
    query = sa.select(d.data_file_id, d.path, d.path_is_relative, d.format, d.delete_count, d.partial_max, d.encryption_key)
    return query.where(d.table_id == table, c.is_visible_at(c.DELETE_FILE, snapshot))


# Made once: to put a statement together takes longer than to run it.
_OWN = sa.bindparam("of", type_=sa.BigInteger), sa.bindparam("at", type_=sa.BigInteger)
_STANDING, _FILES, _DELETES = _plan_standing(*_OWN), _plan_files(*_OWN), _plan_deletes(*_OWN)
