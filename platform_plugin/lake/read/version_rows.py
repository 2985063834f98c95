"""`VersionRows`: rows of a table as they came or went, with their row ids, and what two sets of them differ by."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from platform_plugin.lake.read.before_images import take_places
from platform_plugin.lake.values.equality import equal_rows
from platform_plugin.lake.values.types import arrow_schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from platform_plugin.algebra.types.data_types import Field

    Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionRows:
    """Rows with their row ids, and for each the snapshot that added it as it is, or that ended it as it was."""

    rows: pa.Table
    row_ids: Integers
    snapshots: Integers

    def take(self, places: Integers) -> VersionRows:
        """Some of the rows."""
        return VersionRows(rows=take_places(self.rows, places), row_ids=self.row_ids[places], snapshots=self.snapshots[places])

    def without(self, places: Integers) -> VersionRows:
        """The other rows."""
        keep = np.ones(len(self.row_ids), dtype=np.bool_)
        keep[places] = False
        return self.take(np.flatnonzero(keep))

    def select(self, names: Sequence[str]) -> VersionRows:
        """The rows with some of their columns."""
        return self if self.rows.column_names == list(names) else replace(self, rows=self.rows.select(names))


def join_versions(parts: Sequence[VersionRows], fields: Sequence[Field]) -> VersionRows:
    """The rows of several parts with these columns, one part after the other."""
    # An `empty_table` can't be made where a UUID is inside of another value.
    empty = VersionRows(
        rows=pa.Table.from_batches([], schema=arrow_schema(fields)),
        row_ids=np.zeros(0, dtype=np.int64),
        snapshots=np.zeros(0, dtype=np.int64),
    )
    if len(parts) < 2:
        return parts[0] if parts else empty
    return VersionRows(
        rows=pa.concat_tables([part.rows for part in parts]),
        row_ids=np.concatenate([part.row_ids for part in parts]),
        snapshots=np.concatenate([part.snapshots for part in parts]),
    )


def find_pairs(went: VersionRows, came: VersionRows) -> tuple[Integers, Integers]:
    """The places of rows that went, and of those that came in their place; each row id is once in either."""
    _, first, second = np.intersect1d(went.row_ids, came.row_ids, assume_unique=True, return_indices=True)
    return first, second


def remove_equal(went: VersionRows, came: VersionRows) -> tuple[VersionRows, VersionRows]:
    """Rows that went and rows that came, without those that came back as they were.

    >>> old = VersionRows(rows=pa.table({"n": [1, 2]}), row_ids=np.array([7, 8]), snapshots=np.array([5, 5]))
    >>> new = VersionRows(rows=pa.table({"n": [1, 3]}), row_ids=np.array([7, 8]), snapshots=np.array([5, 5]))
    >>> [part.row_ids.tolist() for part in remove_equal(old, new)]
    [[8], [8]]
    """
    first, second = find_pairs(went, came)
    if not len(first):
        return went, came
    same = equal_rows(take_places(went.rows, first), take_places(came.rows, second))
    return (went.without(first[same]), came.without(second[same])) if same.any() else (went, came)


def drop_repeats(part: VersionRows) -> VersionRows:
    """Each row once: one that a commit left a before-image of may be found in its data file too."""
    _, places = np.unique(part.row_ids, return_index=True)
    return part if len(places) == len(part.row_ids) else part.take(np.sort(places))
