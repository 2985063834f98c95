"""Building: sqlglot's tree of a Spark query becomes a plan, in which every name is settled. What a plan can't say is refused by name."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlglot import exp

from platform_plugin.algebra.change import absorb, nodes, ref
from platform_plugin.algebra.functions import RANKINGS, UNIT_FIRST, UNITS, VOLATILE
from platform_plugin.algebra.grouping import Grouping, has_aggregate, has_window, read_sets
from platform_plugin.algebra.infer import type_of
from platform_plugin.algebra.names import Aliases, output_name, unique
from platform_plugin.algebra.plan import (
    Aggregate,
    Derived,
    Distinct,
    Filter,
    Item,
    Limit,
    Project,
    Scalar,
    SetOperation,
    Sort,
    SortKey,
    Window,
    columns,
    outputs,
)
from platform_plugin.algebra.scope import Scope, resolve_column
from platform_plugin.algebra.sources import build_from

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from platform_plugin.algebra.plan import Query, Source
    from platform_plugin.algebra.relations import Relation
    from platform_plugin.algebra.types import DataType

    Fail = Callable[[exp.Expr | None, str, str | None], Exception]

_SELECT_PARTS = frozenset(
    """
    expressions from_ joins laterals where group having windows distinct order limit offset with_ hint kind operation_modifiers
    """.split()
)
_CLAUSES = {
    "qualify": ("QUALIFY", "filter in a SELECT around the one with the window"),
    "sort": ("SORT BY", "leave it out: no order is kept"),
    "cluster": ("CLUSTER BY", "leave it out: no order is kept"),
    "distribute": ("DISTRIBUTE BY", "leave it out: Spark distributes as it likes"),
    "match": ("MATCH_RECOGNIZE", None),
    "connect": ("CONNECT BY", None),
}
_SET_KINDS = {exp.Union: "union", exp.Intersect: "intersect", exp.Except: "except"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A query that WITH gave a name to, and what names meant where it stood."""

    query: exp.Expr
    names: tuple[str, ...]
    known: Mapping[str, Named]


