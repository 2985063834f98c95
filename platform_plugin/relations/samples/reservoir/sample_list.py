"""`KnownSamples`: the samples of each stream that this process writes to, and when they are read again.

All of it is read from the lake, so that it may be forgotten at any time: an append then costs a look at the samples, and picks the same.
"""

from __future__ import annotations

import os
import threading
import time
from datetime import timedelta
from typing import TYPE_CHECKING

from platform_plugin.cache import Cache
from platform_plugin.engine.refusal import RefusedByEngine
from platform_plugin.lake.ring.segments import read_arrivals, read_ring
from platform_plugin.relations.samples.record import all_samples, definitions, read_progress
from platform_plugin.relations.samples.reservoir.condition import RowCondition
from platform_plugin.relations.samples.reservoir.growing import OutdatedSample, read_stored, stored_strata
from platform_plugin.relations.samples.reservoir.picker import Picker
from platform_plugin.relations.samples.reservoir.picks import pool_picks, read_picks
from platform_plugin.relations.samples.reservoir.release import find_release

if TYPE_CHECKING:
    from collections.abc import Collection
    from uuid import UUID

    from platform_plugin.lake.catalogue.tables import Snapshot, Table
    from platform_plugin.lake.lake import Lake
    from platform_plugin.relations.samples.record import SampleRecord

_LOOK_AGAIN_SECONDS = 30.0
# A look takes as long as the picks of this many rows.
_MANY_ROWS = 1_000_000


class KnownSamples:
    """The samples of one stream, as this process has last read them."""

    def __init__(self, stream: UUID, schema_version: int) -> None:
        self.stream = stream
        self.schema_version = schema_version
        self.pickers: list[Picker] = []
        self.next_row_id = 0
        self.unreleased_appends = 0
        self.lock = threading.Lock()
        self.look_again_after: float | None = None
        self.rows_when_looked = 0
        self._looked_at = time.monotonic()
        self._rows_of_others = 0

    def is_stale(self, base: Snapshot) -> bool:
        """Whether the samples must be read again, since others may have changed them."""
        if base.schema_version != self.schema_version:
            return True
        if not self.pickers:
            return False
        late = self.look_again_after is not None and time.monotonic() > self._looked_at + self.look_again_after
        return late or self._rows_of_others > max(self.rows_when_looked, _MANY_ROWS)

    def count_in(self, first: int, end: int) -> None:
        """Count rows that this process has committed; rows that others added before them are not seen."""
        self._rows_of_others += max(0, first - self.next_row_id)
        self.next_row_id = max(self.next_row_id, end)

    def look_again(self, seconds: float = _LOOK_AGAIN_SECONDS) -> None:
        """Read the samples again in so many seconds at the latest."""
        self.look_again_after = min(seconds, self.look_again_after or seconds)


_STREAMS: Cache[tuple[UUID, str, UUID], KnownSamples] = Cache("samples of streams", weigh=lambda known: sum(map(_weigh, known.pickers)))


def _weigh(picker: Picker) -> int:
    """The bytes of what is known of a sample: the keys of its rows, and about as many that were committed since these were sorted out."""
    return 20_000 + 16 * picker.sample.definition.size


def known_samples(lake: Lake, base: Snapshot, table: Table) -> KnownSamples:
    """The samples of a stream, as this process has read them recently enough."""
    place = (lake.uuid, str(lake.location), table.uuid)
    known = _STREAMS.get(place)
    if known is None or known.is_stale(base):
        known = _STREAMS.put(place, _look(lake, base, table))
    return known


def _look(lake: Lake, base: Snapshot, table: Table) -> KnownSamples:
    """The samples of a stream as they are at a snapshot."""
    known = KnownSamples(table.uuid, base.schema_version)
    own = {uuid for uuid, found in definitions(lake, base).items() if found.relation == str(table.uuid) and found.source == "stream"}
    if not own:
        return known
    with lake.reading() as connection:
        ring = read_ring(connection, table.uuid)
        known.unreleased_appends = find_release(connection, table.uuid).appends
    known.next_row_id, known.rows_when_looked = ring.next_row_id, ring.row_count
    for sample in _samples(lake, base, own):
        definition = sample.definition
        try:
            condition = None if definition.where is None else RowCondition(table, definition.where)
        except RefusedByEngine:
            continue  # Spark looks at the rows
        picker = Picker(sample, condition)
        if definition.window_seconds is not None:
            picker.window_rows = _rows_since(lake, base, table, definition.window_seconds)
            known.look_again(max(1.0, min(_LOOK_AGAIN_SECONDS, definition.window_seconds / 4)))
        elif definition.is_windowed:
            picker.window_rows = ring.row_count
            known.look_again()
        else:
            try:
                _learn_all(lake, base, picker)
            except OutdatedSample:
                continue  # its runs and readers are told of it; rows can be appended all the same
        known.pickers.append(picker)
    return known


def _samples(lake: Lake, base: Snapshot, uuids: Collection[str]) -> list[SampleRecord]:
    return [sample for sample in all_samples(lake, base) if str(sample.table.uuid) in uuids]


def _rows_since(lake: Lake, base: Snapshot, table: Table, seconds: float) -> int:
    with lake.reading() as connection:
        arrivals = read_arrivals(connection, table.uuid)
    since = base.time - timedelta(seconds=seconds)
    return sum(end - first for first, end, arrived_at in arrivals if arrived_at > since)


def _learn_all(lake: Lake, base: Snapshot, picker: Picker) -> None:
    """The keys of a sample's rows, stored and picked; those of both are the lowest that there are."""
    sample = picker.sample
    with lake.reading() as connection:
        progress = read_progress(connection, sample.table.uuid, base.id)
        picks = read_picks(connection, sample, base.id, first_row_id=progress.next_row_id)
    stored = read_stored(lake, sample, lake.scan(sample.table, base))
    for part in (stored_strata(sample, stored, progress), pool_picks(sample, picks).held):
        for key, held in part.items():
            picker.learn(key, held.keys)


# The lock of a list of the parent's may be held for ever in a forked child.
os.register_at_fork(after_in_child=_STREAMS.clear)
