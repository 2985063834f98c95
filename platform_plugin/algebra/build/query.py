"""`build_plan`: sqlglot's tree of a Spark query becomes a plan with resolved names, or is refused."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from sqlglot import exp

from platform_plugin.algebra.build.grouping import has_aggregate, has_window
from platform_plugin.algebra.build.scope import Scope, resolve_column
from platform_plugin.algebra.build.select import SelectBuilder, sort_key
from platform_plugin.algebra.build.sources import build_from, drop_unused_hidden
from platform_plugin.algebra.functions import UNIT_FIRST, UNITS
from platform_plugin.algebra.plan.names import Aliases
from platform_plugin.algebra.plan.nodes import (
    Filter,
    Limit,
    Scalar,
    SetOperation,
    Sort,
    outputs,
)
from platform_plugin.algebra.plan.traversal import absorb_plans, attach_children, bare_copy, bare_leaf, copy_tree, list_nodes
from platform_plugin.algebra.sessions import gap_text
from platform_plugin.algebra.volatility import find_bracketless_call, volatile_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from platform_plugin.algebra.plan.nodes import Query, SetKind
    from platform_plugin.algebra.plan.relations import RelationFacts

    Fail = Callable[[exp.Expr | None, str, str | None], Exception]

_PARTS = """
    expressions from_ joins laterals where group having qualify windows distinct order limit offset with_ hint kind operation_modifiers
