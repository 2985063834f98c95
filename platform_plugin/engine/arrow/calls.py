"""`aggregate`: calls of aggregates over Arrow columns, with Spark's meaning and result types."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from platform_plugin.algebra.functions import AGGREGATES, canonical_name, kernel_functions
from platform_plugin.algebra.plan.nodes import Column
from platform_plugin.engine.arrow.decimals import divide_to
from platform_plugin.engine.arrow.group_keys import encode_rows, encode_values, group_key, is_grouped, rank_structs, row_key
from platform_plugin.engine.arrow.sessions import find_sessions, session_place
from platform_plugin.engine.arrow.spreads import BITS, MOMENTS, find_bits, find_moments, find_percentiles, merge_moments, merged_moments
from platform_plugin.engine.arrow.time_windows import find_windows, window_place
from platform_plugin.engine.arrow.values import (
    ArrowRows,
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

    from numpy.typing import NDArray

    from platform_plugin.algebra.plan.nodes import Item
    from platform_plugin.engine.arrow.sessions import Sessions

# Of decimals of more digits it depends on their values whether a sum holds them.
_WIDEST_SUM = 28
_LARGEST = 1 << 63
_LARGEST_DECIMAL = 10**38
_BY = {"min_by": "min", "max_by": "max"}
# Fewer rows are grouped faster than threads begin.
_MANY = 50_000


def aggregate_sets(rows: ArrowRows, keys: Sequence[Item], calls: Sequence[Item], sets: Sequence[Sequence[int]]) -> pa.Table:
    """One row for each group of each grouping set, where keys that it does not group by are NULL.

    Of no input there is no row, but for the grand total where it is the only set, as in Spark.
    """
    if window_place(keys) is not None or session_place(keys) is not None:
        raise NotSupportedByArrow("windows of time in grouping sets")
    made = []
    for places in sets:
        chosen = [keys[place] for place in places]
        marks = {place: _grouping(call.value.node, keys, places) for place, call in enumerate(calls)}
        plain = [call for place, call in enumerate(calls) if marks[place] is None]
        found = aggregate(rows, chosen, plain)
        if rows.count == 0 and len(sets) > 1:
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
    place, stretches = _find_stretches(keys, rows)
    if stretches is not None:
        rows = stretches.rows
    grouped: list[Any] = []
    different: dict[int, Any] = {} if stretches is None or place is None else {place: stretches.bounds}
    for number, key in enumerate(keys):
        if number == place and stretches is not None:
            grouped.append(stretches.numbers)
            continue
        value = row_key(evaluate(key.value, rows))
        if pa.types.is_struct(value.type):
            value, different[number] = encode_values(value)
        grouped.append(value)
    if not keys:
        grouped = [pa.repeat(pa.scalar(0, pa.int8()), max(rows.count, 1))]
    groups = _Groups(rows=rows, keys=grouped if keys else [])
    finishes = [_plan(call.value.node, groups) for call in calls]
    inputs = groups.inputs
    if not keys and rows.count == 0:
        # One row without values stands for none; what counts rows must not see it.
        inputs = [pa.nulls(1, value.type) for value in inputs]
    names = [f"k{place}" for place in range(len(grouped))]
    table = pa.table([*grouped, *inputs], names=[*names, *(f"v{place}" for place in range(len(inputs)))])
    merged = table.group_by(names, use_threads=rows.count > _MANY).aggregate(groups.wanted)
    found = [merged.column(f"{column}_{name}").combine_chunks() for column, name, _ in groups.wanted]
    answers = [repeat_value(finish(found), merged.num_rows) for finish in finishes]
    heads = [merged.column(name) for name in names] if keys else []
    for number, values in different.items():
        heads[number] = values.take(heads[number].combine_chunks())
    return pa.table([*heads, *answers], names=[item.name for item in (*keys, *calls)])


def _find_stretches(keys: Sequence[Item], rows: ArrowRows) -> tuple[int | None, Sessions | None]:
    """The key that is a window of time or a session, and what it makes of the rows."""
    session, window = session_place(keys), window_place(keys)
    if session is not None:
        if window is not None:
            raise NotSupportedByArrow("several windows of time in one grouping")
        return session, find_sessions(keys, session, rows)
    return window, None if window is None else find_windows(keys[window].value.node, rows)


@dataclass(slots=True, kw_only=True)
class _Groups:
    """The rows that are grouped, and what the calls of aggregates need of Arrow's grouping of them."""

    rows: ArrowRows
    keys: Sequence[Any]
    inputs: list[Any] = field(default_factory=list)
    wanted: list[tuple[str, str, Any]] = field(default_factory=list)
    _codes: NDArray[np.int64] | None = None
    _place: int = -1

    def put(self, value: Any, function: str, options: Any = None) -> int:
        """Note a function of Arrow over values; the place of its result."""
        self.inputs.append(value)
        self.wanted.append((f"v{len(self.inputs) - 1}", function, options))
        return len(self.wanted) - 1

    def spread(self, find: Callable[[NDArray[np.int64], int], Any]) -> Callable[[list[Any]], Any]:
        """What is found of rows by the number of the group of each."""
        if self._codes is None:
            self._codes = encode_rows(self.keys, self.rows.count)
            self._place = self.put(pa.array(self._codes), "min")
        place, codes = self._place, self._codes
        values = find(codes, int(codes.max()) + 1 if len(codes) else 0)
        return lambda found: values.take(found[place])


