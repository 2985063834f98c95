"""Volatility: expressions whose answer is not settled by what they are made of, but by the time, by who asks, or by chance."""

from __future__ import annotations

from sqlglot import exp

from platform_plugin.algebra.functions import MAKE_MOMENTS, VOLATILE, is_volatile_call, moment_word
from platform_plugin.algebra.types.data_types import Primitive

_TIMES = tuple(Primitive(name) for name in ("date", "timestamp", "timestamptz"))


def volatile_name(node: exp.Expr) -> str | None:
    """The name of a volatile function that a node calls; a column of such a name is none.

    >>> volatile_name(exp.Anonymous(this="unix_timestamp")), volatile_name(exp.Anonymous(this="abs"))
    ('unix_timestamp', None)
    """
    if isinstance(node, exp.Anonymous):
        name = str(node.this).strip("`").lower()
        return name if is_volatile_call(name, has_arguments=bool(node.expressions)) else None
    if isinstance(node, exp.Literal):
        return moment_word(str(node.this)) if _is_read_as_time(node) else None
    return bare_name(node)


def _is_read_as_time(node: exp.Literal) -> bool:
    """Whether the text of a literal is a date or a time for Spark; an equation with a text may be one of texts."""
    if node.meta.get("type") in _TIMES:
        return True
    parent = node.parent
    if isinstance(parent, exp.Cast):
        return parent.meta.get("type") in _TIMES
    if isinstance(parent, exp.Anonymous):
        return str(parent.this).lower() in MAKE_MOMENTS
    return isinstance(parent, (exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Between))


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
