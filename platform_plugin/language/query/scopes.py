"""`find_scope`: which tables in sqlglot's tree are relations of the lake, and the SELECT that each belongs to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlglot import exp

if TYPE_CHECKING:
    from collections.abc import Callable

Node = exp.Expr
_NOTHING: frozenset[str] = frozenset()
_LEAVES = frozenset((exp.Identifier, exp.Literal, exp.Boolean, exp.Null))


@dataclass(slots=True)
class QueryScope:
    """The relations of a tree with the SELECT around each, its mentions of CTEs, its table functions, and its dotted column names."""

    relations: list[tuple[exp.Table, exp.Select | None]] = field(default_factory=list)
    mentions: list[exp.Table] = field(default_factory=list)
    functions: list[exp.Table] = field(default_factory=list)
    dotted: list[exp.Column] = field(default_factory=list)
    aliases: list[exp.Identifier] = field(default_factory=list)


def find_scope(root: Node, text_of: Callable[[Node], str]) -> QueryScope:
    """The scope of a tree, walked without recursion; `text_of` gives the name that an identifier stands for."""
    scope = QueryScope()
    stack: list[tuple[Node, frozenset[str], exp.Select | None]] = [(root, _NOTHING, None)]
    while stack:
        node, known, select = stack.pop()
        if isinstance(node, exp.Select):
            select = node
        with_ = node.args.get("with_")
        if with_ is not None:
            inner = known
            for cte in with_.expressions:
                name = text_of(cte.args["alias"].this).lower()
                stack.append((cte.this, inner | {name} if with_.args.get("recursive") else inner, None))
                inner |= {name}
            stack += [(child, inner, select) for child in children(node) if child is not with_]
            continue
        if isinstance(node, exp.Table):
            if isinstance(node.this, exp.Identifier):
                one_part = node.args.get("db") is None
                if one_part and text_of(node.this).lower() in known:
                    scope.mentions.append(node)
                else:
                    scope.relations.append((node, select))
            else:
                scope.functions.append(node)
        elif isinstance(node, exp.Column) and node.args.get("db") is not None:
            scope.dotted.append(node)
        elif isinstance(node, exp.TableAlias) and node.this is not None:
            scope.aliases.append(node.this)
        stack += [(child, known, select) for child in children(node)]
    return scope


def children(node: Node) -> list[Node]:
    """The direct parts of a node that have parts themselves; literals and names are none of them."""
    found: list[Node] = []
    for value in node.args.values():
        if isinstance(value, Node):
            if value.__class__ not in _LEAVES:
                found.append(value)
        elif value.__class__ is list:
            found += [item for item in value if isinstance(item, Node)]
    return found
