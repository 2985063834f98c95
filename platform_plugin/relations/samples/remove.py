"""DROP SAMPLE, and the refusal to drop a stream or sample that other samples are drawn from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from platform_plugin.errors import InvalidValue
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


def refuse_sampled(lake: Lake, relation: Table, kind: str, snapshot: Snapshot) -> None:
    """Refuse to drop a stream that is sampled, or a sample that another one merges."""
    if samples := list_samples_of(lake, relation, snapshot):
        said = "sampled by" if kind == "stream" else "part of"
        raise InvalidValue(f'{kind} "{relation.name}" is {said} {", ".join(samples)}', hint=f"drop that first: DROP SAMPLE {samples[0]}")
