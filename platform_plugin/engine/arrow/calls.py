"""`aggregate`: calls of aggregates over Arrow columns, with Spark's meaning and result types."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from platform_plugin.algebra.functions import kernel_functions
from platform_plugin.engine.arrow.group_keys import encode_rows, encode_values, group_key, is_grouped
from platform_plugin.engine.arrow.sessions import find_sessions, session_place
from platform_plugin.engine.arrow.values import (
    NotSupportedByArrow,
    describe_unsupported,
    evaluate,
    evaluate_node,
    normalize_doubles,
    repeat_value,
    sortable_values,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from platform_plugin.algebra.plan.nodes import Item
    from platform_plugin.engine.arrow.values import ArrowRows

# Of decimals of more digits it depends on their values whether a sum holds them.
_WIDEST_SUM = 28
_LARGEST = 1 << 63
_LARGEST_DECIMAL = 10**38
_BY = {"min_by": "min", "max_by": "max"}
# Fewer rows are grouped faster than threads begin.
_MANY = 50_000


def aggregate_sets(rows: ArrowRows, keys: Sequence[Item], calls: Sequence[Item], sets: Sequence[Sequence[int]]) -> pa.Table:
    """One row for each group of each grouping set, where keys that it does not group by are NULL; no row of no input."""
    made = []
    for places in sets:
        chosen = [keys[place] for place in places]
        marks = {place: _grouping(call.value.node, keys, places) for place, call in enumerate(calls)}
        plain = [call for place, call in enumerate(calls) if marks[place] is None]
        found = aggregate(rows, chosen, plain)
        if rows.count == 0:
            found = found.slice(0, 0)
        heads = {place: found.column(number) for number, place in enumerate(places)}
        answers = iter(found.columns[len(chosen) :])
        columns = [
            heads[place] if place in heads else pa.nulls(found.num_rows, evaluate(key.value, rows).type) for place, key in enumerate(keys)
        ]
        columns += [next(answers) if mark is None else pa.repeat(mark, found.num_rows) for mark in marks.values()]
        made.append(pa.table(columns, names=[item.name for item in (*keys, *calls)]))
    return pa.concat_tables(made)


def _grouping(node: exp.Expr, keys: Sequence[Item], places: Sequence[int]) -> pa.Scalar | None:
    """The value of GROUPING or GROUPING_ID in one grouping set; None for other calls."""
    name = str(node.this).lower() if isinstance(node, exp.Anonymous) else ""
    if name not in ("grouping", "grouping_id"):
        return None
    bits = []
    for argument in node.expressions or [key.value.node for key in keys]:
        place = next((number for number, key in enumerate(keys) if key.value.node == argument), None)
        if place is None:
            raise NotSupportedByArrow(f"{name} of what is no key")
        bits.append(place not in places)
    number = sum(bit << shift for shift, bit in enumerate(reversed(bits)))
    return pa.scalar(number, pa.int8() if name == "grouping" else pa.int64())


def aggregate(rows: ArrowRows, keys: Sequence[Item], calls: Sequence[Item]) -> pa.Table:
    """One row for each group; without keys a single row, even of no input."""
    session = session_place(keys)
    sessions = None if session is None else find_sessions(keys, session, rows)
    if sessions is not None:
        rows = sessions.rows
    grouped = [
        sessions.numbers if sessions is not None and place == session else group_key(evaluate(key.value, rows))
        for place, key in enumerate(keys)
    ]
    if not keys:
        grouped = [pa.repeat(pa.scalar(0, pa.int8()), max(rows.count, 1))]
    inputs: list[Any] = []
    wanted: list[tuple[str, str, Any]] = []
    finishes = [_plan(call.value.node, rows, inputs, wanted) for call in calls]
    if not keys and rows.count == 0:
        # One row without values stands for none; what counts rows must not see it.
        inputs = [pa.nulls(1, value.type) for value in inputs]
    names = [f"k{place}" for place in range(len(grouped))]
    table = pa.table([*grouped, *inputs], names=[*names, *(f"v{place}" for place in range(len(inputs)))])
    merged = table.group_by(names, use_threads=rows.count > _MANY).aggregate(wanted)
    found = [merged.column(f"{column}_{name}").combine_chunks() for column, name, _ in wanted]
    answers = [finish(found) for finish in finishes]
    heads = [merged.column(name) for name in names] if keys else []
    if sessions is not None and session is not None:
        heads[session] = sessions.bounds.take(heads[session].combine_chunks())
    return pa.table([*heads, *answers], names=[item.name for item in (*keys, *calls)])


def _plan(node: exp.Expr, rows: ArrowRows, inputs: list[Any], wanted: list[tuple[str, str, Any]]) -> Callable[[list[Any]], Any]:
    """Note what a call needs of Arrow's grouping, and say how its answer is made of that."""
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.Cast):
        return _cast_sum(node, rows, inputs, wanted)
    mask = None
    if isinstance(node, exp.Filter):
        mask = evaluate_node(node.expression.this, rows)
        node = node.this
    if isinstance(node, exp.Anonymous) and str(node.this) in _BY and len(node.expressions) == 2:
        return _by_another(node, rows, mask, inputs, wanted)
    if not isinstance(node, exp.Anonymous) or len(node.expressions) != 1:
        raise NotSupportedByArrow(f"{describe_unsupported(node)} of several arguments, or with an order")
    name, argument = str(node.this), node.expressions[0]
    kernel = kernel_functions(name)

    def put(value: Any, function: str, options: Any = None) -> int:
        inputs.append(value)
        wanted.append((f"v{len(inputs) - 1}", function, options))
        return len(wanted) - 1

    def masked(value: Any) -> Any:
        value = repeat_value(value, rows.count)
        return value if mask is None else pc.if_else(repeat_value(mask, rows.count), value, pa.scalar(None, value.type))

    valid = pc.CountOptions(mode="only_valid")
    if name == "count":
        if isinstance(argument, exp.Distinct):
            values = [group_key(masked(evaluate_node(part, rows))) for part in argument.expressions]
            place = put(values[0] if len(values) == 1 else _together(values), "count_distinct", valid)
        else:
            value = pa.scalar(value=True) if isinstance(argument, exp.Star) else evaluate_node(argument, rows)
            place = put(masked(value), kernel[0], valid)
        return lambda found: found[place]
    if isinstance(argument, exp.Distinct):
        if name not in ("sum", "avg") or len(argument.expressions) != 1:
            raise NotSupportedByArrow(f"DISTINCT in {name}")
        return _distinct_sum(name, masked(evaluate_node(argument.expressions[0], rows)), put)
    value = masked(evaluate_node(argument, rows))
    if pa.types.is_duration(value.type):
        return _of_lengths(name, value, put)
    match name:
        case "count_if" if pa.types.is_boolean(value.type):
            place = put(pc.if_else(value, value, pa.scalar(None, pa.bool_())), kernel[0], valid)
            return lambda found: found[place]
        case "min" | "max":
            place = put(sortable_values(value), kernel[0], pc.ScalarAggregateOptions(min_count=1))
            return lambda found: found[place]
        case "bool_and" | "bool_or" if pa.types.is_boolean(value.type):
            place = put(value, kernel[0], pc.ScalarAggregateOptions(min_count=1))
            return lambda found: found[place]
        case "sum":
            place = put(guard_sum(value), kernel[0], pc.ScalarAggregateOptions(min_count=1))
            kind = _sum_type(value.type)
            return lambda found: found[place].cast(kind)
        case "avg" if pa.types.is_integer(value.type) or value.type == pa.float64():
            total = put(guard_sum(value), kernel[0], pc.ScalarAggregateOptions(min_count=1))
            number = put(value, kernel[1], valid)
            return lambda found: _average(found[total], found[number])
    raise NotSupportedByArrow(f"the aggregate {name}")


