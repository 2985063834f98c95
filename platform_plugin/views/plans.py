"""The split plan of a view's query over the relations of a lake at a snapshot."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from platform_plugin.algebra.relations import Relation
from platform_plugin.algebra.types import Field, Primitive
from platform_plugin.errors import PlatformError
from platform_plugin.lake.relations import read_declarations
from platform_plugin.lake.tables import View
from platform_plugin.language.datatypes import parse_type
from platform_plugin.language.query import analyse_query
from platform_plugin.queries.bind import bind_query, lake_name, pointing_at
from platform_plugin.views.record import RESULT_PART, read_records
from platform_plugin.views.sharing import ViewParts
from platform_plugin.views.split import plan_split

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from platform_plugin.algebra.plan import RelationKind
    from platform_plugin.algebra.types import DataType
    from platform_plugin.lake.tables import Snapshot
    from platform_plugin.language.places import Span
    from platform_plugin.spark.workspace import Workspace
    from platform_plugin.views.parts import SplitPlan
    from platform_plugin.views.record import ViewRecord

_CACHED_PLANS = 1_000
_PLANS: dict[tuple[UUID, UUID, int], SplitPlan] = {}


def plan_view(work: Workspace, record: ViewRecord, snapshot: Snapshot) -> SplitPlan:
    """The plan of a view that exists; relations look the same within a schema version, so it is made once for each."""
    key = (work.lake.uuid, record.uuid, snapshot.schema_version)
    plan = _PLANS.get(key)
    if plan is None:
        plan = plan_query(work, record.query, snapshot, columns=record.columns)
        if len(_PLANS) >= _CACHED_PLANS:
            _PLANS.clear()
        _PLANS[key] = plan
    return plan


def plan_query(work: Workspace, query: str | Span, snapshot: Snapshot, *, columns: Sequence[str] = ()) -> SplitPlan:
    """The plan of a query, or the rule that it breaks as an error."""

    def type_columns(text: str) -> tuple[DataType, ...]:
        from platform_plugin.spark.schema import from_spark_type

        bound = bind_query(work, text, snapshot)
        with work.session.job():
            return tuple(from_spark_type(part.dataType, column=part.name) for part in bound.frame.schema.fields)

    return plan_split(query, describe_relations(work, query, snapshot), names=tuple(columns), typer=type_columns)


def describe_relations(work: Workspace, query: str | Span, snapshot: Snapshot) -> dict[str, Relation]:
    """Every relation that a query or a plain view in it names, by each of the names that it may use."""
    lake = work.lake
    found: dict[str, Relation] = {}
    with lake.reading() as connection:
        declared = read_declarations(connection)
        records = read_records(connection)
        waiting: list[str | Span] = [query]
        while waiting:
            for reference in analyse_query(waiting.pop()).relations:
                key = ".".join(reference.name.parts).lower()
                if key in found:
                    continue
                with pointing_at(reference.span):
                    relation = lake.find_relation(connection, lake_name(reference.name), snapshot)
                name = (relation.name.schema, relation.name.relation)
                if not isinstance(relation, View):
                    declaration = declared.get(str(relation.uuid))
                    kind: RelationKind = "table"
                    if declaration is not None and declaration.kind in ("stream", "sample"):
                        kind = declaration.kind
                    described = Relation(name=name, kind=kind, fields=relation.fields)
                elif relation.uuid in records:
                    described = Relation(name=name, kind="continuous", fields=result_fields(records[relation.uuid]))
                else:
                    # Of a renamed column only the name counts; its type is told by the query.
                    renamed = tuple(Field(name=column, type=Primitive("varchar")) for column in relation.columns)
                    described = Relation(name=name, kind="view", fields=renamed, body=relation.sql)
                    waiting.append(relation.sql)
                found[key] = found[".".join(name).lower()] = described
    return found


def result_fields(record: ViewRecord) -> tuple[Field, ...]:
    """The columns of a continuous view's result, as they were found when it was created, or have grown since."""
    return tuple(Field(name=name, type=parse_type(kind)) for name, kind in record.options.get(RESULT_PART, ()))


def read_plans(work: Workspace, snapshot: Snapshot) -> list[ViewParts]:
    """The plans of all continuous views at a snapshot; one that can't be planned any more is left out."""
    with work.lake.reading() as connection:
        records = read_records(connection)
    found = []
    for view in work.lake.views(snapshot):
        if view.uuid in records:
            with suppress(PlatformError):
                found.append(ViewParts(view=str(view.name), plan=plan_view(work, records[view.uuid], snapshot)))
    return found
