"""Folding what the catalogue keeps of samples: cardinalities and picks that no snapshot reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from platform_plugin.relations.samples.record import SAMPLE
from platform_plugin.relations.samples.reservoir.picks import ENDED_PICK, PICK

if TYPE_CHECKING:
    from platform_plugin.lake.catalogue.forgotten import Folding


def fold_samples(rows: Folding) -> int:
    """Delete what is kept of samples that no kept snapshot has, what they had reached before, and picks that ended before."""
    forgotten = sum(rows.delete_forgotten(table, table.c.sample_uuid) for table in (SAMPLE, PICK, ENDED_PICK))
    superseded = rows.delete_superseded(SAMPLE, SAMPLE.c.sample_uuid)
    return forgotten + superseded + rows.delete(ENDED_PICK, ENDED_PICK.c.end_snapshot <= rows.oldest)
