"""The limits of merging in a stream: which segments may share a file, so that they can still be evicted.

Files are evicted whole. One with rows of many segments would keep the oldest of them for as long as the newest.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from platform_plugin.lake.catalogue.relations import read_declaration
from platform_plugin.lake.ring.segments import RetentionLimits, Segment, read_segments

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.engine import Connection

    from platform_plugin.lake.catalogue.tables import Table
    from platform_plugin.lake.read.scan import FileScan

# Neighbouring segments may share a file up to this part of what the stream keeps: so much more it holds then, in some hundred files.
SHARE = 256


@dataclass(frozen=True, slots=True)
class SegmentEdges:
    """The segments of a stream, at whose ends rows are evicted, and its limits."""

    segments: tuple[Segment, ...]
    limits: RetentionLimits

    def may_join(self, run: Sequence[FileScan], file: FileScan) -> bool:
        """Whether a file may be merged with the files before it."""
        first, next_row_id = _start(run[0]), _end(file)
        span = self._span(first, next_row_id)
        if not span:
            # Rows of another client that are not counted yet: each of its commits will be a segment.
            return all(before.begin_snapshot == file.begin_snapshot and before.partial_max is None for before in (*run, file))
        if len(span) == 1:
            return True
        # The end of a file of several segments is known by its number of rows, so none may be missing inside.
        whole = all(before.is_whole for before in (*run, file)) and _end(run[-1]) == _start(file)
        return whole and first == span[0].first_row_id and self._is_short(span)

    def may_shed(self, file: FileScan) -> bool:
        """Whether deleted rows may be removed from a file, although its row count tells where its row ids end."""
        return file.is_whole or len(self._span(_start(file), _end(file))) <= 1

    def parts(self, row_ids: Any, added: Any) -> list[Any]:
        """The places of the rows of each segment, for rows in any order with the snapshots that added them."""
        starts = np.array([segment.first_row_id for segment in self.segments], dtype=np.int64)
        owners = np.searchsorted(starts, row_ids, side="right") - 1
        owners = np.where(row_ids < (self.segments[-1].next_row_id if self.segments else 0), owners, len(starts) + added)
        return [np.flatnonzero(owners == owner) for owner in np.unique(owners)]

    def _span(self, first: int, next_row_id: int) -> tuple[Segment, ...]:
        """The segments that rows belong to; none where not all of them are counted."""
        if not self.segments or next_row_id > self.segments[-1].next_row_id or first < self.segments[0].first_row_id:
            return ()
        begin = bisect_right(self.segments, first, key=lambda segment: segment.first_row_id) - 1
        end = bisect_right(self.segments, next_row_id - 1, key=lambda segment: segment.first_row_id)
        return self.segments[begin:end]

    def _is_short(self, span: Sequence[Segment]) -> bool:
        limits = self.limits
        rows = span[-1].next_row_id - span[0].first_row_id
        size = sum(segment.size_bytes for segment in span)
        age = span[-1].arrived_at - span[0].arrived_at
        return (
            (limits.rows is None or rows * SHARE <= limits.rows)
            and (limits.size_bytes is None or size * SHARE <= limits.size_bytes)
            and (limits.age is None or age * SHARE <= limits.age)
        )


def read_edges(connection: Connection, table: Table) -> SegmentEdges | None:
    """The edges of a stream; None for a table, which evicts nothing."""
    declaration = read_declaration(connection, table.uuid)
    if declaration.kind != "stream":
        return None
    return SegmentEdges(tuple(read_segments(connection, table.uuid)), RetentionLimits.of(declaration.options))


def _start(file: FileScan) -> int:
    return file.row_id_start or 0


def _end(file: FileScan) -> int:
    return _start(file) + file.record_count
