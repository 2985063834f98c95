"""Intervals in files, which hold whole numbers: microseconds as 64 bits, months as 32."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from platform_plugin.algebra.types.data_types import IntervalType, List, Map, Struct, holds_interval, stored_field
from platform_plugin.errors import InvalidValue
from platform_plugin.lake.values.types import arrow_schema, to_arrow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from platform_plugin.algebra.types.data_types import Field

_PARTS = np.dtype([("months", np.int32), ("days", np.int32), ("nanoseconds", np.int64)])
"""How Arrow lays out the intervals by which it tells months."""


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


def months_of(array: pa.Array) -> pa.Array:
    """The numbers of months in Arrow's intervals of months, days and nanoseconds; one with days in it is an error.

    >>> months_of(pa.array([(14, 0, 0), None], pa.month_day_nano_interval())).to_pylist()
    [14, None]
    """
    if len(array) == 0:
        return pa.array([], pa.int32())
    parts = np.frombuffer(array.buffers()[1], _PARTS)[array.offset : array.offset + len(array)]
    unknown = array.is_null().to_numpy(zero_copy_only=False)
    if bool(((parts["days"] != 0) | (parts["nanoseconds"] != 0))[~unknown].any()):
        raise InvalidValue("an interval of months has days in it", hint="cast it to INTERVAL DAY TO SECOND or INTERVAL YEAR TO MONTH")
    return pa.array(np.ascontiguousarray(parts["months"]), pa.int32(), mask=unknown)


def from_months(array: pa.Array) -> pa.Array:
    """Arrow's intervals for numbers of months.

    >>> from_months(pa.array([14, None], pa.int32())).to_pylist()
    [MonthDayNano(months=14, days=0, nanoseconds=0), None]
    """
    known = array.is_valid().to_numpy(zero_copy_only=False)
    parts = np.zeros(len(array), _PARTS)
    parts["months"] = array.cast(pa.int32()).fill_null(0).to_numpy(zero_copy_only=False)
    validity = pa.py_buffer(np.packbits(known, bitorder="little").tobytes()) if not known.all() else None
    return pa.Array.from_buffers(pa.month_day_nano_interval(), len(array), [validity, pa.py_buffer(parts.tobytes())])