@dataclass(slots=True, kw_only=True)
class Builder:
    """What one building shares: what relations are, how to fail, how a view's text is read, and the aliases given out."""

    relation: Callable[[tuple[str, ...], exp.Expr], Relation]
    fail: Fail
    read: Callable[[str], exp.Expr]
    aliases: Aliases = field(default_factory=Aliases)
    sizes: list[int] = field(default_factory=lambda: [0])

    def query(self, node: exp.Expr, known: Mapping[str, Named], outer: Scope | None) -> Query:
        """The plan of a query with what surrounds it."""
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
            return self._shorten(self._sort(self.query(inner, known, outer), node, outer), node, outer)
        if isinstance(node, exp.SetOperation):
            return self._shorten(self._sort(self._set_operation(node, known, outer), node, outer), node, outer)
        if isinstance(node, exp.Values):
            return self._select(exp.select("*").from_(node.copy()), known, outer)
        raise self.fail(node, f"{node.key.upper()} is not a query", None)

    def _with(self, with_: exp.Expr, known: Mapping[str, Named]) -> Mapping[str, Named]:
        if with_.args.get("recursive"):
            raise self.fail(with_, "WITH RECURSIVE is not supported in views", None)
        for cte in with_.expressions:
            alias = cte.args["alias"]
            names = tuple(column.name for column in alias.args.get("columns") or ())
            known = {**known, alias.name.lower(): Named(query=cte.this, names=names, known=known)}
        return known

    def _set_operation(self, node: exp.SetOperation, known: Mapping[str, Named], outer: Scope | None) -> Query:
        if node.args.get("by_name"):
            raise self.fail(node, "UNION BY NAME is not supported in views", "name the columns in the same order on both sides")
        left, right = self.query(node.this, known, outer), self.query(node.expression, known, outer)
        if len(outputs(left)) != len(outputs(right)):
            raise self.fail(node, f"{len(outputs(left))} columns on one side and {len(outputs(right))} on the other", None)
        kind = next(kind for found, kind in _SET_KINDS.items() if isinstance(node, found))
        return SetOperation(left=left, right=right, kind=kind, all=not node.args.get("distinct"), at=self.place(node))  # type: ignore[arg-type]

    def _select(self, node: exp.Select, known: Mapping[str, Named], outer: Scope | None) -> Query:
        self._refuse_clauses(node)
        source, scope = build_from(self, node, known, outer)
        where = node.args.get("where")
        if where is not None:
            condition = self.scalar(where.this, known, scope)
            self._refuse_calls(condition, where, "WHERE", "HAVING")
            source = Filter(source=source, condition=condition, at=self.place(where.this))
        return _Select(builder=self, node=node, known=known, scope=scope, source=source).run()

    def _refuse_clauses(self, node: exp.Select) -> None:
        for part, value in node.args.items():
            if value and part not in _SELECT_PARTS:
                name, hint = _CLAUSES.get(part, (part.upper().rstrip("_"), None))
                raise self.fail(value if isinstance(value, exp.Expr) else node, f"{name} is not supported in views", hint)

    def _refuse_calls(self, value: Scalar, node: exp.Expr, clause: str, instead: str | None) -> None:
        if has_aggregate(value.node):
            raise self.fail(node, f"an aggregate in {clause}", instead and f"write it in {instead}")
        if has_window(value.node):
            raise self.fail(node, f"a window in {clause}", "compute it in a sub-query in FROM, and filter around that")

    def scalar(self, node: exp.Expr, known: Mapping[str, Named], scope: Scope, aliases: Mapping[str, Scalar] | None = None) -> Scalar:
        """An expression with its names settled; a name that is no column may be one of `aliases`."""
        plans: list[Query] = []
        return Scalar(self._settle(node.copy(), known, scope, aliases or {}, plans), tuple(plans))

    def _settle(
        self, node: exp.Expr, known: Mapping[str, Named], scope: Scope, aliases: Mapping[str, Scalar], plans: list[Query]
    ) -> exp.Expr:
        if isinstance(node, exp.Column):
            return self._column(node, scope, aliases, plans)
        if isinstance(node, exp.Query):
            plans.append(self.query(node.this if isinstance(node, exp.Subquery) and not _modified(node) else node, known, scope))
            self._refuse_wide(node, plans[-1])
            return exp.Placeholder(this=str(len(plans) - 1))
        if isinstance(node, (exp.JSONExtract, exp.JSONExtractScalar)):
            raise self.fail(node, "value:part is not supported in views", "write variant_get(value, '$.part', 'type') or get_json_object")
        if isinstance(node, exp.Func) and not isinstance(node, exp.Anonymous) and not node.args and node.sql_name().lower() in VOLATILE:
            return exp.Anonymous(this=node.sql_name().lower())
        if isinstance(node, exp.Anonymous) and str(node.this) in UNIT_FIRST:
            self._keep_unit(node)
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
            if found is not None and any(str(inner.this) in VOLATILE for inner in found.node.find_all(exp.Anonymous)):
                raise self.fail(node, f'"{node.name}" is used again and changes from call to call', "compute it in a sub-query in FROM")
        if found is None:
            if isinstance(node.this, exp.Star):
                return node
            raise self.fail(node, f'column "{".".join(part.name for part in node.parts)}" does not exist', None)
        result = absorb(found, plans).copy()
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

    def _shorten(self, query: Query, node: exp.Expr, outer: Scope | None) -> Query:
        limit, offset = node.args.get("limit"), node.args.get("offset")
        if limit is not None and not isinstance(limit, exp.Limit):
            raise self.fail(limit, "FETCH is not supported in views", "write LIMIT n")
        if limit is not None and isinstance(limit.expression, exp.Column) and limit.expression.name.upper() == "ALL":
            limit = None
        if limit is None and offset is None:
            return query
        count = limit and Scalar(self._constant(limit.expression))
        skipped = offset and Scalar(self._constant(offset.expression))
        return Limit(query=query, count=count, offset=skipped, at=self.place(limit or offset))

    def _constant(self, node: exp.Expr) -> exp.Expr:
        if any(isinstance(inner, (exp.Column, exp.Query)) for inner in node.walk()):
            raise self.fail(node, "LIMIT takes a constant", None)
        return node.copy()

    def ordinal(self, node: exp.Expr, names: list[str]) -> str | None:
        """The column that a bare number in ORDER BY or GROUP BY counts to."""
        if not isinstance(node, exp.Literal) or not str(node.this).isdigit():
            return None
        if not 1 <= int(node.this) <= len(names):
            raise self.fail(node, f"there is no column {node.this}: the query has {len(names)}", None)
        return names[int(node.this) - 1]

    def place(self, node: exp.Expr | None) -> tuple[int, int] | None:
        """The place of the first part of a node that has one."""
        if node is None:
            return None
        found = [inner.meta["at"] for inner in nodes(node) if "at" in inner.meta]
        return min(found) if found else None


