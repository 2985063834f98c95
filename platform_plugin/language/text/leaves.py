"""`restore_leaves`: the tokens of a masked query put back into sqlglot's tree, so that its leaves have exactly the user's text.

Calls come back as plain calls, literals and types as their own text. `meta["at"]` of a leaf is its place in the source, and
`meta["type"]` of a literal or a cast its type, where that is known. A parameter is a `Var` with the parameter in `meta["parameter"]`: its
text, or ? with its number.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from platform_plugin.algebra.plan.traversal import list_nodes
from platform_plugin.algebra.types.data_types import DataType, Decimal, Primitive
from platform_plugin.errors import PlatformError
from platform_plugin.language.text.datatypes import parse_type
from platform_plugin.language.text.masking import PLACEHOLDER
from platform_plugin.language.text.places import syntax_error
from platform_plugin.language.text.runs import MOMENTS, TEXTS
from platform_plugin.language.text.tokens import BINARY, NUMBER, QUOTED, tokenize
from platform_plugin.language.text.values import Literal as ConstantValue
from platform_plugin.language.text.values import number_value, read_cell, string_value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from platform_plugin.language.text.masking import MaskedQuery
    from platform_plugin.language.text.tokens import Tokens
    from platform_plugin.language.text.values import Cell, Parameter


_KEPT = ("at", "type", "parameter")


class _LeafMeta(dict[str, Any]):
    """What is known of a node beside its text. All of it is values, so that a copy of a tree needs no copies of them."""

    def __deepcopy__(self, memo: object) -> _LeafMeta:
        return _LeafMeta(self)


def restore_leaves(tree: exp.Expr, tokens: Tokens, masked: MaskedQuery, parameters: Mapping[int, Parameter]) -> exp.Expr:
    """The tree with every placeholder replaced by its tokens, in place."""
    runs = masked.runs

    def text(index: int) -> str:
        return tokens.source[tokens.starts[index] : tokens.ends[runs.get(index, index + 1) - 1]]

    def place(index: int) -> tuple[int, int]:
        return tokens.starts[index], tokens.ends[runs.get(index, index + 1) - 1]

    for node in list_nodes(tree):
        node.comments = None
        if isinstance(node, exp.Identifier):
            _restore_identifier(node, tokens, masked.origins)
        elif isinstance(node, exp.Anonymous) and (stand := PLACEHOLDER.fullmatch(str(node.this))):
            node.set("this", tokens.text(int(stand[2])).strip("`").lower())
            node.meta["at"] = place(int(stand[2]))
        elif isinstance(node, exp.Star):
            if (index := masked.origins.get(node.meta.get("start", -1), -1)) >= 0:
                node.meta["at"] = place(index)
        elif isinstance(node, exp.Literal):
            stand = PLACEHOLDER.fullmatch(str(node.this)) if node.is_string else None
            index = int(stand[2]) if stand else int(node.this)
            node.set("this", text(index))
            node.args["is_string"] = False
            node.meta.update(at=place(index), type=_literal_type(tokens, index))
        elif isinstance(node, exp.Cast) and (stand := PLACEHOLDER.fullmatch(str(node.to.expressions[0].this.this))):
            written = text(int(stand[2]))
            node.set("to", exp.DataType(this=exp.DType.USERDEFINED, kind=written))
            node.meta.update(at=place(int(stand[2])), type=_cast_type(written))
            node._type = None  # noqa: SLF001  sqlglot keeps the placeholder's type here
        elif isinstance(node, exp.Placeholder) and str(node.this)[1:].isdigit():
            parameter = parameters[int(str(node.this)[1:])]
            # Each ? is a value of its own, so no two of them are equal.
            value = exp.Var(this=parameter.span.text if parameter.index is None else f"?{parameter.index + 1}")
            value.meta.update(at=(parameter.span.start, parameter.span.end), parameter=parameter)
            node.replace(value)
            node = value  # noqa: PLW2901  the node that is in the tree now
        meta = node._meta  # noqa: SLF001  `meta` would make one for every node
        if meta is not None:
            node._meta = _LeafMeta([(key, meta[key]) for key in _KEPT if key in meta])  # noqa: SLF001
    return tree


def _restore_identifier(node: exp.Identifier, tokens: Tokens, origins: Mapping[int, int]) -> None:
    stand = PLACEHOLDER.fullmatch(str(node.this))
    index = int(stand[2]) if stand else origins.get(node.meta.get("start", -1))
    if index is None:
        return
    node.meta["at"] = (tokens.starts[index], tokens.ends[index])
    if stand and stand[1] in "qwf":
        written = tokens.text(index)
        node.set("this", written[1:-1].replace("``", "`") if tokens.kind(index) == QUOTED else written)
        # Bare words may be calls without brackets.
        node.args["quoted"] = tokens.kind(index) == QUOTED
    elif stand and stand[1] == "l":
        if node.find_ancestor(exp.Pivot) is None:
            raise syntax_error(tokens.span(index, index + 1), "a string where a name belongs", hint="names go between back-ticks")
        node.set("this", string_value(tokens.text(index)))


def _literal_type(tokens: Tokens, index: int) -> DataType | None:
    kind, word = tokens.kind(index), tokens.upper(index)
    if kind in TEXTS:
        return Primitive("varchar")
    if kind == BINARY:
        return Primitive("blob")
    if word in MOMENTS:
        return Primitive(MOMENTS[word])
    if kind != NUMBER:
        return None
    return _number_type(tokens.text(index))


def _number_type(text: str) -> DataType | None:
    suffix = re.search(r"(?i)(BD|[LSYFD])$", text)
    if suffix and suffix[0].upper() != "BD":
        return Primitive({"L": "int64", "S": "int16", "Y": "int8", "F": "float32", "D": "float64"}[suffix[0].upper()])
    kind, value = number_value(text)
    if kind == "integer":
        whole = int(str(value))
        return (
            Primitive("int32")
            if whole < 1 << 31
            else Primitive("int64")
            if whole < 1 << 63
            else Decimal(precision=len(str(whole)), scale=0)
        )
    if kind == "decimal":
        digits = text[:-2] if suffix else text
        before, _, after = digits.partition(".")
        scale = len(after)
        return Decimal(precision=max(len(before.lstrip("0")) + scale, scale, 1), scale=scale) if scale + len(before) <= 38 else None
    return Primitive("float64")


def _cast_type(text: str) -> DataType | None:
    try:
        return parse_type(text)
    except PlatformError:
        return None


def read_constant(node: exp.Expr) -> Cell | None:
    """The literal or parameter that a node of the tree stands for; None if it is no constant.

    >>> read_constant(exp.Neg(this=exp.Literal(this="3", is_string=False)))
    Literal(kind='integer', value=-3, offset=0)
    """
    while isinstance(node, exp.Paren):
        node = node.this
    match node:
        case exp.Var() if "parameter" in node.meta:
            parameter: Parameter = node.meta["parameter"]
            return parameter
        case exp.Null():
            return ConstantValue("null", None)
        case exp.Boolean():
            return ConstantValue("boolean", bool(node.this))
        case exp.Neg() if isinstance(node.this, exp.Literal):
            tokens = tokenize(f"-{node.this.this}")
            return _only_cell(tokens) if tokens.kind(1) == NUMBER else None
        case exp.Literal():
            return _only_cell(tokenize(str(node.this)))
        case _:
            return None


def _only_cell(tokens: Tokens) -> Cell | None:
    cell = read_cell(tokens, 0, {})
    return cell[0] if cell is not None and cell[1] == len(tokens) else None
