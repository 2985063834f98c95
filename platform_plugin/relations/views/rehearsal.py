"""`rehearse_states`: the queries of a maintenance run over empty ranges, which check a view before it is accepted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from platform_plugin.operators.group.sharing import ViewParts, plan_sharing
from platform_plugin.relations.bind.names import new_name
from platform_plugin.relations.follow.ranges import rows_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.operators.group.parts import SplitPlan
    from platform_plugin.relations.follow.ranges import Range


def rehearse_states(
    work: Workspace, plan: SplitPlan, ranges: Mapping[str, Range], statics: Mapping[str, DataFrame]
) -> dict[str, list[DataFrame]]:
    """The frames that a run would add to each state of a view; a query that fails together with others also runs alone."""
    from platform_plugin.engine.spark.frames.scan import query_relations

    found: dict[str, list[DataFrame]] = {state.name: [] for state in plan.states}
    parts = [ViewParts(view="view", plan=plan, statics={name: name for name in statics})]
    for stream, tail in ranges.items():
        for query in plan_sharing(parts, stream).queries:
            names = {relation: new_name() for relation in query.relations}
            frames = {name: statics[relation] for relation, name in names.items() if relation in statics}
            frames[names[stream]] = rows_of(work.session, work.lake, tail, hidden=query.hidden)
            answer, result = query_relations(work.session, query.sql(names), frames), new_name()
            for part in query.parts:
                found[part.state].append(query_relations(work.session, part.sql(result), {result: answer}))
    return found
