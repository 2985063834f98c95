"""FROM: relations, joins, sub-queries and table functions become the source of a plan and the scope of its columns."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from platform_plugin.algebra.build.scope import Scope, VisibleSource
from platform_plugin.algebra.functions import DICE, GENERATORS
from platform_plugin.algebra.plan.nodes import (
    Column,
    Derived,
    Generate,
    Item,
    Join,
    LiteralRows,
    Project,
    Scalar,
    Scan,
    Single,
    columns,
    outputs,
    walk,
)
from platform_plugin.algebra.plan.relations import HIDDEN_COLUMNS
from platform_plugin.algebra.plan.traversal import column_reference, columns_in, copy_tree, list_nodes, map_inputs
from platform_plugin.algebra.types.infer import type_of
from platform_plugin.algebra.types.widening import common_type

if TYPE_CHECKING:
    from collections.abc import Mapping

    from platform_plugin.algebra.build.query import Builder, Fail, NamedQuery
    from platform_plugin.algebra.plan.nodes import JoinKind, Query, Source

_KINDS: dict[tuple[str, str], JoinKind] = {
    ("", ""): "inner",
    ("", "INNER"): "inner",
    ("", "CROSS"): "cross",
    ("LEFT", ""): "left",
    ("LEFT", "OUTER"): "left",
    ("RIGHT", ""): "right",
    ("RIGHT", "OUTER"): "right",
    ("FULL", ""): "full",
    ("FULL", "OUTER"): "full",
    ("LEFT", "SEMI"): "semi",
    ("", "SEMI"): "semi",
    ("LEFT", "ANTI"): "anti",
    ("", "ANTI"): "anti",
}
_HIDDEN_NAMES = frozenset(column.name for column in HIDDEN_COLUMNS)
# The columns that table functions give without being told.
_FUNCTION_NAMES = {"range": ("id",), "explode": ("col",), "explode_outer": ("col",), "posexplode": ("pos", "col")}


def find_mentioned_hidden(tree: exp.Expr) -> frozenset[str]:
    """The names of hidden columns that a text mentions."""
    found = {str(node.this).lower() for node in list_nodes(tree) if isinstance(node, exp.Identifier)}
    return _HIDDEN_NAMES & found


def drop_unused_hidden(query: Query) -> Query:
    """The plan without the hidden columns that nothing in it mentions."""
    if not any(found.hidden for node in walk(query) if isinstance(node, Scan) for found in node.fields):
        return query
    used = columns_in(query)

    def visit(node: Any) -> Any:
        if isinstance(node, Scan):
            return replace(node, fields=tuple(found for found in node.fields if not found.hidden or Column(node.alias, found.name) in used))
        return map_inputs(node, visit)

    return visit(query)  # type: ignore[no-any-return]


def build_from(builder: Builder, node: exp.Select, known: Mapping[str, NamedQuery], outer: Scope | None) -> tuple[Source, Scope]:
    """The source of a SELECT and its scope of names."""
    first = node.args.get("from_")
    if first is None:
        return Single(), Scope(parent=outer)
    source, scope = _From(builder, known, outer).joined(first.this, node.args.get("joins") or [])
    for lateral in node.args.get("laterals") or []:
        source = _lateral_view(builder, source, scope, lateral, known)
        scope.types.update(columns(source))
    return source, scope


class _From:
    def __init__(self, builder: Builder, known: Mapping[str, NamedQuery], outer: Scope | None) -> None:
        self.builder = builder
        self.known = known
        self.outer = outer

    def joined(self, first: exp.Expr, joins: list[exp.Join]) -> tuple[Source, Scope]:
        source, scope = self.item(first)
        for join in joins:
            source = self._join(source, scope, join)
        return source, scope

    def item(self, node: exp.Expr) -> tuple[Source, Scope]:
        """One item of FROM, with the joins inside its brackets."""
        if node.args.get("pivots"):
            raise self.builder.fail(
                node, "PIVOT and UNPIVOT are not supported in views", "write sum(x) FILTER (WHERE y = …) for each column"
            )
        if node.args.get("sample"):
            raise self.builder.fail(
                node,
                "TABLESAMPLE is not supported in views",
                "declare a sample: CREATE SAMPLE … ON …, not the same: it has a fixed number of rows",
            )
        if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table) and node.args.get("alias") is None:
            return self.joined(node.this, node.args.get("joins") or [])
        source, visible = self._plain(node)
        scope = Scope(visible=[visible], parent=self.outer)
        scope.types.update(columns(source))
        for join in node.args.get("joins") or []:
            source = self._join(source, scope, join)
        return source, scope

    def _plain(self, node: exp.Expr) -> tuple[Source, VisibleSource]:
        alias = node.args.get("alias")
        name = alias.name if alias is not None else ""
        names = tuple(column.name for column in (alias.args.get("columns") or ())) if alias is not None else ()
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            return self._relation(node, name, names)
        if isinstance(node, exp.Table):
            return self._function(node.this, name, names)
        if isinstance(node, exp.Subquery):
            query = self.builder.query(node.this if not _modified(node) else _bare(node), self.known, self.outer)
            return self._derived(query, name or "subquery", names, visible=name)
        if isinstance(node, exp.Values):
            return self._rows(node, name, names)
        raise self.builder.fail(node, f"{node.key.upper()} in FROM is not supported in views", None)

    def _derived(self, query: Query, wanted: str, names: tuple[str, ...], *, visible: str | None = None) -> tuple[Source, VisibleSource]:
        alias = self.builder.aliases.take(wanted)
        source: Source = Derived(query=query, alias=alias)
        if names:
            found = outputs(query)
            if len(names) != len(found):
                raise self.builder.fail(None, f'"{wanted}" has {len(found)} columns and {len(names)} names', None)
            items = tuple(
                Item(value=column_reference(alias, old.name), name=new, type=old.type) for old, new in zip(found, names, strict=True)
            )
            outer = self.builder.aliases.take(wanted)
            source, alias = Derived(query=Project(source=source, items=items), alias=outer), outer
        return source, VisibleSource(name=wanted if visible is None else visible, schema=None, columns=tuple(columns(source)))

    def _relation(self, node: exp.Table, name: str, names: tuple[str, ...]) -> tuple[Source, VisibleSource]:
        parts = tuple(part.name for part in node.parts)
        called = name or parts[-1]
        named = self.known.get(parts[0].lower()) if len(parts) == 1 else None
        if named is not None:
            query = self.builder.query(named.query, named.known, None)
            self._refuse_dice(named, node)
            return self._derived(query, called, names or named.names) if names or named.names else self._derived(query, called, ())
        relation = self.builder.relation(parts, node)
        at = self.builder.place(node)
        if relation.kind == "view":
            body = self.builder.read(relation.body or "")
            inner = replace(self.builder, fail=self._inside(node, str(relation)), root=body)
            query = inner.query(body, {}, None)
            return self._derived(query, called, names or tuple(found.name for found in relation.fields))
        alias = self.builder.aliases.take(called)
        fields = relation.outputs
        hidden = relation.hidden
        if hidden:
            mentioned = find_mentioned_hidden(self.builder.root)
            hidden = tuple(found for found in hidden if found.name in mentioned)
        scan = Scan(relation=relation.name, kind=relation.kind, alias=alias, fields=(*fields, *hidden), at=at)
        if names:
            items = tuple(
                Item(value=column_reference(alias, found.name), name=new, type=found.type)
                for found, new in zip(fields, names, strict=False)
            )
            if len(names) != len(fields):
                raise self.builder.fail(node, f'"{called}" has {len(fields)} columns and {len(names)} names', None)
            return self._derived(Project(source=scan, items=items, at=at), called, ())
        schema = parts[-2] if len(parts) > 1 and not name else None
        shown, unseen = (tuple(Column(alias, found.name) for found in part) for part in (fields, hidden))
        return scan, VisibleSource(name=called, schema=schema, columns=shown, hidden=unseen)

    def _inside(self, node: exp.Expr, view: str) -> Fail:
        """Inside of a view the text's places are another text's, so an error points at the view's name."""
        fail = self.builder.fail
        return lambda _, message, hint: fail(node, f'in view "{view}": {message}', hint)

    def _refuse_dice(self, named: NamedQuery, node: exp.Expr) -> None:
        if any(str(call.this) in DICE for call in named.query.find_all(exp.Anonymous)):
            raise self.builder.fail(node, "a query with random values named by WITH", "write it in FROM, where it is used once")

    def _function(self, call: exp.Expr, name: str, names: tuple[str, ...]) -> tuple[Source, VisibleSource]:
        if not isinstance(call, exp.Anonymous):
            raise self.builder.fail(call, f"{call.key} in FROM is not supported in views", None)
        found = names or _FUNCTION_NAMES.get(str(call.this))
        if found is None:
            raise self.builder.fail(call, f"the columns of {call.this} have no names", f"write {call.this}(…) AS t (a, b)")
        alias = self.builder.aliases.take(name or str(call.this))
        value = self.builder.scalar(call, self.known, Scope(parent=self.outer))
        source = Generate(source=Single(), call=value, alias=alias, names=found, at=self.builder.place(call))
        return source, VisibleSource(name=name or str(call.this), schema=None, columns=tuple(columns(source)))

    def _rows(self, node: exp.Values, name: str, names: tuple[str, ...]) -> tuple[Source, VisibleSource]:
        scope = Scope(parent=self.outer)
        rows = tuple(
            tuple(self.builder.scalar(item, self.known, scope) for item in (row.expressions if isinstance(row, exp.Tuple) else [row]))
            for row in node.expressions
        )
        if len({len(row) for row in rows}) > 1:
            raise self.builder.fail(node, "rows of different lengths in VALUES", None)
        names = names or tuple(f"col{number}" for number in range(1, len(rows[0]) + 1))
        if len(names) != len(rows[0]):
            raise self.builder.fail(node, f"{len(rows[0])} columns in VALUES and {len(names)} names", None)
        alias = self.builder.aliases.take(name or "rows")
        types = tuple(common_type([type_of(row[index], {}) for row in rows]) for index in range(len(names)))
        source = LiteralRows(rows=rows, alias=alias, names=names, types=types)
        return source, VisibleSource(name=name, schema=None, columns=tuple(columns(source)))

    def _join(self, left: Source, scope: Scope, join: exp.Join) -> Source:
        kind = _KINDS.get((join.side.upper(), join.kind.upper()))
        natural = join.method.upper() == "NATURAL"
        if kind is None or join.method.upper() not in ("", "NATURAL"):
            words = " ".join(word for word in (join.method, join.side, join.kind) if word)
            raise self.builder.fail(join, f"{words} JOIN is not supported in views", None)
        at = self.builder.place(join.this)
        if isinstance(join.this, exp.Lateral):
            return self._lateral_join(left, scope, join, kind)
        right, inner = self.item(join.this)
        using = [identifier.name for identifier in join.args.get("using") or ()]
        if natural:
            shown = {name.lower() for name, _ in scope.star([]) or ()}
            using = [name for name, _ in inner.star([]) or () if name.lower() in shown]
        if using:
            condition: Scalar | None = self._using(scope, inner, using, kind, join)
        else:
            on = join.args.get("on")
            both = Scope(visible=[*scope.visible, *inner.visible], merged={**scope.merged, **inner.merged}, parent=self.outer)
            both.types.update({**scope.types, **inner.types})
            condition = None if on is None else self.builder.scalar(on, self.known, both)
            if condition is not None:
                self.builder.refuse_calls(condition, join, "ON", None)
        if kind not in ("semi", "anti"):
            scope.visible += inner.visible
            scope.merged.update({name: value for name, value in inner.merged.items() if name not in scope.merged})
            scope.types.update(inner.types)
        if condition is not None and isinstance(condition.node, exp.Boolean) and condition.node.this and kind == "inner":
            condition, kind = None, "cross"
        return Join(left=left, right=right, kind=kind, condition=condition, at=at)

    def _using(self, scope: Scope, inner: Scope, using: list[str], kind: JoinKind, join: exp.Join) -> Scalar:
        parts: list[exp.Expr] = []
        for name in using:
            sides = []
            for side in (scope, inner):
                alone = Scope(visible=side.visible, merged=side.merged)
                found = alone.find([name], lambda message: self.builder.fail(join, message, None))
                if found is None:
                    raise self.builder.fail(join, f'column "{name}" of USING is not on both sides', None)
                sides.append(found[0])
            left, right = sides
            parts.append(exp.EQ(this=copy_tree(left.node), expression=copy_tree(right.node)))
            if kind == "full":
                merged = Scalar(exp.Anonymous(this="coalesce", expressions=[copy_tree(left.node), copy_tree(right.node)]))
            else:
                merged = right if kind == "right" else left
            scope.merged[name.lower()] = merged
        return Scalar(exp.and_(*parts) if len(parts) > 1 else parts[0])

    def _lateral_join(self, left: Source, scope: Scope, join: exp.Join, kind: JoinKind) -> Source:
        lateral = join.this
        scope.types.update(columns(left))
        alias = lateral.args.get("alias")
        name = alias.name if alias is not None else ""
        names = tuple(column.name for column in (alias.args.get("columns") or ())) if alias is not None else ()
        if isinstance(lateral.this, exp.Anonymous):
            return _lateral_view(self.builder, left, scope, lateral, self.known)
        if kind not in ("inner", "cross", "left"):
            raise self.builder.fail(join, "a LATERAL sub-query can be joined by CROSS, INNER and LEFT only", None)
        query = self.builder.query(lateral.this, self.known, scope)
        right, visible = self._derived(query, name or "lateral", names, visible=name)
        on = join.args.get("on")
        scope.visible.append(visible)
        scope.types.update(columns(right))
        condition = None if on is None else self.builder.scalar(on, self.known, scope)
        if condition is not None and isinstance(condition.node, exp.Boolean) and condition.node.this and kind == "inner":
            condition, kind = None, "cross"
        return Join(left=left, right=right, kind=kind, condition=condition, lateral=True, at=self.builder.place(lateral))


