"""Moved rows: a merge deletes and adds the same rows in the catalogue, and the change feed leaves both out."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np
import sqlalchemy as sa

from platform_plugin.lake.catalogue import catalogue as c
from platform_plugin.lake.commit.data_operations import is_row_change

if TYPE_CHECKING:
    import pyarrow as pa
    from sqlalchemy.engine import Connection

_MOVING = "rewrite_delete"


def read_moves(connection: Connection, table_id: int, *, after: int, until: int) -> frozenset[int]:
    """The snapshots of a range that moved a table's rows to other files and changed none of them."""
    s = c.SNAPSHOT_CHANGES.c
    query = sa.select(s.snapshot_id, s.changes_made).where(s.snapshot_id > after, s.snapshot_id <= until, s.changes_made.contains(_MOVING))
    found = set()
    for row in connection.execute(query):
        words = row.changes_made.split(",")
        if f"{_MOVING}:{table_id}" in words and not any(is_row_change(word, table_id) for word in words):
            found.add(row.snapshot_id)
    return frozenset(found)


def read_expired_snapshots(connection: Connection, *, after: int, until: int) -> frozenset[int]:
    """The snapshots of a range that have expired; their lists of changes are gone too."""
    s = c.SNAPSHOT.c.snapshot_id
    inside = sa.and_(s > after, s <= until)
    if connection.execute(sa.select(sa.func.count()).where(inside)).scalar_one() == until - after:
        return frozenset()
    kept = np.fromiter(connection.execute(sa.select(s).where(inside)).scalars(), dtype=np.int64)
    return frozenset(np.setdiff1d(np.arange(after + 1, until + 1), kept).tolist())


def remove_moves(rows: pa.Table, *, moves: frozenset[int], forgotten: frozenset[int]) -> pa.Table:
    """A change feed without the rows that a snapshot only moved.

    In an expired snapshot, whose list of changes is gone, a row that was deleted and added with the same values counts as moved.
    """
    if (not moves and not forgotten) or not rows.num_rows:
        return rows
    snapshots, row_ids = rows.column("snapshot_id").to_numpy(), rows.column("rowid").to_numpy()
    places = np.flatnonzero(np.isin(snapshots, np.array(sorted(moves | forgotten), dtype=np.int64)))
    kinds = rows.column("change_type").take(places).to_pylist()
    of_row: defaultdict[tuple[int, int], dict[str, int]] = defaultdict(dict)
    for place, kind in zip(places.tolist(), kinds, strict=True):
        of_row[int(snapshots[place]), int(row_ids[place])][kind] = place
    pairs = [(snapshot_id, list(found.values())) for (snapshot_id, _), found in of_row.items() if len(found) > 1]
    sure = [place for snapshot_id, pair in pairs if snapshot_id in moves for place in pair]
    doubtful = [pair for snapshot_id, pair in pairs if snapshot_id not in moves]
    if doubtful:
        values = rows.drop_columns(["snapshot_id", "rowid", "change_type"]).take([place for pair in doubtful for place in pair])
        # As text, in which NaN equals itself.
        shown = [repr(row) for row in values.to_pylist()]
        sure += [place for index, pair in enumerate(doubtful) if shown[2 * index] == shown[2 * index + 1] for place in pair]
    if not sure:
        return rows
    keep = np.ones(rows.num_rows, dtype=bool)
    keep[sure] = False
    return rows.take(np.flatnonzero(keep))
