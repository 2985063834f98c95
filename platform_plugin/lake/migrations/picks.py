"""Version 3: the tables of picks, which samples of the first versions lack, and picks that had ended apart from the live ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

VERSION = 3
_COLUMNS = "sample_uuid, first_row_id, begin_snapshot, end_snapshot, next_row_id, strata, rows"
_SHAPE = (
    "sample_uuid VARCHAR NOT NULL, first_row_id BIGINT NOT NULL, begin_snapshot BIGINT NOT NULL, end_snapshot BIGINT,"
    " next_row_id BIGINT NOT NULL, strata VARCHAR NOT NULL, rows {bytes}, PRIMARY KEY ({key})"
)


def add_pick_tables(connection: Connection) -> None:
    """Create the tables of picks where there are samples, and move picks that have ended."""
    if not sa.inspect(connection).has_table("platform_sample"):
        return
    run, kind = connection.exec_driver_sql, "BLOB" if connection.dialect.name == "sqlite" else "BYTEA"
    key = "sample_uuid, first_row_id, begin_snapshot"
    run(f"CREATE TABLE IF NOT EXISTS platform_pick ({_SHAPE.format(bytes=kind, key=key)})")
    run(f"CREATE TABLE IF NOT EXISTS platform_ended_pick ({_SHAPE.format(bytes=kind, key=f'end_snapshot, {key}')})")
    run(f"INSERT INTO platform_ended_pick ({_COLUMNS}) SELECT {_COLUMNS} FROM platform_pick WHERE end_snapshot IS NOT NULL")
    run("DELETE FROM platform_pick WHERE end_snapshot IS NOT NULL")