def _modified(node: exp.Subquery) -> bool:
    return any(node.args.get(part) for part in ("order", "limit", "offset", "with_"))


def sort_key(item: exp.Expr, name: str) -> SortKey:
    """A key of ORDER BY that is an output column."""
    descending = bool(item.args.get("desc"))
    nulls_first = item.args.get("nulls_first")
    value = Scalar(exp.Column(this=exp.to_identifier(name, quoted=True)))
    return SortKey(value=value, descending=descending, nulls_first=not descending if nulls_first is None else bool(nulls_first))


@dataclass(slots=True, kw_only=True)
class _Select:
    """One SELECT from its WHERE upwards."""

    builder: Builder
    node: exp.Select
    known: Mapping[str, Named]
    scope: Scope
    source: Source
    grouping: Grouping | None = None

    def fail(self, node: exp.Expr | None, message: str, hint: str | None = None) -> Exception:
        return self.builder.fail(node, message, hint)

    def run(self) -> Query:
        items = self._items()
        having = self.node.args.get("having")
        order = self.node.args.get("order")
        group = self.node.args.get("group")
        sorting = [(item, *self._sort_target(item, items)) for item in (order.expressions if order is not None else ())]
        condition = self._having(having.this, items) if having is not None else None
        called = [value for _, value in items] + [value for _, _, value in sorting if value is not None] + [condition or Scalar(exp.null())]
        if group is not None or any(has_aggregate(value.node) for value in called) or having is not None:
            items, sorting, condition = self._group(group, items, sorting, condition)
        if condition is not None:
            self.source = Filter(source=self.source, condition=condition, at=self.builder.place(having))
        return self._finish(items, sorting)

    def _items(self) -> list[tuple[str, Scalar]]:
        found: list[tuple[str, Scalar]] = []
        aliases: dict[str, Scalar] = {}
        for node in self.node.expressions:
            inner = node.this if isinstance(node, exp.Alias) else node
            if isinstance(inner, exp.Star) or (isinstance(inner, exp.Column) and isinstance(inner.this, exp.Star)):
                found += self._star(inner)
                continue
            if isinstance(node, exp.Aliases):
                raise self.fail(node, "several names for one item of SELECT", "write LATERAL VIEW generator(…) t AS a, b")
            value = self.builder.scalar(inner, self.known, self.scope, aliases)
            for call in value.node.find_all(exp.Window):
                self._name_window(call)
            if isinstance(node, exp.Alias):
                aliases.setdefault(node.alias.lower(), value)
            found.append((output_name(node), value))
        names: set[str] = set()
        for name, value in found:
            if name.lower() in names:
                hint = "give each column a name of its own with AS"
                raise self.fail(value.node, f'two columns are called "{name}"', hint)
            names.add(name.lower())
        self._refuse_rankings([value for _, value in found])
        return found

    def _refuse_rankings(self, values: list[Scalar]) -> None:
        for value in values:
            for call in value.node.find_all(exp.Anonymous):
                above = call.parent
                while isinstance(above, (exp.IgnoreNulls, exp.RespectNulls)):
                    above = above.parent
                if str(call.this) in RANKINGS and not isinstance(above, exp.Window):
                    raise self.fail(call, f"{call.this} without OVER", f"write {call.this}(…) OVER (ORDER BY …)")

    def _star(self, node: exp.Expr) -> list[tuple[str, Scalar]]:
        star = node.this if isinstance(node, exp.Column) else node
        parts = [part.name for part in node.parts[:-1]] if isinstance(node, exp.Column) else []
        found = self.scope.star(parts)
        if found is None:
            raise self.fail(node, f'no relation here is called "{".".join(parts)}"', "name the fields of a struct one by one")
        if star.args.get("replace") or star.args.get("rename"):
            raise self.fail(node, "* REPLACE is not supported in views", "name the columns one by one")
        left_out = {column.name.lower() for column in star.args.get("except_") or ()}
        return [(name, value) for name, value in found if name.lower() not in left_out]

    def _name_window(self, call: exp.Window) -> None:
        name = call.args.get("alias")
        if name is None:
            return
        for window in self.node.args.get("windows") or ():
            if window.name.lower() == name.name.lower():
                for key in ("partition_by", "order", "spec"):
                    part = window.args.get(key)
                    if isinstance(part, list):
                        call.set(key, [self.builder.scalar(item, self.known, self.scope).node for item in part])
                    elif part is not None:
                        call.set(key, self.builder.scalar(part, self.known, self.scope).node)
                call.set("alias", None)
                return
        raise self.fail(call, f'window "{name.name}" is not defined')

    def _having(self, node: exp.Expr, items: list[tuple[str, Scalar]]) -> Scalar:
        value = self.builder.scalar(node, self.known, self.scope, {name.lower(): value for name, value in items})
        if has_window(value.node):
            raise self.fail(node, "a window in HAVING", "compute it in a sub-query in FROM, and filter around that")
        by_name = dict((name.lower(), found) for name, found in items)
        for column in node.find_all(exp.Column):
            found = by_name.get(column.name.lower()) if column.args.get("table") is None else None
            if found is not None and not column.find_ancestor(exp.Anonymous) and has_aggregate(found.node):
                meant = resolve_column(column, self.scope, lambda message: self.fail(column, message))
                if meant is not None and not isinstance(meant.node, exp.Anonymous):
                    hint = "give the result another name"
                    raise self.fail(column, f'"{column.name}" in HAVING could be the column or the result', hint)
        return value

    def _sort_target(self, item: exp.Expr, items: list[tuple[str, Scalar]]) -> tuple[str | None, Scalar | None]:
        """The output column that a key of ORDER BY is, or the expression that it is instead."""
        key = item.this
        name = self.builder.ordinal(key, [found for found, _ in items])
        if name is None and isinstance(key, exp.Column) and key.args.get("table") is None:
            if key.name.upper() == "ALL" and not key.this.args.get("quoted"):
                raise self.fail(item, "ORDER BY ALL is not supported in views", "name the columns")
            name = next((found for found, _ in items if found.lower() == key.name.lower()), None)
        if name is not None:
            return name, None
        by_name = {found.lower(): value for found, value in items}
        shadowed = exp.Paren(this=key.copy())
        for column in list(shadowed.find_all(exp.Column)):
            if column.args.get("table") is None and column.name.lower() in by_name and not has_aggregate(key):
                column.this.set("quoted", True)
        value = self.builder.scalar(key, self.known, self.scope, by_name)
        same = next((found for found, inner in items if inner == value), None)
        return (same, None) if same is not None else (None, value)

    def _group(
        self,
        group: exp.Group | None,
        items: list[tuple[str, Scalar]],
        sorting: list[tuple[exp.Expr, str | None, Scalar | None]],
        condition: Scalar | None,
    ) -> tuple[list[tuple[str, Scalar]], list[tuple[exp.Expr, str | None, Scalar | None]], Scalar | None]:
        alias = self.builder.aliases.take("grouped")
        types = self._types()
        self.grouping = grouping = Grouping(alias=alias, fail=self.builder.fail, type_of=lambda value: type_of(value, types))
        sets = None
        if group is not None and group.args.get("all"):
            for name, value in items:
                if not has_aggregate(value.node):
                    self._key(value, name)
        elif group is not None:
            sets = read_sets(group, lambda node: self._key_of(node, items), self.builder.fail)
        lifted = [(name, grouping.lift(value)) for name, value in items]
        order = [(item, name, value and grouping.lift(value)) for item, name, value in sorting]
        kept = condition and grouping.lift(condition)
        at = self.builder.place(group) if group is not None else next((self.builder.place(call.value.node) for call in grouping.calls), None)
        aggregate = Aggregate(source=self.source, keys=tuple(grouping.keys), calls=tuple(grouping.calls), sets=sets, at=at)
        self.source = Derived(query=aggregate, alias=alias)
        return lifted, order, kept

    def _key_of(self, node: exp.Expr, items: list[tuple[str, Scalar]]) -> int:
        while isinstance(node, exp.Paren):
            node = node.this
        name = self.builder.ordinal(node, [found for found, _ in items])
        if name is not None:
            return self._key(dict(items)[name], name)
        value = self.builder.scalar(node, self.known, self.scope, {found.lower(): inner for found, inner in items})
        same = next((found for found, inner in items if inner == value), None)
        return self._key(value, same)

    def _key(self, value: Scalar, name: str | None) -> int:
        assert self.grouping is not None
        node = value.node
        while isinstance(node, exp.Paren):
            node = node.this
        self.builder._refuse_calls(Scalar(node), node, "GROUP BY", None)  # noqa: SLF001
        if value.plans:
            raise self.fail(node, "a sub-query in GROUP BY", "compute it in a sub-query in FROM")
        return self.grouping.key(Scalar(node), name)

    def _types(self) -> dict[object, DataType | None]:
        types: dict[object, DataType | None] = dict(columns(self.source))
        scope: Scope | None = self.scope.parent
        while scope is not None:
            types = {**scope.types, **types}
            scope = scope.parent
        return types

    def _finish(self, items: list[tuple[str, Scalar]], sorting: list[tuple[exp.Expr, str | None, Scalar | None]]) -> Query:
        node, types = self.node, self._types()
        made = [Item(value=value, name=name, type=self._type(value, types)) for name, value in items]
        names = {item.name.lower() for item in made}
        keys, hidden = [], 0
        for item, name, value in sorting:
            if name is None and value is not None:
                same = next((found.name for found in made if found.value == value), None)
                if same is None:
                    same, hidden = unique("sort_key", names), hidden + 1
                    made.append(Item(value=value, name=same))
                name = same
            keys.append(sort_key(item, str(name)))
        made_at = self.builder.place(node)
        kind = Window if any(has_window(item.value.node) for item in made) else Project
        query: Query = kind(source=self.source, items=tuple(made), at=made_at)
        if node.args.get("distinct") is not None:
            if node.args["distinct"].args.get("on"):
                raise self.fail(node.args["distinct"], "DISTINCT ON is not supported", "use a window: row_number() OVER (PARTITION BY …)")
            if hidden:
                raise self.fail(node.args["order"], "ORDER BY after DISTINCT can name the columns of the result only")
            query = Distinct(query=query, at=made_at)
        if keys:
            query = Sort(query=query, keys=tuple(keys), at=self.builder.place(node.args["order"]))
        query = self.builder._shorten(query, node, None)  # noqa: SLF001
        return self._hide(query, len(made) - hidden) if hidden else query

    def _type(self, value: Scalar, types: dict[object, DataType | None]) -> DataType | None:
        return type_of(value, types)  # type: ignore[arg-type]

    def _hide(self, query: Query, kept: int) -> Query:
        alias = self.builder.aliases.take("sorted")
        items = tuple(Item(value=ref(alias, found.name), name=found.name, type=found.type) for found in outputs(query)[:kept])
        return Project(source=Derived(query=query, alias=alias), items=items, at=getattr(query, "at", None))


def build_plan(
    tree: exp.Expr,
    relation: Callable[[tuple[str, ...], exp.Expr], Relation],
    fail: Callable[[exp.Expr | None, str, str | None], Exception],
    read: Callable[[str], exp.Expr],
) -> Query:
    """The plan of a query's tree.

    `relation` says what a name is, `read` makes the tree of a view's text, and `fail` makes the error for a node, a message and a hint.
    """
    return Builder(relation=relation, fail=fail, read=read).query(tree, {}, None)

