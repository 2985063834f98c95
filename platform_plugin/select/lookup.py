"""`answer_lookup`: answers a look-up in a small relation with Arrow, without Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal as Number
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from platform_plugin.algebra.rules.lookup import Lookup, LookupCondition
from platform_plugin.algebra.types.data_types import Decimal, Primitive
from platform_plugin.cache import Cache
from platform_plugin.errors import SnapshotExpired, StorageError, UnknownObject
from platform_plugin.lake.catalogue.tables import Name
from platform_plugin.language.query.staleness import read_duration
from platform_plugin.language.text.leaves import read_constant
from platform_plugin.language.text.values import Literal, Parameter
from platform_plugin.relations.kinds import find_kind
from platform_plugin.relations.lookups import read_small
from platform_plugin.relations.result import Result

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from sqlglot import exp

    from platform_plugin.algebra.types.data_types import Field
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot, Table, View
    from platform_plugin.language.query.references import Reference
    from platform_plugin.language.text.places import Span

_WHOLE = frozenset({"int8", "int16", "int32", "int64"})
# The types that mean the same to Arrow and to Spark, value for value and as columns of a result.
_SAME = _WHOLE | {"boolean", "varchar", "date", "float32", "float64", "timestamp"}

_COMPARE = {"=": pc.equal, "!=": pc.not_equal, "<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal}


@dataclass(frozen=True, slots=True, kw_only=True)
class _LookupRequest:
    """What a query asks of one relation at a snapshot; no look-up if it is more than that."""

    snapshot_id: int
    lookup: Lookup | None = None
    reference: Reference | None = None


_REQUESTS: Cache[tuple[Any, ...], _LookupRequest] = Cache("plans of lookups", weigh=lambda _: 3_000)


def answer_lookup(work: Workspace, query: Span, arguments: Mapping[str, Any] | Sequence[Any]) -> Result | None:
    """The result of a query that is a look-up in a small relation, or None where Spark must answer."""
    number = work.lake.newest_id()
    try:
        request = _find_request(work, query, number)
    except (UnknownObject, SnapshotExpired, StorageError):
        # Nothing is leased here; told, or overcome, by the way that every other query goes.
        return None
    if request.lookup is None or request.reference is None:
        return None
    lookup, relation = request.lookup, request.reference.name.parts
    bound = _bound(lookup.conditions, arguments)
    if bound is None:
        return None
    staleness = _staleness(request.reference, arguments)
    try:
        held = _newest(work, relation, number)
        if staleness is not None and (held.table is None or held.is_computed):
            held = _stale(work, relation, staleness, held)
        if held.table is None:
            held = _computed(work, relation, held)
    except (UnknownObject, SnapshotExpired, StorageError):
        return None
    if held.table is None or held.rows is None or not _is_plain(held.table, lookup, bound):
        return None
    return Result(_chosen(held.rows, lookup, bound), snapshot=held.snapshot)


def _find_request(work: Workspace, query: Span, number: int) -> _LookupRequest:
    """What a query asks; as long as there is no newer snapshot, only looked up."""
    lake = work.lake
    key = (lake.uuid, str(lake.location), work.rules_off, query.source, query.start, query.end)
    request = _REQUESTS.get(key)
    if request is None or request.snapshot_id != number:
        request = _REQUESTS.put(key, _read_request(work, query))
    return request


def _read_request(work: Workspace, query: Span) -> _LookupRequest:
    from platform_plugin.language.query.query import analyse_query
    from platform_plugin.relations.bind import Resolver, find_query_plan

    reading, snapshot = analyse_query(query), work.lake.snapshot()
    reference = reading.relations[0] if len(reading.relations) == 1 else None
    if reference is None or reference.session is not None or (reference.travel is not None and reference.travel.staleness is None):
        return _LookupRequest(snapshot_id=snapshot.id)
    plan = find_query_plan(work, reading, snapshot, Resolver(work, snapshot))
    return _LookupRequest(snapshot_id=snapshot.id, lookup=None if plan.planned is None else plan.planned.lookup, reference=reference)


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


def _bound(conditions: Sequence[LookupCondition], arguments: Mapping[str, Any] | Sequence[Any]) -> tuple[LookupCondition, ...] | None:
    """The conditions with plain values; None where a value is missing, or one that only Spark reads."""
    bound = []
    for condition in conditions:
        if condition.op in ("null", "not null"):
            bound.append(condition)
            continue
        nodes = condition.value if condition.op == "in" else (condition.value,)
        values = tuple(_plain_value(node, arguments) for node in nodes)
        if _MISSING in values:
            return None
        bound.append(LookupCondition(condition.column, condition.op, values if condition.op == "in" else values[0]))
    return tuple(bound)


_MISSING = object()
_KINDS = ("boolean", "integer", "decimal", "string", "date")


def _plain_value(node: exp.Expr, arguments: Mapping[str, Any] | Sequence[Any]) -> Any:
    constant = read_constant(node)
    match constant:
        case Parameter(name=str(name)) if isinstance(arguments, Mapping):
            return arguments.get(name, _MISSING)
        case Parameter(index=int(index)) if isinstance(arguments, (tuple, list)):
            return arguments[index] if index < len(arguments) else _MISSING
        case Literal(kind=kind, value=value) if kind in _KINDS:
            return value
        case _:
            return _MISSING


def _is_plain(table: Table, lookup: Lookup, conditions: Sequence[LookupCondition]) -> bool:
    """Whether the lookup means the same here as in Spark: exact names, and values of the columns' own types."""
    by_name = {field.name: field for field in table.fields}
    chosen = [column for column, _ in lookup.columns]
    if any(name not in by_name or not _is_same(by_name[name]) for name in chosen):
        return False
    return all(condition.column in by_name and _fits(by_name[condition.column], condition) for condition in conditions)


