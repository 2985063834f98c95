"""`merge`: few large files replace a table's small ones, and every snapshot reads the same rows as before.

Each row of a merged file carries the snapshot that added it, so one file can serve many snapshots. Deleted rows are kept in it, listed in a
delete file, until no snapshot has them; then the next merge leaves them out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from platform_plugin.errors import CommitConflict
from platform_plugin.lake.catalogue import catalogue as c
from platform_plugin.lake.catalogue.bulk import split_chunks
from platform_plugin.lake.catalogue.formats import inlined_rows
from platform_plugin.lake.catalogue.table_statistics import table_totals, write_totals
from platform_plugin.lake.commit.data_operations import has_table, inlined_data_tables, insert_file, live_files, refuse_newer_deletes
from platform_plugin.lake.read.scan import fields_of_version
from platform_plugin.lake.upkeep.expire import forget_files, schedule_deletion
from platform_plugin.lake.upkeep.merge_edges import read_edges
from platform_plugin.lake.upkeep.merge_groups import find_groups
from platform_plugin.lake.upkeep.merge_rewriting import RewrittenFile, prepare_rewrites, rewrite_inlined

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from sqlalchemy.engine import Connection

    from platform_plugin.lake.catalogue.tables import Table
    from platform_plugin.lake.commit.writer import Writer
    from platform_plugin.lake.lake import Lake
    from platform_plugin.lake.upkeep.merge_rewriting import GroupRewrite

    Rewriter = Callable[[Sequence[GroupRewrite]], Iterable[Sequence[RewrittenFile]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeOutcome:
    """The numbers of files and rows before and after a merge."""

    files_before: int
    files_after: int
    rows: int
    rows_dropped: int
    inlined_rows: int


def merge(lake: Lake, table: Table, *, target_bytes: int, rewriter: Rewriter | None = None) -> MergeOutcome:
    """Merge small files into large ones that every snapshot can read; a conflict if others change the same files meanwhile.

    A `rewriter` writes the new files in other processes; without one this process does, a group of files after the other.
    """
    base = lake.snapshot()
    with lake.reading() as connection:
        oldest = connection.execute(sa.select(sa.func.min(c.SNAPSHOT.c.snapshot_id))).scalar_one()
        groups = find_groups(connection, table, base, target_bytes=target_bytes)
        inlined = _inlined_tables(connection, table)
        edges = read_edges(connection, table)
        rewrites = prepare_rewrites(connection, table, groups, base, oldest)
    rewritten: list[RewrittenFile] = []
    try:
        for made in (each.run(lake) for each in rewrites) if rewriter is None else rewriter(rewrites):
            rewritten += made
        for kept in inlined:
            rewritten += rewrite_inlined(lake, table, kept, base, oldest, edges=edges)
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
    return MergeOutcome(
        files_before=before,
        files_after=sum(1 for part in rewritten if part.file.record_count),
        rows=sum(part.file.record_count for part in rewritten),
        rows_dropped=sum(part.dropped for part in rewritten),
        inlined_rows=sum(part.file.record_count for part in rewritten if not part.replaces),
    )


def _discard(lake: Lake, rewritten: Sequence[RewrittenFile]) -> None:
    lake.storage.delete(path for part in rewritten for path in part.paths)


def _inlined_tables(connection: Connection, table: Table) -> list[tuple[str, tuple[Any, ...]]]:
    return [
        (name, fields_of_version(connection, table, table.id or 0, version))
        for name, version in inlined_data_tables(connection, table.id or 0).items()
        if has_table(connection, name)
    ]


@dataclass(frozen=True, slots=True)
class MergeFiles:
    """Replaces files by merged ones in every snapshot."""

    table: Table
    parts: tuple[RewrittenFile, ...]
    inlined: tuple[str, ...]

    def apply(self, w: Writer) -> None:
        table_id = w.table_id(self.table)
        w.require_files(path for part in self.parts for path in part.paths)
        w.flush()
        replaced = [file_id for part in self.parts for file_id in part.replaces]
        size = rows = 0
        for ids in split_chunks(replaced):
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

    def _add(self, w: Writer, table_id: int, part: RewrittenFile) -> None:
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
        schedule_deletion(w.connection, [*data, *deletes])
        forget_files(w.connection, ids)
        if has_table(w.connection, f"ducklake_inlined_delete_{table_id}"):
            inlined = c.inlined_delete_table(table_id)
            w.connection.execute(sa.delete(inlined).where(inlined.c.file_id.in_(ids)))

    def _retire_inlined(self, w: Writer, table_id: int) -> int:
        """Inlined rows leave the catalogue; one that was deleted meanwhile is a conflict."""
        retired = 0
        for name in self.inlined:
            rows = inlined_rows(w.connection, name)
            if w.connection.execute(sa.select(rows.c.end_snapshot).where(rows.c.end_snapshot > w.base.id).limit(1)).first():
                raise w.conflict(f'inlined rows of table "{self.table.name}" were deleted')
            retired += w.connection.execute(sa.delete(rows).where(rows.c.begin_snapshot <= w.base.id)).rowcount
        return retired
