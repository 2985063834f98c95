"""`SharedRows`: the rows of ranges of a stream that begin at different positions and end alike; each column is read once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from platform_plugin.algebra.plan.relations import ROW_ID
from platform_plugin.relations.follow.ranges import ROW_IDS, arrow_rows_of, range_input, rows_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from pyspark.sql import DataFrame

    from platform_plugin.engine.engine import Role, TaskInput
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.lake import Lake
    from platform_plugin.relations.follow.ranges import Range


class SharedRows:
    """The columns that were read of ranges of a stream. A range that is the last files of another has them from there.

    Nothing is read that nobody asks for: whoever reads the widest range first lets all others share it.
    """

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        # A user's column may have the name of a hidden one.
        self._columns: dict[tuple[str, bool], list[tuple[Range, pa.ChunkedArray]]] = {}

    def input(self, part: Range, role: Role, *, hidden: Collection[str] = ()) -> TaskInput:
        """A range as an input of tasks, with these hidden columns."""
        alone = range_input(self._lake, part, role, hidden=hidden)
        return replace(alone, read=lambda columns: self._read(part, columns, hidden)) if part.is_whole else alone

    def _read(self, part: Range, columns: Collection[str], hidden: Collection[str]) -> pa.Table:
        own = [field.name for field in part.stream.fields if field.name in columns and field.name not in hidden]
        if not own and not hidden:
            # Without any column nobody would know how many rows there are.
            own = [part.stream.fields[0].name]
        wanted = [*((name, False) for name in own), *((name, True) for name in sorted(hidden))]
        found = {each: column for each in wanted if (column := self._find(each, part)) is not None}
        missing = [each for each in wanted if each not in found]
        if missing:
            unseen = {name for name, is_hidden in missing if is_hidden}
            rows = arrow_rows_of(self._lake, part, [name for name, is_hidden in missing if not is_hidden], hidden=unseen)
            for each in missing:
                found[each] = rows.column(each[0])
                self._columns.setdefault(each, []).append((part, found[each]))
        return pa.table([found[each] for each in wanted], names=[name for name, _ in wanted])

    def _find(self, column: tuple[str, bool], part: Range) -> pa.ChunkedArray | None:
        """A column of a range, cut from one that ends with it."""
        for whole, rows in self._columns.get(column, ()):
            if is_end_of(part, whole):
                return rows.slice(len(rows) - sum(file.record_count for file in part.scan.files))
        return None


class SharedFrame:
    """The widest of some ranges for Spark, with these columns and hidden ones: decoded once and kept, if others need much of it."""

    def __init__(self, work: Workspace, ranges: Iterable[Range], hidden: Collection[str], columns: Sequence[str] | None = None) -> None:
        self._work = work
        self._columns = columns
        self._hidden = ROW_IDS.union(hidden)
        widest, *others = sorted(ranges, key=lambda each: each.first_row_id)
        is_needed = sum(each.row_count for each in others) * 2 >= widest.row_count  # at least half of it is read again
        # A user's column with the name of a hidden one is another view's.
        self._widest = widest if others and is_needed and not any(widest.stream.field(name) for name in self._hidden) else None
        self._frame: DataFrame | None = None

    def rows_of(self, part: Range, cached: list[DataFrame]) -> DataFrame | None:
        """The rows of a range, from those of the widest; None where it is to be read by itself. Whoever releases `cached` releases them."""
        from pyspark.sql.connect import functions as f

        whole = self._widest
        if whole is None or not is_end_of(part, whole):
            return None
        if self._frame is None:
            self._frame = rows_of(self._work.session, self._work.lake, whole, columns=self._columns, hidden=self._hidden).persist()
            cached.append(self._frame)
        return self._frame if part is whole else self._frame.where(f.col(ROW_ID) >= part.first_row_id)


def is_end_of(part: Range, whole: Range) -> bool:
    """Whether the rows of a range are the last rows of another, as their scans have them."""
    own = part.scan.files
    if not own or not part.is_whole or not whole.is_whole or not all(file.is_whole for file in whole.scan.files):
        return False
    return part.stream == whole.stream and whole.scan.files[-len(own) :] == own
