"""Tables inside the catalogue in which DuckDB keeps small inserts: one for each shape that a table has had.

DuckDB fills the newest one by position. Whoever alters a table must therefore add one of its new shape, or the values of
one column would end up in another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from platform_plugin.algebra.types import DataType, Decimal, Primitive
from platform_plugin.errors import InvalidValue
from platform_plugin.lake import catalogue as c
from platform_plugin.lake.data_operations import inlined_data_tables
from platform_plugin.lake.tables import read_fields

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy.types import TypeEngine

    from platform_plugin.lake.writer import Writer

_ON_POSTGRES: dict[str, TypeEngine[Any]] = {
    "boolean": sa.Boolean(),
    "int8": sa.SmallInteger(),
    "int16": sa.SmallInteger(),
    "int32": sa.Integer(),
    "int64": sa.BigInteger(),
    "uint8": sa.Integer(),
    "uint16": sa.Integer(),
    "uint32": sa.BigInteger(),
    "float32": sa.REAL(),
    "float64": sa.Double(),
    "time": sa.Time(),
    "timetz": sa.Time(timezone=True),
    "interval": sa.Interval(),
    "varchar": sa.LargeBinary(),
    "json": sa.LargeBinary(),
    "blob": sa.LargeBinary(),
    "uuid": sa.Uuid(),
}
_ON_SQLITE: dict[str, TypeEngine[Any]] = {
    **dict.fromkeys(("boolean", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"), sa.BigInteger()),
    "blob": sa.LargeBinary(),
}


_LONGEST_NAME = 63


def follow_alterations(w: Writer, table_ids: Iterable[int]) -> None:
    """Give every altered table that has such tables another one of its new shape."""
    for table_id in table_ids:
        fields = read_fields(w.connection, w.id, [table_id]).get(table_id, ())
        known = inlined_data_tables(w.connection, table_id)
        name = f"ducklake_inlined_data_{table_id}_{w.schema_version}"
        if not fields or not known or name in known:
            continue
        sqlite = w.connection.dialect.name == "sqlite"
        long = next((field.name for field in fields if len(field.name.encode()) > _LONGEST_NAME), None)
        if long is not None and not sqlite:
            raise InvalidValue(
                f'column "{long[:40]}…" can\'t be part of a table of which another client keeps rows in PostgreSQL',
                hint=f"names there have at most {_LONGEST_NAME} bytes",
            )
        # Quoted whatever they are: databases reserve more words than their drivers know.
        columns = [sa.Column(sa.sql.quoted_name(field.name, quote=True), _stored_as(field.type, sqlite=sqlite)) for field in fields]
        own = [sa.Column(column, sa.BigInteger) for column in ("row_id", "begin_snapshot", "end_snapshot")]
        sa.Table(name, sa.MetaData(), *own, *columns).create(w.connection)
        w.connection.execute(sa.insert(c.INLINED_DATA_TABLES).values(table_id=table_id, table_name=name, schema_version=w.schema_version))


def _stored_as(kind: DataType, *, sqlite: bool) -> TypeEngine[Any]:
    """The database's type for a column, as DuckDB chooses it; what the database has no type for is text."""
    match kind:
        case Decimal(precision=precision, scale=scale) if not sqlite:
            return sa.Numeric(precision, scale)
        case Primitive(name=name):
            return (_ON_SQLITE if sqlite else _ON_POSTGRES).get(name, sa.String())
        case _:
            return sa.String()
