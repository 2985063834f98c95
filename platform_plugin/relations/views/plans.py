"""`find_plan` and `prepare_plan`: the split plan of a view's query over the relations of a lake at a snapshot."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from platform_plugin.cache import Cache
from platform_plugin.errors import PlatformError
from platform_plugin.operators.group.sharing import ViewParts
from platform_plugin.operators.group.split import plan_split, read_plan
from platform_plugin.relations.bind.query import bind_query
from platform_plugin.relations.views.record import read_records
from platform_plugin.relations.views.relations import QueryMeaning, describe_relations, read_meaning, used_columns, widen_relations

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from platform_plugin.algebra.plan.nodes import Query
    from platform_plugin.algebra.types.data_types import DataType
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot
    from platform_plugin.language.text.places import Span
    from platform_plugin.operators.group.parts import SplitPlan
    from platform_plugin.relations.views.record import ViewRecord

# A plan of five columns over a join takes about so much by `tracemalloc`.
_PLANS: Cache[tuple[UUID, UUID, int], SplitPlan] = Cache("plans of views", weigh=lambda _: 60_000)


def find_plan(work: Workspace, record: ViewRecord, snapshot: Snapshot) -> SplitPlan:
    """The plan of an existing view, cached for each schema version, in which no relation's definition changes.

    The states were written by the plan of the view's creation, so names mean what they meant then; only types may have widened.
    """
    key = (work.lake.uuid, record.uuid, snapshot.schema_version)
    return _PLANS.find(key, lambda: _prepare_again(work, record, snapshot))


def _prepare_again(work: Workspace, record: ViewRecord, snapshot: Snapshot) -> SplitPlan:
    meaning = read_meaning(work, record.uuid)
    if meaning is None:
        return prepare_plan(work, record.query, snapshot, columns=record.columns)[0]

    def type_columns(text: str) -> tuple[DataType, ...]:
        try:
            return _type_columns(work, text, snapshot)
        except PlatformError:
            # What it reads may be gone, since it was only needed when the view was made.
            if text in meaning.types:
                return meaning.types[text]
            raise

    relations = widen_relations(work, meaning, snapshot)
    return plan_split(record.query, relations, names=tuple(record.columns), typer=type_columns)


def read_unsplit_plan(work: Workspace, record: ViewRecord, snapshot: Snapshot) -> Query:
    """The plan of a view's query before it is split."""
    meaning = read_meaning(work, record.uuid)
    return read_plan(record.query, describe_relations(work, record.query, snapshot) if meaning is None else meaning.relations)


def prepare_plan(work: Workspace, query: str | Span, snapshot: Snapshot, *, columns: Sequence[str] = ()) -> tuple[SplitPlan, QueryMeaning]:
    """The plan of a new query and the meaning of its names now; an error for the rule that it breaks."""
    meaning = QueryMeaning(relations=describe_relations(work, query, snapshot))

    def type_columns(text: str) -> tuple[DataType, ...]:
        meaning.types[text] = _type_columns(work, text, snapshot)
        return meaning.types[text]

    whole = read_plan(query, meaning.relations)
    plan = plan_split(query, meaning.relations, names=tuple(columns), typer=type_columns, whole=whole)
    return plan, replace(meaning, used=used_columns(whole))


def _type_columns(work: Workspace, text: str, snapshot: Snapshot) -> tuple[DataType, ...]:
    from platform_plugin.engine.spark.frames.schema import from_spark_type

    bound = bind_query(work, text, snapshot)
    with work.session.job():
        return tuple(from_spark_type(part.dataType, column=part.name) for part in bound.frame.schema.fields)


def read_plans(work: Workspace, snapshot: Snapshot) -> list[ViewParts]:
    """The plans of all continuous views at a snapshot; a view that can't be planned any more is left out."""
    with work.lake.reading() as connection:
        records = read_records(connection)
    found = []
    for view in work.lake.views(snapshot):
        if view.uuid in records:
            with suppress(PlatformError):
                found.append(ViewParts(view=str(view.name), plan=find_plan(work, records[view.uuid], snapshot)))
    return found
