"""`read_condition`: sqlglot's tree of a condition becomes a description of the rows for which it is true, and a residual.

The tree may be an expression of a plan or of a query's masked text: the caller says what in it is a column and what is a constant.
"""

from __future__ import annotations

from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlglot import exp

from platform_plugin.algebra.plan.filters import split_operands
from platform_plugin.algebra.predicates.conditions import ALWAYS, Condition
from platform_plugin.algebra.predicates.formulas import FALSE, TRUE, AllOf, AnyOf, ColumnTest, Opaque, describe

if TYPE_CHECKING:
    from collections.abc import Callable

    from platform_plugin.algebra.predicates.formulas import Comparing, Formula, Testing
    from platform_plugin.algebra.types.data_types import DataType

_COMPARISONS: dict[type[exp.Expr], Comparing] = {exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
_OPPOSITES: dict[Comparing, Comparing] = {"=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_FLIPPED: dict[Comparing, Comparing] = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


class SplitCondition(NamedTuple):
    """A condition as a description of rows, and the parts joined by AND that the description does not decide.

    A row passes if it is in the description and every part of the residual is true of it.
    """

    condition: Condition
    residual: tuple[exp.Expr, ...]


def read_condition(
    node: exp.Expr,
    column_of: Callable[[exp.Expr], str | None],
    constant_of: Callable[[exp.Expr], Any],
    type_of: Callable[[str], DataType | None],
    value_of: Callable[[Any], Any] = lambda constant: constant,
) -> SplitCondition:
    """The rows for which a condition is true.

    `column_of` gives the column that a node is, and `constant_of` the constant that it is, in any form that `value_of` makes a value of;
    both give None for every other node. `type_of` and `value_of` are those of `describe`.
    """
    parts = list(split_operands(node, exp.And))
    found = [describe(read_formula(part, column_of, constant_of), type_of, value_of) for part in parts]
    whole = reduce(and_, (Condition(one.boxes) for one in found), ALWAYS)
    if whole.is_never:
        return SplitCondition(whole, ())
    # Too many boxes were made one, which then decides none of the parts.
    residual = [part for part, one in zip(parts, found, strict=True) if not (one.is_exact and whole.is_exact)]
    return SplitCondition(Condition(whole.boxes, is_exact=not residual), tuple(residual))


def read_formula(node: exp.Expr, column_of: Callable[[exp.Expr], str | None], constant_of: Callable[[exp.Expr], Any]) -> Formula:
    """The formula of a condition, for which no parameter needs a value yet."""
    return _Reader(column_of, constant_of).read(node, truth=True)


class _Reader:
    """Each method gives the formula that is true where the node has the truth value; where the node is NULL it is not true."""

    def __init__(self, column_of: Callable[[exp.Expr], str | None], constant_of: Callable[[exp.Expr], Any]) -> None:
        self._column_of = column_of
        self._constant_of = constant_of

    def read(self, node: exp.Expr, *, truth: bool) -> Formula:
        match node:
            case exp.Paren():
                return self.read(node.this, truth=truth)
            case exp.Not():
                return self.read(node.this, truth=not truth)
            case exp.And() | exp.Or():
                formulas = tuple(self.read(part, truth=truth) for part in split_operands(node, type(node)))
                return AllOf(formulas) if isinstance(node, exp.And) == truth else AnyOf(formulas)
            case exp.Boolean():
                return TRUE if bool(node.this) == truth else FALSE
            case exp.Null():
                return FALSE
            case exp.Between() if not node.args.get("symmetric"):
                ends = (
                    self._compare(node.this, ">=" if truth else "<", node.args["low"]),
                    self._compare(node.this, "<=" if truth else ">", node.args["high"]),
                )
                return AllOf(ends) if truth else AnyOf(ends)
            case exp.In() if node.expressions and not any(node.args.get(key) for key in ("query", "unnest", "field")):
                return self._test(node.this, "in" if truth else "not in", node.expressions)
            case exp.Like():
                positive = truth != bool(node.args.get("negate"))
                return self._test(node.this, "like" if positive else "not like", [node.args["expression"]])
            case exp.Is():
                return self._is(node, truth=truth)
            case exp.NullSafeEQ() | exp.NullSafeNEQ():
                return self._same(node, is_same=isinstance(node, exp.NullSafeEQ) == truth)
        operator = _COMPARISONS.get(type(node))
        if operator is not None:
            return self._compare(node.this, operator if truth else _OPPOSITES[operator], node.args["expression"])
        column = self._column_of(node)
        return Opaque() if column is None else ColumnTest(column, "is true" if truth else "is false")

    def _compare(self, left: exp.Expr, operator: Comparing, right: exp.Expr) -> Formula:
        if self._column_of(left) is None and self._constant_of(left) is not None:
            left, operator, right = right, _FLIPPED[operator], left
        formula = self._test(left, operator, [right])
        # Whatever is compared, no comparison with NULL is true or false.
        column = self._column_of(right)
        return formula if column is None else AllOf((formula, ColumnTest(column, "is not null")))

    def _test(self, node: exp.Expr, operator: Testing, others: list[exp.Expr]) -> Formula:
        """A test that is neither true nor false of NULL."""
        column = self._column_of(node)
        if column is None:
            return Opaque()
        constants = tuple(self._constant_of(other) for other in others)
        if any(constant is None for constant in constants):
            return AllOf((ColumnTest(column, "is not null"), Opaque()))
        return ColumnTest(column, operator, constants)

    def _same(self, node: exp.Expr, *, is_same: bool) -> Formula:
        for one, other in ((node.this, node.args["expression"]), (node.args["expression"], node.this)):
            column, constant = self._column_of(one), self._constant_of(other)
            if column is not None and constant is not None:
                return ColumnTest(column, "<=>" if is_same else "not <=>", (constant,))
        return Opaque()

    def _is(self, node: exp.Expr, *, truth: bool) -> Formula:
        column = self._column_of(node.this)
        match node.args["expression"]:
            case exp.Null() if column is not None:
                return ColumnTest(column, "is null" if truth else "is not null")
            case exp.Boolean(this=bool(wanted)) if column is not None:
                if truth:
                    return ColumnTest(column, "is true" if wanted else "is false")
                return ColumnTest(column, "is not true" if wanted else "is not false")
            case exp.Boolean(this=bool(wanted)) if truth:
                return self.read(node.this, truth=wanted)
        return Opaque()
