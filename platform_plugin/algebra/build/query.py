"""`build_plan`: sqlglot's tree of a Spark query becomes a plan with resolved names, or is refused."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlglot import exp

from platform_plugin.algebra.build.grouping import has_aggregate, has_window
from platform_plugin.algebra.build.scope import Scope, resolve_column
from platform_plugin.algebra.build.select import SelectBuilder, sort_key
from platform_plugin.algebra.build.sources import build_from, drop_unused_hidden, find_mentioned_hidden
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
from platform_plugin.algebra.plan.traversal import absorb_plans, walk_expression
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
    mentioned: frozenset[str] = frozenset()
    """The names of hidden columns that the text mentions."""
    aliases: Aliases = field(default_factory=Aliases)
    sizes: list[int] = field(default_factory=lambda: [0])
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
        if has_aggregate(value.node):
            raise self.fail(node, f"an aggregate in {clause}", instead and f"write it in {instead}")
        if has_window(value.node):
            raise self.fail(node, f"a window in {clause}", "compute it in a sub-query in FROM, and filter around that")

    def scalar(self, node: exp.Expr, known: Mapping[str, NamedQuery], scope: Scope, aliases: Mapping[str, Scalar] | None = None) -> Scalar:
        """The expression with resolved names; a name that is no column may be one of `aliases`."""
        plans: list[Query] = []
        return Scalar(self._settle(node.copy(), known, scope, aliases or {}, plans), tuple(plans))

    def _settle(
        self, node: exp.Expr, known: Mapping[str, NamedQuery], scope: Scope, aliases: Mapping[str, Scalar], plans: list[Query]
    ) -> exp.Expr:
        if isinstance(node, exp.Column):
            return self._column(node, scope, aliases, plans)
        if isinstance(node, exp.Query):
            plans.append(self.query(node.this if isinstance(node, exp.Subquery) and not _modified(node) else node, known, scope))
            self._refuse_wide(node, plans[-1])
            return exp.Placeholder(this=str(len(plans) - 1))
        if isinstance(node, (exp.JSONExtract, exp.JSONExtractScalar)):
            raise self.fail(node, "value:part is not supported in views", "write variant_get(value, '$.part', 'type') or get_json_object")
        if isinstance(node, exp.Star) and not _is_counted(node):
            raise self.fail(node, "* inside of an expression is not supported in views", "name the columns one by one")
        if (name := find_bracketless_call(node)) is not None:
            return exp.Anonymous(this=name)
        if isinstance(node, exp.Anonymous) and str(node.this) in UNIT_FIRST:
            self._keep_unit(node)
        if (gap := gap_text(node)) is not None:
            node.set("expressions", [node.expressions[0], exp.Literal(this=gap, is_string=False)])
        for key, child in list(node.args.items()):
            if isinstance(child, exp.Expr):
                node.set(key, self._settle(child, known, scope, aliases, plans))
            elif isinstance(child, list):
                kept = [self._settle(item, known, scope, aliases, plans) if isinstance(item, exp.Expr) else item for item in child]
                node.set(key, kept)
        return node

    def _refuse_wide(self, node: exp.Expr, plan: Query) -> None:
        parent = node.parent
        wide = isinstance(parent, (exp.Exists, exp.In)) or (isinstance(node, exp.Select) and isinstance(parent, exp.Subquery))
        if len(outputs(plan)) != 1 and not wide and parent is not None:
            raise self.fail(node, f"a sub-query of {len(outputs(plan))} columns where one value belongs", None)

    @staticmethod
    def _keep_unit(node: exp.Anonymous) -> None:
        first = node.expressions[0] if node.expressions else None
        if isinstance(first, exp.Column) and first.args.get("table") is None and first.name.lower() in UNITS:
            node.set("expressions", [exp.Var(this=first.name.upper()), *node.expressions[1:]])

    def _column(self, node: exp.Column, scope: Scope, aliases: Mapping[str, Scalar], plans: list[Query]) -> exp.Expr:
        at = node.this.meta.get("at") or next((part.meta["at"] for part in node.parts if "at" in part.meta), None)
        found = resolve_column(node, scope, lambda message: self.fail(node, message, "put the relation's name before it"))
        if found is None and node.args.get("table") is None:
            found = aliases.get(node.name.lower())
            if found is not None and any(map(volatile_name, found.node.find_all(exp.Anonymous))):
                raise self.fail(node, f'"{node.name}" is used again and changes from call to call', "compute it in a sub-query in FROM")
        if found is None:
            if isinstance(node.this, exp.Star):
                raise self.fail(node, "name.* inside of an expression is not supported in views", "name the columns one by one")
            raise self.fail(node, f'column "{".".join(part.name for part in node.parts)}" does not exist', None)
        result = absorb_plans(found, plans).copy()
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
        return Limit(query=query, count=count, offset=skipped, at=self.place(limit if limit is not None else offset))

    def _constant(self, node: exp.Expr) -> exp.Expr:
        if any(isinstance(inner, (exp.Column, exp.Query)) for inner in node.walk()):
            raise self.fail(node, "LIMIT takes a constant", None)
        return node.copy()

    def ordinal(self, node: exp.Expr, names: list[str]) -> str | None:
        """The column that a bare number in ORDER BY or GROUP BY stands for."""
        if not isinstance(node, exp.Literal) or not str(node.this).isdigit():
            return None
        if not 1 <= int(node.this) <= len(names):
            raise self.fail(node, f"there is no column {node.this}: the query has {len(names)}", None)
        return names[int(node.this) - 1]

    def place(self, node: exp.Expr | None) -> tuple[int, int] | None:
        """The place of the first part of a node that has a place."""
        if node is None:
            return None
        found = [inner.meta["at"] for inner in walk_expression(node) if "at" in inner.meta]
        return min(found) if found else None


def _modified(node: exp.Subquery) -> bool:
    return any(node.args.get(part) for part in ("order", "limit", "offset", "with_"))


def build_plan(
    tree: exp.Expr,
    relation: Callable[[tuple[str, ...], exp.Expr], RelationFacts],
    fail: Callable[[exp.Expr | None, str, str | None], Exception],
    read: Callable[[str], exp.Expr],
    *,
    allows_twins: bool = False,
) -> Query:
    """The plan of a query's tree.

    `relation` gives the facts of a name, `read` makes the tree of a view's text, and `fail` makes the error for a node, a message and a
    hint. With `allows_twins` two columns of the result may have the same name.
    """
    builder = Builder(
        relation=relation, fail=fail, read=read, twins_in=tree if allows_twins else None, mentioned=find_mentioned_hidden(tree)
    )
    return drop_unused_hidden(builder.query(tree, {}, None))


def _is_counted(star: exp.Star) -> bool:
    """Whether a star is the argument of count(*), where it means rows; elsewhere it stands for all columns."""
    return isinstance(star.parent, exp.Anonymous) and str(star.parent.this).lower() == "count"
