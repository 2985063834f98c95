"""`mentioned_columns`: every name in a query that may be a column, where no plan says which columns it uses."""

from __future__ import annotations

from sqlglot import exp


def mentioned_columns(tree: exp.Expr) -> frozenset[str] | None:
    """At least the columns that a query uses, in lower case; None where it may use all, by a star or by their order.

    >>> import sqlglot
    >>> sorted(mentioned_columns(sqlglot.parse_one("SELECT a.x FROM a WHERE y > 1", dialect="spark")))
    ['a', 'x', 'y']
    """
    names = set()
    for node in tree.walk():
        if isinstance(node, exp.Identifier):
            names.add(str(node.this).lower())
        elif (isinstance(node, exp.Star) and not _counts(node.parent)) or isinstance(node, exp.Pivot) or _goes_by_order(node):
            return None
    return frozenset(names)


def left_out_columns(tree: exp.Expr) -> frozenset[str]:
    """The columns that a query names only to leave them out of a star, in lower case.

    >>> import sqlglot
    >>> sorted(left_out_columns(sqlglot.parse_one("SELECT x FROM (SELECT * EXCEPT (Y) FROM a)", dialect="spark")))
    ['y']
    """
    return frozenset(column.name.lower() for star in tree.find_all(exp.Star) for column in star.args.get("except_") or ())


def _counts(node: exp.Expr | None) -> bool:
    return isinstance(node, exp.Anonymous) and str(node.this) == "count"


def _goes_by_order(node: exp.Expr) -> bool:
    natural = isinstance(node, exp.Join) and node.method.upper() == "NATURAL"
    return natural or (isinstance(node, exp.TableAlias) and bool(node.args.get("columns")))
