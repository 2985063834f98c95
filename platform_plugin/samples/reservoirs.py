"""The upkeep of a windowed sample: a reservoir for each range that was taken up, small neighbours merged, old ones gone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from platform_plugin.samples.merge import draw_picks
from platform_plugin.samples.record import Slide
from platform_plugin.samples.reservoir import draw_positions
from platform_plugin.samples.seeds import generator
from platform_plugin.samples.sliding import COUNT, FIRST, NEXT, ROW, run_window
from platform_plugin.samples.sources import in_shape, wanted_fields
from platform_plugin.samples.strata import group, sortable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from platform_plugin.lake.commit import Commit
    from platform_plugin.lake.files import DataFile
    from platform_plugin.samples.growing import Grown
    from platform_plugin.samples.sliding import Window
    from platform_plugin.spark.job import ProgressHandler
    from platform_plugin.spark.workspace import Workspace

Span = tuple[int, int]

# A reservoir stands for at most such a part of the window, so that little of it is at the border.
_PARTS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Slid:
    """A windowed sample's next version, written but not committed."""

    behind: Window
    grown: Grown
    files: tuple[DataFile, ...]
    kept: tuple[DataFile, ...]
    replaced: tuple[int, ...]

    def put(self, commit: Commit) -> None:
        """Let it become the sample in a commit; a conflict if another run has taken up any of it."""
        sample, reservoirs = self.behind.sample, self.behind.reservoirs
        commit.replace(reservoirs.table, self.replaced, self.kept)
        commit.replace(sample.table, self.behind.stored, [file for file in self.files if file not in self.kept])
        commit.also(Slide(sample=sample.table, expected=self.behind.progress.snapshot_id, progress=self.grown.progress))


