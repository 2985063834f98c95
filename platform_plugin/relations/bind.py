"""Binding: every relation that a query names becomes a DataFrame at one snapshot, views included."""

from __future__ import annotations

import itertools
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

from platform_plugin.errors import InvalidValue, PlatformError
from platform_plugin.lake.catalogue.relations import read_streams
from platform_plugin.lake.catalogue.tables import Name, Table, View
from platform_plugin.language.query.blocks import Input
from platform_plugin.language.query.probing import plan_probing
from platform_plugin.language.query.query import analyse_expression, analyse_query
from platform_plugin.language.query.size import SMALL_BYTES, SMALL_ROWS, is_plain
from platform_plugin.language.query.staleness import read_duration
from platform_plugin.language.text.places import Place, Span, at
from platform_plugin.relations.arguments import argument, check_arguments, used_arguments, value_of
from platform_plugin.relations.samples.record import find_sample
from platform_plugin.relations.streams.arrivals import read_with_arrivals, wants_arrivals
from platform_plugin.relations.views.record import read_records

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import timedelta

    from pyspark.sql import DataFrame

    from platform_plugin.algebra.plan.predicates import Predicate
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot
    from platform_plugin.lake.read.scan import Scan
    from platform_plugin.language.query.probing import Probing
    from platform_plugin.language.query.query import Query
    from platform_plugin.language.query.references import Reference
    from platform_plugin.language.query.rendering import Rendered
    from platform_plugin.language.text.names import Name as WrittenName
    from platform_plugin.language.text.values import Parameter
    from platform_plugin.relations.arguments import Arguments
    from platform_plugin.relations.samples.record import Sample

_DEEPEST_VIEW = 50
# Rows that travel with a query.
_LOCAL_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A query that Spark can run, and what it reads."""

    frame: DataFrame
    rendered: Rendered | Probing
    tables: tuple[Table, ...]
    bytes_planned: int
    files_planned: int
    is_small: bool
    """Whether the result must be small: little is read, once, and passed on much as it is."""


@dataclass(slots=True)
class _Reading:
    """What is gathered while a query and the views in it are bound."""

    work: Workspace
    snapshot: Snapshot
    streams: frozenset[str] | None = None
    tables: list[Table] = field(default_factory=list)
    bytes_planned: int = 0
    files_planned: int = 0
    rows_planned: int = 0
    is_plain: bool = True

    def count(self, table: Table, scan: Scan) -> None:
        """Note what one more scan will read."""
        self.tables.append(table)
        self.bytes_planned += scan.size_bytes
        self.files_planned += len(scan.files)
        self.rows_planned += sum(part.record_count for part in scan.files) + sum(part.row_count for part in scan.inlined)

    @property
    def is_small(self) -> bool:
        return self.is_plain and len(self.tables) <= 1 and self.rows_planned <= SMALL_ROWS and self.bytes_planned <= SMALL_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Composed:
    """A query made of a statement's parts, and where each part comes from."""

    frame: DataFrame
    text: str
    scan: Scan
    _parts: tuple[tuple[int, Rendered], ...]

    def at(self, position: int) -> Place:
        """The place in the statement of an offset in the query; outside of all parts it is the first part's start."""
        for start, rendered in reversed(self._parts):
            if start <= position <= start + len(rendered.text):
                return rendered.at(position - start)
        return self._parts[0][1].at(0) if self._parts else at(self.text)


# Spark finds a query's relations by name alone, in its session, while it looks at the query: threads that share a session
# would read each other's tables if two relations ever had the same name.
_NUMBERS = itertools.count()


def new_name() -> str:
    """A name for a relation in a query's text that no other has."""
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
) -> Composed:
    """A query over the rows of one table, with the columns by which rows are found again.

    `pieces` are texts, and parts of a statement that are expressions over the table's rows; `where`, if it is one of
    them, is a condition, by which files are pruned. The table is called `target` in the texts, and has its name or alias in expressions.
    """
    from platform_plugin.engine.spark.frames.scan import query_relations, read_relation

    with pointing_at(name.span):
        table = work.lake.table(lake_name(name), snapshot)
    reading = _Reading(work, snapshot)
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
    return Composed(frame=frame, text=text, scan=scan, _parts=tuple(parts))


