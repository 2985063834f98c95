"""`find_query_plan`: the plan of a query over the relations of a lake, kept as long as no schema changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from platform_plugin.algebra.plan.nodes import Output
from platform_plugin.algebra.plan.relations import RelationFacts
from platform_plugin.cache import Cache
from platform_plugin.language.query.plan import plan_query, relation_name
from platform_plugin.relations.kinds import find_kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot
    from platform_plugin.language.query.plan import QueryPlan
    from platform_plugin.language.query.query import Query
    from platform_plugin.language.query.references import Reference
    from platform_plugin.relations.bind.resolve import ResolvedRelation


_PLANS: Cache[tuple[object, ...], QueryPlan] = Cache("plans of queries", weigh=lambda _: 20_000)


def find_query_plan(
    work: Workspace,
    query: Query,
    snapshot: Snapshot,
    resolve: Callable[[Reference], ResolvedRelation],
    *,
    marks: tuple[str, ...] = (),
) -> QueryPlan:
    """The plan of a query after the rules that need no sizes; kept as long as no schema of the lake changes.

    `resolve` finds the relation of a reference; `marks` are columns that the rows of the first relation have besides their own.
    """

    def facts(reference: Reference) -> RelationFacts:
        resolved = resolve(reference)
        if resolved.changes is not None:
            return RelationFacts(name=(relation_name(reference),), kind="table", columns=resolved.changes.outputs)
        kind = find_kind(work.lake, resolved.relation, resolved.snapshot)
        columns = kind.planned_columns(work, resolved.relation, resolved.snapshot)
        added = tuple(Output(name=name) for name in marks if reference.index == 0)
        return RelationFacts(name=(relation_name(reference),), kind=kind.planned_as, columns=(*columns, *added))

    def plan() -> QueryPlan:
        return plan_query(query, facts, off=work.rules_off)

    if marks or any(reference.is_special for reference in query.relations):
        return plan()
    span = query.span
    key = (work.lake.uuid, str(work.lake.location), snapshot.schema_version, work.rules_off, span.source, span.start, span.end)
    return _PLANS.find(key, plan)
