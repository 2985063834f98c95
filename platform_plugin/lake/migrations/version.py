"""The version of a lake's `platform_*` tables: reading it, refusing newer ones, and migrating older ones at the first write."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import sqlalchemy as sa

from platform_plugin.errors import CatalogueError
from platform_plugin.lake.catalogue import catalogue as c
from platform_plugin.lake.migrations.migration import MIGRATIONS, NEWEST

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection, Engine, RootTransaction

KEY = "version"
_READ = f"SELECT value FROM {c.PLATFORM_LAKE.name} WHERE key = '{KEY}'"

# Of a database it is known once it is the newest: nobody takes its tables back to an older form, so that readers need not ask again.
_known: WeakKeyDictionary[RootTransaction | Engine, int] = WeakKeyDictionary()


def read_version(connection: Connection) -> int:
    """The version of the lake's `platform_*` tables, for readers of more than one form; 0 before there were versions.

    It is `NEWEST` in every transaction that writes, and may be older in one that only reads; it stays the same within each.
    """
    reached = _known.get(connection.engine)
    if reached is not None:
        return reached
    transaction = connection.get_transaction()
    found = None if transaction is None else _known.get(transaction)
    if found is None:
        found = _ask(connection)
        transaction = connection.get_transaction()
        if transaction is not None:
            _known[transaction] = found
        if found >= NEWEST:
            _known[connection.engine] = found
    return found


def write_version(connection: Connection) -> None:
    """Give a new lake the newest version."""
    connection.execute(sa.insert(c.PLATFORM_LAKE).values(key=KEY, value=str(NEWEST)))


def refuse_newer(version: int, lake: object = "") -> None:
    """Refuse a lake of a version that this one does not know."""
    if version > NEWEST:
        raise CatalogueError(
            f'lake "{lake}" was written by a newer version of platform-plugin'
            if lake
            else "a newer version of platform-plugin wrote the lake",
            detail=f"its catalogue has version {version}; this program knows versions up to {NEWEST}",
            hint="upgrade platform-plugin",
        )


def check_version(connection: Connection) -> None:
    """Refuse a lake that another program has brought to a newer version; asked anew in each transaction that writes a reader's note."""
    refuse_newer(_ask(connection))


def migrate_tables(connection: Connection) -> int:
    """Bring the `platform_*` tables to the newest version in the caller's write transaction; returns the version that they had.

    All steps become visible with that transaction, or none does.
    """
    before = _ask(connection)
    if before == NEWEST:
        return before
    refuse_newer(before)
    for migration in MIGRATIONS[before:]:
        migration.apply(connection)
    connection.execute(sa.delete(c.PLATFORM_LAKE).where(c.PLATFORM_LAKE.c.key == KEY))
    write_version(connection)
    transaction = connection.get_transaction()
    if transaction is not None:
        _known[transaction] = NEWEST
    return before


def _ask(connection: Connection) -> int:
    # As plain text: each commit of each process asks it, and to compile a statement takes longer than to answer it.
    found = connection.exec_driver_sql(_READ).scalar()
    return 0 if found is None else int(found)
