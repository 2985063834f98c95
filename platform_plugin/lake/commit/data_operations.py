"""Operations on the rows of tables: append and remove files, delete rows, and write rows of `platform_*` tables."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

import sqlalchemy as sa

from platform_plugin.errors import InvalidValue
from platform_plugin.lake.catalogue import catalogue as c
from platform_plugin.lake.catalogue.bulk import split_chunks
from platform_plugin.lake.catalogue.formats import files_table, inlined_rows, is_newer
from platform_plugin.lake.catalogue.table_statistics import read_column_bounds, table_totals, write_column_bounds, write_totals
from platform_plugin.lake.commit.stale_nulls import refuse_nulls

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from platform_plugin.lake.catalogue.tables import Table
    from platform_plugin.lake.commit.writer import Writer
    from platform_plugin.lake.files.files import DataFile, DeleteFile

ANYTHING: Mapping[str, Any] = MappingProxyType({})  # an expectation that every row meets, a missing one included


class Operation(Protocol):
    """One change of a commit; it is applied again from the start when the commit is retried."""

    def apply(self, w: Writer) -> None:
        """Check what the operation relies on and write its rows."""


@dataclass(frozen=True, slots=True)
class AppendFiles:
    """Appends files to tables; each table's row ids continue where its last ones ended."""

    files: tuple[tuple[Table, tuple[DataFile, ...]], ...]

    def apply(self, w: Writer) -> None:
        w.require_tables([table for table, _ in self.files])
        w.require_files(file.path for _, files in self.files for file in files)
        w.flush()
        refuse_nulls(w, self.files)
        appended = {w.table_id(table): (table, files) for table, files in self.files}
        totals = table_totals(w, list(appended))
        columns = read_column_bounds(w, list(appended))
        for table_id, (table, files) in appended.items():
            rows, next_row_id, size = totals.get(table_id, (0, 0, 0))
            w.first_row_ids[table.uuid] = next_row_id
            for file in files:
                start = next_row_id
                insert_file(w, table_id, table, file, row_id_start=start)
                next_row_id += 0 if file.has_row_ids else file.record_count
                rows += file.record_count
                size += file.size_bytes
            write_totals(w, table_id, (rows, next_row_id, size), known=table_id in totals)
            write_column_bounds(w, table_id, table, files, columns.get(table_id, {}), is_new=totals.get(table_id, (0, 0, 0))[1] == 0)
            w.note(f"inserted_into_table:{table_id}")


@dataclass(frozen=True, slots=True)
class RemoveFiles:
    """Removes whole files from a table, whatever was deleted from them before."""

    table: Table
    file_ids: tuple[int, ...]
    unchanged_since_base: bool = False

    def apply(self, w: Writer) -> None:
        table_id = w.table_id(self.table)
        w.flush()
        rows = bytes_ = 0
        for ids in split_chunks(self.file_ids):
            live = live_files(w, table_id, self.table, ids)
            rows += sum(row.record_count for row in live)
            bytes_ += sum(row.file_size_bytes for row in live)
            if self.unchanged_since_base:
                refuse_newer_deletes(w, table_id, self.table, ids)
            w.end(c.DATA_FILE, c.DATA_FILE.c.table_id == table_id, c.DATA_FILE.c.data_file_id.in_(ids))
            w.end(c.DELETE_FILE, c.DELETE_FILE.c.table_id == table_id, c.DELETE_FILE.c.data_file_id.in_(ids))
        totals = table_totals(w, [table_id]).get(table_id)
        if totals is not None:
            write_totals(w, table_id, (max(totals[0] - rows, 0), totals[1], max(totals[2] - bytes_, 0)), known=True)
        w.note(f"deleted_from_table:{table_id}")


@dataclass(frozen=True, slots=True)
class DeleteRows:
    """Deletes rows by position: the new delete file of each data file replaces its old one."""

    table: Table
    deletes: tuple[tuple[int, DeleteFile], ...]

    def apply(self, w: Writer) -> None:
        table_id = w.table_id(self.table)
        w.require_files(file.path for _, file in self.deletes)
        w.flush()
        for pairs in split_chunks(self.deletes):
            ids = [file_id for file_id, _ in pairs]
            counts = {row.data_file_id: row.record_count for row in live_files(w, table_id, self.table, ids)}
            for file_id, file in pairs:
                if file.last_position >= counts[file_id]:
                    raise InvalidValue(
                        f'delete file "{file.path}" deletes row {file.last_position} of a file that has {counts[file_id]} rows',
                        hint="positions count a file's rows from 0",
                    )
            refuse_newer_deletes(w, table_id, self.table, ids)
            w.end(c.DELETE_FILE, c.DELETE_FILE.c.table_id == table_id, c.DELETE_FILE.c.data_file_id.in_(ids))
            for file_id, file in pairs:
                w.insert_delete_file(table_id, self.table, file_id, file)
        w.note(f"deleted_from_table:{table_id}")


