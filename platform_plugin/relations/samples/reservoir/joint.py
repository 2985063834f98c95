"""Joint scans: samples that consume a range of a stream in the scan and the commit of a view's run."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from platform_plugin.relations.answers import Answer, StateTarget
from platform_plugin.relations.follow.ranges import ROW_IDS, rows_of, stream_name
from platform_plugin.relations.samples.reservoir.counting import complete_reservoirs, picking_frame
from platform_plugin.relations.samples.reservoir.growing import OutdatedSample, grow_sample, part_of_gap, read_stored, stored_strata
from platform_plugin.relations.samples.reservoir.local import find_local
from platform_plugin.relations.samples.reservoir.sliding import SampleWindow
from platform_plugin.relations.samples.reservoir.version import write_version

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from pyspark.sql import DataFrame

    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.relations.follow.maintained import JointScan, RangeKey, Step
    from platform_plugin.relations.samples.definition import Key as Stratum
    from platform_plugin.relations.samples.keys.lowest import LowestRows
    from platform_plugin.relations.samples.reservoir.growing import PendingSample, StoredSample
    from platform_plugin.relations.samples.reservoir.local import RelationPart


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
        gap = self.behind.gaps[0]
        return stream_name(self.behind.tail.stream), gap.first_row_id, gap.next_row_id

    @property
    def looks_at_rows(self) -> bool:
        """Whether Spark has to scan the range for it."""
        return not self.behind.sample.definition.is_counted and bool(self.part.pieces.row_count)

    def answer(self, work: Workspace, rows: DataFrame) -> Answer:
        """Its query over the range's rows, which have their row ids."""
        frame = picking_frame(work, self.behind.sample.definition, self.part, rows)
        return Answer(frame=frame, targets=(StateTarget(table=self.behind.sample.table, keeps=self.picked),))

    def finish(self, work: Workspace) -> Step:
        """The sample's next version, when the scan is over."""
        definition, part = self.behind.sample.definition, self.part
        if not self.looks_at_rows:
            found = find_local(work, definition, part)
        else:
            rows = partial(rows_of, work.session, work.lake, self.behind.gaps[0], hidden=ROW_IDS)
            found = complete_reservoirs(work, definition, part, pa.concat_tables(self.picked), rows) if self.picked else {}
        return write_version(work, self.behind, grow_sample(work, self.behind, self.stored, held=self.held, looked=[(part, found)]))


def find_joint_samples(
    work: Workspace, pending: Sequence[PendingSample | SampleWindow], ranges: Collection[RangeKey]
) -> list[tuple[PendingSample | SampleWindow, JointScan]]:
    """The samples that wait for exactly one of these ranges; others are read for by themselves."""
    found: list[tuple[PendingSample | SampleWindow, JointScan]] = []
    for each in pending:
        if isinstance(each, SampleWindow) or len(each.gaps) != 1 or each.sample.definition.is_weighted:
            continue
        gap = each.gaps[0]
        if (stream_name(each.tail.stream), gap.first_row_id, gap.next_row_id) in ranges:
            try:
                stored = read_stored(work.lake, each.sample, each.scan)
            except OutdatedSample:
                continue  # its own run tells of it
            held = stored_strata(each.sample, stored, each.progress)
            joint = JointSample(behind=each, stored=stored, held=held, part=part_of_gap(each, work, gap, held))
            found.append((each, joint))
    return found
