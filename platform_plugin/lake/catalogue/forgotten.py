"""Conditions for rows that no kept snapshot needs any more, for the owners of tables that fold their rows when snapshots expire."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import sqlalchemy as sa

from platform_plugin.lake.catalogue import catalogue as c

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection


# Made once: to put statements together takes longer than to run them.
_UUIDS = sa.union_all(
    sa.select(sa.cast(c.TABLE.c.table_uuid, sa.String)).where(c.TABLE.c.table_uuid.is_not(None)),
    sa.select(sa.cast(c.VIEW.c.view_uuid, sa.String)).where(c.VIEW.c.view_uuid.is_not(None)),
)
_IDS = sa.union_all(sa.select(c.TABLE.c.table_id), sa.select(c.VIEW.c.view_id))


def is_forgotten(uuid: sa.ColumnElement[Any]) -> sa.ColumnElement[bool]:
    """The condition that a column, which has identities as text, names a relation that no kept snapshot has."""
    return uuid.not_in(_UUIDS)


def is_forgotten_id(number: sa.ColumnElement[int]) -> sa.ColumnElement[bool]:
    """The same for a column that has the catalogue's ids of relations."""
    return number.not_in(_IDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Folding:
    """An expiry, for the owners of tables: a table that a lake does not have yet has no rows to delete.

    Each method returns how many rows it deleted.
    """

    connection: Connection
    oldest: int
    """The oldest kept snapshot."""
    tables: frozenset[str]
    """The names of all tables of the catalogue."""

    @classmethod
    def at(cls, connection: Connection, oldest: int) -> Self:
        """What rows are folded for, with the tables that are there; these are asked for once."""
        return cls(connection=connection, oldest=oldest, tables=frozenset(sa.inspect(connection).get_table_names()))

    def has(self, *tables: sa.Table) -> bool:
        """Whether the catalogue has all these tables."""
        return all(table.name in self.tables for table in tables)

    def delete(self, table: sa.Table, *conditions: sa.ColumnElement[bool]) -> int:
        """Delete the rows for which all conditions hold."""
        return int(self.connection.execute(sa.delete(table).where(*conditions)).rowcount) if self.has(table) else 0

    def delete_forgotten(self, table: sa.Table, uuid: sa.Column[Any]) -> int:
        """Delete the rows of relations that no kept snapshot has."""
        return self.delete(table, is_forgotten(uuid)) if self.has(table) else 0

    def delete_superseded(self, table: sa.Table, *keys: sa.Column[Any]) -> int:
        """Delete rows that no kept snapshot reads, of a table that says for each key what holds from `snapshot_id` on.

        Of each key the newest row that the oldest snapshot sees stays, and all later ones.
        """
        newer = table.alias()
        same = [newer.c[key.name] == key for key in keys]
        needed = sa.select(sa.func.max(newer.c.snapshot_id)).where(*same, newer.c.snapshot_id <= self.oldest).scalar_subquery()
        return self.delete(table, table.c.snapshot_id < needed)
