"""`generate`: the rows that explode and posexplode make of lists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from platform_plugin.engine.arrow.values import NotSupportedByArrow, describe_unsupported, evaluate_node, repeat_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from platform_plugin.engine.arrow.values import ArrowRows


def generate(call: exp.Expr, rows: ArrowRows, names: Sequence[str], *, outer: bool) -> tuple[Any, ...]:
    """The row that each generated row comes from, then the generated columns, as many as they have names."""
    name = str(call.this).lower() if isinstance(call, exp.Anonymous) else ""
    kind, is_outer = name.removesuffix("_outer"), outer or name.endswith("_outer")
    wanted = {"explode": 1, "posexplode": 2}.get(kind)
    if wanted is None or len(call.args["expressions"]) != 1 or len(names) != wanted:
        raise NotSupportedByArrow(f"{describe_unsupported(call)} in FROM")
    lists = repeat_value(evaluate_node(call.args["expressions"][0], rows), rows.count)
    parents, items, numbers = split_lists(lists, outer=is_outer)
    return (parents, items) if kind == "explode" else (parents, numbers, items)


def split_lists(lists: Any, *, outer: bool) -> tuple[Any, Any, Any]:
    """The row that each element of a list comes from, the elements, and the place of each in its list.

    With `outer` an empty list has one element, which is NULL.

    >>> [column.to_pylist() for column in split_lists(pa.array([[5, 6], [], None, [7]]), outer=True)]
    [[0, 0, 3, 1, 2], [5, 6, 7, None, None], [0, 1, 0, None, None]]
    """
    whole = lists.combine_chunks() if isinstance(lists, pa.ChunkedArray) else lists
    if not (pa.types.is_list(whole.type) or pa.types.is_large_list(whole.type)):
        raise NotSupportedByArrow(f"the elements of values of type {whole.type}")
    parents = pc.list_parent_indices(whole).to_numpy(zero_copy_only=False).astype(np.int64)
    sizes = pc.fill_null(pc.list_value_length(whole), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    places = np.arange(len(parents)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    items, numbers = pc.list_flatten(whole), pa.array(places.astype(np.int32))
    if outer and (sizes == 0).any():
        none = np.flatnonzero(sizes == 0)
        parents = np.concatenate([parents, none])
        items = pa.concat_arrays([items, pa.nulls(len(none), items.type)])
        numbers = pa.concat_arrays([numbers, pa.nulls(len(none), pa.int32())])
    return pa.array(parents), items, numbers
