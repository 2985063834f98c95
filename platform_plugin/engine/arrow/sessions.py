"""`find_sessions`: the sessions of rows, or of stored sessions, as session_window makes them: stretches of time that meet are one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from platform_plugin.algebra.sessions import is_session, stored_session
from platform_plugin.engine.arrow.group_keys import encode_rows, row_key
from platform_plugin.engine.arrow.times import read_length
from platform_plugin.engine.arrow.values import NotSupportedByArrow, evaluate, evaluate_node, repeat_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from platform_plugin.algebra.plan.nodes import Item
    from platform_plugin.engine.arrow.values import ArrowRows

    Integers = NDArray[np.int64]

_LARGEST = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class Sessions:
    """Rows with the number of the session of each, and the start and end of each session; rows without a time are left out."""

    rows: ArrowRows
    numbers: pa.Array
    bounds: pa.StructArray


def session_place(keys: Sequence[Item]) -> int | None:
    """The place of a session window among the keys of a grouping, or None."""
    places = [place for place, key in enumerate(keys) if is_session(key.value.node)]
    if len(places) > 1:
        raise NotSupportedByArrow("several windows of time in one grouping")
    return places[0] if places else None


def find_sessions(keys: Sequence[Item], place: int, rows: ArrowRows) -> Sessions:
    """The sessions of rows within the other keys."""
    starts, ends = _stretches(keys[place].value.node, rows)
    # Spark leaves out what has no time, and what lasts no time.
    counts = pc.fill_null(pc.greater(ends, starts.cast(pa.int64())), False)  # noqa: FBT003
    chosen = rows.picked(counts)
    begin, end = (values.filter(counts).to_numpy(zero_copy_only=False) for values in (starts.cast(pa.int64()), ends))
    others = [row_key(evaluate(key.value, chosen)) for number, key in enumerate(keys) if number != place]
    numbers, bounds = number_sessions(encode_rows(others, chosen.count), begin, end)
    parts = [pa.array(bound, pa.int64()).cast(starts.type) for bound in bounds]
    return Sessions(rows=chosen, numbers=pa.array(numbers), bounds=pa.StructArray.from_arrays(parts, names=["start", "end"]))


def _stretches(call: exp.Expr, rows: ArrowRows) -> tuple[Any, Any]:
    """Where the stretch of each row begins, and where it ends in microseconds."""
    time, gap = call.args["expressions"]
    starts = repeat_value(evaluate_node(time, rows), rows.count)
    if not pa.types.is_timestamp(starts.type) or starts.type.unit != "us":
        raise NotSupportedByArrow(f"sessions by values of type {starts.type}")
    whole = starts.cast(pa.int64())
    if (stored := stored_session(call)) is not None:
        return starts, evaluate_node(exp.Dot(this=stored, expression=exp.to_identifier("end")), rows).cast(pa.int64())
    length = read_gap(gap)
    if length is None:
        raise NotSupportedByArrow("a session with a gap that only Spark reads")
    furthest = pc.max(whole).as_py()
    if furthest is not None and furthest + length >= _LARGEST:
        raise NotSupportedByArrow("a session that ends beyond what a timestamp holds", for_good=False)
    return starts, pc.add(whole, length)


def read_gap(node: exp.Expr) -> int | None:
    """The microseconds of a gap that is written as a text of whole numbers and units without months; None for other gaps.

    >>> read_gap(exp.Literal.string("5 minutes")), read_gap(exp.Literal.string("1 month"))
    (300000000, None)
    """
    length = read_length(str(node.this).strip("'")) if isinstance(node, exp.Literal) else None
    return length or None


def number_sessions(codes: Integers, starts: Integers, ends: Integers) -> tuple[Integers, tuple[Integers, Integers]]:
    """The number of the session that each stretch of time is in, and the starts and ends of the sessions.

    Stretches of one code that meet or touch are in one session.
    """
    if not len(codes):
        return codes, (starts, ends)
    order = np.lexsort((starts, codes))
    code, start, end = codes[order], starts[order], ends[order]
    # The furthest end so far among those of a code: ends are ranked, so that those of the next code can be put above them.
    different, ranks = np.unique(end, return_inverse=True)
    above = code * len(different)
    reached = different[np.maximum.accumulate(above + ranks) - above]
    begins = np.concatenate([[True], (code[1:] != code[:-1]) | (start[1:] > reached[:-1])])
    numbers = np.empty(len(codes), dtype=np.int64)
    numbers[order] = np.cumsum(begins) - 1
    first = np.flatnonzero(begins)
    return numbers, (start[first], reached[np.concatenate([first[1:] - 1, [len(codes) - 1]])])
