"""`evaluate`: expressions over Arrow columns that certainly mean the same as in Spark, value for value.

Everything else raises `NotSupportedByArrow` and is left to Spark: calls that could differ in a corner, values on which the two engines
disagree (NaN), and whatever would be an error in Spark (overflow, division by zero), so that users see Spark's error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from platform_plugin.algebra.plan.nodes import Column
from platform_plugin.engine.arrow.casts import WHOLE, cast_value, to_double
from platform_plugin.engine.arrow.decimals import (
    CHECKED,
    align_decimals,
    calculate_decimals,
    divide_decimals,
    operand_decimal,
    parse_decimal,
    widest_decimal,
)
from platform_plugin.engine.arrow.functions import call_function, match_like, part_of_day
from platform_plugin.engine.arrow.times import is_time, read_calendar_unit, read_length, read_time, shift_dates
from platform_plugin.engine.refusal import RefusedByEngine

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from platform_plugin.algebra.plan.nodes import Scalar

_COMPARED = (*WHOLE, pa.float64(), pa.string(), pa.bool_(), pa.date32())
_COMPARE: dict[type[exp.Expr], Any] = {
    exp.EQ: pc.equal,
    exp.NEQ: pc.not_equal,
    exp.LT: pc.less,
    exp.LTE: pc.less_equal,
    exp.GT: pc.greater,
    exp.GTE: pc.greater_equal,
}
VALUE = "value"
"""The part of a node's `meta` that has the value of a parameter."""
# Of longer numbers Spark might make a type of its own.
_DIGITS = 30
_DOUBLE = re.compile(r"(\d+\.?\d*|\.\d+)D", re.IGNORECASE)
_INTERVAL = re.compile(r"INTERVAL\s+(.*)", re.IGNORECASE | re.DOTALL)
_TIME = re.compile(r"TIMESTAMP(_LTZ|_NTZ)?\s*'([^']*)'", re.IGNORECASE)
_NAMED = frozenset({"ifnull", "nvl", "coalesce"})


class NotSupportedByArrow(RefusedByEngine):
    """The kernel can't run something, which is left to Spark; `refusal` says why."""


def describe_unsupported(node: exp.Expr) -> str:
    """What an expression is, for a refusal.

    >>> describe_unsupported(exp.Anonymous(this="soundex")), describe_unsupported(exp.Case())
    ('the function soundex', 'the expression CASE')
    """
    if isinstance(node, exp.Anonymous):
        return f"the function {node.this}"
    return "a function over a window" if isinstance(node, exp.Window) else f"the expression {node.key.upper()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowAnswers:
    """What a sub-query that depends on the row gives for each: its value, or whether it has rows."""

    values: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrowRows:
    """Columns of equal length, by their source's alias and their name."""

    columns: Mapping[Column, Any]
    count: int
    answers: tuple[pa.Table | RowAnswers, ...] = ()
    """The results of the sub-queries of the expression that is evaluated."""

    def picked(self, places: Any) -> ArrowRows:
        """Some of the rows, by a mask or by places; each column is taken only when it is used."""
        if not pa.types.is_boolean(places.type):
            return ArrowRows(columns=_Picked(self.columns, places), count=len(places))
        count = pc.sum(places).as_py() or 0
        return self if count == self.count else ArrowRows(columns=_Picked(self.columns, places), count=count)


class _Picked(Mapping[Column, Any]):
    """Some rows of columns; each column is taken when it is first used."""

    def __init__(self, columns: Mapping[Column, Any], places: Any) -> None:
        self._columns, self._places = columns, places
        self._made: dict[Column, Any] = {}

    def __getitem__(self, name: Column) -> Any:
        if name not in self._made:
            column = self._columns[name]
            self._made[name] = column.filter(self._places) if pa.types.is_boolean(self._places.type) else column.take(self._places)
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in self._columns

    def __iter__(self) -> Iterator[Column]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)


class TableColumns(Mapping[Column, Any]):
    """The columns of a table under an alias; each is put into one piece when it is first used."""

    def __init__(self, rows: pa.Table, alias: str) -> None:
        self._rows, self._alias = rows, alias
        self._names = frozenset(rows.column_names)
        self._made: dict[str, Any] = {}

    def __getitem__(self, column: Column) -> Any:
        found = self._made.get(column.name)
        if found is None or column.alias != self._alias:
            if column.alias != self._alias or column.name not in self._names:
                raise KeyError(column)
            found = self._made[column.name] = self._rows.column(column.name).combine_chunks()
        return found

    def __contains__(self, column: object) -> bool:
        return isinstance(column, Column) and column.alias == self._alias and column.name in self._names

    def __iter__(self) -> Iterator[Column]:
        return (Column(self._alias, name) for name in self._rows.column_names)

    def __len__(self) -> int:
        return len(self._names)