def _plan(node: exp.Expr, groups: _Groups) -> Callable[[list[Any]], Any]:
    """Note what a call needs of Arrow's grouping, and say how its answer is made of that."""
    while isinstance(node, exp.Paren):
        node = node.this
    call = node.this if isinstance(node, exp.Filter) else node
    if not isinstance(call, exp.Anonymous) or str(call.this).lower() not in AGGREGATES:
        stored = merged_moments(call)
        return _plan_expression(node, groups) if stored is None else _plan_merge(stored, groups)
    return _plan_call(call, None if node is call else node.expression.this, groups)


def _plan_merge(stored: exp.Expr, groups: _Groups) -> Callable[[list[Any]], Any]:
    """The merge of stored moments, which gives those of nothing where there are none."""
    value = repeat_value(evaluate_node(stored, groups.rows), groups.rows.count)
    if not pa.types.is_struct(value.type):
        raise NotSupportedByArrow("a merge of values that are no structs")
    finish = groups.spread(lambda codes, count: merge_moments(value, codes, count))

    def fill(found: list[Any]) -> Any:
        merged = finish(found)
        parts = [pc.fill_null(pc.struct_field(merged, [place]), 0.0) for place in range(3)]
        return pa.StructArray.from_arrays(parts, names=[part.name for part in merged.type])

    return fill


def _plan_expression(node: exp.Expr, groups: _Groups) -> Callable[[list[Any]], Any]:
    """An expression over calls of aggregates, which is evaluated over their answers."""
    finishes: list[Callable[[list[Any]], Any]] = []

    def replace(inner: exp.Expr) -> exp.Expr:
        call = inner.this if isinstance(inner, exp.Filter) else inner
        if not isinstance(call, exp.Anonymous) or str(call.this).lower() not in AGGREGATES:
            return inner
        finishes.append(_plan(inner, groups))
        return exp.column(f"call {len(finishes) - 1}", quoted=True)

    whole = node.copy().transform(replace, copy=False)
    if not finishes:
        raise NotSupportedByArrow(f"{describe_unsupported(node)} in place of an aggregate")

    def finish(found: list[Any]) -> Any:
        answers = [made(found) for made in finishes]
        columns = {Column("", f"call {place}"): answer for place, answer in enumerate(answers)}
        return evaluate_node(whole, ArrowRows(columns=columns, count=len(answers[0])))

    return finish


