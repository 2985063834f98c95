"""Intervals in files, which hold whole numbers: microseconds as 64 bits, months as 32."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from platform_plugin.algebra.types.data_types import IntervalType, List, Map, Struct, holds_interval, stored_field
from platform_plugin.lake.values.months import from_months, months_of
from platform_plugin.lake.values.types import arrow_schema, to_arrow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from platform_plugin.algebra.types.data_types import Field


def store_intervals(rows: pa.Table, fields: Sequence[Field]) -> pa.Table:
    """The rows of columns as files hold them."""
    if not any(map(holds_interval, fields)):
        return rows
    columns = []
    for field in fields:
        chunks = [_stored(chunk, field) for chunk in rows.column(field.name).chunks]
        columns.append(pa.chunked_array(chunks, to_arrow(stored_field(field).type)))
    return pa.Table.from_arrays(columns, schema=arrow_schema(map(stored_field, fields)))


def _stored(array: pa.Array, field: Field) -> pa.Array:
    if not holds_interval(field):
        return array
    if isinstance(field.type, IntervalType):
        return months_of(array) if field.type.is_months else array.cast(pa.duration("us")).cast(pa.int64())
    if array.offset:
        # The parts of a slice still hold the rows before it; a copy does not.
        array = pa.concat_arrays([array, array.slice(0, 0)])
    kind, mask = to_arrow(stored_field(field).type), array.is_null() if array.null_count else None
    match field.type:
        case List(element=element):
            return pa.ListArray.from_arrays(array.offsets, _stored(array.values, element), type=kind, mask=mask)
        case Map(key=key, value=value):
            return pa.MapArray.from_arrays(array.offsets, _stored(array.keys, key), _stored(array.items, value), type=kind, mask=mask)
        case Struct(fields=parts):
            columns = [_stored(array.field(place), part) for place, part in enumerate(parts)]
            return pa.StructArray.from_arrays(columns, fields=list(kind), mask=mask)
    raise AssertionError(field)


def read_interval(array: pa.Array, kind: IntervalType) -> pa.Array:
    """Intervals from the numbers of a file."""
    return from_months(array) if kind.is_months else array.cast(pa.int64()).cast(pa.duration("us"))