def bind_query(work: Workspace, text: Span | str, snapshot: Snapshot, arguments: Arguments = (), *, within: tuple[Name, ...] = ()) -> Bound:
    """The query at a snapshot. Everything it reads is at that snapshot, but for relations with an `AT` of their own.

    `within` names the view that the query is of, which it must not read.
    """
    reading = _Reading(work, snapshot)
    frame, rendered = _bind(reading, text, snapshot, arguments, within)
    return Bound(
        frame=frame,
        rendered=rendered,
        tables=tuple(dict.fromkeys(reading.tables)),
        bytes_planned=reading.bytes_planned,
        files_planned=reading.files_planned,
        is_small=reading.is_small,
    )


def _bind(
    reading: _Reading, text: Span | str, snapshot: Snapshot, arguments: Arguments, within: tuple[Name, ...]
) -> tuple[DataFrame, Rendered | Probing]:
    from platform_plugin.engine.spark.frames.scan import query_relations

    query = analyse_query(text)
    reading.is_plain = reading.is_plain and is_plain(query.span)
    check_arguments(query.parameters, arguments)
    _find_streams(reading, query)
    names = {reference: new_name() for reference in query.relations}
    read = {name: _read(reading, reference, snapshot, arguments, within) for reference, name in names.items()}
    rendered = plan_probing(query.render(names), {name: known for name, (_, known) in read.items()})
    frames = {name: frame for name, (frame, _) in read.items()}
    return query_relations(reading.work.session, rendered.text, frames, used_arguments(query.parameters, arguments)), rendered


def _find_streams(reading: _Reading, query: Query) -> None:
    """Only joins want to know what is a stream."""
    if reading.streams is None and len(query.relations) > 1:
        with reading.work.lake.reading() as connection:
            reading.streams = read_streams(connection)


def read_beside_sessions(
    work: Workspace, query: Query, snapshot: Snapshot, arguments: Arguments
) -> dict[Reference, tuple[DataFrame, Input]]:
    """What a query reads besides its sessions, each relation as a DataFrame at the snapshot."""
    reading = _Reading(work, snapshot)
    _find_streams(reading, query)
    return {reference: _read(reading, reference, snapshot, arguments, ()) for reference in query.relations if reference.session is None}


def _read(
    reading: _Reading, reference: Reference, snapshot: Snapshot, arguments: Arguments, within: tuple[Name, ...]
) -> tuple[DataFrame, Input]:
    from platform_plugin.engine.spark.frames.scan import read_relation

    lake = reading.work.lake
    with pointing_at(reference.span):
        if reference.session is not None:
            raise InvalidValue("a session can't be read here", hint="read SESSION(…) in a SELECT of its own, not in a view or a statement")
        moment = _travelled(reading, reference, snapshot, arguments)
        with lake.reading() as connection:
            relation = lake.find_relation(connection, lake_name(reference.name), moment)
            hidden = isinstance(relation, Table) and wants_arrivals(connection, relation, reference.columns)
        if isinstance(relation, View):
            before = reading.bytes_planned
            frame = _read_view(reading, relation, moment, within, staleness=_staleness(reference, arguments))
            return frame, Input(columns=None, size_bytes=reading.bytes_planned - before)
        sample = find_sample(lake, relation, moment)
        if sample is not None:
            before, names = reading.bytes_planned, frozenset(field.name.lower() for field in relation.fields)
            frame = _read_sample(reading, sample, moment, None if reference.columns is None else sorted(reference.columns))
            return frame, Input(columns=names, size_bytes=reading.bytes_planned - before, fields=relation.fields)
        scan = lake.scan(relation, moment, where=reference.filter(arguments))
    reading.count(relation, scan)
    columns = None if reference.columns is None else sorted(reference.columns)
    known = Input(
        columns=frozenset(field.name.lower() for field in relation.fields),
        size_bytes=scan.size_bytes,
        is_stream=str(relation.uuid) in (reading.streams or ()),
        fields=relation.fields,
    )
    if hidden and columns is not None:
        return read_with_arrivals(reading.work.session, lake, scan, columns), known
    return read_relation(reading.work.session, lake, scan, columns=columns), known


def _read_sample(reading: _Reading, sample: Sample, snapshot: Snapshot, columns: Sequence[str] | None = None) -> DataFrame:
    from platform_plugin.engine.spark.frames.scan import frame_of, read_relation
    from platform_plugin.relations.samples.read import find_scan, read_sample

    work = reading.work
    scan = find_scan(work, sample, snapshot)
    if scan is not None:
        reading.count(sample.table, scan)
        return read_relation(work.session, work.lake, scan, columns=columns)
    rows = read_sample(work, sample, snapshot).rows
    reading.tables.append(sample.table)
    reading.rows_planned += rows.num_rows
    reading.bytes_planned += rows.nbytes
    return frame_of(work.session, sample.table.fields, rows)