def evaluate(value: Scalar, rows: ArrowRows) -> Any:
    """The values of an expression, one for each row."""
    if len(value.plans) != len(rows.answers):
        raise NotSupportedByArrow("a sub-query in an expression")
    return repeat_value(evaluate_node(value.node, rows), rows.count)


def repeat_value(found: Any, count: int) -> Any:
    """The values for every row, where an expression may give one value for all."""
    return pa.repeat(found, count) if isinstance(found, pa.Scalar) else found


def evaluate_node(node: exp.Expr, rows: ArrowRows) -> Any:
    """The value of an expression's tree: a column, or a scalar that is equal in every row."""
    match node:
        case exp.Paren():
            return evaluate_node(node.this, rows)
        case exp.Column():
            found = rows.columns.get(Column(node.table, node.name))
            if found is None:
                raise NotSupportedByArrow("a column that was not read")
            return found
        case exp.Literal():
            return _literal(node)
        case exp.Var() if VALUE in node.meta:
            return node.meta[VALUE]
        case exp.Boolean():
            return pa.scalar(bool(node.this))
        case exp.And():
            return pc.and_kleene(_truth(node.this, rows), _truth(node.expression, rows))
        case exp.Or():
            return pc.or_kleene(_truth(node.this, rows), _truth(node.expression, rows))
        case exp.Not():
            return pc.invert(_truth(node.this, rows))
        case exp.Is() if isinstance(node.expression, exp.Null):
            return pc.is_null(evaluate_node(node.this, rows))
        case exp.Between() if not node.args.get("symmetric"):
            low = compare_values(exp.GTE, evaluate_node(node.this, rows), evaluate_node(node.args["low"], rows))
            return pc.and_kleene(low, compare_values(exp.LTE, evaluate_node(node.this, rows), evaluate_node(node.args["high"], rows)))
        case exp.In() if node.expressions and not (node.args.get("query") or node.args.get("unnest") or node.args.get("field")):
            value = evaluate_node(node.this, rows)
            return reduce(pc.or_kleene, [compare_values(exp.EQ, value, evaluate_node(item, rows)) for item in node.expressions])
        case exp.Placeholder():
            found = _sub_query(node, rows)
            return found.values if isinstance(found, RowAnswers) else _single_value(found)
        case exp.Exists():
            found = _sub_query(node.this, rows)
            return found.values if isinstance(found, RowAnswers) else pa.scalar(found.num_rows > 0)
        case exp.In() if isinstance(node.args.get("query"), exp.Placeholder):
            among = _sub_query(node.args["query"], rows)
            if isinstance(among, RowAnswers):
                raise NotSupportedByArrow("IN over a sub-query that depends on the row")
            return _is_among(evaluate_node(node.this, rows), among)
        case exp.Neg():
            found = evaluate_node(node.this, rows)
            return pc.negate_checked(found if pa.types.is_decimal(found.type) else _number(found))
        case exp.Div():
            return _divided(node, evaluate_node(node.this, rows), evaluate_node(node.expression, rows))
        case exp.Mod():
            return _remainder(evaluate_node(node.this, rows), evaluate_node(node.expression, rows))
        case exp.Cast():
            found = evaluate_node(node.this, rows)
            return _known(cast_value(found, node.to.sql("spark").upper()), f"a cast from {found.type}")
        case exp.Case() if node.this is None:
            return _case(node, rows)
        case exp.Dot():
            return _part(evaluate_node(node.this, rows), node.name)
        case exp.Anonymous() if str(node.this) == "named_struct":
            return _struct(node, rows)
        case exp.Anonymous() if str(node.this) == "struct":
            return _struct_of(node, rows)
        case exp.Anonymous() if str(node.this) in _NAMED:
            return pc.coalesce(*widen_values([evaluate_node(item, rows) for item in node.expressions]))
        case exp.Anonymous() if (called := (str(node.this), len(node.expressions))) in _BRANCHES:
            return _BRANCHES[called](node.expressions, rows)
        case exp.Anonymous() if str(node.this) in _EXTREMES:
            return _extreme(str(node.this), [evaluate_node(item, rows) for item in node.expressions])
        case exp.Anonymous() if not any(isinstance(item, exp.Distinct | exp.Star) for item in node.expressions):
            values = [evaluate_node(item, rows) for item in node.expressions]
            return _known(call_function(str(node.this), values), describe_unsupported(node))
        case exp.Like() if isinstance(node.expression, exp.Literal):
            found = _known(
                match_like(evaluate_node(node.this, rows), evaluate_node(node.expression, rows)),
                "a pattern of LIKE with escapes, or a text that is none",
            )
            return pc.invert(found) if node.args.get("negate") else found
        case exp.Extract():
            return _known(part_of_day(str(node.this), evaluate_node(node.expression, rows)))
    if type(node) in _COMPARE:
        return compare_values(type(node), evaluate_node(node.this, rows), evaluate_node(node.expression, rows))
    if type(node) in CHECKED:
        left = evaluate_node(node.this, rows)
        step = _calendar_step(node) if left.type == pa.date32() else None
        return _calculated(node, left, evaluate_node(node.expression, rows)) if step is None else _shifted(left, *step)
    raise NotSupportedByArrow(describe_unsupported(node), operator=node.key)


