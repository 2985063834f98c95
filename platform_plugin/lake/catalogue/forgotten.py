"""Conditions for rows that no kept snapshot needs any more, for the owners of tables that fold their rows when snapshots expire."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from platform_plugin.lake.catalogue import catalogue as c

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.engine import Connection


def is_forgotten(uuid: sa.ColumnElement[Any]) -> sa.ColumnElement[bool]:
    """The condition that a column, which has identities as text, names a relation that no kept snapshot has."""
    return uuid.not_in(
        sa.union_all(
            sa.select(sa.cast(c.TABLE.c.table_uuid, sa.String)).where(c.TABLE.c.table_uuid.is_not(None)),
            sa.select(sa.cast(c.VIEW.c.view_uuid, sa.String)).where(c.VIEW.c.view_uuid.is_not(None)),
        )
    )


def is_forgotten_id(number: sa.ColumnElement[int]) -> sa.ColumnElement[bool]:
    """The same for a column that has the catalogue's ids of relations."""
    return number.not_in(sa.union_all(sa.select(c.TABLE.c.table_id), sa.select(c.VIEW.c.view_id)))


def delete_forgotten(connection: Connection, table: sa.Table, uuid: sa.Column[Any]) -> int:
    """Delete the rows of relations that no kept snapshot has; returns how many."""
    return int(connection.execute(sa.delete(table).where(is_forgotten(uuid))).rowcount)


def delete_superseded(connection: Connection, table: sa.Table, keys: Sequence[sa.Column[Any]], oldest: int) -> int:
    """Delete rows that no kept snapshot reads, of a table that says for each key what holds from `snapshot_id` on.

    Of each key the newest row that the oldest snapshot sees stays, and all later ones. Returns how many were deleted.
    """
    newer = table.alias()
    same = [newer.c[key.name] == key for key in keys]
    needed = sa.select(sa.func.max(newer.c.snapshot_id)).where(*same, newer.c.snapshot_id <= oldest).scalar_subquery()
    return int(connection.execute(sa.delete(table).where(table.c.snapshot_id < needed)).rowcount)
