"""What the lake keeps of a sequence: the number that comes next."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import sqlalchemy as sa

from platform_plugin.lake.catalogue import catalogue as c

if TYPE_CHECKING:
    from uuid import UUID

    from platform_plugin.lake.lake import Lake

SEQUENCE = sa.Table(
    "platform_sequence",
    c.metadata,
    sa.Column("relation_uuid", sa.String, primary_key=True),
    sa.Column("next_value", sa.BigInteger, nullable=False),
)


def read_next(lake: Lake, uuid: UUID) -> int:
    """The number that comes next."""
    with lake.reading() as connection:
        found = connection.execute(sa.select(SEQUENCE.c.next_value).where(SEQUENCE.c.relation_uuid == str(uuid))).scalar_one()
    return int(found)


def read_rows(lake: Lake, uuid: UUID) -> pa.Table:
    """The sequence as a relation."""
    return pa.table({"next_value": pa.array([read_next(lake, uuid)], pa.int64())})