def _part(value: Any, name: str) -> Any:
    """A part of structs, by its name in any case; NULL where the struct is."""
    if isinstance(value, pa.Scalar) or not pa.types.is_struct(value.type):
        raise NotSupportedByArrow(f"a part of values of type {value.type}")
    places = [place for place, part in enumerate(value.type) if part.name.lower() == name.lower()]
    if len(places) != 1:
        raise NotSupportedByArrow("a part that a struct does not have once")
    return pc.struct_field(value, places)


def _struct(node: exp.Anonymous, rows: ArrowRows) -> Any:
    names = [evaluate_node(name, rows) for name in node.expressions[::2]]
    values = [repeat_value(evaluate_node(value, rows), rows.count) for value in node.expressions[1::2]]
    if len(names) != len(values) or not all(isinstance(name, pa.StringScalar) for name in names):
        raise NotSupportedByArrow("a struct whose names are no texts")
    plain = [value.combine_chunks() if isinstance(value, pa.ChunkedArray) else value for value in values]
    return pa.StructArray.from_arrays(plain, names=[name.as_py() for name in names])


def _struct_of(node: exp.Anonymous, rows: ArrowRows) -> Any:
    """The struct of some columns under their names; other values are called by their place."""
    if any(isinstance(item, exp.Dot | exp.Alias | exp.Star) for item in node.expressions):
        raise NotSupportedByArrow("a struct of parts whose names only Spark knows")
    names = [item.name if isinstance(item, exp.Column) else f"col{place}" for place, item in enumerate(node.expressions, 1)]
    values = [repeat_value(evaluate_node(item, rows), rows.count) for item in node.expressions]
    plain = [value.combine_chunks() if isinstance(value, pa.ChunkedArray) else value for value in values]
    return pa.StructArray.from_arrays(plain, names=names)


def _null_if(parts: Sequence[exp.Expr], rows: ArrowRows) -> Any:
    found = evaluate_node(parts[0], rows)
    equal = pc.fill_null(compare_values(exp.EQ, found, evaluate_node(parts[1], rows)), False)  # noqa: FBT003
    return pc.if_else(equal, pa.scalar(None, found.type), found)


def _as_case(parts: Sequence[exp.Expr]) -> exp.Case:
    # Of copies, since a node knows only one that it is in.
    condition, true, false = (part.copy() for part in parts)
    return exp.Case(ifs=[exp.If(this=condition, true=true)], default=false)


_BRANCHES: Mapping[tuple[str, int], Any] = {
    ("nullif", 2): _null_if,
    ("if", 3): lambda parts, rows: _case(_as_case(parts), rows),
    ("isnull", 1): lambda parts, rows: pc.is_null(evaluate_node(parts[0], rows)),
    ("isnotnull", 1): lambda parts, rows: pc.is_valid(evaluate_node(parts[0], rows)),
}
"""Functions that look at NULL, by their name and how many arguments they have."""
_EXTREMES = {"greatest": pc.max_element_wise, "least": pc.min_element_wise}


