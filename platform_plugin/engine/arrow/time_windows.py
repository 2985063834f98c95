"""`find_windows`: the windows of equal length that rows are in by their time, as Spark's window makes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from sqlglot import exp

from platform_plugin.engine.arrow.sessions import Sessions
from platform_plugin.engine.arrow.times import is_time, read_length
from platform_plugin.engine.arrow.values import NotSupportedByArrow, evaluate_node, repeat_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from platform_plugin.algebra.plan.nodes import Item
    from platform_plugin.engine.arrow.values import ArrowRows

_WINDOW = "window"
_LARGEST = 1 << 62


def window_place(keys: Sequence[Item]) -> int | None:
    """The place of a call of window among the keys of a grouping, or None."""
    places = [place for place, key in enumerate(keys) if _is_window(key.value.node)]
    if len(places) > 1:
        raise NotSupportedByArrow("several windows of time in one grouping")
    return places[0] if places else None


def _is_window(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and str(node.this) == _WINDOW


def find_windows(call: exp.Expr, rows: ArrowRows) -> Sessions:
    """The windows of rows: a row is there once for each window that it is in, and not at all without a time."""
    time, *lengths = call.args["expressions"]
    duration, slide, offset = _read_lengths(lengths)
    times = repeat_value(evaluate_node(time, rows), rows.count)
    if not is_time(times.type):
        raise NotSupportedByArrow(f"windows by values of type {times.type}")
    times = times.combine_chunks() if isinstance(times, pa.ChunkedArray) else times
    places = np.flatnonzero(times.is_valid().to_numpy(zero_copy_only=False))
    moments = times.drop_null().cast(pa.int64()).to_numpy(zero_copy_only=False)
    if len(moments) and max(abs(int(moments.min())), abs(int(moments.max()))) + 2 * duration >= _LARGEST:
        raise NotSupportedByArrow("a window beyond what a timestamp holds", for_good=False)
    last = moments - (moments - offset) % slide
    number = -(-duration // slide)
    starts = (last[:, np.newaxis] - slide * np.arange(number, dtype=np.int64)).ravel()
    inside = starts + duration > np.repeat(moments, number)
    begins, numbers = np.unique(starts[inside], return_inverse=True)
    bounds = [pa.array(bound, pa.int64()).cast(times.type) for bound in (begins, begins + duration)]
    return Sessions(
        rows=rows.picked(pa.array(np.repeat(places, number)[inside])),
        numbers=pa.array(numbers.astype(np.int64)),
        bounds=pa.StructArray.from_arrays(bounds, names=["start", "end"]),
    )


def _read_lengths(lengths: Sequence[exp.Expr]) -> tuple[int, int, int]:
    """The length of a window, how far each is from the next, and where they begin, in microseconds."""
    texts = [str(node.this).strip("'") for node in lengths if isinstance(node, exp.Literal)]
    found = [length for length in map(read_length, texts) if length is not None]
    if not 1 <= len(found) == len(lengths) <= 3:
        raise NotSupportedByArrow("a window with lengths that only Spark reads")
    duration, slide, offset = found[0], found[1] if len(found) > 1 else found[0], found[2] if len(found) > 2 else 0
    if not 0 < slide <= duration or offset >= slide:
        raise NotSupportedByArrow("a window with lengths that Spark refuses")
    return duration, slide, offset
