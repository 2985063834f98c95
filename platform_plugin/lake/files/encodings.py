"""`plan_encodings`: the Parquet encoding of number columns, chosen by their rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Mapping

# A look at so many values tells whether a dictionary of them would pay: not if more than this share of them are different, or fewer of
# those that follow each other in order.
_LOOKED_AT = 4_096
_MANY_DIFFERENT = 0.3
_SOME_DIFFERENT = 0.02
# Decimals of more digits are no whole numbers in a file.
_MOST_DIGITS = 18


def plan_encodings(schema: pa.Schema, rows: pa.Table | None) -> Mapping[str, Any]:
    """Options for the Parquet writer: delta encoding for whole numbers with many different values, dictionaries for the rest.

    Differences are written, and read, in half the time of a dictionary that overflows, and are smaller.
    """
    if rows is None or any(pa.types.is_nested(field.type) for field in schema):
        return {}  # columns inside of others have names of their own, and a list of columns must name them all
    spread = [field.name for field in schema if _is_whole(field.type) and _is_spread(rows, field.name)]
    if not spread:
        return {}
    return {
        "use_dictionary": [field.name for field in schema if field.name not in spread] or False,
        "column_encoding": dict.fromkeys(spread, "DELTA_BINARY_PACKED"),
    }


def _is_whole(kind: pa.DataType) -> bool:
    """Whether values of a type are whole numbers in a file."""
    return kind in (pa.int32(), pa.int64()) or (pa.types.is_decimal128(kind) and kind.precision <= _MOST_DIGITS)


def _is_spread(rows: pa.Table, name: str) -> bool:
    if name not in rows.column_names or rows.num_rows < _LOOKED_AT:
        return False
    column = rows.column(name)
    half = _LOOKED_AT // 2
    parts = [column.slice(start, half) for start in (0, rows.num_rows // 2)]
    looked_at = pa.chunked_array([chunk for part in parts for chunk in part.chunks], type=column.type)
    different: int = pc.count_distinct(looked_at).as_py()
    if different > _MANY_DIFFERENT * len(looked_at):
        return True
    return different > _SOME_DIFFERENT * len(looked_at) and all(_is_ascending(part) for part in parts)


def _is_ascending(values: pa.ChunkedArray) -> bool:
    """Whether no value is below the one before, as those of orders and their lines are."""
    return pc.all(pc.greater_equal(values.slice(1), values.slice(0, len(values) - 1))).as_py() is not False
