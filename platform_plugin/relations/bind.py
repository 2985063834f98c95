"""Binding a query: every relation that it names, views included, becomes a DataFrame at one snapshot."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from platform_plugin.algebra.plan.nodes import Output
from platform_plugin.algebra.plan.placed import POSITION
from platform_plugin.algebra.plan.relations import RelationFacts
from platform_plugin.algebra.types.data_types import quote_identifier
from platform_plugin.cache import Cache
from platform_plugin.errors import InvalidValue, PlatformError
from platform_plugin.lake.catalogue.relations import read_streams
from platform_plugin.lake.catalogue.tables import Name, Table
from platform_plugin.language.query.plan import NotPlanned, apply_sizes, plan_query, relation_name
from platform_plugin.language.query.pruning import ALL_ROWS, BoundFormula
from platform_plugin.language.query.query import analyse_expression, analyse_query
from platform_plugin.language.query.staleness import read_duration
from platform_plugin.language.text.places import Place, Span, locate_offset
from platform_plugin.language.text.writing import name_text
from platform_plugin.relations.arguments import argument, cell_value, check_arguments, used_arguments
from platform_plugin.relations.kinds import find_kind
from platform_plugin.relations.reading import ReadContext, ReadRequest
from platform_plugin.relations.versions.changes import ChangedRelation, find_changed, read_changed
from platform_plugin.relations.versions.passed import read_passed
from platform_plugin.relations.versions.travel import find_version, read_moment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import timedelta

    from pyspark.sql import DataFrame

    from platform_plugin.algebra.plan.placed import PlacedText
    from platform_plugin.algebra.rules.rule import PlannedQuery
    from platform_plugin.engine.spark.session.session import Session
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot, View
    from platform_plugin.lake.lake import Lake
    from platform_plugin.lake.read.scan import TableScan
    from platform_plugin.language.query.plan import QueryPlan
    from platform_plugin.language.query.query import Query
    from platform_plugin.language.query.references import Reference
    from platform_plugin.language.query.rendering import RenderedQuery
    from platform_plugin.language.text.names import WrittenName
    from platform_plugin.language.text.values import Parameter
    from platform_plugin.relations.arguments import Arguments
    from platform_plugin.relations.faults import TextPlaces
    from platform_plugin.relations.reading import RelationRows


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ComposedQuery:
    """A query composed from parts of a statement, with the place that each part comes from."""

    frame: DataFrame
    text: str
    scan: TableScan
    _parts: tuple[tuple[int, RenderedQuery], ...]

    def at(self, position: int) -> Place:
        """The place in the statement of an offset in the query; an offset outside all parts gives the first part's start."""
        for start, rendered in reversed(self._parts):
            if start <= position <= start + len(rendered.text):
                return rendered.at(position - start)
        return self._parts[0][1].at(0) if self._parts else locate_offset(self.text)


# Spark finds a query's relations by name alone, in its session, while it looks at the query: threads that share a session
# would read each other's tables if two relations ever had the same name.
_NUMBERS = itertools.count()


def new_name() -> str:
    """A unique name for a relation in a query's text."""
    return f"_relation_{next(_NUMBERS)}"


