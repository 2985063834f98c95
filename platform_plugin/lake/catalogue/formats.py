"""The versions 1.0 and 1.1 of DuckLake's catalogue format: where they differ, and the migration to the newer one.

Version 1.1 renames the three columns that DuckLake adds to tables of inlined rows, so that a user's columns may have their old names;
counts the row groups of files; says whether bounds are exact; and has comments on views' columns, and schemas in schemas.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import sqlalchemy as sa

from platform_plugin.errors import CatalogueError, InvalidValue
from platform_plugin.lake.catalogue import catalogue as c

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection, RootTransaction

NEWEST = "1.1"
READABLE = (c.FORMAT_VERSION, NEWEST)
OWN_COLUMNS = ("row_id", "begin_snapshot", "end_snapshot")
_PREFIX = "_ducklake_"
_ROW_GROUPS = "row_group_count"

_newer = sa.MetaData()
VIEW_COLUMN_TAG = sa.Table(
    "ducklake_view_column_tag",
    _newer,
    sa.Column("view_id", sa.BigInteger),
    sa.Column("column_name", sa.String),
    sa.Column("begin_snapshot", sa.BigInteger),
    sa.Column("end_snapshot", sa.BigInteger),
    sa.Column("key", sa.String),
    sa.Column("value", sa.String),
)
_NEW_COLUMNS: tuple[tuple[sa.Table, sa.Column[int] | sa.Column[bool]], ...] = (
    (c.DATA_FILE, sa.Column(_ROW_GROUPS, sa.BigInteger)),
    (c.DELETE_FILE, sa.Column(_ROW_GROUPS, sa.BigInteger)),
    *(
        (table, sa.Column(name, c.Flag))
        for table in (c.FILE_COLUMN_STATS, c.TABLE_COLUMN_STATS)
        for name in ("min_is_exact", "max_is_exact")
    ),
    (c.SCHEMA, sa.Column("parent_schema_id", sa.BigInteger)),
)


def _counted(table: sa.Table) -> sa.Table:
    copy = table.to_metadata(_newer)
    copy.append_column(sa.Column(_ROW_GROUPS, sa.BigInteger))
    return copy


_COUNTED = {table: _counted(table) for table in (c.DATA_FILE, c.DELETE_FILE)}
_known: WeakKeyDictionary[RootTransaction, str] = WeakKeyDictionary()


def read_format(connection: Connection) -> str:
    """The version of the catalogue's format; it may change between two transactions, never within one."""
    transaction = connection.get_transaction()
    found = None if transaction is None else _known.get(transaction)
    if found is None:
        m = c.METADATA.c
        query = sa.select(m.value).where(m.key == "version", m.scope.is_(None))
        found = str(connection.execute(query).scalar())
        transaction = connection.get_transaction()
        if transaction is not None:
            _known[transaction] = found
    return found


def is_newer(connection: Connection) -> bool:
    """Whether the catalogue has what version 1.1 added."""
    return read_format(connection) == NEWEST


def own_columns(connection: Connection) -> tuple[str, ...]:
    """The names of the columns that DuckLake puts first into tables of inlined rows: row id, begin and end."""
    return tuple(f"{_PREFIX}{name}" for name in OWN_COLUMNS) if is_newer(connection) else OWN_COLUMNS


def inlined_rows(connection: Connection, name: str) -> sa.Table:
    """A table of inlined rows, with DuckLake's columns as `row_id`, `begin_snapshot` and `end_snapshot` in either version."""
    pairs = zip(OWN_COLUMNS, own_columns(connection), strict=True)
    return sa.Table(name, sa.MetaData(), *(sa.Column(stored, sa.BigInteger, key=key) for key, stored in pairs))


def files_table(connection: Connection, table: sa.Table) -> sa.Table:
    """The table of data or delete files with the columns that this catalogue has: the newer version counts row groups."""
    return _COUNTED[table] if is_newer(connection) else table


def refuse_nested_schemas(connection: Connection) -> None:
    """Refuse a catalogue with schemas in schemas: they have no names here, and the owner of their files is unknown."""
    if not is_newer(connection):
        return
    query = sa.select(c.SCHEMA.c.schema_name).where(sa.column("parent_schema_id").is_not(None), c.SCHEMA.c.end_snapshot.is_(None))
    nested = connection.execute(query.limit(1)).scalar()
    if nested is not None:
        raise CatalogueError(
            f'schema "{nested}" is inside of another schema, which this version does not read', hint="drop it, or use another client"
        )


def migrate(connection: Connection) -> str:
    """Migrate the catalogue to the newest version in the caller's transaction; returns the version that it had."""
    before = read_format(connection)
    if before == NEWEST:
        return before
    t = c.INLINED_DATA_TABLES.c
    quote = connection.dialect.identifier_preparer.quote_identifier
    look = sa.inspect(connection)
    for name in connection.execute(sa.select(t.table_name).distinct().order_by(t.table_name)).scalars().all():
        taken = {column["name"].lower() for column in look.get_columns(name)}
        for old in OWN_COLUMNS:
            if _PREFIX + old in taken:
                raise InvalidValue(
                    f'a table has a column "{_PREFIX}{old}", a name that DuckLake {NEWEST} keeps for itself',
                    detail=f"its inlined rows are in {name}",
                    hint="rename the column, expire the snapshots that have it, and upgrade again",
                )
            connection.exec_driver_sql(f"ALTER TABLE {quote(name)} RENAME COLUMN {quote(old)} TO {quote(_PREFIX + old)}")
    for table, column in _NEW_COLUMNS:
        kind = column.type.compile(connection.dialect)
        connection.exec_driver_sql(f"ALTER TABLE {quote(table.name)} ADD COLUMN {quote(column.name)} {kind}")
    VIEW_COLUMN_TAG.create(connection, checkfirst=True)
    m = c.METADATA.c
    connection.execute(sa.update(c.METADATA).where(m.key == "version", m.scope.is_(None)).values(value=NEWEST))
    transaction = connection.get_transaction()
    if transaction is not None:
        _known.pop(transaction, None)
    return before
