"""Volatility: expressions whose answer is not settled by what they are made of, but by the time, by who asks, or by chance."""

from __future__ import annotations

from sqlglot import exp

from platform_plugin.algebra.functions import VOLATILE, is_volatile_call


def volatile_name(node: exp.Expr) -> str | None:
    """The name of a volatile function that a node calls; a column of such a name is none.

    >>> volatile_name(exp.Anonymous(this="unix_timestamp")), volatile_name(exp.Anonymous(this="abs"))
    ('unix_timestamp', None)
    """
    if isinstance(node, exp.Anonymous):
        name = str(node.this).strip("`").lower()
        return name if is_volatile_call(name, has_arguments=bool(node.expressions)) else None
    return bare_name(node)


def bare_name(node: exp.Expr) -> str | None:
    """The name of a volatile function that sqlglot knows, and that needs no brackets."""
    if not isinstance(node, exp.Func) or isinstance(node, exp.Anonymous) or node.args:
        return None
    name = node.sql_name().lower()
    return name if name in VOLATILE else None


def may_be_bare_name(node: exp.Column) -> bool:
    """Whether a column may be a volatile function without brackets, which it is where there is no column of that name."""
    return not node.this.args.get("quoted") and len(node.parts) == 1 and node.name.lower() in VOLATILE


def may_be_volatile(tree: exp.Expr) -> bool:
    """Whether the answer of a query as it was read may change from look to look; a column that only may be a function counts as one."""
    return any(volatile_name(node) or (isinstance(node, exp.Column) and may_be_bare_name(node)) for node in tree.walk())
