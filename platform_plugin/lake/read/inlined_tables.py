"""`follow_shapes`: creates the tables inside the catalogue for DuckDB's inlined rows, one for each table definition.

DuckDB fills the newest one by position, so a commit that alters a table must add one with its new columns, or the values of one column
would end up in another. A commit that creates a table must add its first one: left to itself, DuckDB makes a missing one at its first
insert, under a schema version that no definition of the table has, and a client that stays attached may later read its rows by an older
definition. So they are made here, at the time when DuckDB itself would make them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from platform_plugin.algebra.types.data_types import DataType, Decimal, Primitive
from platform_plugin.lake.catalogue import catalogue as c
from platform_plugin.lake.catalogue.formats import own_columns
from platform_plugin.lake.catalogue.tables import read_fields

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from sqlalchemy.engine import Connection
    from sqlalchemy.types import TypeEngine

    from platform_plugin.algebra.types.data_types import Field
    from platform_plugin.lake.commit.writer import Writer

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

_POSTGRES_COLUMNS = ("tableoid", "xmin", "cmin", "xmax", "cmax", "ctid")
_LONGEST_POSTGRES_NAME = 63
_LIMIT_OPTION = "data_inlining_row_limit"
# SQLite's tables end at 2 000 columns, and PostgreSQL's at 1 600, whose rows must also fit into a page at 18 bytes a text.
_WIDEST_SQLITE, _WIDEST_POSTGRES = 1_500, 400


def follow_shapes(w: Writer, table_ids: Collection[int]) -> None:
    """Create the table of inlined rows for every new or altered table; where there can be none, tell DuckDB to write files."""
    if not table_ids:
        return
    shapes = {table_id: fields for table_id, fields in read_fields(w.connection, w.id, list(table_ids)).items() if fields}
    sqlite = w.connection.dialect.name == "sqlite"
    inlined = {table_id: fields for table_id, fields in shapes.items() if not _never_inlined(fields, sqlite=sqlite)}
    if not inlined:
        return
    for table_id in _switched_off(w, inlined):
        del inlined[table_id]
    t = c.INLINED_DATA_TABLES
    known = set(w.connection.execute(sa.select(t.c.table_name).where(t.c.table_id.in_(inlined))).scalars())
    for table_id, fields in inlined.items():
        name = f"ducklake_inlined_data_{table_id}_{w.schema_version}"
        if _impossible(fields, own_columns(w.connection), sqlite=sqlite):
            w.insert(c.METADATA, key=_LIMIT_OPTION, value="0", scope="table", scope_id=table_id)
        elif name not in known:
            _create(w.connection, name, fields)
            w.insert(t, table_id=table_id, table_name=name, schema_version=w.schema_version)
    w.flush()


def _create(connection: Connection, name: str, fields: Sequence[Field]) -> None:
    """Make one table. As text, since the driver's own way costs a tenth of a commit, and its columns quoted whatever they are."""
    dialect = connection.dialect
    quote, shown = dialect.identifier_preparer.quote_identifier, dialect.type_compiler_instance.process
    own = [f"{column} BIGINT" for column in own_columns(connection)]
    columns = [f"{quote(field.name)} {shown(_stored_as(field.type, sqlite=dialect.name == 'sqlite'))}" for field in fields]
    connection.exec_driver_sql(f"CREATE TABLE {quote(name)} ({', '.join([*own, *columns])})")


def _never_inlined(fields: Sequence[Field], *, sqlite: bool) -> bool:
    """Whether DuckDB keeps no rows of such a table in the catalogue, as it finds out by itself."""
    if any(part.type in (Primitive("variant"), Primitive("geometry")) for field in fields for part in field.walk()):
        return True
    return not sqlite and any(len(field.name.encode()) > _LONGEST_POSTGRES_NAME for field in fields)


def _impossible(fields: Sequence[Field], own_names: Collection[str], *, sqlite: bool) -> bool:
    """Whether DuckDB would try to keep rows of such a table in the catalogue, and fail."""
    names = {field.name for field in fields}
    own = not {name.lower() for name in names}.isdisjoint(own_names)
    if sqlite:
        return own or len(fields) > _WIDEST_SQLITE
    return own or len(fields) > _WIDEST_POSTGRES or not names.isdisjoint(_POSTGRES_COLUMNS)


def _switched_off(w: Writer, table_ids: Collection[int]) -> set[int]:
    """The tables for which DuckLake's option, set for them, their schema or the whole lake, says that no rows are to be inlined."""
    m, t = c.METADATA.c, c.TABLE
    options = w.connection.execute(sa.select(m.scope, m.scope_id, m.value).where(m.key == _LIMIT_OPTION)).all()
    if not options:
        return set()
    limits = {(row.scope, row.scope_id): row.value for row in options}
    schemas = w.connection.execute(sa.select(t.c.table_id, t.c.schema_id).where(t.c.table_id.in_(table_ids), c.is_visible_at(t, w.id)))
    off = set()
    for table_id, schema_id in schemas:
        limit = next((limits[scope] for scope in (("table", table_id), ("schema", schema_id), (None, None)) if scope in limits), None)
        if limit == "0":
            off.add(table_id)
    return off


def _stored_as(kind: DataType, *, sqlite: bool) -> TypeEngine[Any]:
    """The database's type for a column, as DuckDB chooses it; what the database has no type for is text."""
    match kind:
        case Decimal(precision=precision, scale=scale) if not sqlite:
            return sa.Numeric(precision, scale)
        case Primitive(name=name):
            return (_ON_SQLITE if sqlite else _ON_POSTGRES).get(name, sa.String())
        case _:
            return sa.String()
