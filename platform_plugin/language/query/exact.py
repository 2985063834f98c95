"""`read_exact_tree`: the tree of a query where sqlglot certainly reads it as Spark does."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sqlglot import exp

from platform_plugin.language.text.places import Span, syntax_error

if TYPE_CHECKING:
    from platform_plugin.language.query.query import Query
    from platform_plugin.language.text.tokens import Tokens

_AFTER_FROM = frozenset(("WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "UNION", "EXCEPT", "INTERSECT", "MINUS", "WINDOW", "SELECT", "SORT"))
_OUTER_JOIN = re.compile(r"right|full|natural|using", re.IGNORECASE)
_SIGNS_OF_BITS = ("|", "&", "^", "<<", ">>")
_BITS = (exp.DPipe, exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor, exp.BitwiseLeftShift, exp.BitwiseRightShift)


def read_exact_tree(query: Query) -> exp.Expr:
    """The tree of a query where sqlglot certainly reads it as Spark does; an error at what it may read otherwise. Nobody may change it."""
    if query.extraction is not None:
        hint = "write variant_get(value, '$.part', 'type') or get_json_object"
        raise syntax_error(query.extraction, "value:part is not supported in views", hint=hint)
    tree, text = query.whole_tree(), query.span.text
    if "," in text and _OUTER_JOIN.search(text):
        _refuse_mixed_joins(query.tokens)
    if any(sign in text for sign in _SIGNS_OF_BITS):
        for node in tree.find_all(*_BITS):
            _refuse_unclear(node, query.tokens)
    return tree


def _refuse_mixed_joins(tokens: Tokens) -> None:
    """A comma in FROM binds more loosely than JOIN in Spark and not in sqlglot, which matters for these joins only."""
    for start in (index for index in range(len(tokens)) if tokens.upper(index) == "FROM"):
        depth, comma = 0, False
        for index in range(start + 1, len(tokens)):
            word = tokens.upper(index)
            depth += {"(": 1, ")": -1}.get(word, 0)
            if depth < 0 or (depth == 0 and (word in _AFTER_FROM or (word == "LATERAL" and tokens.upper(index + 1) == "VIEW"))):
                break
            if depth == 0 and word == ",":
                comma = True
            elif comma and depth == 0 and word in ("RIGHT", "FULL", "NATURAL", "USING"):
                raise syntax_error(
                    tokens.span(index, index + 1), f"{word} after a comma in FROM", hint="write CROSS JOIN for the comma, and put it last"
                )


def _refuse_unclear(node: exp.Expr, tokens: Tokens) -> None:
    """Spark and sqlglot rank these operators differently, so that only brackets say which operand belongs to which."""
    for side in (node.this, node.args.get("expression")):
        if isinstance(side, exp.Binary) and not isinstance(side, (type(node), exp.Dot)):
            leaf = next((inner for inner in side.walk() if "at" in inner.meta), None)
            start, end = leaf.meta["at"] if leaf is not None else (tokens.starts[0], tokens.starts[0])
            raise syntax_error(
                Span(tokens.source, start, end), "unclear which operator comes first", hint="put brackets round the inner operation"
            )
