"""DROP SAMPLE, and the refusal to drop a stream or sample that other samples are drawn from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from platform_plugin.relations.hooks import DropBlocker
from platform_plugin.relations.samples.record import DetachSample, LeaveMergedSamples, all_samples

if TYPE_CHECKING:
    from platform_plugin.lake.catalogue.tables import Snapshot, Table
    from platform_plugin.lake.commit.commit import Commit
    from platform_plugin.lake.lake import Lake


def drop_sample(commit: Commit, sample: Table, *, alone: bool) -> None:
    """Drop a sample, its reservoirs and its cursor; `alone` if samples that merge it stay."""
    commit.drop_table(sample)
    commit.also(DetachSample(sample=sample))
    if alone:
        commit.also(LeaveMergedSamples(sample=sample))


def list_samples_of(lake: Lake, relation: Table, snapshot: Snapshot) -> list[str]:
    """The names of the samples that are drawn from a relation or merge it."""
    own = str(relation.uuid)
    known = all_samples(lake, snapshot)
    return sorted(sample.name for sample in known if own == sample.definition.relation or own in sample.definition.parts)


def find_samples(lake: Lake, relation: Table, kind: str, snapshot: Snapshot) -> DropBlocker | None:
    """The samples that keep a stream that is sampled, or a sample that they merge, from being dropped; or None."""
    samples = list_samples_of(lake, relation, snapshot)
    return DropBlocker("sampled by" if kind == "stream" else "part of", tuple(samples), "DROP SAMPLE") if samples else None
