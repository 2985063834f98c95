"""Volatile expressions, which depend on the time, the user or chance, in sqlglot's tree of a query."""

from __future__ import annotations

from sqlglot import exp

from platform_plugin.algebra.functions import MAKE_MOMENTS, VOLATILE, is_volatile_call, moment_word
from platform_plugin.algebra.types.data_types import Primitive

_TIMES = tuple(Primitive(name) for name in ("date", "timestamp", "timestamptz"))


def volatile_name(node: exp.Expr) -> str | None:
    """The name of the volatile function that a node calls, or None; a column with the name of such a function is no call.

    >>> volatile_name(exp.Anonymous(this="unix_timestamp")), volatile_name(exp.Anonymous(this="abs"))
    ('unix_timestamp', None)
    """
    if isinstance(node, exp.Anonymous):
        name = str(node.this).strip("`").lower()
        return name if is_volatile_call(name, has_arguments=bool(node.expressions)) else None
    if isinstance(node, exp.Literal):
        return moment_word(str(node.this)) if _is_read_as_time(node) else None
    return find_bracketless_call(node)


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


def find_bracketless_call(node: exp.Expr) -> str | None:
    """The name of a volatile function that is called without brackets and that sqlglot has a node for."""
    if not isinstance(node, exp.Func) or isinstance(node, exp.Anonymous) or node.args:
        return None
    name = node.sql_name().lower()
    return name if name in VOLATILE else None


def may_be_bracketless_call(node: exp.Column) -> bool:
    """Whether a column may be a volatile function without brackets; it is one where no column has that name."""
    return not node.this.args.get("quoted") and len(node.parts) == 1 and node.name.lower() in VOLATILE


def may_be_volatile(tree: exp.Expr) -> bool:
    """Whether the answer of a query may change between two runs over the same rows; a column that may be a volatile function counts."""
    return any(volatile_name(node) or (isinstance(node, exp.Column) and may_be_bracketless_call(node)) for node in tree.walk())
