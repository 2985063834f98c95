"""`prepare_selection` and `bind_values`: plans that run again and again, and the values of their parameters.

A selection of columns under comparisons with constants is the plan that is run most often, over few rows: names, types and constants are
looked at once, when it is prepared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from platform_plugin.algebra.plan.filters import filter_conditions, split_filters
from platform_plugin.algebra.plan.nodes import Project, Scalar, Scan
from platform_plugin.algebra.plan.traversal import column_of, map_inputs, map_nodes, map_scalars, walk_expression
from platform_plugin.engine.arrow.values import VALUE, NotSupportedByArrow
from platform_plugin.language.text.leaves import read_constant
from platform_plugin.language.text.values import Literal, Parameter

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from platform_plugin.algebra.plan.nodes import Query

_COMPARE: dict[type[exp.Expr], Callable[..., Any]] = {
    exp.EQ: pc.equal,
    exp.NEQ: pc.not_equal,
    exp.LT: pc.less,
    exp.LTE: pc.less_equal,
    exp.GT: pc.greater,
    exp.GTE: pc.greater_equal,
}
_KINDS = ("boolean", "integer", "decimal", "string", "date")
_WIDTHS = {pa.int8(): 8, pa.int16(): 16, pa.int32(): 32, pa.int64(): 64}


class _NotPrepared(Exception):
    """A plan that is no selection, or a value that is not of its column's type."""


class _Test(NamedTuple):
    """A test of a column: `constant` is what Arrow compares with, or, where `is_open`, parameters among the constants of the text."""

    column: str
    function: Callable[..., Any]
    constant: Any
    kind: pa.DataType
    is_open: bool = False
    is_list: bool = False


@dataclass(frozen=True, slots=True)
class PreparedSelection:
    """Columns of one relation, where tests hold; each test compares in the column's own type, so that Arrow means what Spark means."""

    relation: str
    schema: pa.Schema
    columns: tuple[str, ...]
    names: tuple[str, ...]
    tests: tuple[_Test, ...]

    def run(self, tables: Mapping[str, Any], values: Mapping[str, Any] | Sequence[Any]) -> pa.Table | None:
        """The rows; None for other columns than it was prepared for, and for values that are not of their columns' types."""
        rows = tables[self.relation]
        if not isinstance(rows, pa.Table) or (rows.schema is not self.schema and rows.schema != self.schema):
            return None
        mask: Any = None
        for test in self.tests:
            constant = test.constant
            if test.is_open:
                try:
                    constant = _constant(constant, test.kind, values, is_list=test.is_list)
                except _NotPrepared:
                    return None
            found = test.function(rows.column(test.column), constant)
            mask = found if mask is None else pc.and_(mask, found)
        chosen = pa.table([rows.column(column) for column in self.columns], names=self.names)
        return chosen if mask is None else chosen.filter(mask)


def prepare_selection(query: Query, schemas: Mapping[str, pa.Schema]) -> PreparedSelection | None:
    """A plan as a selection, or None where it is something else."""
    if not isinstance(query, Project):
        return None
    source, filters = split_filters(query.source)
    if not isinstance(source, Scan) or (schema := schemas.get(".".join(source.relation))) is None:
        return None
    try:
        tests = [test for part in filter_conditions(filters) for test in _tests(part.node, schema)]
        columns = tuple(_column(item.value.node, schema) for item in query.items)
    except _NotPrepared:
        return None
    return PreparedSelection(".".join(source.relation), schema, columns, tuple(item.name for item in query.items), tuple(tests))


def _column(node: exp.Expr, schema: pa.Schema) -> str:
    column = column_of(node)
    if column is None or column.name not in schema.names:
        raise _NotPrepared
    return column.name


def _tests(node: exp.Expr, schema: pa.Schema) -> Iterator[_Test]:
    match node:
        case exp.EQ() | exp.NEQ() | exp.LT() | exp.LTE() | exp.GT() | exp.GTE():
            yield _test(node.this, _COMPARE[type(node)], node.expression, schema)
        case exp.Between() if not node.args.get("symmetric"):
            yield _test(node.this, pc.greater_equal, node.args["low"], schema)
            yield _test(node.this, pc.less_equal, node.args["high"], schema)
        case exp.In() if node.expressions and not any(value for name, value in node.args.items() if name not in ("this", "expressions")):
            yield _test(node.this, pc.is_in, node.expressions, schema, is_list=True)
        case exp.Is() if isinstance(node.expression, exp.Null):
            yield _null_test(node.this, pc.is_null, schema)
        case exp.Not() if isinstance(node.this, exp.Is) and isinstance(node.this.expression, exp.Null):
            yield _null_test(node.this.this, pc.is_valid, schema)
        case _:
            raise _NotPrepared


