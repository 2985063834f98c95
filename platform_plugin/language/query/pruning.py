"""Predicates for pruning: the conjuncts of a WHERE that compare one column with constants."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from platform_plugin.algebra.plan.predicates import Comparison, IsNotNull, IsNull, OneOf, Operator, Predicate
from platform_plugin.language.text.tokens import NUMBER, find_token
from platform_plugin.language.text.values import Literal, read_cell

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from platform_plugin.language.query.scopes import Node
    from platform_plugin.language.text.masking import MaskedQuery
    from platform_plugin.language.text.tokens import Tokens
    from platform_plugin.language.text.values import Cell, Parameter

_OPERATORS: dict[type[exp.Expr], Operator] = {
    exp.EQ: "=",
    exp.NullSafeEQ: "=",
    exp.NEQ: "!=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_FLIPPED: dict[Operator, Operator] = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


class ConstantReader:
    """A reader of the constants in a masked tree, from the tokens that they stand for."""

    def __init__(self, tokens: Tokens, parameters: dict[int, Parameter], masked: MaskedQuery) -> None:
        self._tokens = tokens
        self._parameters = parameters
        self._masked = masked

    def read(self, node: Node | None) -> Cell | None:
        """The literal or parameter that a node stands for, or None."""
        while isinstance(node, exp.Paren):
            node = node.this
        match node:
            case exp.Var() if "parameter" in node.meta:
                parameter: Cell = node.meta["parameter"]
                return parameter
            case exp.Null():
                return Literal("null", None)
            case exp.Boolean():
                return Literal("boolean", bool(node.this))
            case exp.Neg() if isinstance(node.this, exp.Literal):
                index = self._index(node.this)
                return None if index is None or self._tokens.kind(index) != NUMBER else self._cell(index - 1)
            case exp.Literal():
                index = self._index(node)
                return None if index is None else self._cell(index)
            case _:
                return None

    def whole(self, node: exp.In) -> bool:
        """Whether the tree holds all items of an IN list; masking shortens long ones."""
        return len(node.expressions) > 1 or not any(self._first_of(item) in self._masked.cut for item in node.expressions)

    def _first_of(self, node: Node) -> int | None:
        literal = node.find(exp.Literal)
        index = None if literal is None else self._index(literal)
        return index - 1 if index is not None and index - 1 in self._masked.cut else index

    def _index(self, literal: exp.Literal) -> int | None:
        at = literal.meta.get("at")
        return None if at is None else find_token(self._tokens, at[0])

    def _cell(self, index: int) -> Cell | None:
        cell = read_cell(self._tokens, index, self._parameters)
        return None if cell is None else cell[0]


def conjuncts(condition: Node) -> Iterator[Node]:
    """The parts of a condition that AND joins."""
    stack = [condition]
    while stack:
        node = stack.pop()
        if isinstance(node, exp.And):
            stack += [node.expression, node.this]
        elif isinstance(node, exp.Paren):
            stack.append(node.this)
        else:
            yield node


def read_predicates(condition: Node, column_of: Callable[[Node], str | None], constants: ConstantReader) -> Iterator[Predicate]:
    """The predicates that every row must meet; `column_of` gives the relation's column that a node stands for, or None."""
    for node in conjuncts(condition):
        match node:
            case exp.Between():
                column, low, high = column_of(node.this), constants.read(node.args["low"]), constants.read(node.args["high"])
                if column and not node.args.get("symmetric"):
                    if low is not None and not _null(low):
                        yield Comparison(column, ">=", low)
                    if high is not None and not _null(high):
                        yield Comparison(column, "<=", high)
            case exp.In() if node.expressions and not any(node.args.get(key) for key in ("query", "unnest", "field")):
                column = column_of(node.this)
                values = [constants.read(item) for item in node.expressions]
                if column and constants.whole(node) and all(value is not None for value in values):
                    # NULL among the items never makes IN true.
                    yield OneOf(column, tuple(value for value in values if value is not None and not _null(value)))
            case exp.Is() if isinstance(node.expression, exp.Null):
                column = column_of(node.this)
                if column:
                    yield IsNull(column)
            case exp.Not() if isinstance(node.this, exp.Is) and isinstance(node.this.expression, exp.Null):
                column = column_of(node.this.this)
                if column:
                    yield IsNotNull(column)
            case _ if type(node) in _OPERATORS:
                yield from _comparison(node, _OPERATORS[type(node)], column_of, constants)
            case _:
                pass


def _comparison(node: Node, operator: Operator, column_of: Callable[[Node], str | None], constants: ConstantReader) -> Iterator[Predicate]:
    column, value = column_of(node.this), constants.read(node.args.get("expression"))
    if column is None:
        column, value = column_of(node.args["expression"]), constants.read(node.this)
        operator = _FLIPPED.get(operator, operator)
    # A bound NULL makes `<=>` true for NULLs, and then `=` would be wrong; only literals are safe there.
    safe = not isinstance(node, exp.NullSafeEQ) or isinstance(value, Literal)
    if column and value is not None and not _null(value) and safe:
        yield Comparison(column, operator, value)


def _null(value: Cell) -> bool:
    return isinstance(value, Literal) and value.kind in ("null", "default")
