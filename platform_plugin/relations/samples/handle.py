"""`SampleReader`: a sample's rows at one snapshot and their cardinality, for Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from platform_plugin.errors import InvalidValue
from platform_plugin.lake.catalogue.tables import Name
from platform_plugin.relations.missing import name_missing_relations
from platform_plugin.relations.samples.draw.merged import check_parts, merge_parts, plan_merged
from platform_plugin.relations.samples.read import read_sample
from platform_plugin.relations.samples.record import find_sample
from platform_plugin.relations.samples.reservoir.merge import UniformDraw

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd
    import pyarrow as pa

    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot
    from platform_plugin.relations.samples.record import SampleRecord
    from platform_plugin.relations.samples.reservoir.growing import CurrentSample


class SampleReader:
    """A sample at one snapshot, by default the newest one when it is opened."""

    def __init__(self, sample: SampleRecord, snapshot: Snapshot, read: CurrentSample) -> None:
        self.snapshot = snapshot
        self.name = sample.name
        self._read = read

    def arrow(self) -> pa.Table:
        """The rows as Arrow."""
        return self._read.rows

    def pandas(self) -> pd.DataFrame:
        """The rows as a pandas DataFrame."""
        return cast("pd.DataFrame", self._read.rows.to_pandas())

    @property
    def cardinality(self) -> int:
        """How many rows the sample stands for."""
        return sum(self._read.progress.cardinalities.values())

    @property
    def cardinalities(self) -> Mapping[tuple[str | None, ...], int]:
        """How many rows each stratum stands for, by the values of its columns as text."""
        return dict(self._read.progress.cardinalities)

    def __repr__(self) -> str:
        return f'SampleReader("{self.name}": {self._read.rows.num_rows} rows for {self.cardinality}, at snapshot {self.snapshot.id})'


def open_sample(work: Workspace, name: str | tuple[str, str], snapshot: Snapshot | None = None) -> SampleReader:
    """The reader of a sample, by its name, at the newest snapshot or an older one."""
    with work.lake.lease(snapshot, holder="sample") as lease:
        sample = find_named(work, name, lease.snapshot)
        return SampleReader(sample, lease.snapshot, read_sample(work, sample, lease.snapshot))


def merge_named(work: Workspace, names: Sequence[str | tuple[str, str]], size: int, *, seed: int = 0) -> UniformDraw:
    """A merged sample that is not stored, drawn as `CREATE SAMPLE … ON SAMPLES (…)` draws it."""
    with work.lake.lease(holder="sample") as lease:
        samples = [find_named(work, name, lease.snapshot) for name in names]
        check_parts(work.lake, samples, size, lease.snapshot)
        definition = plan_merged(samples, size, seed)
        read = [read_sample(work, sample, lease.snapshot) for sample in samples]
        merged = merge_parts(definition, samples, read, lease.snapshot)
    return UniformDraw(rows=merged.rows, cardinality=sum(merged.progress.cardinalities.values()))


def find_named(work: Workspace, name: str | tuple[str, str], snapshot: Snapshot) -> SampleRecord:
    """The sample with a name; another relation is refused."""
    with name_missing_relations(work.lake, Name.of(name), snapshot, "sample"):
        table = work.lake.table(Name.of(name), snapshot)
    sample = find_sample(work.lake, table, snapshot)
    if sample is None:
        raise InvalidValue(f'"{table.name}" is not a sample', hint="SHOW SAMPLES lists them")
    return sample
