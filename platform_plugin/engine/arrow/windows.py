"""`evaluate_windows`: expressions with functions over windows, where the order of the rows decides the answer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from platform_plugin.algebra.plan.nodes import Column, Item, Scalar
from platform_plugin.engine.arrow.calls import aggregate, guard_sum
from platform_plugin.engine.arrow.group_keys import encode_rows, row_key
from platform_plugin.engine.arrow.values import (
    ArrowRows,
    NotSupportedByArrow,
    evaluate_node,
    normalize_doubles,
    repeat_value,
    sortable_values,
    widen_values,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Integers = NDArray[np.int64]

_RANKS = frozenset({"row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile"})
_NEIGHBOURS = {"lag": -1, "lead": 1}


def evaluate_windows(value: Scalar, rows: ArrowRows) -> Any:
    """The values of an expression, one for each row, whose functions over windows are evaluated first."""
    if value.plans:
        raise NotSupportedByArrow("a sub-query beside a function over a window")
    made: dict[Column, Any] = {}

    def replace(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Window):
            return node
        made[Column("", f"window {len(made)}")] = _evaluate_window(node, rows)
        return exp.column(f"window {len(made) - 1}", quoted=True)

    node = value.node.copy().transform(replace, copy=False)
    beside = ArrowRows(columns={**made, **{name: rows.columns[name] for name in _columns_of(node, rows)}}, count=rows.count)
    return repeat_value(evaluate_node(node, beside), rows.count)


def _columns_of(node: exp.Expr, rows: ArrowRows) -> list[Column]:
    found = [Column(column.table, column.name) for column in node.find_all(exp.Column)]
    return [column for column in found if column in rows.columns]


def _evaluate_window(node: exp.Window, rows: ArrowRows) -> Any:
    keys = [row_key(repeat_value(evaluate_node(key, rows), rows.count)) for key in node.args.get("partition_by") or ()]
    order = node.args.get("order")
    window = _Window(rows=rows, codes=encode_rows(keys, rows.count), by=tuple(order.expressions) if order is not None else ())
    call = node.this
    name = str(call.this) if isinstance(call, exp.Anonymous) else ""
    if name in _RANKS:
        return window.rank(name, [evaluate_node(part, rows) for part in call.expressions])
    if name in _NEIGHBOURS:
        return window.neighbour(_NEIGHBOURS[name], [evaluate_node(part, rows) for part in call.expressions])
    spec = node.args.get("spec")
    if not window.by or (spec is not None and _frame(spec) == ("UNBOUNDED PRECEDING", "UNBOUNDED FOLLOWING")):
        if spec is None or _frame(spec) == ("UNBOUNDED PRECEDING", "UNBOUNDED FOLLOWING"):
            return window.whole(call)
    elif spec is None or _frame(spec) == ("UNBOUNDED PRECEDING", "CURRENT ROW"):
        by_rows = spec is not None and str(spec.args.get("kind")).upper() == "ROWS"
        return window.running(name, call, by_rows=by_rows)
    raise NotSupportedByArrow("a frame of a window other than from its start")


def _frame(spec: exp.WindowSpec) -> tuple[str, str]:
    """The two ends of a frame."""
    start = f"{spec.args.get('start')} {spec.args.get('start_side') or ''}".strip()
    end = f"{spec.args.get('end') or 'CURRENT ROW'} {spec.args.get('end_side') or ''}".strip()
    return start.upper(), end.upper()


@dataclass(frozen=True, kw_only=True)
class _Window:
    """The rows of a source in partitions, and the order within each."""

    rows: ArrowRows
    codes: Integers
    by: tuple[exp.Expr, ...]

    @cached_property
    def keys(self) -> list[Any]:
        found = []
        for key in self.by:
            value = sortable_values(repeat_value(evaluate_node(key.this, self.rows), self.rows.count))
            found.append(normalize_doubles(value) if value.type == pa.float64() else value)
        return found

    @cached_property
    def order(self) -> Integers:
        """The rows, one partition after the other, each in its order."""
        columns: list[Any] = [pa.array(self.codes)]
        directions = ["ascending"]
        for key, value in zip(self.by, self.keys, strict=True):
            descending = bool(key.args.get("desc"))
            columns += [pc.is_null(value), value]
            directions += ["descending" if key.args.get("nulls_first") else "ascending", "descending" if descending else "ascending"]
        names = [str(place) for place in range(len(columns))]
        found = pc.sort_indices(pa.table(columns, names=names), sort_keys=list(zip(names, directions, strict=True)))
        places: Integers = found.to_numpy().astype(np.int64)
        return places

    @cached_property
    def starts(self) -> Integers:
        """For each place in the order, the place where its partition begins."""
        return _begins(self.codes[self.order])

    @cached_property
    def peers(self) -> Integers:
        """For each place in the order, the place of the first row that stands equal to it."""
        return _begins(encode_rows([pa.array(self.codes), *self.keys], self.rows.count)[self.order])

    @cached_property
    def sizes(self) -> Integers:
        """For each place in the order, the rows of its partition."""
        found: Integers = np.bincount(self.starts, minlength=len(self.starts))[self.starts]
        return found

    def refuse_ties(self) -> None:
        """Rows that stand equal have no order between them, so the answer is any."""
        if len(np.unique(self.peers)) != len(self.peers):
            raise NotSupportedByArrow("rows that stand equal in the order of a window", for_good=False)

    def back(self, values: Any) -> Any:
        """Values in the window's order, in the order of the rows."""
        places = np.empty(len(self.order), dtype=np.int64)
        places[self.order] = np.arange(len(self.order))
        return values.take(pa.array(places))

    def rank(self, name: str, arguments: Sequence[Any]) -> Any:
        places = np.arange(self.rows.count)
        if name in ("row_number", "ntile"):
            self.refuse_ties()
        if name == "row_number":
            return self.back(pa.array(places - self.starts + 1, pa.int32()))
        ranks = self.peers - self.starts
        if name == "rank":
            return self.back(pa.array(ranks + 1, pa.int32()))
        if name == "dense_rank":
            first = np.concatenate([[0], np.cumsum(np.diff(self.peers) != 0)]) if len(places) else places
            return self.back(pa.array(first - first[self.starts] + 1, pa.int32()))
        if name == "percent_rank":
            return self.back(pa.array(np.where(self.sizes > 1, ranks / np.maximum(self.sizes - 1, 1), 0.0), pa.float64()))
        if name == "cume_dist":
            return self.back(pa.array((_ends(self.peers) - self.starts) / self.sizes, pa.float64()))
        return self.back(pa.array(_tiles(places - self.starts, self.sizes, _whole_number(arguments)), pa.int32()))

    def neighbour(self, direction: int, arguments: Sequence[Any]) -> Any:
        self.refuse_ties()
        distance = direction * (_whole_number(arguments[1:2]) if len(arguments) > 1 else 1)
        value = repeat_value(arguments[0], self.rows.count)
        value = value.combine_chunks() if isinstance(value, pa.ChunkedArray) else value
        places = np.arange(self.rows.count) + distance
        outside = (places < self.starts) | (places >= self.starts + self.sizes)
        ordered = value.take(pa.array(self.order))
        found = ordered.take(pa.array(np.where(outside, 0, places), mask=outside)) if self.rows.count else ordered
        if len(arguments) > 2:
            default = repeat_value(arguments[2], self.rows.count)
            first, second = widen_values([found, default.take(pa.array(self.order))])
            if first.type != found.type:
                raise NotSupportedByArrow("a default of another type than the value")
            found = pc.if_else(pa.array(outside), second, first)
        return self.back(found)

    def whole(self, call: exp.Expr) -> Any:
        """An aggregate over the whole partition."""
        code = Column("", "partition")
        rows = ArrowRows(
            columns={**{name: self.rows.columns[name] for name in _columns_of(call, self.rows)}, code: pa.array(self.codes)},
            count=self.rows.count,
        )
        key = Item(value=Scalar(exp.column("partition", quoted=True)), name="partition")
        found = aggregate(rows, [key], [Item(value=Scalar(call), name="value")])
        places = pc.index_in(pa.array(self.codes), value_set=found.column("partition").combine_chunks())
        return found.column("value").combine_chunks().take(places)

    def running(self, name: str, call: exp.Expr, *, by_rows: bool) -> Any:
        """A count, sum or average of whole numbers from the start of the partition to the row, or to the last that stands equal to it."""
        argument = call.expressions[0] if isinstance(call, exp.Anonymous) and len(call.expressions) == 1 else None
        if name not in ("count", "sum", "avg") or argument is None or isinstance(argument, exp.Distinct):
            raise NotSupportedByArrow(f"{name or 'a call'} over the rows of a window so far")
        if by_rows:
            self.refuse_ties()
        value = pa.scalar(1) if isinstance(argument, exp.Star) else evaluate_node(argument, self.rows)
        value = repeat_value(value, self.rows.count)
        if name != "count" and not pa.types.is_integer(value.type):
            raise NotSupportedByArrow(f"a sum so far of values of type {value.type}")
        ordered = value.take(pa.array(self.order))
        ends = _ends(self.peers) - 1
        number = self._sum_so_far(np.asarray(pc.is_valid(ordered).to_numpy(zero_copy_only=False), dtype=np.int64))[ends]
        if name == "count":
            return self.back(pa.array(number, pa.int64()))
        guard_sum(value)
        total = self._sum_so_far(pc.fill_null(ordered, 0).to_numpy(zero_copy_only=False).astype(np.int64))[ends]
        none = number == 0
        if name == "sum":
            return self.back(pa.array(total, pa.int64(), mask=none))
        return self.back(pa.array(total.astype(np.float64) / np.where(none, 1, number), pa.float64(), mask=none))

    def _sum_so_far(self, values: Integers) -> Integers:
        if not len(values):
            return values
        sums = np.cumsum(values)
        found: Integers = sums - (sums - values)[self.starts]
        return found


def _begins(values: Integers) -> Integers:
    """For each place the first place of the run of equal values that it is in."""
    if not len(values):
        return values
    changes = np.concatenate([[True], values[1:] != values[:-1]])
    found: Integers = np.maximum.accumulate(np.where(changes, np.arange(len(values)), 0))
    return found


def _ends(begins: Integers) -> Integers:
    """For each place the first place after the run of equal values that it is in."""
    found: Integers = begins + np.bincount(begins, minlength=len(begins))[begins] if len(begins) else begins
    return found


def _tiles(places: Integers, sizes: Integers, count: int) -> Integers:
    """The bucket of each row: the first buckets hold one row more where the rows can't be divided evenly."""
    small, more = sizes // count, sizes % count
    large = more * (small + 1)
    found: Integers = np.where(places < large, places // (small + 1), more + (places - large) // np.maximum(small, 1)) + 1
    return found


def _whole_number(arguments: Sequence[Any]) -> int:
    if (
        len(arguments) != 1
        or not isinstance(arguments[0], pa.Scalar)
        or not isinstance(arguments[0].as_py(), int)
        or arguments[0].as_py() < 1
    ):
        raise NotSupportedByArrow("a function over a window whose number is not written")
    return int(arguments[0].as_py())