def bind_rows(
    work: Workspace,
    name: WrittenName,
    alias: str | None,
    pieces: Sequence[str | Span],
    *,
    target: str,
    snapshot: Snapshot,
    arguments: Arguments,
    parameters: Sequence[Parameter] = (),
    also: Mapping[str, DataFrame] | None = None,
    where: Span | None = None,
) -> ComposedQuery:
    """A query over the rows of one table, with the columns that identify each row.

    `pieces` are texts, and parts of a statement that are expressions over the table's rows; `where`, if it is one of them, is a condition,
    by which files are pruned. The table is called `target` in the texts, and has its name or alias in expressions.
    """
    from platform_plugin.engine.spark.frames.scan import query_relations, read_relation

    with place_errors(name.span):
        table = work.lake.table(lake_name(name), snapshot)
    reading = ReadContext(work, snapshot)
    frames: dict[str, DataFrame] = dict(also or {})
    text, parts = "", []
    bound: dict[str, Any] = {}
    placed: list[Any] = []
    formula = ALL_ROWS
    for piece in pieces:
        if isinstance(piece, str):
            text += piece
            continue
        expression = analyse_expression(piece, name, alias)
        inside = [parameter for parameter in parameters if piece.start <= parameter.span.start < piece.end]
        values = tuple(argument(parameter, arguments) for parameter in inside)
        own: Arguments = values if isinstance(arguments, tuple) else arguments
        bound |= {parameter.name: value for parameter, value in zip(inside, values, strict=True) if parameter.name is not None}
        placed += values if isinstance(arguments, tuple) else ()
        if piece is where:
            formula = _selecting_formula(Resolver(work, snapshot, own), name, alias, piece, own)
        names = {reference: new_name() for reference in expression.relations}
        frames |= {
            names[reference]: read_reference(reading, reference, Resolver(work, snapshot, own), ReadRequest()).frame
            for reference in expression.relations
        }
        rendered = expression.render(names)
        parts.append((len(text), rendered))
        text += rendered.text
    scan = work.lake.scan(table, snapshot, where=formula.condition(table.fields))
    frames[target] = read_relation(work.session, work.lake, scan, hidden=True)
    frame = query_relations(work.session, text, frames, bound or tuple(placed))
    return ComposedQuery(frame=frame, text=text, scan=scan, _parts=tuple(parts))


def _selecting_formula(resolver: Resolver, name: WrittenName, alias: str | None, where: Span, arguments: Arguments) -> BoundFormula:
    """What is true of the rows of a table that a condition selects."""
    called = "" if alias is None else f" AS {quote_identifier(alias)}"
    query = analyse_query(f"SELECT 1 FROM {name_text(name)}{called} WHERE ({where.text})")
    plan = find_query_plan(resolver.work, query, resolver.snapshot, resolver)
    return plan.formula_of(query.relations[0], arguments)


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


def bind_part(
    reading: ReadContext,
    text: Span | str,
    snapshot: Snapshot,
    arguments: Arguments,
    within: tuple[Name, ...],
    *,
    leaves_limit: bool = False,
) -> BoundPart:
    """A query inside another one; what it reads is counted in `reading`."""
    work, query = reading.work, analyse_query(text)
    check_arguments(query.parameters, arguments)
    find_streams(reading, query)
    resolver = Resolver(work, snapshot, arguments)
    plan = find_query_plan(work, query, snapshot, resolver)
    reading.is_plain = reading.is_plain and plan.planned is not None and plan.planned.is_bounded
    rows = {
        reference: read_reference(reading, reference, resolver, _request(plan, query, reference, arguments, within))
        for reference in query.relations
    }
    sizes = {relation_name(reference): read.size for reference, read in rows.items()}
    plan = apply_sizes(query, plan, sizes, broadcast_bytes=work.limits.broadcast_bytes, off=work.rules_off)
    frames = {reference: read.frame for reference, read in rows.items()}
    return bind_frames(work.session, query, plan, frames, arguments, leaves_limit=leaves_limit)


def _request(plan: QueryPlan, query: Query, reference: Reference, arguments: Arguments, within: tuple[Name, ...]) -> ReadRequest:
    return ReadRequest(
        columns=plan.columns_of(query, reference),
        formula=plan.formula_of(reference, arguments),
        staleness=_staleness(reference, arguments),
        within=within,
    )


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


def find_streams(reading: ReadContext, query: Query) -> None:
    """Note which relations are streams; only joins want to know."""
    if reading.streams is None and len(query.relations) > 1:
        with reading.work.lake.reading() as connection:
            reading.streams = read_streams(connection)


def read_beside_sessions(
    work: Workspace, query: Query, plan: QueryPlan, snapshot: Snapshot, arguments: Arguments
) -> dict[Reference, RelationRows]:
    """The relations that a query reads besides its sessions, each as a DataFrame at the snapshot."""
    reading, resolver = ReadContext(work, snapshot), Resolver(work, snapshot, arguments)
    find_streams(reading, query)
    return {
        reference: read_reference(reading, reference, resolver, _request(plan, query, reference, arguments, ()))
        for reference in query.relations
        if reference.session is None
    }