def _together(values: Sequence[Any]) -> Any:
    """A number for each row, equal where all values are equal, and NULL where one of them is."""
    known = reduce(pc.and_, [pc.is_valid(value) for value in values])
    return pc.if_else(known, pa.array(encode_rows(values, len(known))), pa.scalar(None, pa.int64()))


def _by_another(
    node: exp.Anonymous, rows: ArrowRows, mask: Any, inputs: list[Any], wanted: list[tuple[str, str, Any]]
) -> Callable[[list[Any]], Any]:
    """The value beside the smallest or largest of another, where rows that share that one have the same value."""
    value, by = (repeat_value(evaluate_node(part, rows), rows.count) for part in node.expressions)
    if not is_grouped(value.type) and value.type != pa.float64():
        raise NotSupportedByArrow(f"{node.this} of values of type {value.type}")
    by = sortable_values(by)
    by = normalize_doubles(by) if by.type == pa.float64() else by
    known = pc.is_valid(by) if mask is None else pc.and_(pc.is_valid(by), pc.fill_null(repeat_value(mask, rows.count), False))  # noqa: FBT003
    places, values = encode_values(value)
    ranks = pc.subtract(pc.rank(by, sort_keys="ascending", tiebreaker="dense").cast(pa.int64()), 1)
    size = max(len(values), 1)
    function = _BY[str(node.this)]
    answers = []
    # With either order among equal ones: if these give different values, Spark may give any.
    for own in (places.cast(pa.int64()), pc.subtract(size - 1, places.cast(pa.int64()))):
        inputs.append(pc.if_else(known, pc.add(pc.multiply(ranks, size), own), pa.scalar(None, pa.int64())))
        wanted.append((f"v{len(inputs) - 1}", function, pc.ScalarAggregateOptions(min_count=1)))
        answers.append(len(wanted) - 1)

    def finish(found: list[Any]) -> Any:
        first, last = (pc.subtract(part, pc.multiply(pc.divide(part, size), size)) for part in (found[answers[0]], found[answers[1]]))
        if pc.any(pc.not_equal(first, pc.subtract(size - 1, last))).as_py():
            raise NotSupportedByArrow(f"{node.this} where several rows are the first", for_good=False)
        return values.take(first)

    return finish


