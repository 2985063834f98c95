"""`bind_query`: a query over the DataFrames of its relations, as its text or as its plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from platform_plugin.algebra.plan.placed import POSITION
from platform_plugin.language.query.plan import apply_sizes, narrow_plan, relation_name
from platform_plugin.language.query.query import analyse_query
from platform_plugin.language.text.places import Place, Span, locate_offset
from platform_plugin.relations.arguments import check_arguments, used_arguments
from platform_plugin.relations.bind.names import new_name
from platform_plugin.relations.bind.plans import find_query_plan
from platform_plugin.relations.bind.read import find_streams, read_reference, request_rows
from platform_plugin.relations.bind.resolve import Resolver
from platform_plugin.relations.reading import ReadContext

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from platform_plugin.algebra.plan.placed import PlacedText
    from platform_plugin.algebra.rules.rule import PlannedQuery
    from platform_plugin.engine.spark.session.session import Session
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Name, Snapshot, Table
    from platform_plugin.language.query.plan import QueryPlan
    from platform_plugin.language.query.query import Query
    from platform_plugin.language.query.references import Reference
    from platform_plugin.relations.arguments import Arguments
    from platform_plugin.relations.faults import TextPlaces
    from platform_plugin.relations.reading import ReadRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundQuery:
    """A query that Spark can run, with the tables, bytes and files that it reads."""

    frame: DataFrame
    rendered: TextPlaces
    tables: tuple[Table, ...]
    bytes_planned: int
    files_planned: int
    is_small: bool
    """Whether the result must be small: little is read, once, and the query does not multiply it."""
    plan: QueryPlan
    limit: int | None = None
    """After how many rows the reader stops."""
    notes: tuple[str, ...] = ()
    """What EXPLAIN says of some of the relations."""


def bind_query(
    work: Workspace,
    text: Span | str,
    snapshot: Snapshot,
    arguments: Arguments = (),
    *,
    within: tuple[Name, ...] = (),
    leaves_limit: bool = False,
) -> BoundQuery:
    """The query at a snapshot. Everything it reads is at that snapshot, except relations with an `AT` of their own.

    `within` names the view that the query is of, which it must not read. With `leaves_limit` the caller stops after `limit` rows, where the
    query has such a LIMIT, and Spark does not know of it.
    """
    reading = ReadContext(work, snapshot)
    part = bind_part(reading, text, snapshot, arguments, within, leaves_limit=leaves_limit)
    return BoundQuery(
        frame=part.frame,
        rendered=part.rendered,
        tables=tuple(dict.fromkeys(reading.tables)),
        bytes_planned=reading.bytes_planned,
        files_planned=reading.files_planned,
        is_small=reading.is_small,
        plan=part.plan,
        limit=part.limit,
        notes=tuple(reading.notes),
    )


class BoundPart(NamedTuple):
    """A query, or a view in one, as a DataFrame; its text for Spark, its plan, and the LIMIT that was left to the reader."""

    frame: DataFrame
    rendered: TextPlaces
    plan: QueryPlan
    limit: int | None = None


class ViewNeed(NamedTuple):
    """What a view's reader calls its columns, if not as its query does, and what it needs of its rows."""

    columns: tuple[str, ...]
    need: ReadRequest


def bind_part(
    reading: ReadContext,
    text: Span | str,
    snapshot: Snapshot,
    arguments: Arguments,
    within: tuple[Name, ...],
    *,
    leaves_limit: bool = False,
    reader: ViewNeed | None = None,
) -> BoundPart:
    """A query inside another one; what it reads is counted in `reading`. That of a view is told what its `reader` uses."""
    work, query = reading.work, analyse_query(text)
    check_arguments(query.parameters, arguments)
    find_streams(reading, query)
    resolver = Resolver(work, snapshot, arguments)
    plan = find_query_plan(work, query, snapshot, resolver)
    given = arguments
    if reader is not None:
        plan, given = narrow_plan(plan, reader.columns, reader.need.conditions), reader.need.arguments
    reading.is_plain = reading.is_plain and plan.planned is not None and plan.planned.is_bounded
    rows = {
        reference: read_reference(reading, reference, resolver, request_rows(plan, query, reference, given, within))
        for reference in query.relations
    }
    sizes = {relation_name(reference): read.size for reference, read in rows.items()}
    plan = apply_sizes(query, plan, sizes, broadcast_bytes=work.limits.broadcast_bytes, off=work.rules_off)
    frames = {reference: read.frame for reference, read in rows.items()}
    return bind_frames(work.session, query, plan, frames, arguments, leaves_limit=leaves_limit)


def bind_frames(
    session: Session,
    query: Query,
    plan: QueryPlan,
    frames: Mapping[Reference, DataFrame],
    arguments: Arguments,
    *,
    leaves_limit: bool = False,
) -> BoundPart:
    """A query over the DataFrames of its relations: as its text, or as its plan where a rule has rewritten that."""
    from platform_plugin.engine.spark.frames.scan import query_relations

    names = {reference: new_name() for reference in frames}
    by_name = {names[reference]: frame for reference, frame in frames.items()}
    used = used_arguments(query.parameters, arguments)
    planned = plan.planned
    limit = planned.limit if leaves_limit and planned is not None else None
    if limit is not None and not query.ends_at(limit.at[0]):
        limit = None
    if planned is None or not planned.is_rewritten:
        rendered = query.render(names, without_limit=None if limit is None else limit.at[0])
        return BoundPart(query_relations(session, rendered.text, by_name, used), rendered, plan, limit and limit.rows)
    text = render_plan(query, planned, names, without_limit=limit is not None)
    given = dict(used) if isinstance(used, Mapping) else {f"{POSITION}{place}": value for place, value in enumerate(used)}
    frame = query_relations(session, text.text, by_name, given)
    if not planned.has_written_names:
        frame = frame.toDF(*query_relations(session, query.render(names).text, by_name, used).columns)
    return BoundPart(frame, text, plan, limit and limit.rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderedPlan:
    """The text of a plan for Spark, with the map from its offsets to those of the user's text."""

    text: str
    _placed: PlacedText
    _span: Span

    def at(self, position: int) -> Place:
        """The place in the user's text of an offset in this text."""
        return locate_offset(self._span.source, self._placed.locate(position, self._span.start))


def render_plan(query: Query, planned: PlannedQuery, names: Mapping[Reference, str], *, without_limit: bool = False) -> RenderedPlan:
    """The plan of a query as Spark SQL over temporary views of these names."""
    from platform_plugin.algebra.plan.nodes import Limit
    from platform_plugin.algebra.plan.placed import render_placed

    plan = planned.plan.query if without_limit and isinstance(planned.plan, Limit) else planned.plan
    placed = render_placed(plan, {(relation_name(reference),): name for reference, name in names.items()})
    return RenderedPlan(text=placed.text, _placed=placed, _span=query.span)