"""
_SELECT_PARTS = frozenset(_PARTS.split())
_CLAUSES = {
    "sort": ("SORT BY", "leave it out: no order is kept"),
    "cluster": ("CLUSTER BY", "leave it out: no order is kept"),
    "distribute": ("DISTRIBUTE BY", "leave it out: Spark distributes as it likes"),
    "match": ("MATCH_RECOGNIZE", None),
    "connect": ("CONNECT BY", None),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedQuery:
    """A query that WITH names, and the names that were in scope where it stands."""

    query: exp.Expr
    names: tuple[str, ...]
    known: Mapping[str, NamedQuery]


@dataclass(slots=True, kw_only=True)
class Builder:
    """What all parts of one build share: facts of relations, makers of errors and of view trees, and the aliases in use."""

    relation: Callable[[tuple[str, ...], exp.Expr], RelationFacts]
    fail: Fail
    read: Callable[[str], exp.Expr]
    root: exp.Expr
    """The whole text."""
    aliases: Aliases = field(default_factory=Aliases)
    sizes: list[int] = field(default_factory=lambda: [0])
    places: dict[int, tuple[exp.Expr, tuple[int, int] | None]] = field(default_factory=dict)
    """The places of nodes of the text, by their ids."""
    has_places: bool = True
    twins_in: exp.Expr | None = None
    """The SELECT whose columns may have one name twice, since nothing reads them by name."""

    def query(self, node: exp.Expr, known: Mapping[str, NamedQuery], outer: Scope | None) -> Query:
        """The plan of a query, its WITH, ORDER BY and LIMIT included."""
        self.sizes[0] += 1
        if self.sizes[0] > 5000:
            raise self.fail(None, "a query that unfolds to more than 5000 parts", "name fewer queries with WITH that use each other")
        with_ = node.args.get("with_")
        if with_ is not None:
            known = self._with(with_, known)
        if isinstance(node, exp.Select):
            return self._select(node, known, outer)
        if isinstance(node, exp.Subquery):
            inner = node.this
            if isinstance(inner, exp.Table):
                return self._select(exp.select("*").from_(inner.copy()), known, outer)
            return self.shorten(self._sort(self.query(inner, known, outer), node, outer), node, outer)
        if isinstance(node, exp.SetOperation):
            return self.shorten(self._sort(self._set_operation(node, known, outer), node, outer), node, outer)
        if isinstance(node, exp.Values):
            return self._select(exp.select("*").from_(node.copy()), known, outer)
        raise self.fail(node, f"{node.key.upper()} is not a query", None)

    def _with(self, with_: exp.Expr, known: Mapping[str, NamedQuery]) -> Mapping[str, NamedQuery]:
        if with_.args.get("recursive"):
            raise self.fail(with_, "WITH RECURSIVE is not supported in views", None)
        for cte in with_.expressions:
            alias = cte.args["alias"]
            names = tuple(column.name for column in alias.args.get("columns") or ())
            known = {**known, alias.name.lower(): NamedQuery(query=cte.this, names=names, known=known)}
        return known

    def _set_operation(self, node: exp.SetOperation, known: Mapping[str, NamedQuery], outer: Scope | None) -> Query:
        if node.args.get("by_name"):
            raise self.fail(node, "UNION BY NAME is not supported in views", "name the columns in the same order on both sides")
        left, right = self.query(node.this, known, outer), self.query(node.expression, known, outer)
        if len(outputs(left)) != len(outputs(right)):
            raise self.fail(node, f"{len(outputs(left))} columns on one side and {len(outputs(right))} on the other", None)
        kind: SetKind = "union" if isinstance(node, exp.Union) else "intersect" if isinstance(node, exp.Intersect) else "except"
        return SetOperation(left=left, right=right, kind=kind, all=not node.args.get("distinct"), at=self.place(node))

    def _select(self, node: exp.Select, known: Mapping[str, NamedQuery], outer: Scope | None) -> Query:
        self._refuse_clauses(node)
        source, scope = build_from(self, node, known, outer)
        where = node.args.get("where")
        if where is not None:
            condition = self.scalar(where.this, known, scope)
            self.refuse_calls(condition, where, "WHERE", "HAVING")
            source = Filter(source=source, condition=condition, at=self.place(where.this))
        return SelectBuilder(builder=self, node=node, known=known, scope=scope, source=source).run()

    def _refuse_clauses(self, node: exp.Select) -> None:
        for part, value in node.args.items():
            if value and part not in _SELECT_PARTS:
                name, hint = _CLAUSES.get(part, (part.upper().rstrip("_"), None))
                raise self.fail(value if isinstance(value, exp.Expr) else node, f"{name} is not supported in views", hint)

    def refuse_calls(self, value: Scalar, node: exp.Expr, clause: str, instead: str | None) -> None:
        if has_aggregate(value):
            raise self.fail(node, f"an aggregate in {clause}", instead and f"write it in {instead}")
        if has_window(value):
            raise self.fail(node, f"a window in {clause}", "compute it in a sub-query in FROM, and filter around that")

    def scalar(self, node: exp.Expr, known: Mapping[str, NamedQuery], scope: Scope, aliases: Mapping[str, Scalar] | None = None) -> Scalar:
        """The expression with resolved names; a name that is no column may be one of `aliases`."""
        plans: list[Query] = []
        settled = _Settling(self, known, scope, aliases or {}, plans).run(node, None)
        return Scalar(settled, tuple(plans))

    def column(self, node: exp.Column, scope: Scope, aliases: Mapping[str, Scalar], plans: list[Query]) -> exp.Expr:
        """What a column of the text stands for, as a tree of its own."""
        at = node.this.meta.get("at") or next((part.meta["at"] for part in node.parts if "at" in part.meta), None)
        found = resolve_column(node, scope, lambda message: self.fail(node, message, "put the relation's name before it"))
        if found is None and node.args.get("table") is None:
            found = aliases.get(node.name.lower())
            if found is not None and any(map(volatile_name, found.node.find_all(exp.Anonymous))):
                raise self.fail(node, f'"{node.name}" is used again and changes from call to call', "compute it in a sub-query in FROM")
            found = found and Scalar(copy_tree(found.node), found.plans)
        if found is None:
            if isinstance(node.this, exp.Star):
                raise self.fail(node, "name.* inside of an expression is not supported in views", "name the columns one by one")
            raise self.fail(node, f'column "{".".join(part.name for part in node.parts)}" does not exist', None)
        result = absorb_plans(found, plans)
        if at is not None:
            result.meta["at"] = at
        loose = isinstance(result, (exp.Binary, exp.Unary, exp.Predicate)) and not isinstance(result, (exp.Dot, exp.Paren))
        return exp.Paren(this=result) if loose else result

    def _sort(self, query: Query, node: exp.Expr, outer: Scope | None) -> Query:
        """ORDER BY after a set operation or round a query in brackets: it sees the result's columns only."""
        order = node.args.get("order")
        if order is None:
            return query
        names = {found.name.lower(): found.name for found in outputs(query)}
        keys = []
        for item in order.expressions:
            name = self.ordinal(item.this, [found.name for found in outputs(query)])
            if name is None and isinstance(item.this, exp.Column):
                name = names.get(item.this.name.lower())
            if name is None:
                raise self.fail(item, "ORDER BY here can name the columns of the result only", None)
            keys.append(sort_key(item, name))
        return Sort(query=query, keys=tuple(keys), at=self.place(order))

    def shorten(self, query: Query, node: exp.Expr, outer: Scope | None) -> Query:
        limit, offset = node.args.get("limit"), node.args.get("offset")
        if limit is not None and not isinstance(limit, exp.Limit):
            raise self.fail(limit, "FETCH is not supported in views", "write LIMIT n")
        if limit is not None and isinstance(limit.expression, exp.Column) and limit.expression.name.upper() == "ALL":
            limit = None
        if limit is None and offset is None:
            return query
        count, skipped = (None if found is None else Scalar(self._constant(found.expression)) for found in (limit, offset))
        first = limit if limit is not None else offset
        return Limit(query=query, count=count, offset=skipped, at=None if first is None else self._first_place(first))

    def _constant(self, node: exp.Expr) -> exp.Expr:
        if any(isinstance(inner, (exp.Column, exp.Query)) for inner in list_nodes(node)):
            raise self.fail(node, "LIMIT takes a constant", None)
        return copy_tree(node)

    def ordinal(self, node: exp.Expr, names: list[str]) -> str | None:
        """The column that a bare number in ORDER BY or GROUP BY stands for."""
        if not isinstance(node, exp.Literal) or not str(node.this).isdigit():
            return None
        if not 1 <= int(node.this) <= len(names):
            raise self.fail(node, f"there is no column {node.this}: the query has {len(names)}", None)
        return names[int(node.this) - 1]

    def place(self, node: exp.Expr | None) -> tuple[int, int] | None:
        """The place of the first part of a node that has a place, where the plan has places."""
        return self._first_place(node) if self.has_places and node is not None else None

    def _first_place(self, node: exp.Expr) -> tuple[int, int] | None:
        # A node of the text is asked for by each clause around it.
        known = self.places.get(id(node))
        if known is not None and known[0] is node:
            return known[1]
        meta = node._meta  # noqa: SLF001  `meta` would make one for every node
        found = None if meta is None else meta.get("at")
        for value in node.args.values():
            for child in value if value.__class__ is list else (value,):
                if isinstance(child, exp.Expr):
                    place = self._first_place(child)
                    if place is not None and (found is None or place < found):
                        found = place
        self.places[id(node)] = (node, found)
        return found


