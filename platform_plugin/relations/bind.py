"""Binding a query: every relation that it names, views included, becomes a DataFrame at one snapshot."""

from __future__ import annotations

import itertools
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

from platform_plugin.errors import InvalidValue, PlatformError
from platform_plugin.lake.catalogue.relations import read_streams
from platform_plugin.lake.catalogue.tables import Name, Table
from platform_plugin.language.query.probing import plan_probing
from platform_plugin.language.query.query import analyse_expression, analyse_query
from platform_plugin.language.query.size import is_bounded_query
from platform_plugin.language.query.staleness import read_duration
from platform_plugin.language.text.places import Place, Span, locate_offset
from platform_plugin.relations.arguments import argument, cell_value, check_arguments, used_arguments
from platform_plugin.relations.kinds import find_kind
from platform_plugin.relations.reading import ReadContext, ReadRequest
from platform_plugin.relations.versions import read_passed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import timedelta

    from pyspark.sql import DataFrame

    from platform_plugin.algebra.plan.predicates import Predicate
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot
    from platform_plugin.lake.read.scan import TableScan
    from platform_plugin.language.query.probing import Probing
    from platform_plugin.language.query.query import Query
    from platform_plugin.language.query.references import Reference
    from platform_plugin.language.query.rendering import RenderedQuery
    from platform_plugin.language.text.names import WrittenName
    from platform_plugin.language.text.values import Parameter
    from platform_plugin.relations.arguments import Arguments
    from platform_plugin.relations.reading import RelationRows


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundQuery:
    """A query that Spark can run, with the tables, bytes and files that it reads."""

    frame: DataFrame
    rendered: RenderedQuery | Probing
    tables: tuple[Table, ...]
    bytes_planned: int
    files_planned: int
    is_small: bool
    """Whether the result must be small: little is read, once, and the query does not multiply it."""


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
    predicates: tuple[Predicate, ...] = ()
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
            predicates = expression.target.filter(own)
        names = {reference: new_name() for reference in expression.relations}
        frames |= {names[reference]: _read(reading, reference, snapshot, own, ())[0] for reference in expression.relations}
        rendered = expression.render(names)
        parts.append((len(text), rendered))
        text += rendered.text
    scan = work.lake.scan(table, snapshot, where=predicates)
    frames[target] = read_relation(work.session, work.lake, scan, hidden=True)
    frame = query_relations(work.session, text, frames, bound or tuple(placed))
    return ComposedQuery(frame=frame, text=text, scan=scan, _parts=tuple(parts))


def bind_query(
    work: Workspace, text: Span | str, snapshot: Snapshot, arguments: Arguments = (), *, within: tuple[Name, ...] = ()
) -> BoundQuery:
    """The query at a snapshot. Everything it reads is at that snapshot, except relations with an `AT` of their own.

    `within` names the view that the query is of, which it must not read.
    """
    reading = ReadContext(work, snapshot)
    frame, rendered = bind_part(reading, text, snapshot, arguments, within)
    return BoundQuery(
        frame=frame,
        rendered=rendered,
        tables=tuple(dict.fromkeys(reading.tables)),
        bytes_planned=reading.bytes_planned,
        files_planned=reading.files_planned,
        is_small=reading.is_small,
    )


def bind_part(
    reading: ReadContext, text: Span | str, snapshot: Snapshot, arguments: Arguments, within: tuple[Name, ...]
) -> tuple[DataFrame, RenderedQuery | Probing]:
    """A query inside another one; what it reads is counted in `reading`."""
    from platform_plugin.engine.spark.frames.scan import query_relations

    query = analyse_query(text)
    reading.is_plain = reading.is_plain and is_bounded_query(query.span)
    check_arguments(query.parameters, arguments)
    _find_streams(reading, query)
    names = {reference: new_name() for reference in query.relations}
    read = {name: _read(reading, reference, snapshot, arguments, within) for reference, name in names.items()}
    inputs = {name: known for name, (_, known) in read.items()}
    rendered = plan_probing(query.render(names), inputs, broadcast_bytes=reading.work.limits.broadcast_bytes)
    frames = {name: frame for name, (frame, _) in read.items()}
    return query_relations(reading.work.session, rendered.text, frames, used_arguments(query.parameters, arguments)), rendered


def _find_streams(reading: ReadContext, query: Query) -> None:
    """Only joins want to know what is a stream."""
    if reading.streams is None and len(query.relations) > 1:
        with reading.work.lake.reading() as connection:
            reading.streams = read_streams(connection)


def read_beside_sessions(work: Workspace, query: Query, snapshot: Snapshot, arguments: Arguments) -> dict[Reference, RelationRows]:
    """The relations that a query reads besides its sessions, each as a DataFrame at the snapshot."""
    reading = ReadContext(work, snapshot)
    _find_streams(reading, query)
    return {reference: _read(reading, reference, snapshot, arguments, ()) for reference in query.relations if reference.session is None}


def _read(reading: ReadContext, reference: Reference, snapshot: Snapshot, arguments: Arguments, within: tuple[Name, ...]) -> RelationRows:
    lake = reading.work.lake
    with place_errors(reference.span):
        if reference.session is not None:
            raise InvalidValue("a session can't be read here", hint="read SESSION(…) in a SELECT of its own, not in a view or a statement")
        if reference.travel is not None and reference.travel.passed:
            return read_passed(reading, lake_name(reference.name), snapshot, ReadRequest(reference=reference, arguments=arguments))
        moment = _travelled(reading, reference, snapshot, arguments)
        with lake.reading() as connection:
            relation = lake.find_relation(connection, lake_name(reference.name), moment)
        need = ReadRequest(reference=reference, arguments=arguments, staleness=_staleness(reference, arguments), within=within)
        return find_kind(lake, relation, moment).read(reading, relation, moment, need)


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


def _travelled(reading: ReadContext, reference: Reference, snapshot: Snapshot, arguments: Arguments) -> Snapshot:
    travel = reference.travel
    if travel is None or travel.staleness is not None:
        return snapshot
    lake = reading.work.lake
    if travel.version is not None:
        version = cell_value(travel.version, arguments)
        if isinstance(version, bool) or not isinstance(version, int) or abs(version) >= 1 << 63:
            raise InvalidValue(f"{version!r} is not a snapshot's number", hint="write AT (VERSION => 3)")
        return lake.snapshot(version)
    moment = cell_value(travel.timestamp, arguments)
    return lake.snapshot(at=_moment(moment))


def _staleness(reference: Reference, arguments: Arguments) -> timedelta | None:
    """By how much what is read of a view may be behind."""
    if reference.travel is None or reference.travel.staleness is None:
        return None
    return read_duration(cell_value(reference.travel.staleness, arguments))


def _moment(value: object) -> datetime:
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError as error:
            raise InvalidValue(f'"{value}" is not a time', hint="write AT (TIMESTAMP => '2026-01-31 12:00:00')") from error
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    raise InvalidValue(f"{value!r} is not a time", hint="write AT (TIMESTAMP => '2026-01-31 12:00:00')")
