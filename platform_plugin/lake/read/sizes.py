"""File, row and byte counts of many tables at once, from the catalogue."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa

from platform_plugin.lake.catalogue import catalogue as c

if TYPE_CHECKING:
    from collections.abc import Collection

    from sqlalchemy.engine import Connection

    from platform_plugin.lake.catalogue.tables import Snapshot

_COUNTED_AT_ONCE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSize:
    """A file of a table: its rows and bytes, and the snapshot that added it."""

    table_id: int
    rows: int
    size_bytes: int
    begin_snapshot: int


def read_files(connection: Connection, table_ids: Collection[int], snapshot: Snapshot) -> list[FileSize]:
    """The files that some tables have at a snapshot."""
    f = c.DATA_FILE.c
    query = sa.select(f.table_id, f.record_count, f.file_size_bytes, f.begin_snapshot)
    found = connection.execute(query.where(c.is_visible_at(c.DATA_FILE, snapshot.id), f.table_id.in_(table_ids)))
    return [FileSize(table_id=table_id, rows=rows, size_bytes=size, begin_snapshot=begin) for table_id, rows, size, begin in found]


def read_rewritten(connection: Connection, table_ids: Collection[int], *, after: int) -> set[int]:
    """Those of some tables from which files were removed after a snapshot."""
    f = c.DATA_FILE.c
    query = sa.select(f.table_id).distinct().where(f.table_id.in_(table_ids), f.end_snapshot > after)
    return set(connection.execute(query).scalars())


def count_tables(connection: Connection, snapshot: Snapshot) -> dict[int, tuple[int, int, int]]:
    """Files, rows and bytes of all tables by id; rows that other clients store in the catalogue count too."""
    f, d = c.DATA_FILE, c.DELETE_FILE
    totals: defaultdict[int, list[int]] = defaultdict(lambda: [0, 0, 0])
    files = sa.select(f.c.table_id, sa.func.count(), sa.func.sum(f.c.record_count), sa.func.sum(f.c.file_size_bytes))
    for table_id, count, rows, size in connection.execute(files.where(c.is_visible_at(f, snapshot.id)).group_by(f.c.table_id)):
        totals[table_id] = [int(count), int(rows), int(size)]
    deletes = sa.select(d.c.table_id, sa.func.sum(d.c.delete_count)).where(c.is_visible_at(d, snapshot.id)).group_by(d.c.table_id)
    for table_id, count in connection.execute(deletes):
        totals[table_id][1] -= int(count)
    found = set(sa.inspect(connection).get_table_names())
    for table_id in list(totals):
        if f"ducklake_inlined_delete_{table_id}" in found:
            gone = c.inlined_delete_table(table_id)
            live_files = sa.select(f.c.data_file_id).where(c.is_visible_at(f, snapshot.id), f.c.table_id == table_id)
            query = sa.select(sa.func.count()).select_from(gone).where(gone.c.begin_snapshot <= snapshot.id, gone.c.file_id.in_(live_files))
            totals[table_id][1] -= int(connection.execute(query).scalar_one())
    inlined = c.INLINED_DATA_TABLES.c
    tables = [row for row in connection.execute(sa.select(inlined.table_id, inlined.table_name)).all() if row[1] in found]
    quoted = connection.dialect.identifier_preparer.quote_identifier
    # Every table has one of its own, mostly empty, so they are counted many at a time.
    for first in range(0, len(tables), _COUNTED_AT_ONCE):
        counts = " UNION ALL ".join(
            f"SELECT {int(table_id)}, count(*) FROM {quoted(name)}"
            " WHERE begin_snapshot <= :at AND (end_snapshot IS NULL OR end_snapshot > :at)"
            for table_id, name in tables[first : first + _COUNTED_AT_ONCE]
        )
        for table_id, count in connection.execute(sa.text(counts), {"at": snapshot.id}):
            if count:
                totals[table_id][1] += int(count)
    return {table_id: (count, rows, size) for table_id, (count, rows, size) in totals.items()}
