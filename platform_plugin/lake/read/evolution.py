"""`adapt_rows`: rows of old files with the columns that a table has now, matched by column id."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from platform_plugin.algebra.types.data_types import Field, IntervalType, List, Map, Struct
from platform_plugin.errors import StorageError
from platform_plugin.lake.values.defaults import constant_column
from platform_plugin.lake.values.intervals import read_interval
from platform_plugin.lake.values.types import FIELD_ID, arrow_schema, to_arrow

if TYPE_CHECKING:
    from collections.abc import Sequence


def adapt_rows(rows: pa.Table, fields: Sequence[Field]) -> pa.Table:
    """The rows with the columns of `fields`; the columns of the rows carry field ids.

    A column that the rows lack reads as its initial default, or NULL; one that the table has dropped is left out.
    """
    own = rows.schema
    by_id = {_id(field): index for index, field in enumerate(own)}
    columns = []
    for field in fields:
        index = by_id.get(field.id)
        if index is None:
            columns.append(constant_column(field.initial_default, field, rows.num_rows))
        else:
            chunks = [_adapted(chunk, own.field(index), field) for chunk in rows.column(index).chunks]
            columns.append(pa.chunked_array(chunks, to_arrow(field.type, column=field.name)))
    return pa.Table.from_arrays(columns, schema=arrow_schema(fields)) if columns else pa.table({})


def make_nullable(field: Field) -> Field:
    """The column, and all parts in it, with NULL allowed."""
    return replace(field, nullable=True).with_children(tuple(make_nullable(part) for part in field.children))


def _id(field: pa.Field) -> int | None:
    text = (field.metadata or {}).get(FIELD_ID)
    return int(text) if text is not None else None


def _adapted(array: pa.Array, have: pa.Field, field: Field) -> pa.Array:
    if not field.children:
        return _cast(array, field)
    if array.offset:
        # The parts of a slice still hold the rows before it; a copy does not.
        array = pa.concat_arrays([array, array.slice(0, 0)])
    match field.type:
        case Struct(fields=parts):
            return _adapted_struct(array, have, parts)
        case List(element=element):
            values = _adapted(array.values, have.type.value_field, element)
            return pa.ListArray.from_arrays(array.offsets, values, type=to_arrow(field.type), mask=_mask(array))
        case Map(key=key, value=value):
            keys = _adapted(array.keys, have.type.key_field, key)
            items = _adapted(array.items, have.type.item_field, value)
            return pa.MapArray.from_arrays(array.offsets, keys, items, type=to_arrow(field.type), mask=_mask(array))
    raise AssertionError(field)


def _adapted_struct(array: pa.StructArray, have: pa.Field, parts: Sequence[Field]) -> pa.Array:
    found = {_id(part): index for index, part in enumerate(have.type)}
    columns = []
    for part in parts:
        index = found.get(part.id)
        if index is None:
            columns.append(constant_column(part.initial_default, part, len(array)).combine_chunks())
        else:
            columns.append(_adapted(array.field(index), have.type.field(index), part))
    flat = [column.chunk(0) if isinstance(column, pa.ChunkedArray) else column for column in columns]
    return pa.StructArray.from_arrays(flat, fields=list(to_arrow(Struct(fields=tuple(parts)))), mask=_mask(array))


def _mask(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None


def _cast(array: pa.Array, field: Field) -> pa.Array:
    target = to_arrow(field.type, column=field.name)
    if array.type.equals(target):
        return array
    if isinstance(field.type, IntervalType):
        return read_interval(array, field.type)
    try:
        if isinstance(target, pa.UuidType):
            return _uuids(array, target)
        if isinstance(array.type, pa.BaseExtensionType):
            array = array.storage
        return array.cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise StorageError(
            f'column "{field.name}" can\'t be read as {field.type}',
            detail=str(error).splitlines()[0],
            hint="the file does not fit the table; restore it",
        ) from error


def _uuids(array: pa.Array, target: pa.DataType) -> pa.Array:
    """UUIDs that another writer stored as text or as bare bytes."""
    from uuid import UUID

    if pa.types.is_fixed_size_binary(array.type) or pa.types.is_binary(array.type):
        return pa.array([None if value is None else value for value in array.to_pylist()], pa.binary(16)).cast(target)
    return pa.array([None if value is None else UUID(value).bytes for value in array.to_pylist()], pa.binary(16)).cast(target)
