"""Guests: samples that take up a range of a stream in the very scan and commit in which views take it up."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from platform_plugin.samples.growing import grow
from platform_plugin.samples.local import TooFew, find_local, picking_frame, read_picked
from platform_plugin.samples.maintain import find_samples_behind, write_change
from platform_plugin.views.answers import Answer, Target
from platform_plugin.views.ranges import rows_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyspark.sql import DataFrame

    from platform_plugin.lake.tables import Snapshot
    from platform_plugin.samples.growing import Behind
    from platform_plugin.samples.maintain import Change
    from platform_plugin.spark.workspace import Workspace

Key = tuple[str, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Guest:
    """A sample at somebody else's run: its query, where it has one, and what comes of it."""

    behind: Behind
    picked: list[pa.Table] = field(default_factory=list)

    @property
    def key(self) -> Key:
        """The range that it takes up, as views name it."""
        tail = self.behind.tail
        return f"{tail.stream.name.schema}.{tail.stream.name.relation}", tail.first_row_id, tail.next_row_id

    @property
    def looks_at_rows(self) -> bool:
        """Whether the range has to be scanned for it."""
        return not self.behind.sample.definition.is_counted and bool(self.behind.part.pieces.row_count)

    def answer(self, work: Workspace, rows: DataFrame) -> Answer:
        """Its query over the range's rows, which have their row ids."""
        frame = picking_frame(work, self.behind.sample.definition, self.behind.part, rows)
        return Answer(frame=frame, targets=(Target(table=self.behind.sample.table, keeps=self.picked),))

    def change(self, work: Workspace) -> Change:
        """What the run makes of it, once all rows have gone by."""
        definition, part = self.behind.sample.definition, self.behind.part
        if not self.looks_at_rows:
            found = find_local(work, definition, part)
        else:
            try:
                found = read_picked(definition, part, pa.concat_tables(self.picked)) if self.picked else {}
            except TooFew:
                rows = rows_of(work.session, work.lake, self.behind.tail, row_ids=True)
                found = find_local(work, definition, part, rows)
        return write_change(work, self.behind, grow(work, self.behind, found))


def find_guests(work: Workspace, snapshot: Snapshot, ranges: Collection[Key]) -> list[Guest]:
    """The samples that have just these ranges to take up; others, and those in trouble, have runs of their own."""
    behind, _ = find_samples_behind(work, snapshot)
    guests = [Guest(behind=each) for each in behind]
    return [guest for guest in guests if guest.key in ranges]
