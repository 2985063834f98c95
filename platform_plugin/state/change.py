"""`Change`: what became of the rows of one relation between two snapshots, as a signed bag of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from platform_plugin.algebra.predicates.conditions import ALWAYS
from platform_plugin.lake.catalogue.relations import read_declaration
from platform_plugin.lake.read.net_changes import NetChanges, read_net_changes
from platform_plugin.lake.ring.appended import read_appended
from platform_plugin.lake.values.equality import equal_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from sqlalchemy.engine import Connection

    from platform_plugin.algebra.predicates.conditions import Condition
    from platform_plugin.lake.catalogue.tables import Snapshot, Table
    from platform_plugin.lake.lake import Lake
    from platform_plugin.lake.read.scan import FileScan
    from platform_plugin.lake.read.version_rows import VersionRows

ROW_ID, SNAPSHOT, WEIGHT = "_row_id", "_snapshot", "_weight"
CHANGE_COLUMNS = (ROW_ID, SNAPSHOT, WEIGHT)
"""The columns that rows of a change have before those of their relation."""
_HEAD = (pa.field(ROW_ID, pa.int64()), pa.field(SNAPSHOT, pa.int64()), pa.field(WEIGHT, pa.int64()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The net change of a table after one snapshot, up to and including another, as places in the lake that are read when they are needed.

    Added to the bag of rows at `after` it gives the bag at `until`: weight 1 is a row that came, weight -1 one that went.
    """

    places: NetChanges

    @property
    def relation(self) -> Table:
        """The table, with the columns that it has at `until`."""
        return self.places.table

    @property
    def after(self) -> Snapshot:
        """The snapshot that the change begins behind."""
        return self.places.after

    @property
    def until(self) -> Snapshot:
        """The snapshot that the change leads to."""
        return self.places.until

    @property
    def is_empty(self) -> bool:
        """Whether there can be no changed row."""
        return self.places.is_empty

    @property
    def is_append_only(self) -> bool:
        """Whether rows only came, as far as the catalogue tells."""
        return self.places.is_append_only

    @property
    def files(self) -> tuple[FileScan, ...] | None:
        """The files whose every row came; None where the change is more than these files."""
        return self.places.whole_files

    @property
    def row_count(self) -> int:
        """At most so many rows, as far as the catalogue tells."""
        return self.places.row_count

    @property
    def size_bytes(self) -> int:
        """Bytes of the files that are read for it."""
        return self.places.size_bytes

    def rows(self, lake: Lake, *, columns: Sequence[str] | None = None) -> pa.Table:
        """The changed rows, those that went first: `_row_id`, `_snapshot`, `_weight`, and all columns or some.

        `_snapshot` is the one that added the row as it is, or that ended it as it was.
        """
        went, came = self.places.read(lake, columns=columns)
        return pa.concat_tables([_signed(went, -1), _signed(came, 1)])


def read_change(connection: Connection, table: Table, *, after: Snapshot, until: Snapshot, where: Condition = ALWAYS) -> Change:
    """Plan the net change of a table; a stream's are the rows that came. Of rows that can't be within `where` nothing is read."""
    if read_declaration(connection, table.uuid).kind == "stream":
        return Change(places=read_appended(connection, table, after=after, until=until, where=where))
    return Change(places=read_net_changes(connection, table, after=after, until=until, where=where))


def _signed(part: VersionRows, weight: int) -> pa.Table:
    count = len(part.row_ids)
    head = [pa.array(part.row_ids, pa.int64()), pa.array(part.snapshots, pa.int64()), pa.array(np.full(count, weight), pa.int64())]
    return pa.Table.from_arrays([*head, *part.rows.columns], schema=pa.schema([*_HEAD, *part.rows.schema]))


def net_rows(steps: pa.Table) -> pa.Table:
    """Steps of changes, one after the other or in any order, as their net: for each row id the first row that went and the last that came.

    Within a snapshot a row goes before it comes. Where both are there and equal, neither is left.

    >>> head = {"_row_id": [7, 7, 8, 8], "_snapshot": [3, 3, 3, 4], "_weight": [-1, 1, 1, -1]}
    >>> net_rows(pa.table({**head, "n": [10, 11, 20, 20]})).select(["_row_id", "_weight", "n"]).to_pylist()
    [{'_row_id': 7, '_weight': -1, 'n': 10}, {'_row_id': 7, '_weight': 1, 'n': 11}]
    """
    weights = _numbers(steps, 2)
    leaving = np.flatnonzero(weights < 0)
    if not len(leaving):
        return steps
    row_ids = _numbers(steps, 0)
    # Rows that only came are not touched: mostly these are nearly all.
    gone = pc.unique(pa.array(row_ids[leaving]))
    among = np.asarray(pc.is_in(pa.array(row_ids), value_set=gone))
    touched, simple = np.flatnonzero(among), np.flatnonzero(~among)
    order = touched[np.lexsort((weights[touched], _numbers(steps, 1)[touched], row_ids[touched]))]
    ordered = row_ids[order]
    begins = np.append(True, ordered[1:] != ordered[:-1])
    ends = np.append(begins[1:], True)
    went = order[begins & (weights[order] < 0)]
    came = order[ends & (weights[order] > 0)]
    _, first, second = np.intersect1d(row_ids[went], row_ids[came], assume_unique=True, return_indices=True)
    if len(first):
        values = steps.select(list(range(len(CHANGE_COLUMNS), steps.num_columns)))
        same = equal_rows(values.take(pa.array(went[first])), values.take(pa.array(came[second])))
        went, came = np.delete(went, first[same]), np.delete(came, second[same])
    return steps.take(pa.array(np.concatenate([went, np.sort(np.concatenate([came, simple]))])))


def _numbers(rows: pa.Table, place: int) -> NDArray[np.int64]:
    # By place: the relation may have columns of these names too.
    found: Any = rows.column(place).to_numpy()
    return np.asarray(found, dtype=np.int64)