@dataclass(frozen=True, slots=True)
class DeleteInlinedRows:
    """Deletes rows that another client stores inside the catalogue."""

    table: Table
    row_ids: tuple[int, ...]

    def apply(self, w: Writer) -> None:
        table_id = w.table_id(self.table)
        w.flush()
        left = len(self.row_ids)
        for name in inlined_data_tables(w.connection, table_id):
            rows = inlined_rows(w.connection, name)
            for ids in split_chunks(self.row_ids):
                left -= w.connection.execute(
                    sa.update(rows).where(rows.c.row_id.in_(ids), rows.c.end_snapshot.is_(None)).values(end_snapshot=w.id)
                ).rowcount
        if left:
            raise w.conflict(f'{left} rows of table "{self.table.name}" were changed or moved to a file')
        w.note(f"deleted_from_table:{table_id}")


@dataclass(frozen=True, slots=True)
class ExpectUnchanged:
    """Checks that no other commit has changed the rows or columns of these tables since the commit's base."""

    tables: tuple[Table, ...]

    def apply(self, w: Writer) -> None:
        for table in self.tables:
            table_id = w.table_id(table)
            records = w.commits_since_base()
            if len(records) < w.head.id - w.base.id:
                raise w.conflict(f'snapshots since its base have expired, so nobody knows whether table "{table.name}" was changed')
            for record in records:
                if any(is_row_change(word, table_id) for word in record.changes.split(",")):
                    raise w.conflict(f'table "{table.name}" was changed', record.id)


@dataclass(frozen=True, slots=True)
class PutRow:
    """Writes one row of a `platform_*` table; `expected` has values that it must hold before (None: there must be no such row)."""

    table: sa.Table
    row: Mapping[str, Any]
    expected: Mapping[str, Any] | None

    def apply(self, w: Writer) -> None:
        condition = _row_condition(self.table, self.row)
        current = _current_row(w, self.table, condition)
        check_expected(w, self.table, self.row, current, self.expected)
        if current is None:
            w.insert(self.table, **self.row)
        else:
            w.connection.execute(sa.update(self.table).where(condition).values(dict(self.row)))


@dataclass(frozen=True, slots=True)
class ForgetRow:
    """Removes one row of a `platform_*` table; `expected` has values that it must hold before."""

    table: sa.Table
    key: Mapping[str, Any]
    expected: Mapping[str, Any] | None

    def apply(self, w: Writer) -> None:
        condition = _row_condition(self.table, self.key)
        check_expected(w, self.table, self.key, _current_row(w, self.table, condition), self.expected)
        w.connection.execute(sa.delete(self.table).where(condition))


def is_row_change(word: str, table_id: int) -> bool:
    """Whether an entry of a snapshot's list of changes means other rows or columns of a table; moving rows between files does not.

    >>> is_row_change("inserted_into_table:3", 3), is_row_change("merge_adjacent:3", 3), is_row_change("inserted_into_table:4", 3)
    (True, False, False)
    """
    kind, _, number = word.partition(":")
    moving = ("merge_adjacent", "compacted_table", "rewrite_delete", "flushed_inlined", "inline_flush")
    return number == str(table_id) and kind not in moving


def _row_condition(table: sa.Table, row: Mapping[str, Any]) -> sa.ColumnElement[bool]:
    return sa.and_(*(column == row[column.name] for column in table.primary_key))


def _current_row(w: Writer, table: sa.Table, condition: sa.ColumnElement[bool]) -> c.AnyRow | None:
    w.flush()
    return w.connection.execute(sa.select(table).where(condition)).first()


def check_expected(
    w: Writer, table: sa.Table, row: Mapping[str, Any], current: c.AnyRow | None, expected: Mapping[str, Any] | None
) -> None:
    """Refuse to commit if a `platform_*` row does not hold the values that the commit was computed from."""
    key = ", ".join(f"{column.name} = {row[column.name]}" for column in table.primary_key)
    if expected is None:
        if current is not None:
            raise w.conflict(f"row ({key}) of {table.name} is there already")
        return
    for name, value in expected.items():
        found = None if current is None else current._mapping[name]  # noqa: SLF001  SQLAlchemy's public name for it
        if current is None or found != value:
            raise w.conflict(f"row ({key}) of {table.name} has {name} = {found}, expected {value}")


def live_files(w: Writer, table_id: int, table: Table, ids: Sequence[int]) -> list[c.AnyRow]:
    """The catalogue rows of files; a conflict if one of them is no longer live."""
    f = c.DATA_FILE.c
    rows = w.connection.execute(
        sa.select(f.data_file_id, f.end_snapshot, f.record_count, f.file_size_bytes).where(f.table_id == table_id, f.data_file_id.in_(ids))
    ).all()
    gone = set(ids) - {row.data_file_id for row in rows if row.end_snapshot is None}
    if gone:
        ended = next((row.end_snapshot for row in rows if row.end_snapshot is not None), None)
        raise w.conflict(f'{len(gone)} of the files of table "{table.name}" it works on were removed or merged', ended)
    return list(rows)


