"""`PickRows`: an append from memory lets the samples of its stream pick rows, in the same commit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from platform_plugin.relations.samples.reservoir.picks import insert_picks
from platform_plugin.relations.samples.reservoir.release import release_stream_rows
from platform_plugin.relations.samples.reservoir.sample_list import known_samples

if TYPE_CHECKING:
    import pyarrow as pa

    from platform_plugin.lake.catalogue.tables import Snapshot, Table
    from platform_plugin.lake.commit.writer import Writer
    from platform_plugin.lake.lake import Lake
    from platform_plugin.relations.samples.reservoir.picker import AppendPick
    from platform_plugin.relations.samples.reservoir.sample_list import KnownSamples

_RELEASE_EVERY = 16
"""After so many appends whose picks are all there, the next one lets the stream evict their rows."""


def prepare_picks(lake: Lake, base: Snapshot, table: Table, rows: pa.Table) -> PickRows | None:
    """The part that a stream's samples add to a commit which appends rows; None if it has none."""
    known = known_samples(lake, base, table)
    return PickRows(known, rows) if known.pickers else None


class PickRows:
    """The part of a commit that appends rows to a stream in which its samples pick theirs.

    `prepare` makes the commit shorter, and is cheapest when the rows were just written and are in the cache. `settle` is called when the
    commit is made.
    """

    def __init__(self, known: KnownSamples, rows: pa.Table) -> None:
        self._known = known
        self._rows = rows
        self._first = -1
        self._picked: list[AppendPick] = []
        self._made = False
        self._releases = False

    def prepare(self) -> None:
        """Pick as if the rows began where the last ones ended, which is mostly so."""
        self._prepare(self._known.next_row_id)

    def _prepare(self, first_row_id: int) -> None:
        """Pick as if the rows began with this id."""
        self._first = first_row_id
        self._picked = []
        with self._known.lock:
            for picker in self._known.pickers:
                picked = picker.pick(self._rows, first_row_id)
                if picked is not None:
                    self._picked.append(picked)

    def apply(self, w: Writer) -> None:
        """Write the picks, unless relations have changed meanwhile; then a run reads the rows."""
        self._made = w.head.schema_version == self._known.schema_version
        if not self._made:
            return
        first = w.first_row_ids[self._known.stream]
        if first != self._first:
            self._prepare(first)
        for picked in self._picked:
            strata = {key: (held.cardinality, held.bound) for key, held in picked.strata.items()}
            insert_picks(w, picked.picker.sample.table.uuid, (first, first + self._rows.num_rows), strata, picked.data)
        self._releases = self._known.unreleased_appends >= _RELEASE_EVERY - 1
        if self._releases:
            release_stream_rows(w, self._known.stream)

    def settle(self) -> None:
        """Let the picks count for later appends, since the commit is made."""
        known = self._known
        with known.lock:
            known.unreleased_appends = 0 if self._made and self._releases else known.unreleased_appends + 1
            known.count_in(self._first, self._first + self._rows.num_rows)
            for picked in self._picked if self._made else ():
                picked.picker.window_rows += self._rows.num_rows
                for key, held in picked.strata.items():
                    picked.picker.learn(key, held.keys)
            if len(self._picked) < len(known.pickers):
                known.look_again()
