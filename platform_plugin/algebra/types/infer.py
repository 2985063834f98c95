"""The types of expressions by Spark's rules, from the types of their columns; None where only Spark can tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from platform_plugin.algebra.functions import FUNCTIONS
from platform_plugin.algebra.plan.nodes import Scalar, outputs
from platform_plugin.algebra.plan.traversal import column_of
from platform_plugin.algebra.types.data_types import DataType, Decimal, IntervalType, List, Primitive, Struct, list_of, struct_of
from platform_plugin.algebra.types.widening import (
    RANKS,
    WHOLE,
    adjusted_decimal,
    bounded_decimal,
    common_type,
    decimal_type_of,
    to_spark_number,
    wider_type,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from platform_plugin.algebra.plan.nodes import Column

BOOLEAN, INT, LONG, DOUBLE, STRING = (Primitive(name) for name in ("boolean", "int32", "int64", "float64", "varchar"))
_TIMES = (Primitive("date"), Primitive("timestamp"), Primitive("timestamptz"))
_TRUTHS = (exp.Predicate, exp.Not, exp.And, exp.Or, exp.Boolean, exp.Exists, exp.In, exp.Between, exp.Is, exp.RegexpLike)
_LEAST_SCALE = 6
# The rules by which a type does not depend on the arguments.
_CONSTANT = {
    "bigint": LONG,
    "boolean": BOOLEAN,
    "date": Primitive("date"),
    "double": DOUBLE,
    "float": Primitive("float32"),
    "int": INT,
    "string": STRING,
    "timestamp": Primitive("timestamptz"),
}


def type_of(value: Scalar, types: Mapping[Column, DataType | None]) -> DataType | None:
    """The type of an expression.

    >>> from platform_plugin.algebra.plan.nodes import Column
    >>> node = exp.Mul(this=exp.column("rate", "t"), expression=exp.column("rate", "t"))
    >>> str(type_of(Scalar(node), {Column("t", "rate"): Decimal(precision=9, scale=2)}))
    'DECIMAL(19,4)'
    """
    return _type(value.node, types, value)


def _type(node: exp.Expr, types: Mapping[Column, DataType | None], whole: Scalar) -> DataType | None:
    if isinstance(node, exp.Column):
        column = column_of(node)
        return types.get(column) if column is not None else None
    if isinstance(node, (exp.Literal, exp.Cast)):
        found = node.meta.get("type")
        return found if isinstance(found, (Primitive, Decimal, IntervalType, List, Struct)) else None
    if isinstance(node, exp.Paren):
        return _type(node.this, types, whole)
    if isinstance(node, exp.Placeholder):
        return outputs(whole.plans[int(node.name)])[0].type
    if isinstance(node, _TRUTHS):
        return BOOLEAN
    if isinstance(node, exp.DPipe):
        return STRING if _type(node.this, types, whole) == STRING else None
    if isinstance(node, exp.Neg):
        return _type(node.this, types, whole)
    if isinstance(node, exp.IntDiv):
        return LONG
    if isinstance(node, (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod)):
        return _arithmetic(node, _type(node.this, types, whole), _type(node.expression, types, whole))
    if isinstance(node, exp.Dot):
        inner = _type(node.this, types, whole)
        parts = inner.fields if isinstance(inner, Struct) else ()
        return next((part.type for part in parts if part.name.lower() == node.name.lower()), None)
    if isinstance(node, exp.Bracket):
        inner = _type(node.this, types, whole)
        return inner.element.type if isinstance(inner, List) else None
    if isinstance(node, exp.Case):
        values = [branch.args["true"] for branch in node.args["ifs"]] + [node.args.get("default")]
        return common_type([_type(found, types, whole) for found in values if found is not None and not isinstance(found, exp.Null)])
    if isinstance(node, exp.Extract):
        return INT if node.name.upper() != "SECOND" else None
    if isinstance(node, (exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls, exp.Window)):
        return _type(node.this, types, whole)
    if isinstance(node, exp.Distinct):
        return _type(node.expressions[0], types, whole) if len(node.expressions) == 1 else None
    if isinstance(node, exp.Anonymous):
        return _call(node, types, whole)
    return None


def _call(node: exp.Anonymous, types: Mapping[Column, DataType | None], whole: Scalar) -> DataType | None:
    known = FUNCTIONS.get(str(node.this))
    if known is None:
        return None
    args = [_type(found, types, whole) for found in node.expressions if not isinstance(found, exp.Null)]
    if known.kind == "aggregate":
        return aggregate_type(known.canonical, args[0] if args else None)
    match known.type_rule:
        case "common":
            return common_type(args)
        case "argument":
            return args[0] if args else None
        case "branches" if len(node.expressions) == 3:
            return common_type([_type(found, types, whole) for found in node.expressions[1:] if not isinstance(found, exp.Null)])
        case "session" if args and args[0] in _TIMES[1:]:
            return struct_of(start=args[0], end=args[0])
        case "rounded":
            return args[0] if args and isinstance(args[0], Primitive) else None
        case "list":
            element = common_type(args)
            return None if element is None else list_of(element)
        case "int" | "date" if len(node.expressions) > 2:
            return None  # with a unit in front they are other functions
        case rule:
            return _CONSTANT.get(rule or "")


def aggregate_type(name: str, argument: DataType | None) -> DataType | None:
    """The type of an aggregate's result, by its canonical name and the type of its first argument."""
    known = FUNCTIONS.get(name)
    rule = None if known is None else known.type_rule
    if rule in _CONSTANT:
        return _CONSTANT[rule]
    if argument is None:
        return None
    if rule == "argument":
        return argument
    if rule == "list":
        return list_of(argument)
    argument = to_spark_number(argument)
    match rule:
        case "sum":
            return sum_type(argument)
        case "average" if isinstance(argument, IntervalType):
            return IntervalType("YEAR", "MONTH") if argument.is_months else IntervalType("DAY", "SECOND")
        case "average" if isinstance(argument, Decimal):
            return bounded_decimal(argument.precision + 4, argument.scale + 4)
        case "average" | "quantile" if _number(argument):
            return DOUBLE
    return None