class ResolvedRelation(NamedTuple):
    """A relation that a query names, at the snapshot at which it is read there, or the range whose changes are read."""

    relation: Table | View
    snapshot: Snapshot
    changes: ChangedRelation | None = None


class Resolver:
    """Finds the relations of references at the snapshots at which they are read, each once."""

    def __init__(self, work: Workspace, snapshot: Snapshot, arguments: Arguments = ()) -> None:
        self.work = work
        self.snapshot = snapshot
        self._arguments = arguments
        self._resolved: dict[Reference, ResolvedRelation] = {}

    def __call__(self, reference: Reference) -> ResolvedRelation:
        """The relation of a reference."""
        if reference not in self._resolved:
            if reference.travel is not None and reference.travel.passed:
                raise NotPlanned("a version that passed a gate has columns of its own")
            lake = self.work.lake
            if reference.changes is not None:
                with place_errors(reference.changes.span):
                    changed = find_changed(lake, lake_name(reference.name), reference.changes, self.snapshot, self._arguments)
                self._resolved[reference] = ResolvedRelation(changed.table, changed.until, changed)
                return self._resolved[reference]
            moment = _travelled(lake, reference, self.snapshot, self._arguments)
            with lake.reading() as connection:
                relation = lake.find_relation(connection, lake_name(reference.name), moment)
            self._resolved[reference] = ResolvedRelation(relation, moment)
        return self._resolved[reference]


def read_reference(reading: ReadContext, reference: Reference, resolver: Resolver, need: ReadRequest) -> RelationRows:
    """The rows of one relation that a query names."""
    with place_errors(reference.span):
        if reference.session is not None:
            raise InvalidValue("a session can't be read here", hint="read SESSION(…) in a SELECT of its own, not in a view or a statement")
        if reference.travel is not None and reference.travel.passed:
            return read_passed(reading, lake_name(reference.name), resolver.snapshot, need)
        relation, moment, changed = resolver(reference)
        if changed is not None:
            return read_changed(reading, changed, need)
        return find_kind(reading.work.lake, relation, moment).read(reading, relation, moment, need)


def read_named(work: Workspace, name: tuple[str, str], snapshot: Snapshot) -> DataFrame:
    """All rows of one relation at a snapshot."""
    with work.lake.reading() as connection:
        reading = ReadContext(work, snapshot, read_streams(connection))
    return read_part(reading, name, snapshot, ())


def read_part(reading: ReadContext, name: tuple[str, str], snapshot: Snapshot, within: tuple[Name, ...]) -> DataFrame:
    """All rows of one relation, read for another query and counted in `reading`."""
    lake = reading.work.lake
    with lake.reading() as connection:
        relation = lake.find_relation(connection, Name.of(name), snapshot)
    return find_kind(lake, relation, snapshot).read(reading, relation, snapshot, ReadRequest(within=within)).frame


@contextmanager
def place_errors(span: Span) -> Iterator[None]:
    """Give errors that have no place yet the place of this part of the statement."""
    try:
        yield
    except PlatformError as error:
        if not getattr(error, "line", 0) and span.source:
            locate_offset(span, 0, len(span.text)).attach(error)
        raise


def lake_name(name: WrittenName) -> Name:
    """The lake's name for a written name: without a schema it is in `main`."""
    return Name.of(name.relation) if name.schema is None else Name(schema=name.schema, relation=name.relation)


def _travelled(lake: Lake, reference: Reference, snapshot: Snapshot, arguments: Arguments) -> Snapshot:
    travel = reference.travel
    if travel is None or travel.staleness is not None:
        return snapshot
    if travel.version is not None:
        return find_version(lake, cell_value(travel.version, arguments))
    return lake.snapshot(at=read_moment(cell_value(travel.timestamp, arguments)))


def _staleness(reference: Reference, arguments: Arguments) -> timedelta | None:
    """By how much what is read of a view may be behind."""
    if reference.travel is None or reference.travel.staleness is None:
        return None
    return read_duration(cell_value(reference.travel.staleness, arguments))
