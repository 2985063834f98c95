"""`run_set_rule`, `rule_rows` and `describe_plan`: the rules on plans of queries, and what they did to one query."""

from __future__ import annotations

from dataclasses import replace
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from platform_plugin.errors import InvalidValue
from platform_plugin.language.query.plan import relation_name
from platform_plugin.language.text.places import locate_offset, suggest_word
from platform_plugin.relations.result import Result

if TYPE_CHECKING:
    from collections.abc import Iterator

    from platform_plugin.algebra.plan.nodes import Query as PlanNode
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.language.query.query import Query
    from platform_plugin.language.statements.explain import SetRule
    from platform_plugin.relations.bind.query import BoundQuery


_WIDTH = 120


def run_set_rule(work: Workspace, statement: SetRule) -> Result:
    """Switch a rule, or all, for the statements that follow in this session."""
    from platform_plugin.algebra.rules.registry import RULE_NAMES

    names = RULE_NAMES if statement.name == "ALL" else (statement.name.lower(),)
    if unknown := [name for name in names if name not in RULE_NAMES]:
        hint = suggest_word(unknown[0], RULE_NAMES) or f"the rules are {', '.join(RULE_NAMES)}"
        raise locate_offset(statement.name_span).attach(InvalidValue(f'there is no rule "{unknown[0]}"', hint=hint))
    work.rules_off = work.rules_off - set(names) if statement.is_on else work.rules_off | set(names)
    said = "all rules are" if statement.name == "ALL" else f"rule {names[0]} is"
    message = f"{said} {'on' if statement.is_on else 'off'} in this session"
    return Result(pa.table({}), snapshot=work.lake.snapshot(), message=message)


def rule_rows(work: Workspace) -> list[dict[str, Any]]:
    """Every rule in the order in which it is applied."""
    from platform_plugin.algebra.rules.registry import RULES

    return [
        {"name": rule.name, "is_on": rule.name not in work.rules_off, "description": " ".join((type(rule).__doc__ or "").split())}
        for rule in RULES
    ]


def describe_plan(work: Workspace, query: Query, bound: BoundQuery, *, is_verbose: bool) -> Iterator[str]:
    """What is known of a query's plan: why there is none, or, if `is_verbose`, the plan, the rules that fired and the text for Spark."""
    plan = bound.plan
    if plan.planned is None:
        yield f"Spark gets the text without a plan: {plan.why}"
    if not is_verbose:
        return
    if plan.planned is not None:
        from platform_plugin.algebra.plan.tree import draw_plan

        yield from ("", "plan", *(f"  {line}" for line in draw_plan(_named_plan(plan.planned.plan, query)).splitlines()))
        yield from ("", "rules that fired")
        yield from (f"  {firing.name:<16} {firing.seconds * 1000:8.3f} ms" for firing in plan.firings)
        if work.rules_off:
            yield f"  off: {', '.join(sorted(work.rules_off))}"
        yield from _found_lines(query, bound)
    yield from ("", "text for Spark", *_wrapped(bound.rendered.text), "")


def _wrapped(text: str) -> Iterator[str]:
    for line in text.splitlines():
        yield from wrap(line, _WIDTH, initial_indent="  ", subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)


def _found_lines(query: Query, bound: BoundQuery) -> Iterator[str]:
    planned = bound.plan.planned
    if planned is None:
        return
    yield from ("", "found by them")
    for reference in query.relations:
        columns = planned.columns.get(relation_name(reference))
        read = "all columns" if columns is None else f"columns {', '.join(sorted(columns)) or 'none'}"
        conditions = [_sql(node) for node in planned.conditions.get(relation_name(reference), ())]
        yield f"  {reference.name}: {read}" + (f"; rows with {' AND '.join(conditions)}" if conditions else "")
    if planned.limit is not None:
        yield f"  the reader stops after {planned.limit.rows} rows"
    if planned.lookup is not None:
        yield "  a look-up, answered without Spark where the relation is small"


def _sql(node: Any) -> str:
    from sqlglot import exp

    from platform_plugin.algebra.plan.render import sql_of

    shown = node.copy()
    for column in shown.find_all(exp.Column):
        column.set("table", None)
    return sql_of(shown)


def _named_plan(plan: PlanNode, query: Query) -> Any:
    """The plan with the relations by the names that the text has for them."""
    from platform_plugin.algebra.plan.nodes import Scan
    from platform_plugin.algebra.plan.traversal import map_inputs

    names = {relation_name(reference): reference.name.parts for reference in query.relations}

    def visit(node: Any) -> Any:
        if isinstance(node, Scan):
            return replace(node, relation=names.get(node.relation[-1], node.relation))
        return map_inputs(node, visit)

    return visit(plan)
