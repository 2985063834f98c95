"""Upkeep of windowed samples: picks for ranges without any, merges of small neighbours, and the end of old picks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from platform_plugin.relations.follow.maintained import StepFigures
from platform_plugin.relations.samples.keys.ladders import row_keys
from platform_plugin.relations.samples.keys.lowest import expected_margin
from platform_plugin.relations.samples.record import AdvanceWindow
from platform_plugin.relations.samples.reservoir.local import find_local
from platform_plugin.relations.samples.reservoir.picks import ROW, Picks, pool_picks
from platform_plugin.relations.samples.reservoir.sliding import run_window
from platform_plugin.relations.samples.sources import sampled_fields, shape_sample_rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta

    from platform_plugin.engine.figures import EngineRun
    from platform_plugin.engine.spark.session.job import ProgressHandler
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.commit.commit import Commit
    from platform_plugin.lake.files.files import DataFile
    from platform_plugin.relations.samples.definition import Key
    from platform_plugin.relations.samples.keys.lowest import LowestRows
    from platform_plugin.relations.samples.record import SampleRecord
    from platform_plugin.relations.samples.reservoir.growing import CurrentSample
    from platform_plugin.relations.samples.reservoir.local import PartDraw, RelationPart
    from platform_plugin.relations.samples.reservoir.sliding import SampleWindow

Span = tuple[int, int]

# Picks stand for at most such a part of the window, so that little of them is at the border.
_PARTS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowStep:
    """A windowed sample's next version, written but not committed."""

    behind: SampleWindow
    grown: CurrentSample
    files: tuple[DataFile, ...]
    ended: tuple[int, ...]
    picked: tuple[Picks, ...]
    engine_runs: tuple[EngineRun, ...] = ()

    @property
    def figures(self) -> StepFigures:
        """The rows that it consumes, and how many of them were read."""
        return StepFigures.of_intake(self.behind, self.engine_runs, fetched=self.grown.fetched)

    def put(self, commit: Commit) -> None:
        """Add it to a commit; a conflict if another run has consumed any of its ranges."""
        sample, expected = self.behind.sample.table, self.behind.progress.snapshot_id
        commit.replace(sample, self.behind.stored, self.files)
        commit.also(AdvanceWindow(sample=sample, expected=expected, progress=self.grown.progress, ended=self.ended, picked=self.picked))


def plan_spans(spans: Sequence[Span], window: Span) -> list[list[Span]]:
    """The neighbours that are merged: small ones first, as in binary counting, and none larger than a part of the window.

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


def prepare_pick_draws(work: Workspace, window: SampleWindow) -> list[PartDraw]:
    """The draws from the ranges of a window that have no picks; somewhat more rows than the sample has."""
    definition = window.sample.definition
    size = definition.cap(1)
    keys = row_keys(definition)
    bounds: dict[Key, int] = {(): keys.bound_for(expected_margin(size), window.whole.row_count)} if definition.is_counted else {}
    return [window.draw(work, *span, size=expected_margin(size), bounds=bounds) for span in window.spans]


def run_sliding(
    work: Workspace,
    window: SampleWindow,
    *,
    drawn: Sequence[tuple[PartDraw, Mapping[Key, LowestRows]]] | None = None,
    timeout: timedelta | None = None,
    progress: ProgressHandler | None = None,
) -> WindowStep:
    """Let a windowed sample consume what has arrived, of which `drawn` may have the rows: its picks, and the merged sample for reads."""
    if drawn is None:
        drawn = find_local(work, prepare_pick_draws(work, window), timeout=timeout, progress=progress)
    new = [_make_picks(work, window, span, draw.part, held) for span, (draw, held) in zip(window.spans, drawn, strict=True)]
    known = {each.span: each for each in (*window.picks, *new)}
    groups = plan_spans(list(known), (window.whole.first_row_id, window.whole.next_row_id))
    merged = [merge_picks(window.sample, [known[span] for span in own]) for own in groups if len(own) > 1]
    staying = {own[0] for own in groups if len(own) == 1}
    # With the new picks no range is left to be drawn from again.
    picks = tuple(sorted((*window.picks, *new), key=lambda each: each.first_row_id))
    grown = run_window(work, replace(window, picks=picks), timeout=timeout, progress=progress)
    return WindowStep(
        behind=window,
        grown=replace(grown, fetched=grown.fetched + sum(each.rows.num_rows for each in new)),
        files=(work.lake.write(window.sample.table, grown.rows),) if grown.rows.num_rows else (),
        ended=(*window.passed, *(each.first_row_id for each in window.picks if each.span not in staying)),
        picked=(*merged, *(each for each in new if each.span in staying)),
    )


def _make_picks(work: Workspace, window: SampleWindow, span: Span, part: RelationPart, held: Mapping[Key, LowestRows]) -> Picks:
    """The picks of a range from what was drawn of it."""
    sample = window.sample
    numbers = np.sort(np.concatenate([np.empty(0, dtype=np.int64), *(own.places for own in held.values())]))
    rows = shape_sample_rows(sample, part.pieces.fetch(work.lake, numbers, sampled_fields(sample, window.stream)))
    return Picks(
        first_row_id=span[0],
        next_row_id=span[1],
        strata={key: (own.cardinality, own.bound) for key, own in held.items()},
        rows=rows.append_column(ROW, pa.array(part.pieces.row_ids(numbers), pa.int64())),
    )


def merge_picks(sample: SampleRecord, picks: Sequence[Picks]) -> Picks:
    """The picks of neighbours as one; the result does not depend on the order of merges."""
    pooled = pool_picks(sample, picks)
    places = np.sort(np.concatenate([np.empty(0, dtype=np.int64), *(own.places for own in pooled.held.values())]))
    return Picks(
        first_row_id=picks[0].first_row_id,
        next_row_id=picks[-1].next_row_id,
        strata={key: (own.cardinality, own.bound) for key, own in pooled.held.items()},
        rows=pooled.rows.take(pa.array(places)),
    )