# The usual nodes between names and literals; `_replacement` would leave them as they are.
_PLAIN_KINDS = frozenset(
    (
        exp.Anonymous,
        *(exp.And, exp.Or, exp.Not, exp.Paren, exp.Alias),
        *(exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between, exp.In, exp.Is, exp.Like, exp.Exists),
        *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Neg),
        *(exp.Case, exp.If, exp.Cast, exp.Identifier),
    )
)


class _Settling(NamedTuple):
    """One expression of the text, which is copied with its names resolved."""

    builder: Builder
    known: Mapping[str, NamedQuery]
    scope: Scope
    aliases: Mapping[str, Scalar]
    plans: list[Query]

    def run(self, node: exp.Expr, parent: exp.Expr | None) -> exp.Expr:
        """A copy of a node of the text, which stands in `parent`."""
        kind = node.__class__
        if kind is exp.Literal:
            return bare_leaf(node)
        if kind not in _PLAIN_KINDS and (found := self._replacement(node, parent)) is not None:
            return found
        copied = bare_copy(node)
        attach_children(copied, node, lambda child: self.run(child, node))
        if kind is exp.Anonymous and (gap := gap_text(node)) is not None:
            copied.set("expressions", [copied.expressions[0], exp.Literal(this=gap, is_string=False)])
        return copied

    def _replacement(self, node: exp.Expr, parent: exp.Expr | None) -> exp.Expr | None:
        """What stands in the plan for a name, a sub-query or a call; None for other nodes, which stay."""
        if isinstance(node, exp.Column):
            if _is_unit(node, parent):
                return exp.Var(this=node.name.upper())
            return self.builder.column(node, self.scope, self.aliases, self.plans)
        if isinstance(node, exp.Query):
            inner = node.this if isinstance(node, exp.Subquery) and not _modified(node) else node
            self.plans.append(self.builder.query(inner, self.known, self.scope))
            self._refuse_wide(node, parent)
            return exp.Placeholder(this=str(len(self.plans) - 1))
        if isinstance(node, (exp.JSONExtract, exp.JSONExtractScalar)):
            hint = "write variant_get(value, '$.part', 'type') or get_json_object"
            raise self.builder.fail(node, "value:part is not supported in views", hint)
        if isinstance(node, exp.Star) and not _is_counted(parent):
            raise self.builder.fail(node, "* inside of an expression is not supported in views", "name the columns one by one")
        name = find_bracketless_call(node)
        return None if name is None else exp.Anonymous(this=name)

    def _refuse_wide(self, node: exp.Expr, parent: exp.Expr | None) -> None:
        width = len(outputs(self.plans[-1]))
        wide = isinstance(parent, (exp.Exists, exp.In)) or (isinstance(node, exp.Select) and isinstance(parent, exp.Subquery))
        if width != 1 and not wide and parent is not None:
            raise self.builder.fail(node, f"a sub-query of {width} columns where one value belongs", None)


