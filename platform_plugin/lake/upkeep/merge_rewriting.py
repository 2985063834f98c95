"""Rewriting rows for a merge: each keeps its id, and the snapshots that added and deleted it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import sqlalchemy as sa

from platform_plugin.algebra.types.data_types import stored_field
from platform_plugin.lake.catalogue import catalogue as c
from platform_plugin.lake.catalogue.formats import inlined_rows
from platform_plugin.lake.files.files import (
    DELETE_PATH,
    DELETE_POSITION,
    ROW_GROUP_ROWS,
    ROW_ID,
    ROW_ID_FIELD,
    SNAPSHOT_ID,
    SNAPSHOT_ID_FIELD,
    DataFile,
    DeleteFile,
    describe_file,
    new_parquet,
    new_path,
)
from platform_plugin.lake.read.changes import read_delete_versions, read_inlined_deletes
from platform_plugin.lake.read.evolution import adapt_rows
from platform_plugin.lake.read.inlined import decode_rows
from platform_plugin.lake.read.read import find_column, read_delete_file, read_raw
from platform_plugin.lake.upkeep.merge_groups import MergeGroup
from platform_plugin.lake.values.types import FIELD_ID

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sqlalchemy.engine import Connection

    from platform_plugin.algebra.types.data_types import Field
    from platform_plugin.lake.catalogue.tables import Snapshot, Table
    from platform_plugin.lake.files.data_folder import DataFolder
    from platform_plugin.lake.lake import Lake
    from platform_plugin.lake.read.changes import DeleteVersion
    from platform_plugin.lake.read.scan import FileScan
    from platform_plugin.lake.upkeep.merge_edges import SegmentEdges

_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True, kw_only=True)
class RewrittenFile:
    """A merged file, the files that it replaces, and its delete file."""

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
        """The paths of the files that were written."""
        return (self.file.path,) if self.deletes is None else (self.file.path, self.deletes.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedRows:
    """The rows of a merge with their ids, and the snapshots that added and deleted them."""

    rows: pa.Table
    row_ids: Any
    added: Any
    deleted: Any

    def take(self, places: Any) -> MergedRows:
        """Some of the rows."""
        return MergedRows(rows=self.rows.take(places), row_ids=self.row_ids[places], added=self.added[places], deleted=self.deleted[places])


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRewrite:
    """The rewriting of a group of files, with all that the catalogue says of them: it runs where there is none, and travels by pickle."""

    table: Table
    group: MergeGroup
    base: Snapshot
    oldest: int
    deletes: Mapping[int, Sequence[DeleteVersion]]
    inlined_deletes: Mapping[int, Sequence[tuple[int, int]]]

    @property
    def size_bytes(self) -> int:
        """The size of the files."""
        return sum(file.size_bytes for file in self.group.files)

    @property
    def row_count(self) -> int:
        """The number of their rows, deleted ones included."""
        return sum(file.record_count for file in self.group.files)

    def run(self, folder: DataFolder) -> list[RewrittenFile]:
        """Write the rows of the group, with their ids and snapshots, as new files; an empty list if that would change nothing."""
        group, piles = self.group, []
        for file in group.files:
            whole = _read_whole(folder, group.fields, file, self.base)
            for version in self.deletes.get(file.id, ()):
                positions, at = read_delete_file(folder, version.list, self.base, limit=file.record_count)
                whole.deleted[positions] = np.minimum(whole.deleted[positions], version.begin_snapshot if at is None else at)
            for position, snapshot_id in self.inlined_deletes.get(file.id, ()):
                whole.deleted[position] = min(whole.deleted[position], snapshot_id)
            piles.append(whole.take(np.flatnonzero(whole.deleted > self.oldest)))
        pile = MergedRows(
            rows=pa.concat_tables([pile.rows for pile in piles]),
            row_ids=np.concatenate([pile.row_ids for pile in piles]),
            added=np.concatenate([pile.added for pile in piles]),
            deleted=np.concatenate([pile.deleted for pile in piles]),
        )
        if len(group.files) == 1 and pile.rows.num_rows == self.row_count:
            return []
        return [_write(folder, self.table, pile, group, total=self.row_count, oldest=self.oldest)]


def prepare_rewrites(connection: Connection, table: Table, groups: Sequence[MergeGroup], base: Snapshot, oldest: int) -> list[GroupRewrite]:
    """The rewriting of each group."""
    versions = read_delete_versions(connection, table, [file.id for group in groups for file in group.files])
    inlined = read_inlined_deletes(connection, table, base.id)
    return [
        GroupRewrite(
            table=table,
            group=group,
            base=base,
            oldest=oldest,
            deletes={file.id: versions[file.id] for file in group.files if file.id in versions},
            inlined_deletes={file.id: inlined[file.id] for file in group.files if file.id in inlined},
        )
        for group in groups
    ]


def _read_whole(lake: DataFolder, fields: Sequence[Field], file: FileScan, base: Snapshot) -> MergedRows:
    """All rows of a file, deleted ones included: which of them are dropped is decided by snapshots."""
    everything = file._replace(deletes=None, positions=(), until=None)
    fields = tuple(map(stored_field, fields))
    raw, _ = read_raw(lake, everything, base, fields=fields, hidden=(ROW_ID, SNAPSHOT_ID))
    added, row_ids = find_column(raw, SNAPSHOT_ID), find_column(raw, ROW_ID)
    return MergedRows(
        rows=adapt_rows(raw, fields),
        row_ids=(file.row_id_start or 0) + np.arange(file.record_count) if row_ids is None else row_ids.to_numpy(),
        added=np.full(file.record_count, file.begin_snapshot) if added is None else added.to_numpy(),
        deleted=np.full(file.record_count, _NEVER, dtype=np.int64),
    )


def _write(lake: DataFolder, table: Table, pile: MergedRows, group: MergeGroup, *, total: int, oldest: int) -> RewrittenFile:
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
    with new_parquet(lake.storage, path, merged.schema, rows=merged, options=table.file_options) as writer:
        writer.write_table(merged, row_group_size=table.file_options.row_group_rows or ROW_GROUP_ROWS)
    described = describe_file(lake.storage, replace(table, fields=tuple(_known(pile.rows.schema, table))), path, known_only=True)
    gone = np.flatnonzero(pile.deleted != _NEVER)
    return RewrittenFile(
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


def _write_deletes(lake: DataFolder, table: Table, data_path: str, positions: Any, snapshots: Any) -> DeleteFile:
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
    with lake.storage.open_arrow(path) as file:
        footer = pq.read_metadata(file)
    return DeleteFile(
        path=path,
        delete_count=len(positions),
        size_bytes=lake.storage.size(path),
        footer_bytes=footer.serialized_size,
        row_groups=footer.num_row_groups,
    )


def rewrite_inlined(
    lake: Lake, table: Table, inlined: tuple[str, tuple[Field, ...]], base: Snapshot, oldest: int, *, edges: SegmentEdges | None = None
) -> list[RewrittenFile]:
    """Write the inlined rows of a table as a file; for a stream, as one file for each segment."""
    name, fields = inlined
    columns: list[sa.ColumnClause[Any]] = [c.user_column(field.name) for field in fields]
    with lake.reading() as connection:
        source = inlined_rows(connection, name)
        query = sa.select(source.c.row_id, source.c.begin_snapshot, *columns, source.c.end_snapshot).where(
            source.c.begin_snapshot <= base.id
        )
        found = connection.execute(query.order_by(source.c.row_id, source.c.begin_snapshot)).all()
    if not found:
        return []
    rows, row_ids, added = decode_rows(found, fields, replace(table, fields=fields))
    pile = MergedRows(
        rows=rows,
        row_ids=np.array(row_ids, dtype=np.int64),
        added=np.array(added, dtype=np.int64),
        deleted=np.array([_NEVER if row[-1] is None else row[-1] for row in found], dtype=np.int64),
    )
    group = MergeGroup(fields=fields, files=(), partition_id=None, partition_values=())
    kept = pile.take(np.flatnonzero(pile.deleted > oldest))
    piles = [kept] if edges is None or not kept.rows.num_rows else [kept.take(places) for places in edges.parts(kept.row_ids, kept.added)]
    dropped = len(found) - kept.rows.num_rows
    return [
        _write(lake, table, each, group, total=each.rows.num_rows + (0 if place else dropped), oldest=oldest)
        for place, each in enumerate(piles)
    ]
