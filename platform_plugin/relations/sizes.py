"""The sizes of tables: files, rows and bytes, counted from the catalogue."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import sqlalchemy as sa

from platform_plugin.lake.catalogue import catalogue as c

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from platform_plugin.lake.catalogue.tables import Snapshot

_COUNTED_AT_ONCE = 100


def count_sizes(connection: Connection, snapshot: Snapshot) -> dict[int, tuple[int, int, int]]:
    """Files, rows and bytes of tables; rows that other clients keep in the catalogue are counted too."""
    f, d = c.DATA_FILE, c.DELETE_FILE
    totals: defaultdict[int, list[int]] = defaultdict(lambda: [0, 0, 0])
    files = sa.select(f.c.table_id, sa.func.count(), sa.func.sum(f.c.record_count), sa.func.sum(f.c.file_size_bytes))
    for table_id, count, rows, size in connection.execute(files.where(c.live(f, snapshot.id)).group_by(f.c.table_id)):
        totals[table_id] = [int(count), int(rows), int(size)]
    deletes = sa.select(d.c.table_id, sa.func.sum(d.c.delete_count)).where(c.live(d, snapshot.id)).group_by(d.c.table_id)
    for table_id, count in connection.execute(deletes):
        totals[table_id][1] -= int(count)
    found = set(sa.inspect(connection).get_table_names())
    for table_id in list(totals):
        if f"ducklake_inlined_delete_{table_id}" in found:
            gone = c.inlined_deletes(table_id)
            live_files = sa.select(f.c.data_file_id).where(c.live(f, snapshot.id), f.c.table_id == table_id)
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
