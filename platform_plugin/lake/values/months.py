"""Months as numbers, and as Arrow's intervals of months, days and nanoseconds, the only ones that PyArrow has a class for."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from platform_plugin.errors import InvalidValue

_PARTS = np.dtype([("months", np.int32), ("days", np.int32), ("nanoseconds", np.int64)])
"""How Arrow lays out these intervals."""


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
