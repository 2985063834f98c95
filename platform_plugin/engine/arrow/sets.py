"""`combine_sets`: UNION, INTERSECT and EXCEPT over Arrow, with and without ALL."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from platform_plugin.engine.arrow.group_keys import group_key

if TYPE_CHECKING:
    from platform_plugin.algebra.plan.nodes import SetKind


def combine_sets(left: pa.Table, right: pa.Table, kind: SetKind, *, all_of: bool) -> pa.Table:
    """The rows of two tables with equal types, by position; the left one gives the names.

    >>> one, other = pa.table({"a": [1, 1, 2]}), pa.table({"b": [1, 3]})
    >>> combine_sets(one, other, "except", all_of=True).column("a").to_pylist()
    [1, 2]
    """
    if kind == "union" and all_of:
        return pa.concat_tables([left, right.rename_columns(left.column_names)])
    names = [str(place) for place in range(left.num_columns)]
    sides = []
    for rows, mine in ((left, 1), (right, 0)):
        columns = [group_key(column) for column in rows.columns]
        counts = [pa.repeat(pa.scalar(number, pa.int64()), rows.num_rows) for number in (mine, 1 - mine)]
        sides.append(pa.table([*columns, *counts], names=[*names, "left", "right"]))
    found = pa.concat_tables(sides).group_by(names).aggregate([("left", "sum"), ("right", "sum")])
    ours, theirs = (found.column(f"{side}_sum").to_numpy() for side in ("left", "right"))
    if kind == "union":
        number = np.ones(found.num_rows, dtype=np.int64)
    elif kind == "intersect":
        number = np.minimum(ours, theirs)
    else:
        number = np.maximum(ours - theirs, 0) if all_of else np.where(theirs == 0, ours, 0)
    number = number if all_of else np.minimum(number, 1)
    places = pa.array(np.repeat(np.arange(found.num_rows), number))
    return pa.table([pc.take(found.column(name), places) for name in names], names=left.column_names)
