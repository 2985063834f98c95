"""Bulk inserts and updates of catalogue rows in few messages to the database.

PostgreSQL's driver sends the rows of an ordinary bulk statement one by one. As one JSON text, which the server unpacks, a thousand of them
cost little more than one.
"""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

import sqlalchemy as sa

from platform_plugin.lake.catalogue import catalogue as c

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from sqlalchemy.engine import Connection, Dialect

_Item = TypeVar("_Item")

_CHUNK = 10_000  # ids in one IN list: databases limit the parameters of a statement
# Their values say the same in JSON, and the server casts them back.
_PLAIN = (sa.Integer, sa.String, sa.Boolean, c.Flag, c.UtcTimestamp, c.Identity)


def insert_rows(connection: Connection, table: sa.Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows; a column that a row lacks becomes NULL."""
    if _worth_json(connection, table, rows):
        connection.exec_driver_sql(_insert_statement(table), (_as_json(rows),))
        return
    names = list(dict.fromkeys(name for row in rows for name in row))
    connection.execute(sa.insert(table), [{name: row.get(name) for name in names} for row in rows])


def update_rows(connection: Connection, table: sa.Table, keys: Sequence[Mapping[str, Any]], values: Sequence[Mapping[str, Any]]) -> None:
    """Update one row for each key; all keys must name the same columns, and so must all values."""
    by, new = tuple(keys[0]), tuple(values[0])
    rows = [
        {f"key_{name}": value for name, value in key.items()} | {f"new_{name}": value for name, value in value.items()}
        for key, value in zip(keys, values, strict=True)
    ]
    if _worth_json(connection, table, rows):
        connection.exec_driver_sql(_update_statement(table, by, new), (_as_json(rows),))
        return
    condition = sa.and_(*(table.c[name] == sa.bindparam(f"key_{name}") for name in by))
    connection.execute(sa.update(table).where(condition).values({name: sa.bindparam(f"new_{name}") for name in new}), rows)


def is_among(connection: Connection, column: sa.ColumnElement[Any], values: Collection[Any]) -> sa.ColumnElement[bool]:
    """The condition that a column has one of many values, as one array parameter where the database has arrays."""
    if connection.dialect.name == "postgresql":
        return column == sa.any_(sa.bindparam(None, list(values), type_=sa.ARRAY(column.type), unique=True))
    return column.in_(values)


def split_chunks(items: Sequence[_Item]) -> Iterable[Sequence[_Item]]:
    """The items in parts that are small enough for one IN list."""
    return (items[start : start + _CHUNK] for start in range(0, len(items), _CHUNK))


def _worth_json(connection: Connection, table: sa.Table, rows: Sequence[Any]) -> bool:
    return len(rows) > 1 and connection.dialect.name == "postgresql" and all(isinstance(column.type, _PLAIN) for column in table.c)


def _as_json(rows: Sequence[Mapping[str, Any]]) -> str:
    return json.dumps(rows, default=str)


@cache
def _insert_statement(table: sa.Table) -> str:
    quote = _postgres().identifier_preparer.quote
    names = ", ".join(quote(column.name) for column in table.c)
    given = _given({column.name: column for column in table.c})
    return f"INSERT INTO {quote(table.name)} ({names}) SELECT {names} FROM {given}"


@cache
def _update_statement(table: sa.Table, by: tuple[str, ...], new: tuple[str, ...]) -> str:
    quote = _postgres().identifier_preparer.quote
    changes = ", ".join(f"{quote(name)} = given.{quote(f'new_{name}')}" for name in new)
    given = _given({f"key_{name}": table.c[name] for name in by} | {f"new_{name}": table.c[name] for name in new})
    same = " AND ".join(f"{quote(table.name)}.{quote(name)} = given.{quote(f'key_{name}')}" for name in by)
    return f"UPDATE {quote(table.name)} SET {changes} FROM {given} WHERE {same}"


def _given(columns: Mapping[str, sa.Column[Any]]) -> str:
    dialect = _postgres()
    quote, shown = dialect.identifier_preparer.quote, dialect.type_compiler_instance.process
    shapes = ", ".join(f"{quote(name)} {shown(column.type.dialect_impl(dialect))}" for name, column in columns.items())
    return f"json_to_recordset(%s) AS given({shapes})"


@cache
def _postgres() -> Dialect:
    from sqlalchemy.dialects.postgresql import psycopg

    return psycopg.dialect()  # type: ignore[no-untyped-call]