def _is_same(field: Field) -> bool:
    return isinstance(field.type, Decimal) or (isinstance(field.type, Primitive) and field.type.name in _SAME)


def _fits(field: Field, condition: LookupCondition) -> bool:
    if condition.op in ("null", "not null"):
        return _is_same(field)
    values = condition.value if condition.op == "in" else (condition.value,)
    return bool(values) and all(_is_own(field, value) for value in values)


def _is_own(field: Field, value: Any) -> bool:
    kind = field.type
    if isinstance(kind, Decimal):
        whole = isinstance(value, int) and not isinstance(value, bool)
        if not whole and not isinstance(value, Number):
            return False
        exact = Number(value)
        exponent = exact.as_tuple().exponent
        return isinstance(exponent, int) and -exponent <= kind.scale and abs(exact) < Number(10) ** (kind.precision - kind.scale)
    name = kind.name if isinstance(kind, Primitive) else ""
    if name in _WHOLE:
        width = int(name[3:])
        return isinstance(value, int) and not isinstance(value, bool) and -(1 << (width - 1)) <= value < 1 << (width - 1)
    if name == "varchar":
        return isinstance(value, str)
    if name == "boolean":
        return isinstance(value, bool)
    return name == "date" and isinstance(value, date) and not isinstance(value, datetime)


def _chosen(rows: pa.Table, lookup: Lookup, conditions: Sequence[LookupCondition]) -> pa.Table:
    mask: Any = None
    for condition in conditions:
        column = rows.column(condition.column)
        match condition.op:
            case "null":
                found = column.is_null()
            case "not null":
                found = column.is_valid()
            case "in":
                found = pc.is_in(column, pa.array(condition.value, column.type))
            case op:
                found = _COMPARE[op](column, pa.scalar(condition.value, column.type))
        mask = found if mask is None else pc.and_(mask, found)
    rows = pa.table([rows.column(column) for column, _ in lookup.columns], names=[name for _, name in lookup.columns])
    if mask is not None:
        rows = rows.filter(mask)
    return rows if lookup.limit is None else rows.slice(0, lookup.limit)


@dataclass(frozen=True, slots=True)
class _SmallRelation:
    """A relation at a snapshot: the table with its rows, and the rows if they are few, or a view's answer."""

    snapshot: Snapshot
    table: Table | None
    rows: pa.Table | None
    is_computed: bool = False


# Small relations at the newest snapshot that was looked at.
_NEWEST: Cache[tuple[Any, ...], _SmallRelation] = Cache(
    "relations of lookups", weigh=lambda held: 0 if held.rows is None else held.rows.nbytes
)


def _key(work: Workspace, relation: tuple[str, ...]) -> tuple[Any, ...]:
    # With the limits, since other workspaces of this process may leave more to Spark.
    return (work.lake.uuid, str(work.lake.location), work.limits.small_table_bytes, work.limits.client_state_bytes, *relation)


def _newest(work: Workspace, relation: tuple[str, ...], number: int) -> _SmallRelation:
    """A relation at the newest snapshot, which has this number; as long as that is the same, nothing is read."""
    key = _key(work, relation)
    known = _NEWEST.get(key)
    if known is not None and known.snapshot.id == number:
        return known
    snapshot = work.lake.snapshot()
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