def _plan_call(node: exp.Anonymous, condition: exp.Expr | None, groups: _Groups) -> Callable[[list[Any]], Any]:
    rows, put = groups.rows, groups.put
    mask = None if condition is None else evaluate_node(condition, rows)
    name = canonical_name(str(node.this))

    def masked(value: Any) -> Any:
        value = repeat_value(value, rows.count)
        return value if mask is None else pc.if_else(repeat_value(mask, rows.count), value, pa.scalar(None, value.type))

    if name in _BY and len(node.expressions) == 2:
        return _by_another(node, groups, mask)
    if name in ("median", "percentile"):
        return _percentile(node, groups, masked)
    if len(node.expressions) != 1:
        raise NotSupportedByArrow(f"{describe_unsupported(node)} of several arguments, or with an order")
    argument = node.expressions[0]
    kernel = kernel_functions(name)
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
    some = pc.ScalarAggregateOptions(min_count=1)
    match name:
        case "count_if" if pa.types.is_boolean(value.type):
            place = put(pc.if_else(value, value, pa.scalar(None, pa.bool_())), kernel[0], valid)
            return lambda found: found[place]
        case "min" | "max" if pa.types.is_struct(value.type):
            numbers, different = rank_structs(value)
            place = put(pc.if_else(pc.is_valid(value), numbers, pa.scalar(None, pa.int64())), kernel[0], some)
            return lambda found: different.take(found[place])
        case "min" | "max":
            place = put(sortable_values(value), kernel[0], some)
            return lambda found: found[place]
        case "bool_and" | "bool_or" if pa.types.is_boolean(value.type):
            place = put(value, kernel[0], some)
            return lambda found: found[place]
        case "sum" | "try_sum":
            place = put(guard_sum(value), kernel[0], some)
            kind = _sum_type(value.type)
            return lambda found: found[place].cast(kind)
        case "avg" | "try_avg" if pa.types.is_integer(value.type) or value.type == pa.float64() or pa.types.is_decimal128(value.type):
            total = put(guard_sum(value), kernel[0], some)
            number = put(value, kernel[1], valid)
            kind = value.type
            return lambda found: _average(found[total], found[number], kind)
        case _ if name in MOMENTS:
            return groups.spread(lambda codes, count: find_moments(name, value, codes, count))
        case _ if name in BITS:
            return groups.spread(lambda codes, count: find_bits(name, value, codes, count))
    raise NotSupportedByArrow(f"the aggregate {name}")


def _percentile(node: exp.Anonymous, groups: _Groups, masked: Callable[[Any], Any]) -> Callable[[list[Any]], Any]:
    """Exact percentiles, of one share or of an array of them, with how often each value is there."""
    parts = node.expressions
    if str(node.this) == "median":
        parts = [*parts, exp.Literal.number("0.5")]
    if not 2 <= len(parts) <= 3 or isinstance(parts[0], exp.Distinct):
        raise NotSupportedByArrow("percentiles of different values")
    listed = isinstance(parts[1], exp.Anonymous) and str(parts[1].this) == "array"
    shares = [evaluate_node(share, groups.rows) for share in (parts[1].expressions if listed else parts[1:2])]
    if not shares or not all(isinstance(share, pa.Scalar) and share.is_valid for share in shares):
        raise NotSupportedByArrow("percentiles by shares that are no literals")
    value = masked(evaluate_node(parts[0], groups.rows))
    numbers = repeat_value(evaluate_node(parts[2], groups.rows), groups.rows.count) if len(parts) > 2 else None
    if numbers is not None and not pa.types.is_integer(numbers.type):
        raise NotSupportedByArrow("percentiles by numbers that are not whole")
    wanted = [float(share.as_py()) for share in shares]

    def find(codes: NDArray[np.int64], count: int) -> Any:
        found = find_percentiles(value, wanted, numbers, codes, count)
        return _as_lists(found) if listed else found[0]

    return groups.spread(find)


