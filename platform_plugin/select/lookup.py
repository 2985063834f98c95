"""`answer_lookup`: answers a query for rows of one small relation by an engine in this process, without Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from platform_plugin.cache import Cache
from platform_plugin.engine.choose import choose_engine
from platform_plugin.engine.engine import Task
from platform_plugin.engine.refusal import Refusal
from platform_plugin.errors import PlatformError, SnapshotExpired, StorageError, UnknownObject
from platform_plugin.lake.catalogue.tables import Name
from platform_plugin.language.query.staleness import read_duration
from platform_plugin.language.text.values import Parameter
from platform_plugin.relations.kinds import find_kind
from platform_plugin.relations.lookups import read_small
from platform_plugin.relations.result import Result, has_plain_types

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    import pyarrow as pa

    from platform_plugin.algebra.rules.lookup import Lookup
    from platform_plugin.engine.choose import Choice
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot, Table, View
    from platform_plugin.language.query.references import Reference
    from platform_plugin.language.text.places import Span


@dataclass(slots=True, kw_only=True)
class _LookupRequest:
    """What a query asks of one relation at a snapshot; no look-up if it is more than that."""

    snapshot_id: int
    lookup: Lookup | None = None
    reference: Reference | None = None
    choice: Choice | Refusal | None = None
    """The engine that answers it, once the columns are there."""
    has_plain_types: bool = False
    """Whether an answer had types that Spark gives too; all answers have the same."""


_REQUESTS: Cache[tuple[Any, ...], _LookupRequest] = Cache("plans of lookups", weigh=lambda _: 3_000)


def answer_lookup(work: Workspace, query: Span, arguments: Mapping[str, Any] | Sequence[Any]) -> Result | None:
    """The result of a query for rows of one small relation, or None where Spark must answer."""
    number = work.lake.newest_id()
    try:
        request, snapshot = _find_request(work, query, number)
    except (UnknownObject, SnapshotExpired, StorageError):
        # Nothing is leased here; told, or overcome, by the way that every other query goes.
        return None
    if request.reference is not None and request.reference.changes is not None:
        return _answer_changes(work, query, request.reference, arguments)
    if request.lookup is None or request.reference is None or isinstance(request.choice, Refusal):
        return None
    lookup, relation = request.lookup, request.reference.name.parts
    staleness = None if request.reference.travel is None else _staleness(request.reference, arguments)
    try:
        held = _newest(work, relation, number, snapshot)
        if staleness is not None and (held.table is None or held.is_computed):
            held = _stale(work, relation, staleness, held)
        if held.table is None:
            held = _computed(work, relation, held)
    except (UnknownObject, SnapshotExpired, StorageError):
        return None
    if held.table is None or held.rows is None:
        return None
    if lookup.columns is not None and lookup.columns == held.columns:
        # All of it: nothing has to be looked at or taken apart.
        rows = held.rows if held.is_plain else None
    else:
        rows = _run(work, request, lookup, held.rows, arguments)
    if rows is None:
        return None
    return Result(rows if lookup.limit is None else rows.slice(0, lookup.limit), snapshot=held.snapshot)


def _run(
    work: Workspace, request: _LookupRequest, lookup: Lookup, rows: pa.Table, arguments: Mapping[str, Any] | Sequence[Any]
) -> pa.Table | None:
    """What is asked of the rows, or None where it is left to Spark."""
    inputs = {lookup.relation: rows}
    choice = request.choice
    if choice is None:
        choice = request.choice = choose_engine(Task.of(lookup.plan), inputs, work.engines)
    if isinstance(choice, Refusal):
        return None
    (result,) = choice.engine.run((choice.bid,), inputs, arguments)
    if isinstance(result, Refusal):
        if result.for_good:
            request.choice = result
        return None
    (answer,) = result.rows
    if not request.has_plain_types:
        if not has_plain_types(answer.schema):
            request.choice = Refusal(why="a type that Spark has in another form")
            return None
        request.has_plain_types = True
    return answer


def _answer_changes(work: Workspace, query: Span, reference: Reference, arguments: Mapping[str, Any] | Sequence[Any]) -> Result | None:
    """The same of the changes of a relation, whose range and columns depend on the arguments."""
    from platform_plugin.language.query.query import analyse_query
    from platform_plugin.relations.bind.plans import find_query_plan
    from platform_plugin.relations.bind.resolve import Resolver
    from platform_plugin.relations.versions.changes import fits_client, read_change_rows

    snapshot = work.lake.snapshot()
    resolver = Resolver(work, snapshot, arguments if isinstance(arguments, Mapping) else tuple(arguments))
    try:
        changed = resolver(reference).changes
        plan = find_query_plan(work, analyse_query(query), snapshot, resolver)
        lookup = None if plan.planned is None else plan.planned.lookup
        if changed is None or lookup is None or not fits_client(work, changed):
            return None
        request = _LookupRequest(snapshot_id=snapshot.id, lookup=lookup, reference=reference)
        rows = _run(work, request, lookup, read_change_rows(work.lake, changed), arguments)
    except PlatformError:
        return None  # told, with its place, by the way that every other query goes
    if rows is None:
        return None
    return Result(rows if lookup.limit is None else rows.slice(0, lookup.limit), snapshot=snapshot)


def _find_request(work: Workspace, query: Span, number: int) -> tuple[_LookupRequest, Snapshot | None]:
    """What a query asks, and the newest snapshot if that was read for it; as long as there is no newer one, only looked up."""
    lake = work.lake
    key = (lake.uuid, str(lake.location), work.rules_off, query.source, query.start, query.end)
    request = _REQUESTS.get(key)
    if request is not None and request.snapshot_id == number:
        return request, None
    snapshot = lake.snapshot()
    return _REQUESTS.put(key, _read_request(work, query, snapshot)), snapshot


def _read_request(work: Workspace, query: Span, snapshot: Snapshot) -> _LookupRequest:
    from platform_plugin.language.query.query import analyse_query
    from platform_plugin.relations.bind.plans import find_query_plan
    from platform_plugin.relations.bind.resolve import Resolver

    reading = analyse_query(query)
    reference = reading.relations[0] if len(reading.relations) == 1 else None
    if reference is not None and reference.changes is not None:
        return _LookupRequest(snapshot_id=snapshot.id, reference=reference)
    if reference is None or reference.session is not None or (reference.travel is not None and reference.travel.staleness is None):
        return _LookupRequest(snapshot_id=snapshot.id)
    plan = find_query_plan(work, reading, snapshot, Resolver(work, snapshot))
    lookup = None if plan.planned is None or not plan.planned.has_written_names else plan.planned.lookup
    return _LookupRequest(snapshot_id=snapshot.id, lookup=lookup, reference=reference)


def _staleness(reference: Reference, arguments: Mapping[str, Any] | Sequence[Any]) -> timedelta | None:
    travel = reference.travel
    if travel is None or travel.staleness is None:
        return None
    if isinstance(travel.staleness, Parameter):
        return read_duration(arguments.get(str(travel.staleness.name)) if isinstance(arguments, Mapping) else None)
    return read_duration(travel.staleness.value)


def _stale(work: Workspace, name: tuple[str, ...], staleness: timedelta, held: _SmallRelation) -> _SmallRelation:
    """The result that a view had last, if that is recent enough for the reader."""
    relation = _find(work, name, held.snapshot)
    recent = find_kind(work.lake, relation, held.snapshot).find_recent(work, relation, held.snapshot, staleness)
    if recent is None:
        return held
    return _SmallRelation(recent.snapshot, recent.table, read_small(work, recent.table, held.snapshot))


def _find(work: Workspace, parts: tuple[str, ...], snapshot: Snapshot) -> Table | View:
    name = Name.of(parts[0]) if len(parts) == 1 else Name(schema=parts[0], relation=parts[1])
    with work.lake.reading() as connection:
        return work.lake.find_relation(connection, name, snapshot)


@dataclass(frozen=True)
class _SmallRelation:
    """A relation at a snapshot: the table with its rows, and the rows if they are few, or a view's answer."""

    snapshot: Snapshot
    table: Table | None
    rows: pa.Table | None
    is_computed: bool = False

    @cached_property
    def columns(self) -> tuple[tuple[str, str], ...]:
        """All columns under their own names, as a look-up of all has them."""
        return () if self.rows is None else tuple((name, name) for name in self.rows.column_names)

    @cached_property
    def is_plain(self) -> bool:
        """Whether all columns have types that a result from Spark has too."""
        return self.rows is not None and has_plain_types(self.rows.schema)


