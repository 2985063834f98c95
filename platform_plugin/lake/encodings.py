"""Encodings: how the numbers of a file are written, where that can be told from the rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Mapping

# A look at so many values tells whether a dictionary of them would pay: not if more than this share of them are different.
_LOOKED_AT = 4_096
_MANY_DIFFERENT = 0.3


def plan_encodings(schema: pa.Schema, rows: pa.Table | None) -> Mapping[str, Any]:
    """What to ask of the writer: whole numbers of many different values as differences, everything else by dictionary as it is by default.

    Differences are written, and read, in half the time of a dictionary that fills up and is given up, and are smaller.
    """
    if rows is None or any(pa.types.is_nested(field.type) for field in schema):
        return {}  # columns inside of others have names of their own, and a list of columns must name them all
    spread = [field.name for field in schema if field.type in (pa.int32(), pa.int64()) and _is_spread(rows, field.name)]
    if not spread:
        return {}
    return {
        "use_dictionary": [field.name for field in schema if field.name not in spread] or False,
        "column_encoding": dict.fromkeys(spread, "DELTA_BINARY_PACKED"),
    }


def _is_spread(rows: pa.Table, name: str) -> bool:
    if name not in rows.column_names or rows.num_rows < _LOOKED_AT:
        return False
    column = rows.column(name)
    half = _LOOKED_AT // 2
    looked_at = pa.chunked_array([*column.slice(0, half).chunks, *column.slice(rows.num_rows // 2, half).chunks], type=column.type)
    different: int = pc.count_distinct(looked_at).as_py()
    return different > _MANY_DIFFERENT * len(looked_at)