def _of_lengths(name: str, value: Any, put: Callable[..., int]) -> Callable[[list[Any]], Any]:
    """An aggregate of lengths of time, which Arrow groups as whole numbers only."""
    if name not in ("min", "max", "sum"):
        raise NotSupportedByArrow(f"the aggregate {name} of lengths of time")
    numbers = value.cast(pa.int64())
    place = put(guard_sum(numbers) if name == "sum" else numbers, name, pc.ScalarAggregateOptions(min_count=1))
    return lambda found: found[place].cast(pa.int64()).cast(value.type)


def _distinct_sum(name: str, value: Any, put: Callable[..., int]) -> Callable[[list[Any]], Any]:
    """The sum or average of the different whole numbers or decimals of each group."""
    if not (pa.types.is_integer(value.type) or (pa.types.is_decimal128(value.type) and name == "sum")):
        raise NotSupportedByArrow(f"{name}(DISTINCT …) of values of type {value.type}")
    guard_sum(value)
    place = put(value, "distinct", pc.CountOptions(mode="only_valid"))

    def finish(found: list[Any]) -> Any:
        lists = found[place]
        flat = pa.table({"g": pc.list_parent_indices(lists), "v": pc.list_flatten(lists)})
        sums = flat.group_by("g").aggregate([("v", "sum"), ("v", "count")])
        places = pc.index_in(pa.array(range(len(lists)), pa.int64()), value_set=sums.column("g").combine_chunks().cast(pa.int64()))
        total = sums.column("v_sum").combine_chunks().take(places).cast(_sum_type(value.type))
        return total if name == "sum" else _average(total, sums.column("v_count").combine_chunks().take(places))

    return finish


def _cast_sum(node: exp.Cast, rows: ArrowRows, inputs: list[Any], wanted: list[tuple[str, str, Any]]) -> Callable[[list[Any]], Any]:
    """A sum of decimals that is brought back to the type of its first level."""
    finish = _plan(node.this, rows, inputs, wanted)
    text = node.to.sql("spark").upper().replace(" ", "")
    if not (text.startswith("DECIMAL(") and text.endswith(")")):
        raise NotSupportedByArrow("a cast of an aggregate to something other than DECIMAL")
    precision, _, scale = text[8:-1].partition(",")
    kind = pa.decimal128(int(precision), int(scale or 0))
    return lambda found: finish(found).cast(kind)


def guard_sum(value: Any) -> Any:
    """Values whose sum can't overflow, or a refusal: Arrow would not say so."""
    if pa.types.is_integer(value.type):
        ends = pc.min_max(value)
        low, high = ends["min"].as_py() or 0, ends["max"].as_py() or 0
        if max(abs(low), abs(high)) * max(len(value), 1) >= _LARGEST:
            raise NotSupportedByArrow("a sum that could leave BIGINT", for_good=False)
        return value
    if value.type == pa.float64():
        return value
    if pa.types.is_decimal128(value.type):
        if value.type.precision > _WIDEST_SUM:
            ends = [end.as_py() for end in pc.min_max(value).values() if end.is_valid]
            digits = max((end.adjusted() + 1 + value.type.scale for end in ends), default=0)
            if 10 ** max(digits, 0) * len(value) > _LARGEST_DECIMAL:
                raise NotSupportedByArrow("a sum that could leave 38 digits", for_good=False)
        return value
    raise NotSupportedByArrow(f"a sum of values of type {value.type}")


def _sum_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_decimal(kind):
        return pa.decimal128(min(kind.precision + 10, 38), kind.scale)
    return pa.int64() if pa.types.is_integer(kind) else kind


def _average(total: Any, number: Any) -> Any:
    return pc.divide(pc.cast(total, pa.float64(), safe=False), pc.cast(number, pa.float64(), safe=False))
