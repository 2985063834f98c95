"""The last change of a relation: which snapshot changed its rows, columns or definition, and whether any did."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

import sqlalchemy as sa

from platform_plugin.lake.catalogue import catalogue as c
from platform_plugin.lake.catalogue.formats import inlined_rows
from platform_plugin.lake.catalogue.tables import View
from platform_plugin.lake.commit.data_operations import has_table, inlined_data_tables, is_row_change

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from platform_plugin.lake.catalogue.tables import Snapshot, Table
    from platform_plugin.lake.lake import Lake


def last_change(lake: Lake, table: Table | View, snapshot: Snapshot, *, appends_only: bool = False) -> int:
    """The newest snapshot, up to this one, that changed a table's rows or columns; with `appends_only`, only added rows count."""
    with lake.reading() as connection:
        moments = [
            connection.execute(sa.select(sa.func.max(column)).where(own, column <= snapshot.id)).scalar()
            for column, own in _changes(connection, table, appends_only)
        ]
        moments.append(_change_within(connection, table, 0, snapshot.id))
    return max([table.begin_snapshot or 0, *(moment for moment in moments if moment is not None)])


def has_changed(lake: Lake, table: Table | View, of: int, snapshot: Snapshot, *, appends_only: bool = False) -> bool:
    """Whether a table's rows or columns at a snapshot differ from those at an earlier one; with `appends_only`, only added rows count."""
    with lake.reading() as connection:
        return differs_since(connection, table, of, snapshot, appends_only=appends_only)


def differs_since(connection: Connection, table: Table | View, of: int, snapshot: Snapshot, *, appends_only: bool = False) -> bool:
    """The same as `has_changed`, within a transaction."""
    if (table.begin_snapshot or 0) > of:
        return True
    found = any(_any_between(connection, rows, where, of, snapshot.id) for rows, where in _changes(connection, table, appends_only))
    return found or _change_within(connection, table, of, snapshot.id) is not None


def has_older_rows(connection: Connection, table: Table, snapshot_id: int) -> bool:
    """Whether a table holds rows that came before a snapshot, as the transaction sees it."""
    files = c.DATA_FILE.c
    sources = [(files.begin_snapshot, sa.and_(files.table_id == table.id, files.end_snapshot.is_(None)))]
    sources += [(rows.c.begin_snapshot, rows.c.end_snapshot.is_(None)) for rows in _inlined(connection, table)]
    return any(_any_between(connection, began, where, -1, snapshot_id - 1) for began, where in sources)


def has_only_grown(lake: Lake, table: Table, of: int, snapshot: Snapshot) -> bool:
    """Whether a table has at a snapshot all rows that it had at an earlier one, unchanged, and perhaps more."""
    if (table.begin_snapshot or 0) > of:
        return False
    with lake.reading() as connection:
        others = chain(_columns(table), _merges(table), _losses(connection, table))
        found = any(_any_between(connection, rows, where, of, snapshot.id) for rows, where in others)
        return not found and _change_within(connection, table, of, snapshot.id) is None


_Changes = Iterator[tuple[sa.ColumnElement[int], sa.ColumnElement[bool]]]
"""Columns that hold the snapshots of changes, each with the condition that selects one table's rows."""


def _changes(connection: Connection, table: Table | View, appends_only: bool) -> _Changes:  # noqa: FBT001
    if isinstance(table, View):
        return  # another definition is another view
    yield from _columns(table)
    yield from _merges(table)
    yield c.DATA_FILE.c.begin_snapshot, c.DATA_FILE.c.table_id == table.id
    for inlined in _inlined(connection, table):
        yield inlined.c.begin_snapshot, sa.true()
    if not appends_only:
        yield from _losses(connection, table)


def _columns(table: Table) -> _Changes:
    yield c.SCHEMA_VERSIONS.c.begin_snapshot, c.SCHEMA_VERSIONS.c.table_id == table.id


def _merges(table: Table) -> _Changes:
    """A file that another client has merged begins with the oldest of its rows, and names the newest."""
    yield c.DATA_FILE.c.partial_max, c.DATA_FILE.c.table_id == table.id


def _losses(connection: Connection, table: Table) -> _Changes:
    f, d = c.DATA_FILE.c, c.DELETE_FILE.c
    yield f.end_snapshot, f.table_id == table.id
    yield d.begin_snapshot, d.table_id == table.id
    yield d.partial_max, d.table_id == table.id
    for inlined in _inlined(connection, table):
        yield inlined.c.end_snapshot, sa.true()
    if has_table(connection, f"ducklake_inlined_delete_{table.id}"):
        yield c.inlined_delete_table(table.id or -1).c.begin_snapshot, sa.true()


def _inlined(connection: Connection, table: Table) -> Iterator[sa.Table]:
    for name in inlined_data_tables(connection, table.id or -1):
        yield inlined_rows(connection, name)


def _change_within(connection: Connection, table: Table | View, after: int, until: int) -> int | None:
    """The newest snapshot that changed a table's rows, told by the commits' own notes: of files that reach beyond it nothing else tells."""
    if isinstance(table, View):
        return None
    f, d = c.DATA_FILE.c, c.DELETE_FILE.c
    merged = sa.union_all(
        sa.select(f.partial_max).where(f.table_id == table.id, f.partial_max > until),
        sa.select(d.partial_max).where(d.table_id == table.id, d.partial_max > until),
    )
    if connection.execute(merged.limit(1)).first() is None:
        return None
    n = c.SNAPSHOT_CHANGES.c
    noted = sa.select(n.snapshot_id, n.changes_made).where(
        n.snapshot_id > after, n.snapshot_id <= until, n.changes_made.contains(f":{table.id}")
    )
    for snapshot_id, changes in connection.execute(noted.order_by(n.snapshot_id.desc())):
        if any(is_row_change(word, table.id or -1) for word in changes.split(",")):
            return int(snapshot_id)
    return None


def _any_between(connection: Connection, column: sa.ColumnElement[int], own: sa.ColumnElement[bool], after: int, until: int) -> bool:
    return connection.execute(sa.select(sa.literal(1)).where(own, column > after, column <= until).limit(1)).first() is not None
