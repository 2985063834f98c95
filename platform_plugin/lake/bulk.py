"""Many rows for one table of the catalogue, in as few messages as the database allows.

PostgreSQL's driver sends the rows of an ordinary bulk statement one by one; arrays that the server takes apart travel together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from sqlalchemy.engine import Connection


def insert_rows(connection: Connection, table: sa.Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows; a column that one of them lacks is NULL there."""
    found = dict(rows[0])
    for row in rows:
        if row.keys() != found.keys():
            found |= row
    names = list(found)
    if len(rows) == 1 or connection.dialect.name != "postgresql":
        connection.execute(sa.insert(table), [{name: row.get(name) for name in names} for row in rows])
        return
    source = _unnested({name: table.c[name] for name in names})
    connection.execute(sa.insert(table).from_select(names, sa.select(*source.c)), {name: [row.get(name) for row in rows] for name in names})


def update_rows(connection: Connection, table: sa.Table, keys: Sequence[Mapping[str, Any]], values: Sequence[Mapping[str, Any]]) -> None:
    """Update one row for each key; all keys name the same columns, and all values do."""
    by = {f"key_{name}": name for name in keys[0]}
    new = {f"new_{name}": name for name in values[0]}
    rows = [
        {f"key_{name}": value for name, value in key.items()} | {f"new_{name}": value for name, value in value.items()}
        for key, value in zip(keys, values, strict=True)
    ]
    if len(rows) == 1 or connection.dialect.name != "postgresql":
        condition = sa.and_(*(table.c[name] == sa.bindparam(bound) for bound, name in by.items()))
        connection.execute(sa.update(table).where(condition).values({name: sa.bindparam(bound) for bound, name in new.items()}), rows)
        return
    source = _unnested({bound: table.c[name] for bound, name in (by | new).items()})
    condition = sa.and_(*(table.c[name] == source.c[bound] for bound, name in by.items()))
    statement = sa.update(table).where(condition).values({name: source.c[bound] for bound, name in new.items()})
    connection.execute(statement, {bound: [row[bound] for row in rows] for bound in rows[0]})


def among(connection: Connection, column: sa.Column[Any], values: Collection[Any]) -> sa.ColumnElement[bool]:
    """Whether a column has one of many values; one parameter where the database takes arrays, so that one statement fits all."""
    if connection.dialect.name == "postgresql":
        return column == sa.any_(sa.bindparam(None, list(values), type_=sa.ARRAY(column.type), unique=True))
    return column.in_(values)


def _unnested(columns: Mapping[str, sa.Column[Any]]) -> sa.TableValuedAlias:
    """Parallel arrays, bound by name, as a table."""
    arrays = [sa.bindparam(name, type_=sa.ARRAY(column.type)) for name, column in columns.items()]
    shapes = [sa.column(name, column.type) for name, column in columns.items()]
    return sa.func.unnest(*arrays).table_valued(*shapes, name="given").render_derived()
