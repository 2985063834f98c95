"""`SharedRows`: the rows of ranges of a stream that begin at different positions and end alike; each column is read once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from platform_plugin.algebra.plan.relations import ROW_ID
from platform_plugin.relations.follow.ranges import ROW_IDS, arrow_rows_of, range_input, rows_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from pyspark.sql import DataFrame

    from platform_plugin.engine.engine import Role, TaskInput
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.lake import Lake
    from platform_plugin.relations.follow.ranges import Range


class SharedRows:
    """The rows of the widest of some ranges of a stream, and of those that are the last files of it.

    Other ranges are read by themselves, as is one that is alone.
    """

    def __init__(self, lake: Lake, ranges: Iterable[Range]) -> None:
        self._lake = lake
        every = list(ranges)
        self._widest = min(every, key=lambda each: each.first_row_id) if len(every) > 1 else None
        # A user's column may have the name of a hidden one.
        self._columns: dict[tuple[str, bool], pa.ChunkedArray] = {}

    def input(self, part: Range, role: Role, *, hidden: Collection[str] = ()) -> TaskInput:
        """A range as an input of tasks, with these hidden columns."""
        alone = range_input(self._lake, part, role, hidden=hidden)
        whole = self._widest
        if whole is None or not is_end_of(part, whole):
            return alone
        return replace(alone, read=lambda columns: self._read(whole, part, columns, hidden))

    def _read(self, whole: Range, part: Range, columns: Collection[str], hidden: Collection[str]) -> pa.Table:
        own = [field.name for field in part.stream.fields if field.name in columns and field.name not in hidden]
        if not own and not hidden:
            own = [part.stream.fields[0].name]
        wanted = [*((name, False) for name in own), *((name, True) for name in sorted(hidden))]
        missing = [each for each in wanted if each not in self._columns]
        if missing:
            unseen = {name for name, is_hidden in missing if is_hidden}
            rows = arrow_rows_of(self._lake, whole, [name for name, is_hidden in missing if not is_hidden], hidden=unseen)
            self._columns |= {each: rows.column(each[0]) for each in missing}
        table = pa.table([self._columns[each] for each in wanted], names=[name for name, _ in wanted])
        return table.slice(table.num_rows - sum(file.record_count for file in part.scan.files))


class SharedFrame:
    """As `SharedRows`, for Spark: the widest of some ranges, with these hidden columns, is decoded once and kept until it is released."""

    def __init__(self, work: Workspace, ranges: Iterable[Range], hidden: Collection[str]) -> None:
        self._work = work
        self._hidden = ROW_IDS.union(hidden)
        every = list(ranges)
        self._widest = min(every, key=lambda each: each.first_row_id) if len(every) > 1 else None
        self._frame: DataFrame | None = None

    def rows_of(self, part: Range, cached: list[DataFrame]) -> DataFrame | None:
        """The rows of a range, from those of the widest; None where it is to be read by itself. Whoever releases `cached` releases them."""
        from pyspark.sql.connect import functions as f

        whole = self._widest
        if whole is None or part.stream.field(ROW_ID) is not None or not is_end_of(part, whole):
            return None
        if self._frame is None:
            self._frame = rows_of(self._work.session, self._work.lake, whole, hidden=self._hidden).persist()
            cached.append(self._frame)
        return self._frame if part is whole else self._frame.where(f.col(ROW_ID) >= part.first_row_id)


def is_end_of(part: Range, whole: Range) -> bool:
    """Whether the rows of a range are the last rows of another, as their scans have them."""
    own = part.scan.files
    if not own or not part.is_whole or not whole.is_whole or not all(file.is_whole for file in whole.scan.files):
        return False
    return part.stream == whole.stream and whole.scan.files[-len(own) :] == own
