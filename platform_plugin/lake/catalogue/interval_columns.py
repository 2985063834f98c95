"""`platform_interval`: the columns of whole numbers that are intervals of Spark's, for which DuckLake has no type that Spark reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from platform_plugin.algebra.types.data_types import IntervalType
from platform_plugin.lake.catalogue import catalogue as c
from platform_plugin.lake.catalogue.bulk import split_chunks

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sqlalchemy.engine import Connection

    from platform_plugin.lake.commit.writer import Writer

INTERVAL = sa.Table(
    "platform_interval",
    c.metadata,
    sa.Column("table_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("column_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("first_unit", sa.String, nullable=False),
    sa.Column("last_unit", sa.String, nullable=False),
)
"""Columns of tables and parts of nested ones. The id of a column is never used again, so that a row holds for ever."""
INTERVAL_TABLES = (INTERVAL,)


def note_interval(w: Writer, table_id: int, column_id: int | None, kind: IntervalType) -> None:
    """Queue the row of a new column that is an interval."""
    w.insert(INTERVAL, table_id=table_id, column_id=column_id, first_unit=kind.first, last_unit=kind.last)


def read_intervals(connection: Connection, table_ids: Sequence[int]) -> dict[tuple[int, int], IntervalType]:
    """The intervals of some tables, by the ids of table and column."""
    if not sa.inspect(connection).has_table(INTERVAL.name):
        return {}
    found = connection.execute(sa.select(INTERVAL).where(INTERVAL.c.table_id.in_(table_ids)))
    return {(row.table_id, row.column_id): IntervalType(row.first_unit, row.last_unit) for row in found}


def forget_intervals(connection: Connection, table_ids: Iterable[int]) -> None:
    """Remove the rows of tables that no snapshot has any more."""
    if sa.inspect(connection).has_table(INTERVAL.name):
        for ids in split_chunks(sorted(table_ids)):
            connection.execute(sa.delete(INTERVAL).where(INTERVAL.c.table_id.in_(ids)))
