"""Rendering a plan as Spark SQL."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from platform_plugin.algebra.plan.nodes import (
    Aggregate,
    Derived,
    Distinct,
    Filter,
    Generate,
    Item,
    Join,
    Limit,
    LiteralRows,
    Project,
    Scalar,
    Scan,
    SetOperation,
    Single,
    Sort,
    Window,
    outputs,
)
from platform_plugin.algebra.plan.traversal import copy_tree, is_plan, list_nodes, map_nodes
from platform_plugin.errors import InvalidStatement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from platform_plugin.algebra.plan.nodes import JoinHint, JoinKind, Query, Source

    Naming = Callable[[tuple[str, ...]], tuple[str, ...]]

_JOINS: dict[JoinKind, tuple[str, str]] = {
    "inner": ("", "INNER"),
    "cross": ("", "CROSS"),
    "left": ("LEFT", ""),
    "right": ("RIGHT", ""),
    "full": ("FULL", ""),
    "semi": ("LEFT", "SEMI"),
    "anti": ("LEFT", "ANTI"),
}
_SETS: dict[str, type[exp.SetOperation]] = {"union": exp.Union, "intersect": exp.Intersect, "except": exp.Except}
_PLAIN = re.compile(r"[a-z_][a-z0-9_]*")
# Names that Spark or sqlglot reads as something else where a name could stand.
_WORDS = """
    all and anti any array as asc at between both by case cast check collate column constraint create cross cube current_date
    current_time current_timestamp current_user date day days default delete desc describe distinct div drop else end escape except
    exists explain extract false fetch filter first for foreign from full function grant group grouping having hour hours if in inner
    insert intersect interval into is join key lateral leading left like limit map minus minute minutes month months natural next not
    null offset on only or order outer over overlaps partition percent pivot primary qualify range recursive references replace rest
    right rlike rollup row rows select semi set sets some sort source start stream struct table tablesample target then time timestamp
    to trailing true uncache union unique unknown unpivot update user using value values variant version view week weeks when where
    window with within year years zone
"""
_KEYWORDS = frozenset(_WORDS.split())


def render(query: Query, names: Mapping[tuple[str, ...], str | tuple[str, ...]] | None = None, *, pretty: bool = False) -> str:
    """The query as Spark SQL, each relation called by its own name or by the one given for it."""
    return tree_sql(query_tree(query, names or {}), pretty=pretty)


def query_tree(query: Query, names: Mapping[tuple[str, ...], str | tuple[str, ...]]) -> exp.Query:
    """The query as sqlglot's tree."""

    def naming(relation: tuple[str, ...]) -> tuple[str, ...]:
        given = names.get(relation, relation)
        return (given,) if isinstance(given, str) else given

    return _Rendering(naming).query(query)


def sql_of(node: exp.Expr) -> str:
    """Sqlglot's tree as Spark SQL; names are quoted where they must be, and calls keep their spelling."""
    return tree_sql(copy_tree(node))


def tree_sql(tree: exp.Expr, *, pretty: bool = False, change: Callable[[exp.Expr], None] | None = None) -> str:
    """The same of a tree that nobody else has, which this changes. `change` sees each node before."""
    nodes = list_nodes(tree)
    for node in nodes:
        if isinstance(node, exp.Identifier):
            name = node.args["this"]
            node.args["quoted"] = name in _KEYWORDS or not _PLAIN.fullmatch(name)
    if change is not None:
        for node in nodes:
            change(node)
    return str(tree.sql("spark", copy=False, normalize_functions=False, comments=False, pretty=pretty, max_text_width=100))


