"""Version 4: the table of arrival logs, into which an expiry puts segments of streams and histories that keep all their rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

VERSION = 4
_CREATE = (
    "CREATE TABLE IF NOT EXISTS platform_arrival_log (relation_uuid VARCHAR NOT NULL, first_row_id BIGINT NOT NULL,"
    " next_row_id BIGINT NOT NULL, segment_count BIGINT NOT NULL, oldest_arrival {time} NOT NULL, newest_arrival {time} NOT NULL,"
    " segments {bytes} NOT NULL, PRIMARY KEY (relation_uuid, first_row_id))"
)


def add_arrival_logs(connection: Connection) -> None:
    """Create the table where there are segments; a program of an earlier version would miss the arrivals that it holds."""
    if not sa.inspect(connection).has_table("platform_segment"):
        return
    is_sqlite = connection.dialect.name == "sqlite"
    kinds = {"time": "VARCHAR", "bytes": "BLOB"} if is_sqlite else {"time": "TIMESTAMP WITH TIME ZONE", "bytes": "BYTEA"}
    connection.exec_driver_sql(_CREATE.format(**kinds))