def plan_spans(spans: Sequence[Span], window: Span) -> list[list[Span]]:
    """Which neighbours become one reservoir: small ones first, as in counting by twos, and none larger than a part of the window.

    >>> plan_spans([(0, 100), (100, 110), (110, 114), (114, 118)], (50, 1000))
    [[(0, 100)], [(100, 110), (110, 114), (114, 118)]]
    """
    most = max(1, (window[1] - window[0]) // _PARTS)
    groups: list[list[Span]] = []
    for span in sorted(span for span in spans if span[1] > window[0]):
        groups.append([span])
        while len(groups) > 1:
            before, last = _width(groups[-2]), _width(groups[-1])
            if before > 2 * last or groups[-1][-1][1] - groups[-2][0][0] > most:
                break
            groups[-2:] = [groups[-2] + groups[-1]]
    return groups


def _width(spans: Sequence[Span]) -> int:
    return spans[-1][1] - spans[0][0]


def run_sliding(work: Workspace, window: Window, *, timeout: timedelta | None = None, progress: ProgressHandler | None = None) -> Slid:
    """Let a windowed sample take up what has arrived: write its new reservoir, and the merged sample for those who read the table."""
    lake, reservoirs = work.lake, window.reservoirs
    new = _new_reservoir(work, window, timeout=timeout, progress=progress)
    rows = pa.concat_tables([reservoirs.rows, new.cast(reservoirs.rows.schema)]) if new.num_rows else reservoirs.rows
    firsts = rows.column(FIRST).to_numpy()
    spans = sorted(set(zip(firsts.tolist(), rows.column(NEXT).to_numpy().tolist(), strict=True)))
    groups = plan_spans(spans, (window.whole.first_row_id, window.whole.next_row_id))
    written = [_merged(window, rows, firsts, own) for own in groups if len(own) > 1]
    # A file stays as it is as long as all ranges in it stay as they are.
    alone = {own[0] for own in groups if len(own) == 1}
    replaced, kept_spans = _files_to_replace(work, window, alone)
    new_span = {(int(first), int(end)) for first, end in zip(new.column(FIRST).to_numpy(), new.column(NEXT).to_numpy(), strict=True)}
    again = [span for span in alone if span not in kept_spans or span in new_span]
    written += [rows.filter(pa.array(firsts == first)) for first, _ in sorted(again)]
    written = [part for part in written if part.num_rows]
    grown = run_window(work, window, timeout=timeout, progress=progress)
    kept = (lake.write(reservoirs.table, pa.concat_tables(written)),) if written else ()
    try:
        shown = (lake.write(window.sample.table, grown.rows),) if grown.rows.num_rows else ()
    except BaseException:
        lake.discard(kept)
        raise
    return Slid(behind=window, grown=grown, files=(*kept, *shown), kept=kept, replaced=replaced)


def _new_reservoir(work: Workspace, window: Window, *, timeout: timedelta | None, progress: ProgressHandler | None) -> pa.Table:
    """The reservoir of the rows that no run has taken up, with its marks."""
    tail, sample = window.tail, window.sample
    part = window.part(work, tail.first_row_id, tail.next_row_id)
    parts = []
    for key, local in sorted(window.look(work, part, timeout=timeout, progress=progress).items(), key=lambda item: sortable(item[0])):
        random = generator(sample.definition.seed, "reservoir", tail.first_row_id, tail.next_row_id, *key)
        size = min(part.size, local.cardinality)
        numbers = draw_positions(local.cardinality, size, random) if local.numbers is None else np.sort(local.numbers)
        rows = in_shape(sample, part.pieces.fetch(work.lake, numbers, wanted_fields(sample, window.stream)))
        parts.append(_marked(rows, tail.first_row_id, tail.next_row_id, local.cardinality, part.pieces.row_ids(numbers)))
    return pa.concat_tables(parts) if parts else window.reservoirs.rows.slice(0, 0)


def _marked(rows: pa.Table, first: int, end: int, cardinality: int, row_ids: object) -> pa.Table:
    count = rows.num_rows
    marks = {FIRST: [first] * count, NEXT: [end] * count, COUNT: [cardinality] * count, ROW: row_ids}
    columns = [pa.array(values, pa.int64()) for values in marks.values()]
    return pa.Table.from_arrays([*columns, *rows.columns], names=[*marks, *rows.column_names])


def _merged(window: Window, rows: pa.Table, firsts: np.ndarray, spans: Sequence[Span]) -> pa.Table:
    """One reservoir of neighbours."""
    definition = window.sample.definition
    first, end = spans[0][0], spans[-1][1]
    random = generator(definition.seed, "merge reservoirs", first, end)
    inside = np.flatnonzero((firsts >= first) & (firsts < end))
    own = rows.take(pa.array(inside))
    owners, counts = own.column(FIRST).to_numpy(), own.column(COUNT).to_numpy()
    parts = []
    by_key = group(own, definition.strata)
    for key in sorted(by_key, key=sortable):
        held = [by_key[key][owners[by_key[key]] == start] for start in np.unique(owners[by_key[key]])]
        cardinalities = [int(counts[places[0]]) for places in held]
        places = np.concatenate(held)[draw_picks([len(part) for part in held], cardinalities, definition.cap(1), random)]
        chosen = own.take(pa.array(np.sort(places)))
        row_ids = chosen.column(ROW).to_numpy()
        parts.append(_marked(chosen.drop_columns([FIRST, NEXT, COUNT, ROW]), first, end, sum(cardinalities), row_ids))
    return pa.concat_tables(parts).cast(rows.schema)


def _files_to_replace(work: Workspace, window: Window, alone: set[Span]) -> tuple[tuple[int, ...], set[Span]]:
    """The files of reservoirs that can't stay, and the ranges in those that can."""
    from platform_plugin.lake.read import read_file

    replaced, kept = [], set()
    scan = window.reservoirs.scan
    marks = [field for field in scan.table.fields if field.name in (FIRST, NEXT)]
    for file in scan.files:
        rows, _ = read_file(work.lake, scan.table, file, scan.snapshot, fields=marks)
        spans = set(zip(rows.column(FIRST).to_pylist(), rows.column(NEXT).to_pylist(), strict=True))
        if spans <= alone:
            kept |= spans
        else:
            replaced.append(file.id)
    return tuple(replaced), kept
