"""`plan_query` and `apply_sizes`: the plan of a query with what the rules say of it, or why there is none."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from platform_plugin.errors import InvalidStatement, PlatformError, UnknownObject
from platform_plugin.language.query.needs import left_out_columns, mentioned_columns
from platform_plugin.language.query.pruning import ALL_ROWS, BoundFormula, read_conditions
from platform_plugin.language.query.query import analyse_query

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sqlglot import exp

    from platform_plugin.algebra.plan.relations import RelationFacts
    from platform_plugin.algebra.rules.rule import Firing, PlannedQuery, ScanSize
    from platform_plugin.language.query.query import Query
    from platform_plugin.language.query.references import Reference


class NotPlanned(Exception):
    """A query for which there is no plan; Spark gets its text. The message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryPlan:
    """A query's plan, or why there is none, and the rules that fired."""

    planned: PlannedQuery | None
    why: str = ""
    firings: tuple[Firing, ...] = ()

    def columns_of(self, query: Query, reference: Reference) -> frozenset[str] | None:
        """At least the columns that a query needs of a relation, in lower case; None for all."""
        if self.planned is None:
            return mentioned_columns(query.tree)
        return self.planned.columns.get(relation_name(reference))

    def conditions_of(self, reference: Reference) -> tuple[exp.Expr, ...]:
        """The conditions on a relation's columns that hold for every row that the query can use."""
        return () if self.planned is None else self.planned.conditions.get(relation_name(reference), ())

    def formula_of(self, reference: Reference, arguments: Mapping[str, object] | Sequence[object]) -> BoundFormula:
        """What is true of every row of a relation that the query can use."""
        conditions = self.conditions_of(reference)
        return BoundFormula(read_conditions(conditions, planned_column), arguments) if conditions else ALL_ROWS


def relation_name(reference: Reference) -> str:
    """The name that a plan has for the relation of a reference."""
    return str(reference.index)


# Beyond, planning takes longer than it could save.
_MOST_TOKENS = 20_000


def plan_query(query: Query, facts: Callable[[Reference], RelationFacts], *, off: frozenset[str] = frozenset()) -> QueryPlan:
    """The plan of a query, from the facts of each relation, after the rules that need no sizes; those in `off` are left out."""
    from sqlglot import exp

    from platform_plugin.algebra.build.query import build_plan
    from platform_plugin.algebra.plan.nodes import scans
    from platform_plugin.algebra.rules.needed_columns import NeededColumns
    from platform_plugin.algebra.rules.registry import rules_of
    from platform_plugin.algebra.rules.rule import PlannedQuery, RuleFacts, apply_rules
    from platform_plugin.language.query.exact import read_exact_tree

    by_start = {reference.span.start: reference for reference in query.relations}

    def fail(node: exp.Expr | None, message: str, hint: str | None) -> Exception:
        from platform_plugin.language.text.places import Span, syntax_error

        at = next((inner.meta["at"] for inner in node.walk() if "at" in inner.meta), None) if node is not None else None
        start, end = at or (query.span.start, query.span.end)
        return syntax_error(Span(query.span.source, start, end), message, hint=hint)

    def relation(parts: tuple[str, ...], node: exp.Expr) -> RelationFacts:
        del parts
        return facts(by_start[min(inner.meta["at"] for inner in node.walk() if "at" in inner.meta)[0]])

    try:
        if query.is_shortened and len(query.tokens) > _MOST_TOKENS:
            raise NotPlanned("a list of literals is very long")
        tree = read_exact_tree(query)
        plan = build_plan(tree, relation, fail, lambda text: analyse_query(text).tree, allows_twins=True, has_places=False)
    except (InvalidStatement, UnknownObject, NotPlanned, RecursionError) as error:
        return QueryPlan(planned=None, why=_reason(error))
    planned = PlannedQuery(plan=plan, has_written_names=_has_written_names(tree))
    if any(column.hidden for scan in scans(plan) for column in scan.fields):
        # The rows that Spark gets have the hidden columns, so that a star in the text would stand for them too; the plan has none.
        planned = NeededColumns().apply(planned, RuleFacts()) or planned
        if any(isinstance(node, exp.Star) for node in tree.walk()):
            planned = replace(planned, is_rewritten=True, has_written_names=True)
    planned, firings = apply_rules(rules_of("names"), planned, RuleFacts(has_hints=_has_hints(query)), off=off)
    left_out = left_out_columns(tree)
    if left_out and not planned.is_rewritten:
        # The plan does not need them, but Spark gets the text, which names them.
        planned = replace(planned, columns={name: columns | left_out for name, columns in planned.columns.items()})
    return QueryPlan(planned=planned, firings=firings)


def narrow_plan(plan: QueryPlan, names: Sequence[str], conditions: Sequence[exp.Expr]) -> QueryPlan:
    """The plan of a view's query whose reader uses only rows under these conditions; it has `names` for the columns, if it has others."""
    if plan.planned is None or not conditions:
        return plan
    from platform_plugin.algebra.plan.nodes import Scalar, outputs
    from platform_plugin.algebra.plan.traversal import column_reference, map_columns
    from platform_plugin.algebra.rules.pruning import find_conditions

    columns = [column.name for column in outputs(plan.planned.plan)]
    if names and len(names) != len(columns):
        return plan
    own = dict(zip(names or columns, columns, strict=True))
    known = [map_columns(Scalar(node), lambda column: column_reference(column.alias, own[column.name])) for node in conditions]
    return replace(plan, planned=replace(plan.planned, conditions=find_conditions(plan.planned.plan, known)))


def apply_sizes(
    query: Query, plan: QueryPlan, sizes: Mapping[str, ScanSize], *, broadcast_bytes: int, off: frozenset[str] = frozenset()
) -> QueryPlan:
    """The plan after the rules that need to know how large the relations are."""
    if plan.planned is None or len(sizes) < 2 or not any(size.is_stream for size in sizes.values()):
        return plan
    from platform_plugin.algebra.rules.registry import rules_of
    from platform_plugin.algebra.rules.rule import RuleFacts, apply_rules

    facts = RuleFacts(sizes=sizes, broadcast_bytes=broadcast_bytes, has_hints=_has_hints(query))
    planned, firings = apply_rules(rules_of("sizes"), plan.planned, facts, off=off)
    if not _can_be_rendered(planned):
        return plan
    return replace(plan, planned=planned, firings=(*plan.firings, *firings))


def _has_hints(query: Query) -> bool:
    return "/*+" in query.span.text


def _can_be_rendered(planned: PlannedQuery) -> bool:
    from platform_plugin.algebra.plan.nodes import outputs

    names = [output.name.lower() for output in outputs(planned.plan)]
    return len(set(names)) == len(names)


def planned_column(node: exp.Expr) -> str | None:
    """The column that a node of a plan's expression is, in lower case, if it is one."""
    from platform_plugin.algebra.plan.traversal import column_of

    column = column_of(node)
    return None if column is None else column.name.lower()


def _has_written_names(tree: exp.Expr) -> bool:
    """Whether each column of the result is named by the text or by a relation."""
    from sqlglot import exp

    while isinstance(tree, (exp.SetOperation, exp.Subquery)):
        tree = tree.this
    return isinstance(tree, exp.Select) and all(isinstance(item, (exp.Alias, exp.Column, exp.Star)) for item in tree.expressions)


def _reason(error: Exception) -> str:
    # The builder's words are about views, which it was made for.
    return error.message.replace(" in views", " in plans") if isinstance(error, PlatformError) else str(error) or "it is nested too deeply"
