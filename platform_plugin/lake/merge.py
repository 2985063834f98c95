"""Merging: a table's small files become few, and every snapshot that is kept still reads the same rows.

Each row of a merged file carries the snapshot that added it, so one file can serve many snapshots. Deleted rows go with
it, noted in a delete file, until no kept snapshot has them; then the next merge leaves them out.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import sqlalchemy as sa

from platform_plugin.errors import CommitConflict
from platform_plugin.lake import catalogue as c
from platform_plugin.lake.changes import read_delete_versions, read_inlined_deletes
from platform_plugin.lake.data_operations import (
    chunks,
    has_table,
    inlined_data_tables,
    insert_file,
    live_files,
    refuse_newer_deletes,
    table_totals,
    write_totals,
)
from platform_plugin.lake.evolution import adapt
from platform_plugin.lake.expire import forget_files, schedule
from platform_plugin.lake.files import (
    DELETE_PATH,
    DELETE_POSITION,
    ROW_GROUP_ROWS,
    ROW_ID,
    ROW_ID_FIELD,
    SNAPSHOT_ID,
    SNAPSHOT_ID_FIELD,
    DataFile,
    DeleteFile,
    describe,
    new_parquet,
    new_path,
)
from platform_plugin.lake.inlined import decode_rows
from platform_plugin.lake.read import column_at, read_delete_file, read_raw
from platform_plugin.lake.scan import FileScan, fields_of_version, plan_scan
from platform_plugin.lake.tables import read_fields
from platform_plugin.lake.types import FIELD_ID

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sqlalchemy.engine import Connection

    from platform_plugin.algebra.types import Field
    from platform_plugin.lake.lake import Lake
    from platform_plugin.lake.tables import Snapshot, Table
    from platform_plugin.lake.writer import Writer

_NEVER = np.iinfo(np.int64).max
# Files at least this full are left alone: rewriting them again and again would cost more than it gives.
_FULL_ENOUGH = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """What a merge did."""

    files_before: int
    files_after: int
    rows: int
    rows_dropped: int
    inlined_rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Files that become one; their rows have the same columns and the same partition."""

    fields: tuple[Field, ...]
    files: tuple[FileScan, ...]
    partition_id: int | None
    partition_values: tuple[str | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewritten:
    """A merged file, what it replaces, and the deletes that go with it."""

    file: DataFile
    begin_snapshot: int
    row_id_start: int
    replaces: tuple[int, ...]
    partition_id: int | None
    deletes: DeleteFile | None
    deletes_begin: int
    deletes_max: int
    dropped: int

    @property
    def paths(self) -> tuple[str, ...]:
        """What was written."""
        return (self.file.path,) if self.deletes is None else (self.file.path, self.deletes.path)


def merge(lake: Lake, table: Table, *, target_bytes: int) -> Merged:
    """Rewrite small files, fully readable at every kept snapshot; a conflict if others change the same files meanwhile."""
    base = lake.snapshot()
    with lake.reading() as connection:
        oldest = connection.execute(sa.select(sa.func.min(c.SNAPSHOT.c.snapshot_id))).scalar_one()
        groups = plan_groups(connection, table, base, target_bytes=target_bytes)
        inlined = _inlined_tables(connection, table)
    rewritten: list[Rewritten] = []
    try:
        for group in groups:
            rewritten += _rewrite(lake, table, group, base, oldest)
        for kept in inlined:
            rewritten += _rewrite_inlined(lake, table, kept, base, oldest)
    except BaseException:
        _discard(lake, rewritten)
        raise
    if rewritten:
        try:
            with lake.commit(f"merge files of {table.name}", base=base) as commit:
                commit.also(MergeFiles(table, tuple(rewritten), tuple(name for name, _ in inlined)))
        except CommitConflict:
            # Any other end, an interrupt included, may come after the commit was made: then a vacuum decides.
            _discard(lake, rewritten)
            raise
    before = sum(len(part.replaces) for part in rewritten)
    return Merged(
        files_before=before,
        files_after=sum(1 for part in rewritten if part.file.record_count),
        rows=sum(part.file.record_count for part in rewritten),
        rows_dropped=sum(part.dropped for part in rewritten),
        inlined_rows=sum(part.file.record_count for part in rewritten if not part.replaces),
    )


def _discard(lake: Lake, rewritten: Sequence[Rewritten]) -> None:
    lake.storage.delete(path for part in rewritten for path in part.paths)


def plan_groups(connection: Connection, table: Table, base: Snapshot, *, target_bytes: int) -> list[Group]:
    """Runs of small neighbouring files with equal columns and partitions, each run no larger than one target file."""
    files = plan_scan(connection, table, base).files
    versions = _versions(connection, table)
    partitions = _partition_values(connection, table)
    kinds: defaultdict[Any, list[FileScan]] = defaultdict(list)
    for file in files:
        if file.mapping_id is None:
            kinds[_version_at(versions, file.begin_snapshot), file.partition_id, partitions.get(file.id, ())].append(file)
    groups = []
    for (version, partition_id, values), members in kinds.items():
        fields = _fields_kept(connection, table, versions, version)
        groups += [
            Group(fields=fields, files=tuple(run), partition_id=partition_id, partition_values=values)
            for run in _runs(members, target_bytes)
        ]
    return groups


def _runs(files: Sequence[FileScan], target_bytes: int) -> Iterable[list[FileScan]]:
    run: list[FileScan] = []
    size = 0
    for file in sorted(files, key=lambda file: (file.row_id_start or 0, file.id)):
        full = file.size_bytes >= target_bytes * _FULL_ENOUGH and file.is_whole
        if full or (run and size + file.size_bytes > target_bytes):
            if _worth_it(run):
                yield run
            run, size = [], 0
        if not full:
            run.append(file)
            size += file.size_bytes
    if _worth_it(run):
        yield run


def _worth_it(run: Sequence[FileScan]) -> bool:
    """Several files become one, or one sheds rows that nobody can read any more."""
    return len(run) > 1 or any(not file.is_whole for file in run)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pile:
    """Rows of a merge with their ids and the snapshots that added and deleted them."""

    rows: pa.Table
    row_ids: Any
    added: Any
    deleted: Any

    def take(self, places: Any) -> Pile:
        """Some of the rows."""
        return Pile(rows=self.rows.take(places), row_ids=self.row_ids[places], added=self.added[places], deleted=self.deleted[places])


def _rewrite(lake: Lake, table: Table, group: Group, base: Snapshot, oldest: int) -> list[Rewritten]:
    with lake.reading() as connection:
        versions = read_delete_versions(connection, table, [file.id for file in group.files])
        inlined = read_inlined_deletes(connection, table, base.id)
    piles = []
    for file in group.files:
        whole = _read_whole(lake, group.fields, file, base)
        for version in versions.get(file.id, ()):
            positions, at = read_delete_file(lake, version.list, base, limit=file.record_count)
            whole.deleted[positions] = np.minimum(whole.deleted[positions], version.begin_snapshot if at is None else at)
        for position, snapshot_id in inlined.get(file.id, ()):
            whole.deleted[position] = min(whole.deleted[position], snapshot_id)
        piles.append(whole.take(np.flatnonzero(whole.deleted > oldest)))
    total = sum(file.record_count for file in group.files)
    pile = Pile(
        rows=pa.concat_tables([pile.rows for pile in piles]),
        row_ids=np.concatenate([pile.row_ids for pile in piles]),
        added=np.concatenate([pile.added for pile in piles]),
        deleted=np.concatenate([pile.deleted for pile in piles]),
    )
    if len(group.files) == 1 and pile.rows.num_rows == total:
        return []
    return [_write(lake, table, pile, group, total=total, oldest=oldest)]


def _read_whole(lake: Lake, fields: Sequence[Field], file: FileScan, base: Snapshot) -> Pile:
    """All rows of a file, deleted ones included: which of them are dropped is decided by snapshots."""
    everything = file._replace(deletes=None, positions=(), until=None)
    raw, _ = read_raw(lake, everything, base, fields=fields, hidden=(ROW_ID, SNAPSHOT_ID))
    added, row_ids = column_at(raw, SNAPSHOT_ID), column_at(raw, ROW_ID)
    return Pile(
        rows=adapt(raw, fields),
        row_ids=(file.row_id_start or 0) + np.arange(file.record_count) if row_ids is None else row_ids.to_numpy(),
        added=np.full(file.record_count, file.begin_snapshot) if added is None else added.to_numpy(),
        deleted=np.full(file.record_count, _NEVER, dtype=np.int64),
    )


def _write(lake: Lake, table: Table, pile: Pile, group: Group, *, total: int, oldest: int) -> Rewritten:
    """Write one merged file and its delete file; rows older than all kept snapshots need not say how old."""
    added, row_ids = np.maximum(pile.added, oldest), pile.row_ids
    path = new_path(table)
    contiguous = bool((np.diff(row_ids) == 1).all())
    one_age = bool((added == added[:1]).all())
    columns, schema = list(pile.rows.columns), list(pile.rows.schema)
    if not contiguous:
        columns.append(pa.chunked_array([pa.array(row_ids, pa.int64())]))
        schema.append(ROW_ID_FIELD)
    if not one_age:
        columns.append(pa.chunked_array([pa.array(added, pa.int64())]))
        schema.append(SNAPSHOT_ID_FIELD)
    merged = pa.Table.from_arrays(columns, schema=pa.schema(schema))
    with new_parquet(lake.storage, path, merged.schema, rows=merged) as writer:
        writer.write_table(merged, row_group_size=ROW_GROUP_ROWS)
    described = describe(lake.storage, replace(table, fields=tuple(_known(pile.rows.schema, table))), path, known_only=True)
    gone = np.flatnonzero(pile.deleted != _NEVER)
    return Rewritten(
        file=replace(described, partition_values=group.partition_values, partial_max=None if one_age else int(added.max())),
        begin_snapshot=int(added.min()) if len(added) else oldest,
        row_id_start=int(row_ids.min()) if len(row_ids) else 0,
        replaces=tuple(file.id for file in group.files),
        partition_id=group.partition_id,
        deletes=_write_deletes(lake, table, path, gone, pile.deleted[gone]) if len(gone) else None,
        deletes_begin=int(pile.deleted[gone].min()) if len(gone) else 0,
        deletes_max=int(pile.deleted[gone].max()) if len(gone) else 0,
        dropped=total - pile.rows.num_rows,
    )


def _known(schema: pa.Schema, table: Table) -> Iterable[Field]:
    ids = {int(field.metadata[FIELD_ID]) for field in schema}
    return (field for field in table.fields if field.id in ids)


def _write_deletes(lake: Lake, table: Table, data_path: str, positions: Any, snapshots: Any) -> DeleteFile:
    """A delete file in which every position says which snapshot deleted it."""
    path = new_path(table, suffix="-delete")
    schema = pa.schema(
        [
            pa.field("file_path", pa.string(), metadata={FIELD_ID: str(DELETE_PATH).encode()}),
            pa.field("pos", pa.int64(), metadata={FIELD_ID: str(DELETE_POSITION).encode()}),
            SNAPSHOT_ID_FIELD,
        ]
    )
    names = pa.repeat(pa.scalar(lake.storage.absolute(data_path)), len(positions))
    with new_parquet(lake.storage, path, schema) as writer:
        writer.write_table(pa.table([names, pa.array(positions, pa.int64()), pa.array(snapshots, pa.int64())], schema=schema))
    with lake.storage.open(path) as file:
        footer = pq.read_metadata(file).serialized_size
    return DeleteFile(path=path, delete_count=len(positions), size_bytes=lake.storage.size(path), footer_bytes=footer)


def _rewrite_inlined(lake: Lake, table: Table, inlined: tuple[str, tuple[Field, ...]], base: Snapshot, oldest: int) -> list[Rewritten]:
    name, fields = inlined
    columns: list[sa.ColumnClause[Any]] = [c.named_column(field.name) for field in fields]
    source = sa.table(name, sa.column("row_id"), sa.column("begin_snapshot"), sa.column("end_snapshot"), *columns)
    query = sa.select(source.c.row_id, source.c.begin_snapshot, *columns, source.c.end_snapshot).where(source.c.begin_snapshot <= base.id)
    with lake.reading() as connection:
        found = connection.execute(query.order_by(source.c.row_id, source.c.begin_snapshot)).all()
    if not found:
        return []
    rows, row_ids, added = decode_rows(found, fields, replace(table, fields=fields))
    pile = Pile(
        rows=rows,
        row_ids=np.array(row_ids, dtype=np.int64),
        added=np.array(added, dtype=np.int64),
        deleted=np.array([_NEVER if row[-1] is None else row[-1] for row in found], dtype=np.int64),
    )
    group = Group(fields=fields, files=(), partition_id=None, partition_values=())
    return [_write(lake, table, pile.take(np.flatnonzero(pile.deleted > oldest)), group, total=len(found), oldest=oldest)]


@dataclass(frozen=True, slots=True)
class MergeFiles:
    """Merged files take the place of what they were made from, in every snapshot that is kept."""

    table: Table
    parts: tuple[Rewritten, ...]
    inlined: tuple[str, ...]

    def apply(self, w: Writer) -> None:
        table_id = w.table_id(self.table)
        w.require_files(path for part in self.parts for path in part.paths)
        w.flush()
        replaced = [file_id for part in self.parts for file_id in part.replaces]
        size = rows = 0
        for ids in chunks(replaced):
            for row in live_files(w, table_id, self.table, ids):
                size, rows = size - row.file_size_bytes, rows - row.record_count
            refuse_newer_deletes(w, table_id, self.table, ids)
            self._retire(w, table_id, ids)
        rows -= self._retire_inlined(w, table_id)
        for part in self.parts:
            if part.file.record_count:
                self._add(w, table_id, part)
                size, rows = size + part.file.size_bytes, rows + part.file.record_count
        known = table_totals(w, [table_id]).get(table_id, (0, 0, 0))
        write_totals(w, table_id, (max(known[0] + rows, 0), known[1], max(known[2] + size, 0)), known=True)
        w.note(f"merge_adjacent:{table_id}")

    def _add(self, w: Writer, table_id: int, part: Rewritten) -> None:
        file_id = insert_file(
            w,
            table_id,
            self.table,
            part.file,
            row_id_start=part.row_id_start,
            begin_snapshot=part.begin_snapshot,
            partition_id=part.partition_id,
        )
        if part.deletes is not None:
            w.insert_delete_file(
                table_id, self.table, file_id, part.deletes, begin_snapshot=part.deletes_begin, partial_max=part.deletes_max
            )

    def _retire(self, w: Writer, table_id: int, ids: Sequence[int]) -> None:
        f, d = c.DATA_FILE.c, c.DELETE_FILE.c
        data = w.connection.execute(sa.select(f.data_file_id, f.table_id, f.path, f.path_is_relative).where(f.data_file_id.in_(ids))).all()
        deletes = w.connection.execute(
            sa.select(d.delete_file_id, d.table_id, d.path, d.path_is_relative).where(d.data_file_id.in_(ids))
        ).all()
        schedule(w.connection, [*data, *deletes])
        forget_files(w.connection, ids)
        if has_table(w.connection, f"ducklake_inlined_delete_{table_id}"):
            inlined = c.inlined_deletes(table_id)
            w.connection.execute(sa.delete(inlined).where(inlined.c.file_id.in_(ids)))

    def _retire_inlined(self, w: Writer, table_id: int) -> int:
        """Inlined rows leave the catalogue; one that was deleted meanwhile is a conflict."""
        retired = 0
        for name in self.inlined:
            rows = sa.table(name, sa.column("begin_snapshot"), sa.column("end_snapshot"))
            if w.connection.execute(sa.select(rows.c.end_snapshot).where(rows.c.end_snapshot > w.base.id).limit(1)).first():
                raise w.conflict(f'inlined rows of table "{self.table.name}" were deleted')
            retired += w.connection.execute(sa.delete(rows).where(rows.c.begin_snapshot <= w.base.id)).rowcount
        return retired


def _inlined_tables(connection: Connection, table: Table) -> list[tuple[str, tuple[Any, ...]]]:
    return [
        (name, fields_of_version(connection, table, table.id or 0, version))
        for name, version in inlined_data_tables(connection, table.id or 0).items()
        if has_table(connection, name)
    ]


def _versions(connection: Connection, table: Table) -> list[tuple[int, int]]:
    v = c.SCHEMA_VERSIONS.c
    query = sa.select(v.begin_snapshot, v.schema_version).where(v.table_id == table.id).order_by(v.begin_snapshot)
    return [(row.begin_snapshot, row.schema_version) for row in connection.execute(query)]


def _version_at(versions: Sequence[tuple[int, int]], snapshot_id: int) -> int | None:
    return next((version for begin, version in reversed(versions) if begin <= snapshot_id), None)


def _fields_kept(connection: Connection, table: Table, versions: Sequence[tuple[int, int]], version: int | None) -> tuple[Field, ...]:
    """The columns that files of a schema version have for the oldest kept snapshot that reads them; what is older was forgotten."""
    begin = next((begin for begin, number in versions if number == version), None)
    if begin is None:
        return table.fields
    s = c.SNAPSHOT.c.snapshot_id
    oldest = connection.execute(sa.select(sa.func.min(s)).where(s >= begin)).scalar_one()
    return read_fields(connection, oldest, [table.id or 0])[table.id or 0] or table.fields


def _partition_values(connection: Connection, table: Table) -> dict[int, tuple[str | None, ...]]:
    p = c.FILE_PARTITION_VALUE.c
    query = sa.select(p.data_file_id, p.partition_value).where(p.table_id == table.id).order_by(p.data_file_id, p.partition_key_index)
    found: defaultdict[int, list[str | None]] = defaultdict(list)
    for row in connection.execute(query):
        found[row.data_file_id].append(row.partition_value)
    return {file_id: tuple(values) for file_id, values in found.items()}