def _read_view(
    reading: _Reading, view: View, snapshot: Snapshot, within: tuple[Name, ...], *, staleness: timedelta | None = None
) -> DataFrame:
    if view.dialect != "spark":
        raise InvalidValue(f'view "{view.name}" is written in the SQL of {view.dialect}', hint="create it again here, in Spark SQL")
    if view.name in within or len(within) >= _DEEPEST_VIEW:
        chain = " → ".join(str(name) for name in (*within, view.name))
        raise InvalidValue(f'view "{view.name}" reads itself', detail=chain, hint="break the circle")
    with reading.work.lake.reading() as connection:
        record = read_records(connection, only=view.uuid).get(view.uuid)
    if record is not None:
        # What a maintained view holds is not counted here.
        reading.is_plain = False
        from platform_plugin.engine.spark.frames.scan import arrow_relation, read_relation
        from platform_plugin.relations.views.read.local import read_local
        from platform_plugin.relations.views.read.stored import find_recent, find_stored
        from platform_plugin.relations.views.read.view import read_view

        stored = find_stored(reading.work, view, snapshot)
        if stored is None and staleness is not None:
            recent = find_recent(reading.work, view, snapshot, staleness)
            stored = None if recent is None else recent.table
        if stored is not None:
            return read_relation(reading.work.session, reading.work.lake, reading.work.lake.scan(stored, snapshot))
        local = read_local(reading.work, view, snapshot)
        if local is not None and local.rows.nbytes <= _LOCAL_BYTES:
            return arrow_relation(reading.work.session, local.table.fields, local.rows)
        return read_view(
            reading.work, str(view.name), record, snapshot, lambda name: _read_named(reading, name, snapshot, (*within, view.name))
        )
    frame, _ = _bind(reading, view.sql, snapshot, (), (*within, view.name))
    return frame.toDF(*view.columns) if view.columns else frame


def read_named(work: Workspace, name: tuple[str, str], snapshot: Snapshot) -> DataFrame:
    """All rows of one relation at a snapshot."""
    with work.lake.reading() as connection:
        reading = _Reading(work, snapshot, read_streams(connection))
    return _read_named(reading, name, snapshot, ())


def _read_named(reading: _Reading, name: tuple[str, str], snapshot: Snapshot, within: tuple[Name, ...]) -> DataFrame:
    from platform_plugin.engine.spark.frames.scan import read_relation

    lake = reading.work.lake
    with lake.reading() as connection:
        relation = lake.find_relation(connection, Name.of(name), snapshot)
    if isinstance(relation, View):
        return _read_view(reading, relation, snapshot, within)
    sample = find_sample(lake, relation, snapshot)
    if sample is not None:
        return _read_sample(reading, sample, snapshot)
    scan = lake.scan(relation, snapshot)
    reading.count(relation, scan)
    return read_relation(reading.work.session, lake, scan)


@contextmanager
def pointing_at(span: Span) -> Iterator[None]:
    """Errors that know no place yet are about this part of the statement."""
    try:
        yield
    except PlatformError as error:
        if not getattr(error, "line", 0) and span.source:
            at(span, 0, len(span.text)).attach(error)
        raise


def lake_name(name: WrittenName) -> Name:
    """A written name as the lake has it: without a schema it is one of `main`."""
    return Name.of(name.relation) if name.schema is None else Name(schema=name.schema, relation=name.relation)


def _travelled(reading: _Reading, reference: Reference, snapshot: Snapshot, arguments: Arguments) -> Snapshot:
    travel = reference.travel
    if travel is None or travel.staleness is not None:
        return snapshot
    lake = reading.work.lake
    if travel.version is not None:
        version = value_of(travel.version, arguments)
        if isinstance(version, bool) or not isinstance(version, int) or abs(version) >= 1 << 63:
            raise InvalidValue(f"{version!r} is not a snapshot's number", hint="write AT (VERSION => 3)")
        return lake.snapshot(version)
    moment = value_of(travel.timestamp, arguments)
    return lake.snapshot(at=_moment(moment))


def _staleness(reference: Reference, arguments: Arguments) -> timedelta | None:
    """By how much what is read of a view may be behind."""
    if reference.travel is None or reference.travel.staleness is None:
        return None
    return read_duration(value_of(reference.travel.staleness, arguments))


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
