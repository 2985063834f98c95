"""`SampleProgram`: what the tasks of a job do to draw a sample: a reservoir from each share of the files, then one of all of these."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from platform_plugin.engine.file_parts import cut_part
from platform_plugin.engine.refusal import Refusal, RefusedByEngine
from platform_plugin.engine.spark.tasks.share import ShareClock
from platform_plugin.errors import PlatformError
from platform_plugin.relations.samples.draw.numbered import read_numbered
from platform_plugin.relations.samples.reservoir.local_draw import join_reservoirs
from platform_plugin.relations.samples.tasks.reservoir_files import ReservoirReader, ReservoirShare, pack_reservoir

if TYPE_CHECKING:
    from collections.abc import Sequence

    from platform_plugin.engine.file_parts import FilePart
    from platform_plugin.engine.spark.tasks.share import ShareFigures
    from platform_plugin.lake.catalogue.tables import Snapshot, Table
    from platform_plugin.lake.files.data_folder import DataFolder
    from platform_plugin.relations.samples.definition import Key
    from platform_plugin.relations.samples.keys.lowest import LowestRows
    from platform_plugin.relations.samples.reservoir.local_draw import LocalDraw

Failure = Refusal | PlatformError
"""Why a task has no reservoir: rows that only Spark can judge, or an error that the user is told."""


class SampledPart(NamedTuple):
    """A part of a file that a task reads: its rows from position `low` up to but not including `high`.

    The place of a row is its number among all rows of the scan's files, of which `first_place` come before this file.
    """

    part: FilePart
    first_place: int
    low: int
    high: int


class DrawnShare(NamedTuple):
    """What a task has drawn of its share."""

    drawn: ReservoirShare | Failure
    figures: ShareFigures


class DrawnSample(NamedTuple):
    """The reservoirs of all shares as one, with the figures of the tasks, and how many rows of reservoirs were read to merge them."""

    drawn: dict[Key, LowestRows] | Failure
    figures: tuple[ShareFigures, ...]
    rows_merged: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleProgram:
    """A draw from the rows of a table at a snapshot, whose files are shared out among tasks.

    No row moves while tasks draw, and each keeps at most as many as the sample has. The merge learns the row counts of all, and reads of
    each reservoir about as many rows as belong to the sample. What comes to the client are the keys and places of the sample's rows.
    """

    folder: DataFolder
    table: Table
    snapshot: Snapshot
    draw: LocalDraw
    part_rows: int
    spill_path: str
    inline_rows: int

    def run(self, share: Sequence[SampledPart]) -> DrawnShare:
        """Draw the reservoir of a share of the files."""
        clock, rows, written = ShareClock(), 0, 0
        # Spark runs as many tasks as there are cores.
        pa.set_cpu_count(1)
        drawn: ReservoirShare | Failure
        try:
            fields = self.draw.fields(self.table)
            found: dict[Key, LowestRows] = {}
            for part in share:
                for file, span in cut_part(part.part, self.part_rows):
                    numbered = read_numbered(self.folder, file, self.snapshot, fields, low=part.low, high=part.high, span=span)
                    if not numbered.rows.num_rows:
                        continue
                    rows += numbered.rows.num_rows
                    for key, held in self.draw.draw(numbered.rows, numbered.row_ids, found).items():
                        placed = replace(held, places=part.first_place + numbered.positions[held.places])
                        found[key] = join_reservoirs(found.get(key), placed, self.draw.size)
            most = self.draw.most(len(found))
            lowest = {key: held.lowest(most) for key, held in found.items()}
            drawn, written = pack_reservoir(self.folder.storage, self.spill_path, lowest, inline_rows=self.inline_rows)
        except RefusedByEngine as refused:
            drawn = refused.refusal
        except PlatformError as error:
            drawn = error
        return DrawnShare(drawn, clock.stop(rows=rows, files=len({part.part.file.id for part in share}), bytes_written=written))

    def merge(self, partials: Sequence[DrawnShare]) -> DrawnSample:
        """The reservoirs of all shares as one; each stratum has at most as many rows as the sample needs of it."""
        figures = tuple(partial.figures for partial in partials)
        shares: list[ReservoirShare] = []
        for partial in partials:
            if not isinstance(partial.drawn, ReservoirShare):
                return DrawnSample(partial.drawn, figures, 0)
            shares.append(partial.drawn)
        keys = dict.fromkeys(key for share in shares for key in share.strata)
        most = self.draw.most(len(keys))
        with ReservoirReader(self.folder.storage, shares) as reader:
            return DrawnSample({key: reader.read_lowest(key, most) for key in keys}, figures, reader.rows_read)
