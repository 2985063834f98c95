"""The names of output columns without an alias, and aliases and column names that are unique in a plan."""

from __future__ import annotations

from sqlglot import exp


def output_name(node: exp.Expr) -> str:
    """The name of an expression in a SELECT list, as Spark names it in the common cases.

    >>> import sqlglot
    >>> [output_name(item) for item in sqlglot.parse_one("SELECT posts.uid, f(`x`), x + 1 AS y", dialect="spark").expressions]
    ['uid', 'f(x)', 'y']
    """
    if isinstance(node, exp.Alias):
        return str(node.alias)
    if isinstance(node, exp.Dot):
        return str(node.expression.name)
    if isinstance(node, exp.Column):
        return node.name
    if isinstance(node, exp.Anonymous) and len(node.expressions) == 1 and isinstance(node.expressions[0], exp.Star):
        return f"{node.this}(1)"
    shown = node.copy()
    for column in shown.find_all(exp.Column):
        for part in ("table", "db", "catalog"):
            column.set(part, None)
    for identifier in shown.find_all(exp.Identifier):
        identifier.args["quoted"] = False
    return str(shown.sql("spark", normalize_functions=False))


class Aliases:
    """Aliases for the sources of one plan, each given out once."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def take(self, wanted: str) -> str:
        """The alias itself, or with a number after it where it is in use."""
        name, number = wanted, 2
        while name.lower() in self._taken:
            name, number = f"{wanted}_{number}", number + 1
        self._taken.add(name.lower())
        return name


def unique_name(wanted: str, taken: set[str]) -> str:
    """A column name that is not in `taken`; it is added to it."""
    name, number = wanted, 2
    while name.lower() in taken:
        name, number = f"{wanted}_{number}", number + 1
    taken.add(name.lower())
    return name
