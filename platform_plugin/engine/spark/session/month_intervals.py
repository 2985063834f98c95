"""Intervals of months as Spark sends them, which PyArrow has no class for, as Arrow's intervals of months, days and nanoseconds."""

from __future__ import annotations

import ctypes
from typing import Any

import pyarrow as pa

from platform_plugin.lake.values.months import from_months

_MONTHS = pa.lib.Type_INTERVAL_MONTHS
# What the C data interface of Arrow needs for one array.
_C_ARRAY = 80


def read_months(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch in which intervals of months, also inside of other values, can be read."""
    if not any(_holds(field.type) for field in batch.schema):
        return batch
    # The bytes are those of whole numbers, which is what the batch is taken for; then these become intervals that Python knows.
    room = (ctypes.c_byte * _C_ARRAY)()
    batch._export_to_c(ctypes.addressof(room))  # noqa: SLF001  documented for exactly this
    numbers = pa.RecordBatch._import_from_c(ctypes.addressof(room), _with(batch.schema, pa.int32()))  # noqa: SLF001
    columns = [_read(column, field.type) for column, field in zip(numbers.columns, batch.schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=with_months(batch.schema))


def with_months(schema: pa.Schema) -> pa.Schema:
    """The schema of such a batch."""
    return _with(schema, pa.month_day_nano_interval())


def _holds(kind: pa.DataType) -> bool:
    return kind.id == _MONTHS or any(_holds(kind.field(place).type) for place in range(kind.num_fields))


def _with(schema: pa.Schema, months: pa.DataType) -> pa.Schema:
    return pa.schema([_field(field, months) for field in schema], schema.metadata)


def _field(field: pa.Field, months: pa.DataType) -> pa.Field:
    return field.with_type(_kind(field.type, months)) if _holds(field.type) else field


def _kind(kind: pa.DataType, months: pa.DataType) -> pa.DataType:
    if kind.id == _MONTHS:
        return months
    if pa.types.is_struct(kind):
        return pa.struct([_field(part, months) for part in kind])
    if pa.types.is_map(kind):
        return pa.map_(_field(kind.key_field, months), _field(kind.item_field, months))
    return pa.list_(_field(kind.value_field, months))


def _read(array: Any, kind: pa.DataType) -> Any:
    """Numbers as the intervals of the type that was sent."""
    if not _holds(kind):
        return array
    if kind.id == _MONTHS:
        return from_months(array)
    shown, mask = _kind(kind, pa.month_day_nano_interval()), array.is_null() if array.null_count else None
    if array.offset:
        # The parts of a slice still hold the rows before it; a copy does not.
        array = pa.concat_arrays([array, array.slice(0, 0)])
    if pa.types.is_struct(kind):
        parts = [_read(array.field(place), part.type) for place, part in enumerate(kind)]
        return pa.StructArray.from_arrays(parts, fields=list(shown), mask=mask)
    if pa.types.is_map(kind):
        keys, items = _read(array.keys, kind.key_type), _read(array.items, kind.item_type)
        return pa.MapArray.from_arrays(array.offsets, keys, items, type=shown, mask=mask)
    return pa.ListArray.from_arrays(array.offsets, _read(array.values, kind.value_type), type=shown, mask=mask)
