"""`aggregate`: calls of aggregates over Arrow columns, with Spark's meaning and result types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from platform_plugin.algebra.functions import kernel_functions
from platform_plugin.engine.arrow.values import (
    NotSupportedByArrow,
    describe_unsupported,
    evaluate,
    evaluate_node,
    repeat_value,
    sortable_values,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from platform_plugin.algebra.plan.nodes import Item
    from platform_plugin.engine.arrow.values import ArrowRows

_GROUPED = (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.string(), pa.bool_(), pa.date32())
# Of decimals of more digits it depends on their values whether a sum holds them.
_WIDEST_SUM = 28
_LARGEST = 1 << 63
_LARGEST_DECIMAL = 10**38
# Fewer rows are grouped faster than threads begin.
_MANY = 50_000


def is_grouped(kind: pa.DataType) -> bool:
    """Whether values of a type are equal to Arrow exactly when they are equal to Spark."""
    return kind in _GROUPED or pa.types.is_decimal(kind) or pa.types.is_timestamp(kind)


def aggregate(rows: ArrowRows, keys: Sequence[Item], calls: Sequence[Item]) -> pa.Table:
    """One row for each group; without keys a single row, even of no input."""
    grouped = [evaluate(key.value, rows) for key in keys]
    if not all(is_grouped(value.type) for value in grouped):
        raise NotSupportedByArrow("GROUP BY of fractions or nested values")
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
            if len(argument.expressions) != 1:
                raise NotSupportedByArrow("count(DISTINCT …) of several columns")
            value = masked(evaluate_node(argument.expressions[0], rows))
            if not is_grouped(value.type):
                raise NotSupportedByArrow(f"count(DISTINCT …) of values of type {value.type}")
            place = put(value, "count_distinct", valid)
        else:
            value = pa.scalar(value=True) if isinstance(argument, exp.Star) else evaluate_node(argument, rows)
            place = put(masked(value), kernel[0], valid)
        return lambda found: found[place]
    if isinstance(argument, exp.Distinct):
        raise NotSupportedByArrow(f"DISTINCT in {name}")
    value = masked(evaluate_node(argument, rows))
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
            place = put(_summed(value), kernel[0], pc.ScalarAggregateOptions(min_count=1))
            kind = _sum_type(value.type)
            return lambda found: found[place].cast(kind)
        case "avg" if pa.types.is_integer(value.type) or value.type == pa.float64():
            total = put(_summed(value), kernel[0], pc.ScalarAggregateOptions(min_count=1))
            number = put(value, kernel[1], valid)
            return lambda found: _average(found[total], found[number])
    raise NotSupportedByArrow(f"the aggregate {name}")


def _cast_sum(node: exp.Cast, rows: ArrowRows, inputs: list[Any], wanted: list[tuple[str, str, Any]]) -> Callable[[list[Any]], Any]:
    """A sum of decimals that is brought back to the type of its first level."""
    finish = _plan(node.this, rows, inputs, wanted)
    text = node.to.sql("spark").upper().replace(" ", "")
    if not (text.startswith("DECIMAL(") and text.endswith(")")):
        raise NotSupportedByArrow("a cast of an aggregate to something other than DECIMAL")
    precision, _, scale = text[8:-1].partition(",")
    kind = pa.decimal128(int(precision), int(scale or 0))
    return lambda found: finish(found).cast(kind)


def _summed(value: Any) -> Any:
    """Values whose sum can't overflow: Arrow would not say so."""
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