def _extreme(name: str, values: Sequence[Any]) -> Any:
    """The largest or smallest of values that are not NULL."""
    values = widen_values(values)
    if values[0].type == pa.float64() or len(values) < 2:
        raise NotSupportedByArrow(f"the function {name} of values of type {values[0].type}")
    kind = values[0].type
    if is_time(kind):
        return _EXTREMES[name](*(value.cast(pa.int64()) for value in values), skip_nulls=True).cast(kind)
    return _EXTREMES[name](*(sortable_values(value) for value in values), skip_nulls=True)


def _sub_query(node: exp.Expr, rows: ArrowRows) -> pa.Table | RowAnswers:
    if not isinstance(node, exp.Placeholder) or not str(node.this).isdigit() or int(node.this) >= len(rows.answers):
        raise NotSupportedByArrow("a sub-query in an expression")
    return rows.answers[int(node.this)]


def _single_value(found: pa.Table) -> pa.Scalar:
    if found.num_columns != 1 or found.num_rows > 1:
        raise NotSupportedByArrow("a sub-query of several values", for_good=False)
    return found.column(0)[0] if found.num_rows else pa.scalar(None, found.schema.types[0])


def _is_among(value: Any, found: pa.Table) -> Any:
    """Whether a value is among those of a sub-query; NULL where that is not known."""
    if found.num_columns != 1:
        raise NotSupportedByArrow("IN over several columns")
    value, among = widen_values([value, found.column(0).combine_chunks()])
    if value.type == pa.float64():
        value, among = normalize_doubles(value), normalize_doubles(among)
    elif not (pa.types.is_timestamp(value.type) or pa.types.is_decimal(value.type)) and value.type not in _COMPARED:
        raise NotSupportedByArrow(f"IN over values of type {value.type}")
    if not len(among):
        return pa.scalar(value=False)
    met = pc.is_in(value, value_set=among.drop_null())
    unknown = pc.or_(pc.is_null(value), pc.and_(pc.invert(met), pa.scalar(among.null_count > 0)))
    return pc.if_else(unknown, pa.scalar(None, pa.bool_()), met)


def _calendar_step(node: exp.Expr) -> tuple[int, int] | None:
    """The months and days that are added to a date, or taken from it, which stays a date."""
    by = node.args.get("expression")
    while isinstance(by, exp.Paren):
        by = by.this
    if not isinstance(node, exp.Add | exp.Sub) or not isinstance(by, exp.Literal) or by.is_string:
        return None
    step = read_calendar_unit(str(by.this))
    return step if step is None or isinstance(node, exp.Add) else (-step[0], -step[1])


def _shifted(days: Any, months: int, more: int) -> Any:
    found = shift_dates(days, months, more)
    if found is None:
        raise NotSupportedByArrow("a date of other years than 1 to 9999", for_good=False)
    return found


def _calculated(node: exp.Expr, left: Any, right: Any) -> Any:
    kinds = (left.type, right.type)
    if any(map(pa.types.is_decimal, kinds)) and pa.float64() not in kinds:
        one, other = operand_decimal(node.this, left), operand_decimal(node.expression, right)
        return _known(None if one is None or other is None else calculate_decimals(type(node), one, other))
    if isinstance(node, exp.Sub) and kinds[0] == kinds[1] and (pa.types.is_timestamp(kinds[0]) or kinds[0] == pa.date32()):
        # Sessions are in UTC, where the difference of two times is that of the moments.
        return pc.subtract_checked(left, right).cast(pa.duration("us"))
    if isinstance(node, exp.Add | exp.Sub) and is_time(kinds[0]) and pa.types.is_duration(kinds[1]):
        return CHECKED[type(node)](left, right)
    left, right = map(_number, widen_values([left, right]))
    return CHECKED[type(node)](left, right)


def _known(found: Any | None, what: str = "values of a type that only Spark computes with") -> Any:
    if found is None:
        raise NotSupportedByArrow(what)
    return found


