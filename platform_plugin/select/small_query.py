"""`answer_small_query`: the rows of any query with a plan over small relations, by an engine in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from platform_plugin.engine.choose import choose_engine
from platform_plugin.engine.engine import Task
from platform_plugin.engine.refusal import Refusal, RefusedByEngine, accept
from platform_plugin.language.query.plan import NotPlanned, relation_name
from platform_plugin.language.query.query import analyse_query
from platform_plugin.relations.bind.plans import find_query_plan
from platform_plugin.relations.bind.resolve import Resolver
from platform_plugin.relations.kinds import find_kind

if TYPE_CHECKING:
    import pyarrow as pa

    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot
    from platform_plugin.language.query.references import Reference


def answer_small_query(work: Workspace, text: str, snapshot: Snapshot) -> pa.Table | Refusal:
    """The rows of a query without parameters, by position where it does not name its columns; or why they are left to Spark."""
    query = analyse_query(text)
    resolver = Resolver(work, snapshot)
    try:
        plan = find_query_plan(work, query, snapshot, resolver)
        if plan.planned is None:
            return Refusal(why=plan.why)
        inputs = {relation_name(reference): _read_rows(work, reference, resolver) for reference in query.relations}
        engine, bid = accept(choose_engine(Task.of(plan.planned.plan), inputs, work.engines))
        (result,) = engine.run([bid], inputs)
        return accept(result).rows[0]
    except RefusedByEngine as refused:
        return refused.refusal


def _read_rows(work: Workspace, reference: Reference, resolver: Resolver) -> pa.Table:
    if reference.session is not None:
        raise RefusedByEngine("a session")
    if reference.changes is not None:
        raise RefusedByEngine("the changes of a relation")
    try:
        relation, moment, _ = resolver(reference)
    except NotPlanned as error:
        raise RefusedByEngine(str(error)) from error
    kind = find_kind(work.lake, relation, moment)
    small = kind.find_small(work, relation, moment) or kind.compute_small(work, relation, moment)
    if small is None or small.rows is None:
        raise RefusedByEngine("a large relation", for_good=False)
    return small.rows