def _null_test(node: exp.Expr, function: Callable[..., Any], schema: pa.Schema) -> _Test:
    name = _column(node, schema)
    return _Test(name, lambda column, _: function(column), None, schema.field(name).type)


def _test(node: exp.Expr, function: Callable[..., Any], other: Any, schema: pa.Schema, *, is_list: bool = False) -> _Test:
    name = _column(node, schema)
    kind = schema.field(name).type
    cells = [_cell(one) for one in (other if is_list else [other])]
    constants = tuple(cells) if is_list else cells[0]
    if any(isinstance(cell, Parameter) for cell in cells):
        return _Test(name, function, constants, kind, is_open=True, is_list=is_list)
    return _Test(name, function, _constant(constants, kind, (), is_list=is_list), kind, is_list=is_list)


def _cell(node: exp.Expr) -> Any:
    """The value of a constant, or the parameter that it is."""
    constant = read_constant(node)
    if isinstance(constant, Parameter):
        return constant
    if isinstance(constant, Literal) and constant.kind in _KINDS:
        return constant.value
    raise _NotPrepared


def _constant(cells: Any, kind: pa.DataType, values: Mapping[str, Any] | Sequence[Any], *, is_list: bool) -> Any:
    if is_list:
        found = [_own(_value(cell, values), kind) for cell in cells]
        return pa.array(found, kind)
    return pa.scalar(_own(_value(cells, values), kind), kind)


def _value(cell: Any, values: Mapping[str, Any] | Sequence[Any]) -> Any:
    """The caller's value for a parameter; a value of the text as it is."""
    if not isinstance(cell, Parameter):
        return cell
    if cell.name is not None and isinstance(values, Mapping) and cell.name in values:
        return values[cell.name]
    if cell.index is not None and isinstance(values, (tuple, list)) and cell.index < len(values):
        return values[cell.index]
    raise _NotPrepared


def _own(value: Any, kind: pa.DataType) -> Any:
    """A value of a column's own type, with which Spark compares without converting the column."""
    width = _WIDTHS.get(kind)
    if width is not None:
        fits = isinstance(value, int) and not isinstance(value, bool) and -(1 << (width - 1)) <= value < 1 << (width - 1)
    elif kind == pa.string():
        fits = isinstance(value, str)
    elif pa.types.is_decimal(kind):
        if isinstance(value, int) and not isinstance(value, bool):
            value = Decimal(value)
        exponent = value.as_tuple().exponent if isinstance(value, Decimal) else None
        fits = isinstance(exponent, int) and -exponent <= kind.scale and abs(value) < Decimal(10) ** (kind.precision - kind.scale)
    elif kind == pa.bool_():
        fits = isinstance(value, bool)
    else:
        fits = kind == pa.date32() and isinstance(value, date) and not isinstance(value, datetime)
    if not fits:
        raise _NotPrepared
    return value


def bind_values(query: Query, values: Mapping[str, Any] | Sequence[Any]) -> Query:
    """A plan with the values of its parameters, typed as Spark types them; values whose type only Spark knows are refused."""

    def change(node: exp.Expr) -> exp.Expr | None:
        parameter = node.meta.get("parameter") if isinstance(node, exp.Var) else None
        if parameter is None:
            return None
        bound = exp.Var(this=node.this)
        bound.meta[VALUE] = _spark_scalar(parameter, values)
        return bound

    def visit(node: Any) -> Any:
        return map_scalars(map_inputs(node, visit), bind)

    def bind(value: Scalar) -> Scalar:
        if not any(isinstance(node, exp.Var) and "parameter" in node.meta for node in walk_expression(value.node)):
            return value
        return Scalar(map_nodes(value.node, change), value.plans)

    return visit(query) if len(values) else query


def _spark_scalar(parameter: Parameter, values: Mapping[str, Any] | Sequence[Any]) -> pa.Scalar:
    try:
        value = _value(parameter, values)
    except _NotPrepared as error:
        raise NotSupportedByArrow("a parameter without a value", for_good=False) from error
    match value:
        case bool() | str():
            return pa.scalar(value)
        case int() if -(1 << 63) <= value < 1 << 63:
            return pa.scalar(value, pa.int32() if -(1 << 31) <= value < 1 << 31 else pa.int64())
        case date() if not isinstance(value, datetime):
            return pa.scalar(value, pa.date32())
    raise NotSupportedByArrow(f"a parameter of type {type(value).__name__}", for_good=False)