def _is_unit(node: exp.Column, parent: exp.Expr | None) -> bool:
    """Whether a name is a unit of time, as the first argument of some functions is."""
    return (
        isinstance(parent, exp.Anonymous)
        and str(parent.this) in UNIT_FIRST
        and parent.expressions[0] is node
        and node.args.get("table") is None
        and node.name.lower() in UNITS
    )


def _modified(node: exp.Subquery) -> bool:
    return any(node.args.get(part) for part in ("order", "limit", "offset", "with_"))


def build_plan(
    tree: exp.Expr,
    relation: Callable[[tuple[str, ...], exp.Expr], RelationFacts],
    fail: Callable[[exp.Expr | None, str, str | None], Exception],
    read: Callable[[str], exp.Expr],
    *,
    allows_twins: bool = False,
    has_places: bool = True,
) -> Query:
    """The plan of a query's tree.

    `relation` gives the facts of a name, `read` makes the tree of a view's text, and `fail` makes the error for a node, a message and a
    hint. With `allows_twins` two columns of the result may have the same name. Without `has_places` only limits
    have their places, which takes no look at the rest of the text.
    """
    twins_in = tree if allows_twins else None
    builder = Builder(relation=relation, fail=fail, read=read, root=tree, has_places=has_places, twins_in=twins_in)
    return drop_unused_hidden(builder.query(tree, {}, None))


def _is_counted(parent: exp.Expr | None) -> bool:
    """Whether a star stands in count(*), where it means rows; elsewhere it stands for all columns."""
    return isinstance(parent, exp.Anonymous) and str(parent.this).lower() == "count"
