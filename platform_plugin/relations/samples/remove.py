"""The end of samples, and what keeps their streams from being dropped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from platform_plugin.relations.samples.record import Detach, all_samples

if TYPE_CHECKING:
    from platform_plugin.lake.catalogue.tables import Snapshot, Table
    from platform_plugin.lake.commit.commit import Commit
    from platform_plugin.lake.lake import Lake
    from platform_plugin.relations.samples.record import Sample


def drop_sample(commit: Commit, sample: Sample) -> None:
    """End a sample, its reservoirs, and its claim on rows of its stream."""
    commit.drop_table(sample.table)
    commit.also(Detach(sample=sample.table))


def samples_of(lake: Lake, relation: Table, snapshot: Snapshot) -> list[str]:
    """The names of the samples that are drawn from a relation, or merged from it."""
    own = str(relation.uuid)
    known = all_samples(lake, snapshot)
    return sorted(sample.name for sample in known if own == sample.definition.relation or own in sample.definition.parts)
