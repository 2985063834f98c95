"""Histograms of a sample's numeric columns, at several versions, and of its population where that can be read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from platform_plugin.errors import PlatformError
from platform_plugin.lake.read.read import iter_rows
from platform_plugin.relations.samples.handle import find_named
from platform_plugin.relations.samples.keys.weights import SAMPLE_WEIGHT
from platform_plugin.relations.samples.read import read_sample
from platform_plugin.relations.samples.sources import find_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot
    from platform_plugin.relations.samples.record import SampleRecord

    Floats = NDArray[np.float64]

_BINS = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """The shares of one column's values in equal bins: for each version of the sample, newest first, and for the population if known."""

    column: str
    edges: Floats
    versions: tuple[tuple[str, Floats], ...]
    population: Floats | None = None

    @property
    def drift(self) -> float:
        """How far the oldest version is from the newest: the share of rows that would have to be in another bin."""
        return float(np.abs(self.versions[0][1] - self.versions[-1][1]).sum() / 2)


def read_histograms(
    work: Workspace,
    name: str | tuple[str, str],
    versions: Sequence[int] = (),
    *,
    most_columns: int | None = None,
    most_rows: int | None = None,
) -> tuple[str, list[Histogram]]:
    """A title, and a histogram for each numeric column of a sample at the newest snapshot and at older ones."""
    lake = work.lake
    with lake.lease(holder="plot") as lease:
        sample = find_named(work, name, lease.snapshot)
        snapshots = [lease.snapshot, *(lake.snapshot(version) for version in versions)]
        read = [read_sample(work, sample, snapshot) for snapshot in snapshots]
        weights = [_weights(sample, one.rows) for one in read]
        added = SAMPLE_WEIGHT if sample.definition.is_weighted else None
        numeric = [field.name for field in read[0].rows.schema if _is_numeric(field.type) and field.name != added]
        numeric = numeric[:most_columns]
        population = _population(work, sample, lease.snapshot, numeric, work.limits.histogram_rows if most_rows is None else most_rows)
        found = []
        for column in numeric:
            known = [_known(one.rows.column(column)) for one in read]
            values = [one[inside] for one, inside in known]
            whole = [*values, *([population[column]] if population is not None else [])]
            seen = np.concatenate([part for part in whole if len(part)] or [np.zeros(1)])
            edges = np.linspace(seen.min(), seen.max() if seen.max() > seen.min() else seen.min() + 1, _BINS + 1)
            labels = [f"snapshot {snapshot.id}" for snapshot in snapshots]
            found.append(
                Histogram(
                    column=column,
                    edges=edges,
                    versions=tuple(
                        (label, _shares(part, edges, None if own is None else own[inside]))
                        for label, part, own, (_, inside) in zip(labels, values, weights, known, strict=True)
                    ),
                    population=None if population is None else _shares(population[column], edges),
                )
            )
    stands = sum(read[0].progress.cardinalities.values())
    said = ", weighted" if sample.definition.is_weighted else ""
    return f"{sample.name}: {read[0].rows.num_rows} rows for {stands}{said}", found


def _is_numeric(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _weights(sample: SampleRecord, rows: pa.Table) -> Floats | None:
    """What each row counts for, where rows count differently: bars then estimate the shares among all rows, as they do otherwise."""
    return rows.column(SAMPLE_WEIGHT).to_numpy() if sample.definition.is_weighted else None


def _known(column: pa.ChunkedArray) -> tuple[Floats, NDArray[np.bool_]]:
    """Numbers, NULL as NaN, and which of them are known and finite."""
    numbers = np.asarray(pc.cast(column, pa.float64(), safe=False).to_numpy(), dtype=np.float64)
    return numbers, np.isfinite(numbers)


def _values(column: pa.ChunkedArray) -> Floats:
    numbers, inside = _known(column)
    return numbers[inside]


def _shares(values: Floats, edges: Floats, weights: Floats | None = None) -> Floats:
    counts, _ = np.histogram(values, bins=edges, weights=weights)
    total = float(counts.sum())
    return np.asarray(counts / (total if total > 0 else 1.0), dtype=np.float64)


def _population(
    work: Workspace, sample: SampleRecord, snapshot: Snapshot, columns: Sequence[str], most_rows: int
) -> dict[str, Floats] | None:
    """The columns of all rows that a sample is of, where these are the rows of a table of a readable size."""
    definition = sample.definition
    of_all_rows = definition.is_counted or (definition.is_weighted and definition.where is None)
    if definition.source != "table" or not of_all_rows or not columns:
        return None
    try:
        table = find_table(work.lake, sample, snapshot)
        scan = work.lake.scan(table, snapshot)
        if scan.record_count > most_rows or any(table.field(column) is None for column in columns):
            return None
        parts = [part.select(list(columns)) for part in iter_rows(work.lake, scan, columns=list(columns))]
    except PlatformError:
        return None
    return {column: np.concatenate([_values(part.column(column)) for part in parts] or [np.zeros(0)]) for column in columns}