def _literal(node: exp.Literal) -> pa.Scalar:
    # A body's own literals are as they were written, quotes included.
    text = str(node.this)
    if node.is_string or (len(text) > 1 and text[0] == text[-1] == "'"):
        inside = text if node.is_string else text[1:-1]
        if "\\" in inside or "'" in inside:
            raise NotSupportedByArrow("a text with a quote or a backslash in it")
        return pa.scalar(inside)
    if text.replace(".", "", 1).isdigit() and "." in text and len(text) <= _DIGITS:
        return parse_decimal(text)
    if text[:4].upper() == "DATE":
        return _day(text[4:].strip().strip("'"))
    if (double := _DOUBLE.fullmatch(text)) is not None:
        return pa.scalar(float(double[1]))
    if (time := _TIME.fullmatch(text)) is not None:
        return _known(read_time(time[2], zoned=(time[1] or "").upper() != "_NTZ"), "a time that is not written with all its parts")
    if (interval := _INTERVAL.fullmatch(text)) is not None:
        length = _known(read_length(interval[1].replace("'", "")), "an interval that only Spark reads")
        return pa.scalar(length, pa.duration("us"))
    if not text.isdigit() or int(text) >= 1 << 63:
        raise NotSupportedByArrow("a literal that only Spark reads")
    return pa.scalar(int(text), pa.int32() if int(text) < 1 << 31 else pa.int64())


def _day(text: str) -> pa.Scalar:
    # Spark reads more, such as a year alone; Python's own forms beyond this one it does not.
    if len(text) != 10 or text[4] != "-" or text[7] != "-":
        raise NotSupportedByArrow("a date that is not written as year-month-day")
    try:
        return pa.scalar(date.fromisoformat(text), pa.date32())
    except ValueError as error:
        raise NotSupportedByArrow("a date that is not written as year-month-day") from error


def _truth(node: exp.Expr, rows: ArrowRows) -> Any:
    found = evaluate_node(node, rows)
    if not pa.types.is_boolean(found.type):
        raise NotSupportedByArrow(f"a condition of type {found.type}")
    return found


def _number(found: Any) -> Any:
    if found.type not in (*WHOLE, pa.float64()):
        raise NotSupportedByArrow(f"arithmetic on values of type {found.type}")
    return found


def compare_values(operator: type[exp.Expr], left: Any, right: Any) -> Any:
    """The comparison of two values of one kind."""
    if pa.types.is_decimal(left.type) or pa.types.is_decimal(right.type):
        return _COMPARE[operator](*_exact(left, right))
    if is_time(left.type) != is_time(right.type) and pa.date32() in (left.type, right.type):
        # The midnight at which a day begins.
        left, right = (
            part.cast(pa.timestamp("us")).cast(other.type) if part.type == pa.date32() else part
            for part, other in ((left, right), (right, left))
        )
    elif pa.date32() in (left.type, right.type):
        # A text beside a date is a date to Spark.
        left, right = (_day(part.as_py()) if isinstance(part, pa.StringScalar) and part.as_py() else part for part in (left, right))
    return _COMPARE[operator](*(sortable_values(part) for part in widen_values([left, right])))


def _exact(left: Any, right: Any) -> tuple[Any, Any]:
    """A decimal and what it is compared with, to be compared digit by digit; a written one beside a double is a double."""
    pair = []
    for part, other in ((left, right), (right, left)):
        if other.type == pa.float64() or part.type == pa.float64():
            if pa.types.is_decimal(part.type) and not isinstance(part, pa.Scalar):
                raise NotSupportedByArrow("a column of decimals beside a double")
            pair.append(pa.scalar(float(part.as_py())) if pa.types.is_decimal(part.type) else sortable_values(_double(_number(part))))
            continue
        if part.type not in WHOLE and not pa.types.is_decimal(part.type):
            raise NotSupportedByArrow(f"a comparison of values of type {part.type}")
    return (pair[0], pair[1]) if pair else align_decimals(left, right)


def sortable_values(found: Any) -> Any:
    """Values that both engines order alike: NaN, the largest number to Spark and unordered to Arrow, is refused."""
    if pa.types.is_decimal(found.type) or pa.types.is_timestamp(found.type) or pa.types.is_duration(found.type):
        return found
    if found.type not in _COMPARED:
        raise NotSupportedByArrow(f"an order of values of type {found.type}")
    if found.type == pa.float64():
        _refuse_nan(found)
    return found


def _refuse_nan(found: Any) -> None:
    unknown = pc.is_nan(found)
    if (unknown if isinstance(unknown, pa.Scalar) else pc.any(unknown)).as_py():
        raise NotSupportedByArrow("NaN among the values", for_good=False)


def normalize_doubles(found: Any) -> Any:
    """Doubles as Spark groups and joins by them: 0.0 in place of -0.0, which Arrow tells apart; NaN is refused."""
    _refuse_nan(found)
    return pc.add(found, 0.0)