def _as_lists(columns: Sequence[pa.Array]) -> pa.Array:
    """A list of the values of all columns for each row; NULL where they are."""
    count, width = len(columns[0]), len(columns)
    if not count:
        return pa.array([], pa.list_(pa.float64()))
    flat = np.stack([column.to_numpy(zero_copy_only=False) for column in columns], axis=1).ravel()
    offsets = pa.array(np.arange(0, (count + 1) * width, width), pa.int32())
    return pa.ListArray.from_arrays(offsets, pa.array(flat), mask=pc.is_null(columns[0]))


def _together(values: Sequence[Any]) -> Any:
    """A number for each row, equal where all values are equal, and NULL where one of them is."""
    known = reduce(pc.and_, [pc.is_valid(value) for value in values])
    return pc.if_else(known, pa.array(encode_rows(values, len(known))), pa.scalar(None, pa.int64()))


def _by_another(node: exp.Anonymous, groups: _Groups, mask: Any) -> Callable[[list[Any]], Any]:
    """The value beside the smallest or largest of another, where rows that share that one have the same value."""
    rows = groups.rows
    value, by = (repeat_value(evaluate_node(part, rows), rows.count) for part in node.expressions)
    if not is_grouped(value.type) and value.type != pa.float64():
        raise NotSupportedByArrow(f"{node.this} of values of type {value.type}")
    if pa.types.is_struct(by.type):
        by = pc.if_else(pc.is_valid(by), rank_structs(by)[0], pa.scalar(None, pa.int64()))
    by = sortable_values(by)
    by = normalize_doubles(by) if by.type == pa.float64() else by
    known = pc.is_valid(by) if mask is None else pc.and_(pc.is_valid(by), pc.fill_null(repeat_value(mask, rows.count), False))  # noqa: FBT003
    numbers, values = encode_values(value)
    ranks = pc.subtract(pc.rank(by, sort_keys="ascending", tiebreaker="dense").cast(pa.int64()), 1)
    size = max(len(values), 1)
    function = _BY[str(node.this)]
    answers = []
    # With either order among equal ones: if these give different values, Spark may give any.
    for own in (numbers.cast(pa.int64()), pc.subtract(size - 1, numbers.cast(pa.int64()))):
        places = pc.if_else(known, pc.add(pc.multiply(ranks, size), own), pa.scalar(None, pa.int64()))
        answers.append(groups.put(places, function, pc.ScalarAggregateOptions(min_count=1)))

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
    if not (pa.types.is_integer(value.type) or pa.types.is_decimal128(value.type)):
        raise NotSupportedByArrow(f"{name}(DISTINCT …) of values of type {value.type}")
    guard_sum(value)
    place = put(value, "distinct", pc.CountOptions(mode="only_valid"))

    def finish(found: list[Any]) -> Any:
        lists = found[place]
        flat = pa.table({"g": pc.list_parent_indices(lists), "v": pc.list_flatten(lists)})
        sums = flat.group_by("g").aggregate([("v", "sum"), ("v", "count")])
        places = pc.index_in(pa.array(range(len(lists)), pa.int64()), value_set=sums.column("g").combine_chunks().cast(pa.int64()))
        total = sums.column("v_sum").combine_chunks().take(places).cast(_sum_type(value.type))
        return total if name == "sum" else _average(total, sums.column("v_count").combine_chunks().take(places), value.type)

    return finish


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


def _average(total: Any, number: Any, kind: pa.DataType) -> Any:
    if pa.types.is_decimal128(kind):
        some = pc.if_else(pc.equal(number, 0), pa.scalar(None, pa.int64()), number).cast(pa.decimal128(20, 0))
        wanted = pa.decimal128(min(kind.precision + 4, 38), min(kind.scale + 4, 38))
        answer = divide_to(total.cast(_sum_type(kind)), some, wanted)
        if answer is None:
            raise NotSupportedByArrow(f"an average of values of type {kind}")
        return answer
    return pc.divide(pc.cast(total, pa.float64(), safe=False), pc.cast(number, pa.float64(), safe=False))
