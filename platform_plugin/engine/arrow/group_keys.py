"""`group_key` and `encode_rows`: values as Arrow may group by them, and rows as numbers that are equal where their values are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from platform_plugin.engine.arrow.values import NotSupportedByArrow, normalize_doubles

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_GROUPED = (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.string(), pa.bool_(), pa.date32())


def is_grouped(kind: pa.DataType) -> bool:
    """Whether values of a type are equal to Arrow exactly when they are equal to Spark."""
    return kind in _GROUPED or pa.types.is_decimal(kind) or pa.types.is_timestamp(kind) or pa.types.is_duration(kind)


def group_key(value: Any) -> Any:
    """Values as Arrow may group by them: equal to it exactly when they are equal to Spark."""
    if value.type == pa.float64():
        return normalize_doubles(value)
    if not is_grouped(value.type):
        raise NotSupportedByArrow(f"GROUP BY of values of type {value.type}")
    return value


def encode_rows(keys: Sequence[Any], count: int) -> NDArray[np.int64]:
    """A number for each row, equal for rows whose keys are equal; NULL is equal to NULL."""
    codes = np.zeros(count, dtype=np.int64)
    for key in keys:
        encoded = encode_values(key)[0].to_numpy(zero_copy_only=False).astype(np.int64)
        codes = np.unique(codes * (count + 1) + encoded, return_inverse=True)[1].astype(np.int64)
    return codes


def encode_values(values: Any) -> tuple[Any, Any]:
    """For each value its number among the different ones, of which NULL is one, and these."""
    whole = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    encoded = pc.dictionary_encode(whole, null_encoding="encode")
    return encoded.indices, encoded.dictionary
