"""Version 1: partial indexes of data and delete files that have ended, so that an expiry does not look at every file of the lake.

They are text, since SQLAlchemy imports both of its dialects for an index that names them, which takes a tenth of the package's import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection


def add_indexes(connection: Connection) -> None:
    """Create the indexes, which lakes of earlier versions and of other clients lack."""
    for table in ("data_file", "delete_file"):
        connection.exec_driver_sql(
            f"CREATE INDEX IF NOT EXISTS platform_{table}_by_end ON ducklake_{table} (end_snapshot) WHERE end_snapshot IS NOT NULL"
        )
