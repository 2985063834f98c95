"""Folding what the catalogue keeps of samples: cardinalities and picks that no snapshot reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from platform_plugin.lake.catalogue.forgotten import delete_forgotten, delete_superseded
from platform_plugin.lake.commit.data_operations import has_table
from platform_plugin.relations.samples.record import SAMPLE
from platform_plugin.relations.samples.reservoir.picks import ENDED_PICK, PICK

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection


def fold_samples(connection: Connection, oldest: int) -> int:
    """Delete what is kept of samples that no kept snapshot has, what they had reached before, and picks that ended before."""
    there = [table for table in (SAMPLE, PICK, ENDED_PICK) if has_table(connection, table.name)]
    deleted = sum(delete_forgotten(connection, table, table.c.sample_uuid) for table in there)
    if SAMPLE in there:
        deleted += delete_superseded(connection, SAMPLE, (SAMPLE.c.sample_uuid,), oldest)
    if ENDED_PICK in there:
        deleted += connection.execute(sa.delete(ENDED_PICK).where(ENDED_PICK.c.end_snapshot <= oldest)).rowcount
    return deleted