def _lateral_view(builder: Builder, source: Source, scope: Scope, lateral: exp.Expr, known: Mapping[str, NamedQuery]) -> Source:
    call = lateral.this
    if not isinstance(call, exp.Anonymous) or str(call.this) not in GENERATORS:
        raise builder.fail(lateral, "only a generator such as explode can stand here", None)
    alias = lateral.args["alias"]
    names = tuple(column.name for column in (alias.args.get("columns") or ())) or _FUNCTION_NAMES.get(str(call.this))
    if names is None:
        raise builder.fail(call, f"the columns of {call.this} have no names", f"write LATERAL VIEW {call.this}(…) t AS a, b")
    scope.types.update(columns(source))
    value = builder.scalar(call, known, scope)
    taken = builder.aliases.take(alias.name or str(call.this))
    made = Generate(source=source, call=value, alias=taken, names=names, outer=bool(lateral.args.get("outer")), at=builder.place(call))
    scope.visible.append(VisibleSource(name=alias.name, schema=None, columns=tuple(Column(taken, name) for name in names)))
    return made


def _modified(node: exp.Subquery) -> bool:
    return any(node.args.get(part) for part in ("order", "limit", "offset", "with_"))


def _bare(node: exp.Subquery) -> exp.Subquery:
    found = node.copy()
    found.set("alias", None)
    found.set("joins", None)
    return found
