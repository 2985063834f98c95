"""`Call`: an aggregate's call as name, arguments and clauses, and builders of the expressions for parts and answers."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

from sqlglot import exp

from platform_plugin.algebra.build.grouping import call_in
from platform_plugin.algebra.plan.names import output_name
from platform_plugin.algebra.plan.nodes import Scalar
from platform_plugin.algebra.plan.traversal import map_nodes, walk_expression
from platform_plugin.operators.group.body import read_body

if TYPE_CHECKING:
    from collections.abc import Sequence

    from platform_plugin.algebra.plan.nodes import Item

_HOLE = re.compile(r"_\d+")


def call_expression(name: str, *args: exp.Expr) -> exp.Anonymous:
    """A call of a function."""
    return exp.Anonymous(this=name, expressions=[argument.copy() for argument in args])


@cache
def _read(text: str) -> exp.Expr:
    found: exp.Expr = read_body(f"SELECT {text}").expressions[0]
    return found


def parse_expression(text: str, *values: exp.Expr) -> exp.Expr:
    """An expression from its SQL, in which _0, _1, … stand for `values`.

    >>> parse_expression("coalesce(_0.n, 0) > 1", exp.column("moments")).sql("spark", normalize_functions=False)
    'coalesce(moments.`n`, 0) > 1'
    """

    def put(node: exp.Expr) -> exp.Expr | None:
        if not isinstance(node, exp.Column):
            return None
        parts = [part.name for part in node.parts]
        if not _HOLE.fullmatch(parts[0]):
            return None
        found = values[int(parts[0][1:])]
        if isinstance(found, exp.Binary) and not isinstance(found, exp.Dot):
            found = exp.Paren(this=found.copy())
        for part in parts[1:]:
            found = exp.Dot(this=found.copy(), expression=exp.to_identifier(part, quoted=True))
        return found

    return map_nodes(_read(text), put)


def cast(value: exp.Expr, kind: str) -> exp.Expr:
    """A value cast to another type."""
    return exp.Cast(this=value.copy(), to=exp.DataType(this=exp.DType.USERDEFINED, kind=kind))


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call of an aggregate: its name, its arguments, and its FILTER, WITHIN GROUP, DISTINCT and IGNORE NULLS."""

    name: str
    args: tuple[exp.Expr, ...]
    node: exp.Expr
    distinct: bool = False
    ignores_nulls: bool = False
    condition: exp.Expr | None = None
    order: exp.Expr | None = None

    def of(self, *args: exp.Expr) -> Call:
        """The same call with other arguments."""
        return replace(self, args=(*args, *self.args[len(args) :]))

    def filtered(self, value: exp.Expr) -> exp.Expr:
        """An aggregate with this call's FILTER."""
        if self.condition is None:
            return value
        return exp.Filter(this=value, expression=exp.Where(this=self.condition.copy()))

    def over(self, values: Sequence[exp.Expr], columns: Sequence[exp.Expr]) -> exp.Expr:
        """The original call over columns in place of its values, without FILTER."""
        found = self.node.this if isinstance(self.node, exp.Filter) else self.node
        pairs = list(zip(values, columns, strict=True))
        return map_nodes(found, lambda node: next((column for value, column in pairs if value == node), None))

    def shown(self) -> str:
        """Its first argument as SQL, with columns by their bare names."""
        return output_name(self.args[0]) if self.args else "x"

    def word(self, index: int = 0) -> str:
        """A name for a column that stores a value of an argument: the argument's column if it is one."""
        if index >= len(self.args):
            return "x"
        found = [node for node in walk_expression(self.args[index]) if isinstance(node, exp.Column)]
        if len(found) == 1 and isinstance(self.args[index], (exp.Column, exp.Cast)):
            return re.sub(r"\W", "_", found[0].name)
        return re.sub(r"\W", "_", found[0].name) + "_x" if found else "x"


def read_call(node: exp.Expr) -> Call:
    """The call for an aggregate's node."""
    inner = call_in(node)
    if inner is None:
        raise TypeError(node.sql())
    condition = order = None
    ignores = False
    outer = node
    while outer is not inner:
        if isinstance(outer, exp.Filter):
            condition = outer.expression.this
        elif isinstance(outer, exp.WithinGroup):
            order = outer.expression
        elif isinstance(outer, exp.IgnoreNulls):
            ignores = True
        outer = outer.this
    args = list(inner.expressions)
    distinct = len(args) > 0 and isinstance(args[0], exp.Distinct)
    if distinct:
        args = [*args[0].expressions, *args[1:]]
    if args and isinstance(args[0], (exp.IgnoreNulls, exp.RespectNulls)):
        ignores |= isinstance(args[0], exp.IgnoreNulls)
        args[0] = args[0].this
    if args and isinstance(args[0], exp.Order):
        order, args[0] = args[0], args[0].this
    if len(args) == 2 and str(inner.this) in ("first", "last", "first_value", "last_value", "any_value"):
        ignores |= isinstance(args[1], exp.Boolean) and bool(args[1].this)
        args = args[:1]
    return Call(
        name=str(inner.this),
        args=tuple(args),
        node=node,
        distinct=distinct,
        ignores_nulls=ignores,
        condition=condition,
        order=order,
    )


def put_condition_into_values(item: Item, values: Sequence[exp.Expr]) -> Item:
    """A call with FILTER as one over values that are NULL where the condition is not true.

    Every row of a session counts for where the session begins and ends, so that no state may leave rows out.
    """
    condition = read_call(item.value.node).condition
    if condition is None:
        return item
    inner = item.value.node.this
    first = values[0]
    chosen = parse_expression("CASE WHEN _0 THEN _1 END", condition, first)
    return replace(item, value=Scalar(map_nodes(inner, lambda node: chosen if node == first else None)))
