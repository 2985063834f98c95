"""`refuse_nulls`: refuses files with NULL that were written before their column became NOT NULL."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from platform_plugin.lake.catalogue import catalogue as c

if TYPE_CHECKING:
    from collections.abc import Sequence

    from platform_plugin.lake.catalogue.tables import Table
    from platform_plugin.lake.commit.writer import Writer
    from platform_plugin.lake.files.files import DataFile


def refuse_nulls(w: Writer, files: Sequence[tuple[Table, Sequence[DataFile]]]) -> None:
    """Refuse files with NULL in columns that have become NOT NULL since the rows were written."""
    suspects = {}
    for table, written in files:
        if table.id is None:
            continue
        free = {field.id: field.name for field in table.fields if field.nullable and not field.children}
        for file in written:
            full = {stats.column_id for stats in file.statistics if stats.null_count == 0}
            for column_id in free.keys() - full:
                suspects[table.id, column_id] = (table, free[column_id])
    if not suspects:
        return
    column = c.COLUMN.c
    strict = sa.select(column.table_id, column.column_id).where(
        column.table_id.in_({table_id for table_id, _ in suspects}), column.end_snapshot.is_(None), sa.not_(column.nulls_allowed)
    )
    for row in w.connection.execute(strict):
        if (found := suspects.get((row.table_id, row.column_id))) is not None:
            raise w.conflict(f'column "{found[1]}" of table "{found[0].name}" became NOT NULL')
