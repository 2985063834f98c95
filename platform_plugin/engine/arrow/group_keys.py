"""`group_key` and `encode_rows`: values as Arrow may group by them, and rows as numbers that are equal where their values are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from platform_plugin.engine.arrow.values import NotSupportedByArrow, normalize_doubles, sortable_values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Integers = NDArray[np.int64]

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


def row_key(value: Any) -> Any:
    """Values by which rows are numbered: those that Arrow may group by, and structs of them."""
    if not pa.types.is_struct(value.type):
        return group_key(value)
    if _has_doubles(value.type):  # the first of -0.0 and 0.0 would stand for both
        raise NotSupportedByArrow(f"GROUP BY of values of type {value.type}")
    return value


def _has_doubles(kind: pa.DataType) -> bool:
    return any(_has_doubles(part.type) for part in kind) if pa.types.is_struct(kind) else pa.types.is_floating(kind)


def encode_rows(keys: Sequence[Any], count: int) -> Integers:
    """A number for each row, equal for rows whose keys are equal; NULL is equal to NULL."""
    codes = np.zeros(count, dtype=np.int64)
    for key in keys:
        encoded = encode_values(key)[0].to_numpy(zero_copy_only=False).astype(np.int64)
        codes = np.unique(codes * (count + 1) + encoded, return_inverse=True)[1].astype(np.int64)
    return codes


def encode_values(values: Any) -> tuple[Any, Any]:
    """For each value its number among the different ones, of which NULL is one, and these."""
    whole = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if pa.types.is_struct(whole.type):
        return _number(
            whole,
            encode_rows(
                [pc.is_null(whole), *(part if pa.types.is_struct(part.type) else group_key(part) for part in _parts(whole))], len(whole)
            ),
        )
    encoded = pc.dictionary_encode(whole, null_encoding="encode")
    return encoded.indices, encoded.dictionary


def rank_structs(values: Any) -> tuple[Any, Any]:
    """For each struct its place among the different ones in Spark's order, by the first part that differs, NULL first, and these.

    >>> structs = pa.array([{"a": 1, "b": 2}, None, {"a": 1, "b": None}, {"a": 0, "b": 9}])
    >>> rank_structs(structs)[0].to_pylist()
    [3, 0, 2, 1]
    """
    whole = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    codes = pc.is_valid(whole).to_numpy(zero_copy_only=False).astype(np.int64)
    for part in _parts(whole):
        if pa.types.is_struct(part.type):
            places = rank_structs(part)[0]
        else:
            sortable = sortable_values(part)
            sortable = normalize_doubles(sortable) if sortable.type == pa.float64() else sortable
            ranks = pc.rank(sortable, sort_keys="ascending", tiebreaker="dense")
            places = pc.if_else(pc.is_null(sortable), pa.scalar(0, ranks.type), ranks)
        codes = np.unique(codes * (len(whole) + 2) + places.to_numpy(zero_copy_only=False).astype(np.int64), return_inverse=True)[1]
    return _number(whole, codes.astype(np.int64))


def _parts(whole: pa.StructArray) -> list[Any]:
    """The parts of structs, NULL where the struct is."""
    return [pc.struct_field(whole, [place]) for place in range(whole.type.num_fields)]


def _number(whole: Any, codes: Integers) -> tuple[pa.Array, Any]:
    """The numbers of values by codes that are equal where they are, and the first value of each number."""
    _, first, numbers = np.unique(codes, return_index=True, return_inverse=True)
    return pa.array(numbers.astype(np.int64)), whole.take(pa.array(first.astype(np.int64)))