def widen_values(found: Sequence[Any]) -> list[Any]:
    """Values brought to the type that Spark brings them to: the widest of whole numbers, or else they must be of one type."""
    types = [part.type for part in found]
    if all(kind == types[0] for kind in types):
        return list(found)
    if all(kind in WHOLE for kind in types):
        widest = WHOLE[max(WHOLE.index(kind) for kind in types)]
        return [part.cast(widest) for part in found]
    if pa.float64() in types:
        return [_double(part if pa.types.is_decimal(part.type) else _number(part)) for part in found]
    if any(map(pa.types.is_decimal, types)):
        kind = _known(widest_decimal(types))
        return [part.cast(pa.decimal128(20, 0)).cast(kind) if part.type in WHOLE else part.cast(kind) for part in found]
    raise NotSupportedByArrow(f"values of types {', '.join(map(str, types))} side by side")


def _double(found: Any) -> Any:
    return _known(to_double(found), f"arithmetic on values of type {found.type}")


def _refuse_zero(right: Any) -> None:
    by_zero = pc.equal(right, pa.scalar(0, right.type))
    if (by_zero.as_py() if isinstance(by_zero, pa.Scalar) else pc.any(by_zero).as_py()) is True:
        raise NotSupportedByArrow("a division by zero", for_good=False)


def _divided(node: exp.Div, left: Any, right: Any) -> Any:
    if any(pa.types.is_decimal(part.type) for part in (left, right)) and pa.float64() not in (left.type, right.type):
        one, other = (_known(operand_decimal(*part)) for part in ((node.this, left), (node.expression, right)))
        _refuse_zero(other)
        return _known(divide_decimals(one, other), "a quotient of decimals with more digits than Arrow has")
    left, right = _double(left), _double(right)
    _refuse_zero(right)
    return pc.divide(left, right)


def _remainder(left: Any, right: Any) -> Any:
    """What a division leaves, with the sign of what is divided."""
    left, right = map(_number, widen_values([left, right]))
    _refuse_zero(right)
    if left.type not in WHOLE:
        raise NotSupportedByArrow("the remainder of doubles")
    return pc.subtract(left, pc.multiply(pc.divide_checked(left, right), right))


def _reached(conditions: Sequence[Any]) -> list[Any]:
    """The rows that reach each branch of a CASE, and its ELSE."""
    left = None
    found = []
    for condition in conditions:
        found.append(condition if left is None else pc.and_(left, condition))
        none = pc.invert(condition)
        left = none if left is None else pc.and_(left, none)
    return [*found, left]


def _evaluate_where(node: exp.Expr, rows: ArrowRows, mask: Any) -> Any:
    """The values of a branch: what fails in rows that do not reach it does not matter, as in Spark."""
    try:
        return evaluate_node(node, rows)
    except (NotSupportedByArrow, pa.ArrowInvalid) as error:
        if isinstance(error, NotSupportedByArrow) and error.refusal.for_good:
            raise
        mask = mask.combine_chunks() if isinstance(mask, pa.ChunkedArray) else mask
        chosen = rows.picked(mask)
        if chosen.count == rows.count:
            raise
        found = repeat_value(evaluate_node(node, chosen), chosen.count)
        places = np.cumsum(mask.to_numpy(zero_copy_only=False)) - 1
        return found.take(pa.array(places, mask=~mask.to_numpy(zero_copy_only=False)))


def _case(node: exp.Case, rows: ArrowRows) -> Any:
    conditions = [pc.fill_null(repeat_value(_truth(branch.this, rows), rows.count), False) for branch in node.args["ifs"]]  # noqa: FBT003
    branches = [branch.args["true"] for branch in node.args["ifs"]]
    default = node.args.get("default")
    reached = _reached(conditions)
    values = widen_values(
        [
            _evaluate_where(branch, rows, mask)
            for branch, mask in zip((*branches, *([default] if default is not None else [])), reached, strict=False)
        ]
    )
    spreads = [repeat_value(value, rows.count) for value in values]
    if default is None:
        spreads.append(pa.nulls(rows.count, values[0].type))
    if rows.count == 0:
        return spreads[0]
    plain = [part.combine_chunks() if isinstance(part, pa.ChunkedArray) else part for part in conditions]
    return pc.case_when(pa.StructArray.from_arrays(plain, names=[str(place) for place in range(len(plain))]), *spreads)