class _Rendering:
    def __init__(self, naming: Naming) -> None:
        self.naming = naming

    def query(self, query: Query) -> exp.Query:
        match query:
            case Project(source=source, items=items) | Window(source=source, items=items):
                return self._select(source, items)
            case Aggregate():
                return self._aggregate(query)
            case Distinct(query=inner):
                found = self._open(inner, ("distinct", "order", "limit", "offset"))
                found.set("distinct", exp.Distinct())
                return found
            case Sort(query=inner, keys=keys):
                found = self._open(inner, ("order", "limit", "offset"))
                ordered = [exp.Ordered(this=self.scalar(key.value), desc=key.descending, nulls_first=key.nulls_first) for key in keys]
                found.set("order", exp.Order(expressions=ordered))
                return found
            case Limit(query=inner, count=count, offset=offset):
                found = self._open(inner, ("limit", "offset"))
                if count is not None:
                    found.set("limit", exp.Limit(expression=self.scalar(count)))
                if offset is not None:
                    found.set("offset", exp.Offset(expression=self.scalar(offset)))
                return found
            case SetOperation():
                return self._set_operation(query)

    def _open(self, inner: Query, parts: tuple[str, ...]) -> exp.Query:
        """The query below, to which a clause can be added; wrapped where it has one of its own already."""
        found = self.query(inner)
        plain = isinstance(found, exp.Select) or "distinct" not in parts
        if plain and not any(found.args.get(part) for part in parts):
            return found
        names = [exp.to_identifier(item.name, quoted=True) for item in outputs(inner)]
        columns: list[exp.Expr] = [exp.Column(this=name) for name in names]
        return exp.Select(expressions=columns, from_=exp.From(this=_aliased(found, "inner_rows")))

    def _select(self, source: Source, items: tuple[Item, ...]) -> exp.Select:
        shown = [self._item(item) for item in items] or [exp.Alias(this=exp.Literal.number(1), alias=exp.to_identifier("one"))]
        return self._from(exp.Select(expressions=shown), source)

    def _item(self, item: Item) -> exp.Expr:
        value = self.scalar(item.value)
        if isinstance(value, exp.Column) and value.name == item.name:
            return value
        return exp.Alias(this=value, alias=exp.to_identifier(item.name, quoted=True))

    def _aggregate(self, query: Aggregate) -> exp.Select:
        found = self._select(query.source, (*query.keys, *query.calls))
        if query.sets is not None:
            sets = [exp.Tuple(expressions=[self.scalar(query.keys[number].value) for number in numbers]) for numbers in query.sets]
            found.set("group", exp.Group(expressions=[exp.GroupingSets(expressions=sets)]))
        elif query.keys:
            found.set("group", exp.Group(expressions=[_key(self.scalar(item.value), number) for number, item in enumerate(query.keys)]))
        return found

    def _set_operation(self, query: SetOperation) -> exp.Query:
        left, right = (self._operand(side) for side in (query.left, query.right))
        return _SETS[query.kind](this=left, expression=right, distinct=not query.all)

    def _operand(self, query: Query) -> exp.Query:
        found = self.query(query)
        alone = isinstance(found, exp.Select) and not any(found.args.get(part) for part in ("order", "limit", "offset"))
        return found if alone else exp.Subquery(this=found)

    def _from(self, select: exp.Select, source: Source) -> exp.Select:
        conditions: list[exp.Expr] = []
        while isinstance(source, Filter):
            conditions.insert(0, self.scalar(source.condition))
            source = source.source
        laterals: list[exp.Expr] = []
        while isinstance(source, Generate) and not isinstance(source.source, Single):
            laterals.insert(0, self._lateral(source))
            source = source.source
        if not isinstance(source, Single):
            first, joins = self._joined(source)
            select.set("from_", exp.From(this=first))
            select.set("joins", joins)
            if hints := [exp.Anonymous(this=hint, expressions=[_hinted(alias)]) for alias, hint in _hints(source)]:
                select.set("hint", exp.Hint(expressions=hints))
        select.set("laterals", laterals)
        if conditions:
            select.set("where", exp.Where(this=_all(conditions)))
        return select

    def _lateral(self, source: Generate) -> exp.Lateral:
        names = [exp.to_identifier(name, quoted=True) for name in source.names]
        alias = exp.TableAlias(this=exp.to_identifier(source.alias, quoted=True), columns=names)
        return exp.Lateral(this=self.scalar(source.call), view=True, outer=source.outer, alias=alias)

    def _joined(self, source: Source) -> tuple[exp.Expr, list[exp.Expr]]:
        if isinstance(source, Generate) and not isinstance(source.source, Single):
            kind: JoinKind = "left" if source.outer else "cross"
            source = Join(left=source.source, right=replace(source, source=Single()), kind=kind, condition=None, lateral=True)
        if not isinstance(source, Join):
            return self._item_of_from(source), []
        first, joins = self._joined(source.left)
        side, word = _JOINS[source.kind]
        right = self._item_of_from(source.right)
        if source.lateral:
            if isinstance(right, exp.Subquery):
                alias = right.args.pop("alias")
                right = exp.Lateral(this=right, view=False, alias=alias)
            elif isinstance(right, exp.Table):
                right = exp.Lateral(this=right.this, view=False, alias=right.args.get("alias"))
        join = exp.Join(this=right, side=side or None, kind=word or None)
        if source.condition is not None:
            join.set("on", self.scalar(source.condition))
        elif source.kind != "cross":
            join.set("on", exp.Boolean(this=True))
        return first, [*joins, join]

    def _item_of_from(self, source: Source) -> exp.Expr:
        match source:
            case Scan(relation=relation, alias=alias):
                parts = [exp.to_identifier(part, quoted=True) for part in self.naming(relation)]
                table = exp.Table(this=parts[-1], db=parts[-2] if len(parts) > 1 else None)
                if len(parts) > 2:
                    table.set("catalog", parts[-3])
                if str(parts[-1].this) != alias:
                    table.set("alias", exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))
                return table
            case Derived(query=query, alias=alias):
                return _aliased(self.query(query), alias)
            case LiteralRows(rows=rows, alias=alias, names=names):
                tuples = [exp.Tuple(expressions=[self.scalar(value) for value in row]) for row in rows]
                columns = [exp.to_identifier(name, quoted=True) for name in names]
                return exp.Values(expressions=tuples, alias=exp.TableAlias(this=exp.to_identifier(alias, quoted=True), columns=columns))
            case Generate(source=Single(), call=call, alias=alias, names=names):
                columns = [exp.to_identifier(name, quoted=True) for name in names]
                return exp.Table(this=self.scalar(call), alias=exp.TableAlias(this=exp.to_identifier(alias, quoted=True), columns=columns))
            case _:
                return self._nested(source)

    def _nested(self, source: Source) -> exp.Expr:
        """A join in the place of one relation stands in brackets."""
        first, joins = self._joined(source)
        first.set("joins", joins)
        return exp.Subquery(this=first)

    def scalar(self, value: Scalar) -> exp.Expr:
        if not value.plans and exp.Placeholder not in value.facts.kinds:
            return copy_tree(value.node)

        def put(node: exp.Expr) -> exp.Expr | None:
            if not is_plan(node):
                return None
            number = int(node.name)
            if number >= len(value.plans):
                # A change of the plan took the expression and left its sub-queries behind.
                raise InvalidStatement("an expression of this plan has lost its sub-query", hint="write the sub-query as a join in FROM")
            inner = self.query(value.plans[number])
            return inner if isinstance(node.parent, exp.Exists) else exp.Subquery(this=inner)

        return map_nodes(value.node, put, are_own=True)


