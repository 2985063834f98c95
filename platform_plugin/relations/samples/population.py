"""`find_source`: where the rows of a relation can be drawn from for an estimate, and the rows that were drawn."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from platform_plugin.errors import InvalidValue
from platform_plugin.lake.catalogue.tables import View
from platform_plugin.lake.read.read import read_rows
from platform_plugin.relations.bind.names import lake_name, place_errors
from platform_plugin.relations.samples.draw.blocks import count_blocks, draw_blocks
from platform_plugin.relations.samples.draw.pieces import read_pieces
from platform_plugin.relations.samples.draw.source_draw import find_stored
from platform_plugin.relations.samples.estimate.estimators import Design
from platform_plugin.relations.samples.keys.seeds import random_generator
from platform_plugin.relations.samples.read import find_scan, read_sample
from platform_plugin.relations.samples.record import all_samples, find_sample, read_progress
from platform_plugin.relations.samples.reservoir.reservoir import draw_positions
from platform_plugin.relations.samples.strata import strata_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from platform_plugin.algebra.types.data_types import Field
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot, Table
    from platform_plugin.lake.read.scan import TableScan
    from platform_plugin.language.query.pruning import BoundFormula
    from platform_plugin.language.query.references import Reference
    from platform_plugin.relations.samples.draw.blocks import BlockDesign
    from platform_plugin.relations.samples.draw.pieces import Pieces
    from platform_plugin.relations.samples.record import SampleRecord
    from platform_plugin.relations.samples.reservoir.growing import CurrentSample

PILOT = 5_000
"""Rows of the first sample, which tells how large the second one must be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnRows:
    """Rows drawn from a relation, the stratum of each, and the design by which they were drawn."""

    fields: tuple[Field, ...]
    design: Design | BlockDesign
    rows: pa.Table | None = None
    strata: NDArray[np.int64] | None = None
    """The stratum of each row; None if there is only one."""
    units: NDArray[np.int64] | None = None
    """The unit that each row was drawn with: its block, or None for the row itself."""
    scan: TableScan | None = None
    """The stored files that hold exactly these rows, all of one stratum; then the rows need not be read here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PopulationSource:
    """A source of drawn rows: the pieces of a relation, from which any number can be drawn, or one stored sample."""

    name: str
    fields: tuple[Field, ...]
    pieces: Pieces | None = None
    fixed: DrawnRows | None = None

    def draw(self, work: Workspace, size: int, *words: Any) -> DrawnRows:
        """A sample of this size, or as near to it as the source can give."""
        if self.fixed is not None and (self.pieces is None or size <= self.fixed.design.size):
            return self.fixed
        if self.pieces is None:
            message = "a source without rows"
            raise ValueError(message)
        count = self.pieces.row_count
        size = min(size, count)
        places = draw_positions(count, size, random_generator(0, "estimate", self.name, self.pieces.scan.snapshot.id, *words))
        rows = self.pieces.fetch(work.lake, places, self.fields)
        return DrawnRows(rows=rows, fields=self.fields, design=Design(populations=np.array([count]), sizes=np.array([size])))

    @property
    def block_count(self) -> int:
        """How many blocks of rows can be drawn."""
        return 0 if self.pieces is None else count_blocks(self.pieces.counts)

    def draw_blocks(self, work: Workspace, size: int, *words: Any) -> DrawnRows:
        """A sample of so many blocks of rows."""
        if self.pieces is None:
            message = "a source without rows"
            raise ValueError(message)
        random = random_generator(0, "estimate by blocks", self.name, self.pieces.scan.snapshot.id, *words)
        drawn = draw_blocks(self.pieces.counts, size, random)
        return DrawnRows(
            rows=self.pieces.fetch(work.lake, drawn.places, self.fields), fields=self.fields, units=drawn.units, design=drawn.design
        )


def read_drawn(work: Workspace, drawn: DrawnRows) -> DrawnRows:
    """The same with its rows in memory."""
    if drawn.scan is None:
        return drawn
    return replace(drawn, rows=read_rows(work.lake, drawn.scan, columns=[field.name for field in drawn.fields]), scan=None)


def find_source(
    work: Workspace, reference: Reference, snapshot: Snapshot, columns: frozenset[str] | None, formula: BoundFormula
) -> PopulationSource:
    """The source for a relation's rows, without files that can't hold rows of the query; a view needs a stored sample."""
    lake = work.lake
    with place_errors(reference.span):
        with lake.reading() as connection:
            relation = lake.find_relation(connection, lake_name(reference.name), snapshot)
        name = str(relation.name)
        sample = None if isinstance(relation, View) else find_sample(lake, relation, snapshot)
        if isinstance(relation, View):
            known = [
                one for one in all_samples(lake, snapshot) if one.definition.relation == str(relation.uuid) and not one.definition.where
            ]
            sample = max(known, key=lambda one: one.definition.size, default=None)
            if sample is None:
                raise InvalidValue(
                    f'view "{name}" has no sample', hint=f"CREATE SAMPLE … ON {name} SIZE {PILOT}, or ask without WITH SAMPLE"
                )
        if sample is not None and sample.definition.is_weighted:
            raise InvalidValue(
                f'sample "{sample.name}" is weighted, bounds are known of uniform draws',
                hint=f"ask what it is of, or sum with its weights: SELECT sum(… * sample_weight) FROM {sample.name}",
            )
    if sample is not None:
        drawn = _stored(work, sample, columns, snapshot) or _as_drawn(sample, read_sample(work, sample, snapshot), columns)
        return PopulationSource(name=name, fields=drawn.fields, fixed=drawn)
    if isinstance(relation, View):
        raise TypeError(relation)
    fields = _asked_of(relation.fields, columns)
    pieces = read_pieces(lake, lake.scan(relation, snapshot, where=formula.condition(relation.fields)))
    return PopulationSource(name=name, fields=fields, pieces=pieces, fixed=_find_kept(work, relation, fields, columns, snapshot))


def _asked_of(fields: Sequence[Field], columns: frozenset[str] | None) -> tuple[Field, ...]:
    """The columns that a query asks for; where it asks for none there is still a row to count."""
    return tuple(field for field in fields if columns is None or field.name.lower() in columns) or tuple(fields[:1])


def _as_drawn(sample: SampleRecord, read: CurrentSample, columns: frozenset[str] | None) -> DrawnRows:
    numbers, keys = strata_of(read.rows, sample.definition.strata)
    populations = np.array([read.progress.cardinalities[key] for key in keys], dtype=np.int64)
    design = Design(populations=populations, sizes=np.bincount(numbers, minlength=len(keys)).astype(np.int64))
    fields = _asked_of(sample.table.fields, columns)
    return DrawnRows(rows=read.rows.select([field.name for field in fields]), fields=fields, strata=numbers.astype(np.int64), design=design)


def _find_kept(
    work: Workspace, relation: Table, fields: Sequence[Field], columns: frozenset[str] | None, snapshot: Snapshot
) -> DrawnRows | None:
    """The largest stored sample of a table that is of the table as it is now: its rows need not be looked for."""
    found = None
    for sample in all_samples(work.lake, snapshot):
        definition = sample.definition
        if definition.relation != str(relation.uuid) or definition.source != "table" or definition.where is not None:
            continue
        if definition.is_weighted:
            continue
        known = {field.name for field in sample.table.fields}
        if any(field.name not in known for field in fields) or (found is not None and found.design.size >= definition.size):
            continue
        stored = find_stored(work, sample, snapshot) if definition.strata else None
        found = _stored(work, sample, columns, snapshot) or (found if stored is None else _as_drawn(sample, stored, columns))
    return found


def _stored(work: Workspace, sample: SampleRecord, columns: frozenset[str] | None, snapshot: Snapshot) -> DrawnRows | None:
    """A plain sample whose rows are in files as they are, so that Spark can read them."""
    scan = None if sample.definition.strata else find_scan(work, sample, snapshot)
    if scan is None:
        return None
    with work.lake.reading() as connection:
        progress = read_progress(connection, sample.table.uuid, snapshot.id)
    counts = np.array([progress.cardinalities.get((), 0)], dtype=np.int64)
    design = Design(populations=counts, sizes=np.array([scan.record_count], dtype=np.int64))
    return DrawnRows(fields=_asked_of(sample.table.fields, columns), design=design, scan=scan)
