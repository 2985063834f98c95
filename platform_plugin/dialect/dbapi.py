"""The PEP 249 module, with `connect`: reads and writes a lake by SQL.

>>> import tempfile
>>> from platform_plugin import Platform
>>> folder = tempfile.mkdtemp() + "/lake"
>>> Platform.create(folder).close()
>>> with connect(f"platform+local://{folder}") as connection, connection.cursor() as cursor:
...     _ = cursor.execute("CREATE TABLE users (id INT, name STRING)")
...     _ = cursor.executemany("INSERT INTO users VALUES (:id, :name)", [{"id": 1, "name": "Ada"}, {"id": 2, "name": "Grace"}])
...     cursor.rowcount
2
"""

# ruff: noqa: N812 - PEP 249 writes its constructors so
from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import sqlalchemy as sa

from platform_plugin.dialect.connection import Connection
from platform_plugin.dialect.cursor import Cursor
from platform_plugin.dialect.faults import (
    DatabaseError,
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    Warning,  # noqa: A004  PEP 249 names it so
)
from platform_plugin.dialect.shared import SharedPlatform
from platform_plugin.dialect.type_codes import BINARY, DATETIME, NUMBER, ROWID, STRING
from platform_plugin.dialect.type_codes import date_from_ticks as DateFromTicks
from platform_plugin.dialect.type_codes import time_from_ticks as TimeFromTicks
from platform_plugin.dialect.type_codes import timestamp_from_ticks as TimestampFromTicks
from platform_plugin.dialect.type_codes import to_binary as Binary

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

apilevel = "2.0"
threadsafety = 2
paramstyle = "named"

Date = dt.date
Time = dt.time
Timestamp = dt.datetime

__all__ = [
    "BINARY",
    "DATETIME",
    "NUMBER",
    "ROWID",
    "STRING",
    "Binary",
    "Connection",
    "Cursor",
    "DataError",
    "DatabaseError",
    "Date",
    "DateFromTicks",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "Time",
    "TimeFromTicks",
    "Timestamp",
    "TimestampFromTicks",
    "Warning",
    "apilevel",
    "connect",
    "paramstyle",
    "threadsafety",
]


def connect(
    url: str | Path | sa.URL | None = None,
    *,
    shared: SharedPlatform | None = None,
    limits: Mapping[str, int | str] | None = None,
    engine: str | None = None,
) -> Connection:
    """Open the lake at a URL or folder; with `shared`, join a platform that is open already and that others use too.

    `limits` are those of the engines, which SHOW LIMITS lists, and `engine` is the one that maintains relations.
    """
    if shared is not None:
        return Connection(shared)
    if url is None:
        raise InterfaceError("a connection needs the URL of a lake", hint="write connect('platform+local:///path/to/lake')")
    own = SharedPlatform(lake_url(url), limits, engine)
    connection = Connection(own)
    own.give_up()
    return connection


def lake_url(url: str | Path | sa.URL) -> str:
    """The text of a URL with its password, which must not be shown."""
    return url.render_as_string(hide_password=False) if isinstance(url, sa.URL) else str(url)