def refuse_newer_deletes(w: Writer, table_id: int, table: Table, ids: Sequence[int]) -> None:
    """Refuse to replace files, or their delete files, from which rows were deleted after the commit's base."""
    d = c.DELETE_FILE.c
    # A delete file of another client may hold several snapshots; `partial_max` is the newest of them.
    newest = sa.func.coalesce(d.partial_max, d.begin_snapshot)
    newer = w.connection.execute(
        sa.select(newest).where(d.table_id == table_id, d.data_file_id.in_(ids), newest > w.base.id, newest < w.id).limit(1)
    ).scalar()
    if newer is None and has_table(w.connection, f"ducklake_inlined_delete_{table_id}"):
        inlined = c.inlined_delete_table(table_id).c
        newer = w.connection.execute(
            sa.select(inlined.begin_snapshot).where(inlined.file_id.in_(ids), inlined.begin_snapshot > w.base.id).limit(1)
        ).scalar()
    if newer is not None:
        raise w.conflict(f'rows were deleted from files of table "{table.name}" it works on', newer)


def has_table(connection: sa.Connection, name: str) -> bool:
    """Whether the catalogue has a table of that name; other clients create some on demand."""
    return sa.inspect(connection).has_table(name)


def inlined_data_tables(connection: sa.Connection, table_id: int) -> dict[str, int]:
    """The names of the tables that hold a table's inlined rows, with the schema version that each was made for, oldest first."""
    t = c.INLINED_DATA_TABLES.c
    query = sa.select(t.table_name, t.schema_version).where(t.table_id == table_id).order_by(t.schema_version)
    return {row.table_name: row.schema_version for row in connection.execute(query)}


def insert_file(
    w: Writer,
    table_id: int,
    table: Table,
    file: DataFile,
    *,
    row_id_start: int,
    begin_snapshot: int | None = None,
    partition_id: int | None = None,
) -> int:
    """Queue the catalogue rows of one data file; only a merge gives another first snapshot or partitioning than the current one."""
    if begin_snapshot is None and len(file.partition_values) != len(table.partition_keys):
        raise InvalidValue(
            f'file "{file.path}" does not fit the partitioning of table "{table.name}"',
            detail=f"it names {len(file.partition_values)} values, the table has {len(table.partition_keys)} keys",
            hint="write one file per partition, and name its values in the order of the keys",
        )
    file_id = w.new_file_id()
    counted = {"row_group_count": file.row_groups} if is_newer(w.connection) else {}
    w.insert(
        files_table(w.connection, c.DATA_FILE),
        data_file_id=file_id,
        table_id=table_id,
        begin_snapshot=w.id if begin_snapshot is None else begin_snapshot,
        # Nearly every file lies below its table's folder, and the general answer takes a tenth of a commit.
        path=file.path[len(table.path) :] if file.path.startswith(table.path) else posixpath.relpath(file.path, table.path),
        path_is_relative=True,
        file_format="parquet",
        record_count=file.record_count,
        file_size_bytes=file.size_bytes,
        footer_size=file.footer_bytes,
        row_id_start=row_id_start,
        partition_id=w.partition_ids.get(table_id, table.partition_id) if begin_snapshot is None else partition_id,
        partial_max=file.partial_max,
        **counted,
    )
    for stats in file.statistics:
        w.insert(
            c.FILE_COLUMN_STATS,
            data_file_id=file_id,
            table_id=table_id,
            column_id=stats.column_id,
            column_size_bytes=stats.size_bytes,
            value_count=stats.value_count,
            null_count=stats.null_count,
            min_value=stats.min_value,
            max_value=stats.max_value,
            contains_nan=stats.contains_nan,
        )
    for index, value in enumerate(file.partition_values):
        w.insert(c.FILE_PARTITION_VALUE, data_file_id=file_id, table_id=table_id, partition_key_index=index, partition_value=value)
    return file_id


def append_described(w: Writer, table: Table, files: Sequence[DataFile], starts: Sequence[int], *, next_row_id: int) -> list[int]:
    """Append files whose rows have row ids already; returns their new file ids, in their order."""
    table_id = w.table_id(table)
    w.flush()
    known = table_totals(w, [table_id]).get(table_id)
    rows, known_next, size = known or (0, 0, 0)
    ids = [insert_file(w, table_id, table, file, row_id_start=start) for file, start in zip(files, starts, strict=True)]
    rows += sum(file.record_count for file in files)
    size += sum(file.size_bytes for file in files)
    write_totals(w, table_id, (rows, max(known_next, next_row_id), size), known=known is not None)
    columns = read_column_bounds(w, [table_id]).get(table_id, {})
    write_column_bounds(w, table_id, table, files, columns, is_new=known_next == 0)
    w.note(f"inserted_into_table:{table_id}")
    return ids
