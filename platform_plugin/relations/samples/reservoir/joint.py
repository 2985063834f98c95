"""Joint scans: samples that consume a range of a stream in the scan and the commit of a view's run."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from platform_plugin.relations.answers import Answer, StateTarget
from platform_plugin.relations.follow.ranges import ROW_IDS, rows_of
from platform_plugin.relations.samples.reservoir.counting import complete_reservoirs, picking_frame
from platform_plugin.relations.samples.reservoir.growing import grow_sample, part_of_gap, read_stored, stored_strata
from platform_plugin.relations.samples.reservoir.local import find_local
from platform_plugin.relations.samples.reservoir.maintain import find_samples_behind, write_change

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from pyspark.sql import DataFrame

    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot
    from platform_plugin.relations.hooks import RangeKey
    from platform_plugin.relations.samples.definition import Key as Stratum
    from platform_plugin.relations.samples.keys.lowest import LowestRows
    from platform_plugin.relations.samples.reservoir.growing import PendingSample, StoredSample
    from platform_plugin.relations.samples.reservoir.local import RelationPart
    from platform_plugin.relations.samples.reservoir.maintain import SampleVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class JointSample:
    """A sample in another's run: its query, if it needs one, and its next version."""

    behind: PendingSample
    stored: StoredSample
    held: Mapping[Stratum, LowestRows]
    part: RelationPart
    picked: list[pa.Table] = field(default_factory=list)

    @property
    def key(self) -> RangeKey:
        """The range that it consumes, as views name it."""
        gap, name = self.behind.gaps[0], self.behind.tail.stream.name
        return f"{name.schema}.{name.relation}", gap.first_row_id, gap.next_row_id

    @property
    def looks_at_rows(self) -> bool:
        """Whether Spark has to scan the range for it."""
        return not self.behind.sample.definition.is_counted and bool(self.part.pieces.row_count)

    def answer(self, work: Workspace, rows: DataFrame) -> Answer:
        """Its query over the range's rows, which have their row ids."""
        frame = picking_frame(work, self.behind.sample.definition, self.part, rows)
        return Answer(frame=frame, targets=(StateTarget(table=self.behind.sample.table, keeps=self.picked),))

    def change(self, work: Workspace) -> SampleVersion:
        """The sample's next version, when the scan is over."""
        definition, part = self.behind.sample.definition, self.part
        if not self.looks_at_rows:
            found = find_local(work, definition, part)
        else:
            rows = partial(rows_of, work.session, work.lake, self.behind.gaps[0], hidden=ROW_IDS)
            found = complete_reservoirs(work, definition, part, pa.concat_tables(self.picked), rows) if self.picked else {}
        return write_change(work, self.behind, grow_sample(work, self.behind, self.stored, held=self.held, looked=[(part, found)]))


def find_joint_samples(work: Workspace, snapshot: Snapshot, ranges: Collection[RangeKey]) -> list[JointSample]:
    """The samples that have exactly these ranges to consume; others, and those with errors, have runs of their own."""
    behind, _ = find_samples_behind(work, snapshot)
    guests = []
    for each in behind:
        if len(each.gaps) != 1 or each.sample.definition.is_weighted:
            continue
        gap, name = each.gaps[0], each.tail.stream.name
        if (f"{name.schema}.{name.relation}", gap.first_row_id, gap.next_row_id) in ranges:
            stored = read_stored(work.lake, each.sample, each.scan)
            held = stored_strata(each.sample, stored, each.progress)
            guests.append(JointSample(behind=each, stored=stored, held=held, part=part_of_gap(each, work, gap, held)))
    return guests
