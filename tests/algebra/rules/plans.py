"""Plans of texts over relations that are only described, for the tests of rules."""

from __future__ import annotations

from platform_plugin.algebra.plan.nodes import Output
from platform_plugin.algebra.plan.relations import RelationFacts
from platform_plugin.algebra.rules.rule import ScanSize
from platform_plugin.algebra.types.data_types import Field, Primitive
from platform_plugin.language.query.plan import NotPlanned, apply_sizes, plan_query, relation_name
from platform_plugin.language.query.query import analyse_query
from platform_plugin.language.text.places import Span
from platform_plugin.relations.bind.query import render_plan

COLUMNS = {
    "posts": ("uid", "username", "score", "content", "topic"),
    "clicks": ("cid", "post"),
    "users": ("id", "region", "rate"),
    "regions": ("name", "country"),
    "countries": ("code", "continent"),
    "large": ("key", "value"),
    "t": ("k", "x", "y"),
    "w": ("a", "b", "c", "d"),
    "u": ("k", "x", "y"),
}
KINDS = {name: Primitive("int32") for name in ("k", "x", "y", "uid", "score", "id", "cid", "post")}
LARGE = 65 * 1024 * 1024
SIZES = {"posts": ScanSize(100, is_stream=True), "clicks": ScanSize(50, is_stream=True), "large": ScanSize(LARGE)}


def facts_of(reference):
    columns = COLUMNS.get(reference.name.relation.lower())
    if columns is None:
        raise NotPlanned(f"nothing is known of {reference.name}")
    return RelationFacts(
        name=(relation_name(reference),), kind="table", columns=tuple(Output(name=name, type=KINDS.get(name)) for name in columns)
    )


def plan_text(text, *, off=()):
    """The reading of a query and its plan after the rules that need no sizes."""
    query = analyse_query(Span(text, 0, len(text)))
    return query, plan_query(query, facts_of, off=frozenset(off))


def plan_sizes(text, *, off=()):
    """The same after all rules."""
    query, plan = plan_text(text, off=off)
    sizes = {relation_name(reference): SIZES.get(reference.name.relation, ScanSize(1000)) for reference in query.relations}
    return query, apply_sizes(query, plan, sizes, broadcast_bytes=64 << 20, off=frozenset(off))


def spark_text(text):
    """What Spark gets, with the relations' own names; None for the text itself."""
    query, plan = plan_sizes(text)
    if plan.planned is None or not plan.planned.is_rewritten:
        return None
    rendered = render_plan(query, plan.planned, {reference: reference.name.relation for reference in query.relations}).text
    return rendered.replace("`", "")


FIELDS = [Field(name=name, type=Primitive("varchar" if name == "Region" else "int64")) for name in ("k", "x", "Y", "Region")]


def condition(text, relation, arguments=()):
    """The condition on the one use of a relation."""
    query, plan = plan_text(text)
    reference = next(found for found in query.relations if found.name.relation == relation)
    return plan.formula_of(reference, arguments).condition(FIELDS)