# Small relations at the newest snapshot that was looked at.
_NEWEST: Cache[tuple[Any, ...], _SmallRelation] = Cache(
    "relations of lookups", weigh=lambda held: 0 if held.rows is None else held.rows.nbytes
)


def _key(work: Workspace, relation: tuple[str, ...]) -> tuple[Any, ...]:
    # With the limits, since other workspaces of this process may leave more to Spark.
    return (work.lake.uuid, str(work.lake.location), work.limits.small_table_bytes, work.limits.client_state_bytes, *relation)


def _newest(work: Workspace, relation: tuple[str, ...], number: int, snapshot: Snapshot | None) -> _SmallRelation:
    """A relation at the newest snapshot, which has this number, and may be read already; as long as it is the same, nothing is read."""
    key = _key(work, relation)
    known = _NEWEST.get(key)
    if known is not None and known.snapshot.id == number:
        return known
    snapshot = snapshot or work.lake.snapshot()
    named = _find(work, relation, snapshot)
    small = find_kind(work.lake, named, snapshot).find_small(work, named, snapshot)
    return _NEWEST.put(key, _SmallRelation(snapshot, None, None) if small is None else _SmallRelation(snapshot, small.table, small.rows))


def _computed(work: Workspace, relation: tuple[str, ...], held: _SmallRelation) -> _SmallRelation:
    """What is not stored as it is, computed here where that takes no engine."""
    named = _find(work, relation, held.snapshot)
    small = find_kind(work.lake, named, held.snapshot).compute_small(work, named, held.snapshot)
    if small is None or small.rows is None:
        return held
    computed = _SmallRelation(held.snapshot, small.table, small.rows, is_computed=True)
    if small.rows.nbytes <= work.limits.lookup_result_bytes:
        _NEWEST.put(_key(work, relation), computed)
    return computed
