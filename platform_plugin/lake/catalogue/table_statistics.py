"""Statistics of tables in the catalogue: row counts, next row ids, sizes, and column bounds over all files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from platform_plugin.lake.catalogue import catalogue as c
from platform_plugin.lake.catalogue.bulk import is_among, split_chunks
from platform_plugin.lake.catalogue.statistics import ColumnStatistics, lower_bound, merge, or_unknown, upper_bound

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy.engine import Connection

    from platform_plugin.algebra.types.data_types import DataType
    from platform_plugin.lake.catalogue.tables import Table
    from platform_plugin.lake.commit.writer import Writer
    from platform_plugin.lake.files.files import DataFile


def table_totals(w: Writer, ids: Sequence[int]) -> dict[int, tuple[int, int, int]]:
    """The row count, next row id and bytes of tables, from the catalogue."""
    s = c.TABLE_STATS.c
    query = sa.select(s.table_id, s.record_count, s.next_row_id, s.file_size_bytes)
    return {
        row[0]: (row[1], row[2], row[3])
        for part in split_chunks(ids)
        for row in w.connection.execute(query.where(is_among(w.connection, s.table_id, part)))
    }


def read_next_row_id(connection: Connection, table_id: int | None) -> int:
    """The id that the next row of a table will have."""
    s = c.TABLE_STATS.c
    return int(connection.execute(sa.select(s.next_row_id).where(s.table_id == table_id)).scalar() or 0)


def next_row_id_of(parameter: str) -> sa.ScalarSelect[int]:
    """The next row id of the table whose identity is a parameter of the surrounding query; NULL for a table without rows."""
    t, s = c.TABLE.c, c.TABLE_STATS.c
    table = sa.select(t.table_id).where(t.table_uuid == sa.bindparam(parameter, type_=t.table_uuid.type)).limit(1).scalar_subquery()
    return sa.select(s.next_row_id).where(s.table_id == table).scalar_subquery()


def write_totals(w: Writer, table_id: int, totals: tuple[int, int, int], *, known: bool) -> None:
    """Queue the new totals of a table."""
    values = dict(zip(("record_count", "next_row_id", "file_size_bytes"), totals, strict=True))
    if known:
        w.update_later(c.TABLE_STATS, {"table_id": table_id}, values)
    else:
        w.insert(c.TABLE_STATS, table_id=table_id, **values)


def read_column_bounds(w: Writer, ids: Sequence[int]) -> dict[int, dict[int, c.AnyRow]]:
    """The column bounds of tables, by table and column."""
    found: dict[int, dict[int, c.AnyRow]] = {}
    for part in split_chunks(ids):
        wanted = is_among(w.connection, c.TABLE_COLUMN_STATS.c.table_id, part)
        for row in w.connection.execute(sa.select(c.TABLE_COLUMN_STATS).where(wanted)):
            found.setdefault(row.table_id, {})[row.column_id] = row
    return found


def write_column_bounds(
    w: Writer, table_id: int, table: Table, files: Sequence[DataFile], known: Mapping[int, c.AnyRow], *, is_new: bool
) -> None:
    """Widen the table's column bounds by those of new files.

    A column without bounds gets none once there are rows: it was added later, and reads as its default or NULL in older files.
    """
    full = [file for file in files if file.record_count]
    by_column = [{stats.column_id: stats for stats in file.statistics} for file in full]
    for column in table.fields:
        for leaf in column.leaves():
            if leaf.id is None or not full or (leaf.id not in known and not is_new):
                continue
            # A file that lacks the column tells nothing, and then neither does the whole.
            parts = [found.get(leaf.id, ColumnStatistics(column_id=leaf.id)) for found in by_column]
            if leaf.id in known or any(leaf.id in found for found in by_column):
                _write_column(w, table_id, leaf.type, merge(parts, leaf.type), known.get(leaf.id))


def _write_column(w: Writer, table_id: int, kind: DataType, new: ColumnStatistics, old: c.AnyRow | None) -> None:
    """Insert, widen or forget a column's bounds.

    DuckDB reads missing bounds as "only NULL so far" and narrows them to what it inserts next. So a column whose bounds are not
    known has no row at all.
    """
    has_null = None if new.null_count is None else new.null_count > 0
    empty = new.value_count == 0
    if old is None:
        low, high = new.min_value, new.max_value
    elif empty:
        low, high = old.min_value, old.max_value
    else:
        low, high = lower_bound(old.min_value, new.min_value, kind), upper_bound(old.max_value, new.max_value, kind)
    known = (low is not None and high is not None) or (empty and (old is None or (old.min_value is None and old.max_value is None)))
    if not known:
        if old is not None:
            s = c.TABLE_COLUMN_STATS.c
            w.connection.execute(sa.delete(c.TABLE_COLUMN_STATS).where(s.table_id == table_id, s.column_id == new.column_id))
        return
    values = {"contains_null": has_null, "contains_nan": new.contains_nan, "min_value": low, "max_value": high}
    if old is None:
        w.insert(c.TABLE_COLUMN_STATS, table_id=table_id, column_id=new.column_id, **values)
        return
    values["contains_null"] = or_unknown(old.contains_null, has_null)
    values["contains_nan"] = or_unknown(old.contains_nan, new.contains_nan)
    if tuple(values.values()) != (old.contains_null, old.contains_nan, old.min_value, old.max_value):
        w.update_later(c.TABLE_COLUMN_STATS, {"table_id": table_id, "column_id": new.column_id}, values)