def _hints(source: Source) -> Iterator[tuple[str, JoinHint]]:
    """The hints on the sources of one FROM, by alias."""
    match source:
        case Scan(alias=alias, hint=str(hint)) | Derived(alias=alias, hint=str(hint)):
            yield alias, hint
        case Filter(source=inner) | Generate(source=inner):
            yield from _hints(inner)
        case Join(left=left, right=right):
            yield from _hints(left)
            yield from _hints(right)
        case _:
            pass


def _hinted(alias: str) -> exp.Expr:
    return exp.Column(this=exp.to_identifier(alias, quoted=True))


def _aliased(query: exp.Query, alias: str) -> exp.Subquery:
    return exp.Subquery(this=query, alias=exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))


def _all(conditions: list[exp.Expr]) -> exp.Expr:
    wrapped = [exp.Paren(this=item) if isinstance(item, (exp.Or, exp.Lambda)) else item for item in conditions]
    return exp.and_(*wrapped, wrap=False) if len(wrapped) > 1 else conditions[0]


def _key(node: exp.Expr, number: int) -> exp.Expr:
    """A constant key would be read as the number of an output column, so it is written as that number."""
    return exp.Literal.number(number + 1) if isinstance(node, (exp.Literal, exp.Null, exp.Boolean)) else node
