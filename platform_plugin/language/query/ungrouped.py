"""`find_ungrouped`: the column of a grouped SELECT that is neither a key of the grouping nor within an aggregate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from platform_plugin.algebra.functions import AGGREGATES
from platform_plugin.errors import InvalidStatement
from platform_plugin.language.query.query import analyse_query

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True, kw_only=True)
class UngroupedColumn:
    """A column as its query writes it, where it stands, and the GROUP BY that would have it; None for a star."""

    name: str
    start: int
    clause: str | None

    @property
    def hint(self) -> str:
        """What to write instead."""
        if self.clause is None:
            return "name the columns: the keys of GROUP BY, and aggregates of the others"
        return f"write {self.clause}; or any_value({self.name}) if any of the group's values will do"


def find_ungrouped(text: str, name: str | None = None) -> UngroupedColumn | None:
    """Return the first such column of a query, or the first of that name; None where a text is not understood.

    >>> found = find_ungrouped("SELECT u.name, region, count(*) FROM users AS u GROUP BY region")
    >>> found.name, found.start, found.clause
    ('u.name', 7, 'GROUP BY region, u.name')
    >>> find_ungrouped("SELECT upper(name), max(id) FROM users").hint
    "write GROUP BY name; or any_value(name) if any of the group's values will do"
    """
    try:
        tree = analyse_query(text).tree
    except InvalidStatement:
        return None
    for select in tree.find_all(exp.Select):
        group = select.args.get("group")
        keys = list(group.expressions) if group is not None else []
        if group is None and not any(_is_aggregate(node) for part in select.expressions for node in _own_nodes(part)):
            continue
        for column in _columns(select, keys):
            start = _start(column)
            if start is None or (name is not None and column.name.lower() not in ("*", name.lower())):
                continue
            return UngroupedColumn(name=_written(column, text), start=start, clause=_clause(column, group, keys, text))
    return None


def _columns(select: exp.Select, keys: list[exp.Expr]) -> Iterator[exp.Expr]:
    """Columns and stars in the clauses above the grouping that are in no key and no aggregate."""
    known = {_plain(part) for key in keys for part in (key, *(key.find_all(exp.Column) if _is_several(key) else ()))}
    aliases = {part.alias.lower() for part in select.expressions if part.alias}
    # GROUP BY 1 names the first expression of SELECT.
    known |= {
        _plain(part.unalias()) for place, part in enumerate(select.expressions, 1) if str(place) in known or part.alias.lower() in known
    }
    above = [select.args.get(clause) for clause in ("having", "order")]
    for part in [*select.expressions, *filter(None, above)]:
        for node in _own_nodes(part, stop=lambda node: _is_aggregate(node) or _plain(node) in known):
            if _is_aggregate(node) or _plain(node) in known:
                continue
            is_alias = part in above and isinstance(node, exp.Column) and not node.table and node.name.lower() in aliases
            if (
                isinstance(node, exp.Column | exp.Star)
                and not is_alias
                and not (isinstance(node.parent, exp.Column) or _counts(node.parent))
            ):
                yield node


def _own_nodes(part: exp.Expr, stop: object = None) -> Iterator[exp.Expr]:
    """The nodes of an expression without those of queries in it."""

    def prune(node: exp.Expr) -> bool:
        return isinstance(node, exp.Query) or (callable(stop) and bool(stop(node)))

    return (node for node in part.walk(bfs=False, prune=prune) if not isinstance(node, exp.Query))


def _is_aggregate(node: exp.Expr) -> bool:
    if isinstance(node.parent, exp.Window):
        return False
    return isinstance(node, exp.Anonymous) and node.name.lower() in AGGREGATES


def _counts(node: exp.Expr | None) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.lower() == "count"


def _is_several(key: exp.Expr) -> bool:
    return isinstance(key, exp.Rollup | exp.Cube | exp.GroupingSets | exp.Tuple)


def _plain(node: exp.Expr) -> str:
    """What is compared: names without their relation, in lower case."""
    return node.name.lower() if isinstance(node, exp.Column) else node.sql("spark").lower()


def _start(column: exp.Expr) -> int | None:
    first = column.parts[0] if isinstance(column, exp.Column) and column.parts else column
    at = first.meta.get("at")
    return None if at is None else int(at[0])


def _written(column: exp.Expr, text: str) -> str:
    last = column.parts[-1] if isinstance(column, exp.Column) and column.parts else column
    start, at = _start(column), last.meta.get("at")
    return text[start : at[1]] if start is not None and at is not None else column.sql("spark")


def _clause(column: exp.Expr, group: exp.Expr | None, keys: list[exp.Expr], text: str) -> str | None:
    if isinstance(column, exp.Star) or column.name == "*":
        return None
    name = _written(column, text)
    if group is not None and (any(map(_is_several, keys)) or any(value for clause, value in group.args.items() if clause != "expressions")):
        return f"{name} into GROUP BY"
    return f"GROUP BY {', '.join([*(key.sql('spark') for key in keys), name])}"