def sum_type(argument: DataType | None) -> DataType | None:
    """The type of a sum of values of a type."""
    if argument is not None:
        argument = to_spark_number(argument)
    if isinstance(argument, Decimal):
        return bounded_decimal(argument.precision + 10, argument.scale)
    if isinstance(argument, IntervalType):
        return argument
    if not _number(argument):
        return None
    return LONG if isinstance(argument, Primitive) and argument.name in WHOLE else DOUBLE


def _number(kind: DataType | None) -> bool:
    return isinstance(kind, Primitive) and kind.name in RANKS


def _arithmetic(node: exp.Expr, a: DataType | None, b: DataType | None) -> DataType | None:
    if a is None or b is None:
        return None
    if isinstance(node, exp.Sub) and a in _TIMES and b in _TIMES:
        return IntervalType("DAY", "DAY") if a == b == _TIMES[0] else IntervalType("DAY", "SECOND")
    if isinstance(a, Primitive) and isinstance(b, Primitive):
        if a.name not in RANKS or b.name not in RANKS:
            return None
        if isinstance(node, exp.Div):
            return DOUBLE
        return wider_type(a, b)
    if DOUBLE in (a, b) or Primitive("float32") in (a, b):
        return DOUBLE
    left, right = _narrow(node.this, a), _narrow(node.expression, b)
    return None if left is None or right is None else _decimal(node, left, right)


def _narrow(node: exp.Expr, kind: DataType) -> Decimal | None:
    """A whole literal next to a decimal takes only the digits it has."""
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.Literal) and isinstance(kind, Primitive) and kind.name in WHOLE:
        return Decimal(precision=max(1, len(str(node.this).rstrip("LlSsYy").lstrip("0"))), scale=0)
    return decimal_type_of(kind)


def _decimal(node: exp.Expr, a: Decimal, b: Decimal) -> Decimal | None:
    whole = max(a.precision - a.scale, b.precision - b.scale)
    if isinstance(node, (exp.Add, exp.Sub)):
        scale = max(a.scale, b.scale)
        return adjusted_decimal(whole + scale + 1, scale)
    if isinstance(node, exp.Mul):
        return adjusted_decimal(a.precision + b.precision + 1, a.scale + b.scale)
    if isinstance(node, exp.Div):
        scale = max(_LEAST_SCALE, a.scale + b.precision + 1)
        return adjusted_decimal(a.precision - a.scale + b.scale + scale, scale)
    return adjusted_decimal(min(a.precision - a.scale, b.precision - b.scale) + max(a.scale, b.scale), max(a.scale, b.scale))
