"""`assign_column`: a whole Arrow column by the assignment rule, with Arrow's casts where these agree with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as t

from platform_plugin.algebra.types.data_types import Decimal, Field, List, Map, Primitive, Struct
from platform_plugin.errors import InvalidValue
from platform_plugin.lake.values.assignment import arrow_array, assign_value
from platform_plugin.lake.values.types import to_arrow

if TYPE_CHECKING:
    from collections.abc import Sequence

_WIDEST = 76  # digits of Arrow's widest decimal
_JSON = Primitive("json")


def assign_column(column: pa.ChunkedArray, field: Field) -> pa.ChunkedArray:
    """A column's values converted to a field's type; a column that the field does not accept is an error that names it."""
    target = to_arrow(field.type, column=field.name)
    if column.type.equals(target) and not _holds_json(field):
        return column
    return pa.chunked_array([_assigned(chunk, field) for chunk in column.chunks], target)


def _holds_json(field: Field) -> bool:
    return any(part.type == _JSON for part in field.walk())


def _assigned(array: pa.Array, field: Field) -> pa.Array:
    target, kind = to_arrow(field.type, column=field.name), array.type
    if kind.equals(target) and not _holds_json(field):
        return array
    if t.is_null(kind):
        return pa.nulls(len(array), target)
    if t.is_dictionary(kind):
        return _assigned(array.dictionary_decode(), field)
    try:
        if field.children:
            return _nested(array, field, target)
        if field.type != _JSON and (cast := _cast(array, field, target)) is not None:
            return cast
        return arrow_array([assign_value(value, field) for value in array.to_pylist()], field)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, ValueError) as error:
        raise InvalidValue(
            f'column "{field.name}" can\'t take these values', detail=str(error).splitlines()[0], hint=f"it is {target}, they are {kind}"
        ) from error


def _nested(array: pa.Array, field: Field, target: pa.DataType) -> pa.Array:
    kind = array.type
    if t.is_large_list(kind) or t.is_fixed_size_list(kind) or t.is_list_view(kind) or t.is_large_list_view(kind):
        array = array.cast(pa.list_(kind.value_field))
        kind = array.type
    if array.offset:
        # The parts of a slice still hold the rows before it; a copy does not.
        array = pa.concat_arrays([array, array.slice(0, 0)])
    mask = array.is_null() if array.null_count else None
    match field.type:
        case List(element=element) if t.is_list(kind):
            return pa.ListArray.from_arrays(array.offsets, _assigned(array.values, element), type=target, mask=mask)
        case Map(key=key, value=value) if t.is_map(kind):
            keys, items = _assigned(array.keys, key), _assigned(array.items, value)
            return pa.MapArray.from_arrays(array.offsets, keys, items, type=target, mask=mask)
        case Struct(fields=parts) if t.is_struct(kind):
            return pa.StructArray.from_arrays(_parts(array, parts, field), fields=list(target), mask=mask)
    # Pairs and dicts stand for maps and structs too.
    return arrow_array([assign_value(value, field) for value in array.to_pylist()], field)


def _parts(array: pa.StructArray, parts: Sequence[Field], field: Field) -> list[pa.Array]:
    """Parts by name, without case; those left out are NULL, but one that is not known is no part of the column."""
    given = {part.name.lower(): place for place, part in enumerate(array.type)}
    unknown = given.keys() - {part.name.lower() for part in parts}
    if unknown or len(given) < array.type.num_fields:
        raise InvalidValue(
            f'column "{field.name}" can\'t take these values', detail=f"they are {array.type}", hint=f"it takes {field.type}"
        )
    found, children = [], array.flatten()  # which are NULL where the struct is
    for part in parts:
        place = given.get(part.name.lower())
        found.append(pa.nulls(len(array), to_arrow(part.type)) if place is None else _assigned(children[place], part))
    return found


def _cast(array: pa.Array, field: Field, target: pa.DataType) -> pa.Array | None:
    """The column by Arrow's own casts, where they follow the rule; None where they do not."""
    kind = array.type
    if t.is_integer(target) and (t.is_integer(kind) or t.is_floating(kind) or t.is_decimal(kind)):
        return array.cast(target)
    if t.is_floating(target) and (t.is_integer(kind) or t.is_floating(kind)):
        return _floats(array, target)
    if isinstance(field.type, Decimal) and (t.is_integer(kind) or t.is_decimal(kind)):
        return _decimals(array, target)
    if t.is_string(target) and (_is_text(kind) or t.is_integer(kind) or t.is_boolean(kind)):
        return array.cast(target)
    if t.is_binary(target) and (t.is_large_binary(kind) or t.is_binary_view(kind) or t.is_fixed_size_binary(kind)):
        return array.cast(target)
    if (isinstance(target, pa.UuidType) and t.is_fixed_size_binary(kind)) or (t.is_time(target) and t.is_time(kind)):
        return array.cast(target)
    if t.is_timestamp(kind) and (t.is_timestamp(target) or t.is_date(target) or t.is_string(target)):
        return _of_moments(array, field, target)
    if t.is_date(kind) and (t.is_timestamp(target) or t.is_date(target)):
        plain = pa.timestamp(target.unit) if t.is_timestamp(target) else target
        return array.cast(plain).cast(target)
    return None


def _is_text(kind: pa.DataType) -> bool:
    return bool(t.is_string(kind) or t.is_large_string(kind) or t.is_string_view(kind))


def _floats(array: pa.Array, target: pa.DataType) -> pa.Array:
    found = array.cast(target, safe=False)  # safe ones refuse whole numbers that have no exact counterpart
    if t.is_floating(array.type) and pc.any(pc.and_(pc.is_inf(found), pc.is_finite(array))).as_py():
        raise ValueError("a value is out of range")
    return found


def _decimals(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Rounded half up to the digits that the column keeps."""
    scale = array.type.scale if t.is_decimal(array.type) else 0
    wide = array.cast(pa.decimal256(_WIDEST, scale))
    if scale > target.scale:
        wide = pc.round(wide, ndigits=target.scale, round_mode="half_towards_infinity")
    return wide.cast(pa.decimal256(_WIDEST, target.scale)).cast(target)


def _of_moments(array: pa.Array, field: Field, target: pa.DataType) -> pa.Array:
    if t.is_timestamp(target):
        return array.cast(target)
    plain = array.cast(pa.timestamp("us"))  # in UTC, as everywhere
    if t.is_string(target):
        return arrow_array([assign_value(value, field) for value in plain.to_pylist()], field)
    days = plain.cast(target)
    if pc.any(pc.not_equal(days.cast(plain.type), plain)).as_py():
        raise ValueError("a value has a time of day")
    return days
