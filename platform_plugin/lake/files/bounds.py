"""`plan_bounded_columns`: the columns of a new Parquet file that may have bounds.

A file's bounds leave NaN out, but DuckDB takes them as bounds of all values: it would skip a row group with the NaN that a query asks for.
So a column with NaN gets no bounds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Iterator


def plan_bounded_columns(schema: pa.Schema, rows: pa.Table | None) -> list[str]:
    """The paths of leaf columns whose bounds are reliable; where the rows are not given, any fraction may be NaN.

    >>> plan_bounded_columns(pa.schema([("i", pa.int8()), ("f", pa.list_(pa.float32()))]), None)
    ['i']
    """
    found = []
    for index, field in enumerate(schema):
        column = None if rows is None else rows.column(index)
        for path, kind, values in _leaves(field.name, field.type, column):
            if not pa.types.is_floating(kind) or (values is not None and not pc.any(pc.is_nan(values)).as_py()):
                found.append(path)
    return found


def _leaves(path: str, kind: pa.DataType, values: pa.ChunkedArray | None) -> Iterator[tuple[str, pa.DataType, pa.ChunkedArray | None]]:
    if pa.types.is_struct(kind):
        for index, part in enumerate(kind):
            yield from _leaves(f"{path}.{part.name}", part.type, None if values is None else pc.struct_field(values, [index]))
    elif pa.types.is_map(kind):
        # Entries as a list of structs, which is what a map is.
        pairs = None if values is None else pc.list_flatten(values.cast(pa.list_(pa.struct([kind.key_field, kind.item_field]))))
        for index, (name, part) in enumerate((("key", kind.key_type), ("value", kind.item_type))):
            yield from _leaves(f"{path}.key_value.{name}", part, None if pairs is None else pc.struct_field(pairs, [index]))
    elif pa.types.is_list(kind):
        yield from _leaves(f"{path}.list.element", kind.value_type, None if values is None else pc.list_flatten(values))
    else:
        yield path, kind, values
