"""`answer_lookup`: answers a look-up in a small relation with Arrow, without Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal as Number
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from platform_plugin.algebra.rules.lookup import Lookup, LookupCondition
from platform_plugin.algebra.types.data_types import Decimal, IntervalType, Primitive
from platform_plugin.cache import Cache
from platform_plugin.errors import PlatformError, SnapshotExpired, StorageError, UnknownObject
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
    conditions: tuple[LookupCondition, ...] = ()
    """The conditions with plain values and parameters."""


_REQUESTS: Cache[tuple[Any, ...], _LookupRequest] = Cache("plans of lookups", weigh=lambda _: 3_000)


def answer_lookup(work: Workspace, query: Span, arguments: Mapping[str, Any] | Sequence[Any]) -> Result | None:
    """The result of a query that is a look-up in a small relation, or None where Spark must answer."""
    number = work.lake.newest_id()
    try:
        request = _find_request(work, query, number)
    except (UnknownObject, SnapshotExpired, StorageError):
        # Nothing is leased here; told, or overcome, by the way that every other query goes.
        return None
    if request.reference is not None and request.reference.changes is not None:
        return _answer_changes(work, query, request.reference, arguments)
    if request.lookup is None or request.reference is None:
        return None
    lookup, relation = request.lookup, request.reference.name.parts
    bound = _bound(request.conditions, arguments) if request.conditions else ()
    if bound is None:
        return None
    staleness = None if request.reference.travel is None else _staleness(request.reference, arguments)
    try:
        held = _newest(work, relation, number)
        if staleness is not None and (held.table is None or held.is_computed):
            held = _stale(work, relation, staleness, held)
        if held.table is None:
            held = _computed(work, relation, held)
    except (UnknownObject, SnapshotExpired, StorageError):
        return None
    if held.table is None or held.rows is None:
        return None
    if lookup.columns == held.columns and not bound:
        # All of it: nothing has to be looked at or taken apart.
        rows = held.rows if lookup.limit is None else held.rows.slice(0, lookup.limit)
        return Result(rows, snapshot=held.snapshot) if held.is_plain else None
    if not _is_plain(held.table, lookup, bound):
        return None
    return Result(_chosen(held.rows, lookup, bound), snapshot=held.snapshot)


def _answer_changes(work: Workspace, query: Span, reference: Reference, arguments: Mapping[str, Any] | Sequence[Any]) -> Result | None:
    """The same of the changes of a relation, whose range and columns depend on the arguments."""
    from platform_plugin.language.query.query import analyse_query
    from platform_plugin.relations.bind import Resolver, find_query_plan
    from platform_plugin.relations.versions.changes import is_small, read_change_rows, with_columns

    snapshot = work.lake.snapshot()
    resolver = Resolver(work, snapshot, arguments if isinstance(arguments, Mapping) else tuple(arguments))
    try:
        changed = resolver(reference).changes
        plan = find_query_plan(work, analyse_query(query), snapshot, resolver)
        lookup = None if plan.planned is None else plan.planned.lookup
        conditions = None if lookup is None else _read_conditions(lookup)
        bound = None if conditions is None else _bound(conditions, arguments)
        if changed is None or lookup is None or bound is None or not _is_plain(with_columns(changed), lookup, bound):
            return None
        if not is_small(work, changed.plan(work.lake)):
            return None
        rows = read_change_rows(work.lake, changed)
    except PlatformError:
        return None  # told, with its place, by the way that every other query goes
    return Result(_chosen(rows, lookup, bound), snapshot=snapshot)


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
    if reference is not None and reference.changes is not None:
        return _LookupRequest(snapshot_id=snapshot.id, reference=reference)
    if reference is None or reference.session is not None or (reference.travel is not None and reference.travel.staleness is None):
        return _LookupRequest(snapshot_id=snapshot.id)
    plan = find_query_plan(work, reading, snapshot, Resolver(work, snapshot))
    lookup = None if plan.planned is None else plan.planned.lookup
    conditions = None if lookup is None else _read_conditions(lookup)
    if conditions is None:
        return _LookupRequest(snapshot_id=snapshot.id)
    return _LookupRequest(snapshot_id=snapshot.id, lookup=lookup, reference=reference, conditions=conditions)


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


_MISSING = object()
_KINDS = ("boolean", "integer", "decimal", "string", "date")


def _read_conditions(lookup: Lookup) -> tuple[LookupCondition, ...] | None:
    """The conditions with plain values and parameters; None where only Spark reads a value."""
    conditions = []
    for condition in lookup.conditions:
        if condition.op not in ("null", "not null"):
            nodes = condition.value if condition.op == "in" else (condition.value,)
            values = tuple(_plain_value(node) for node in nodes)
            if _MISSING in values:
                return None
            conditions.append(LookupCondition(condition.column, condition.op, values if condition.op == "in" else values[0]))
        else:
            conditions.append(condition)
    return tuple(conditions)


def _plain_value(node: exp.Expr) -> Any:
    constant = read_constant(node)
    if isinstance(constant, Parameter):
        return constant
    return constant.value if isinstance(constant, Literal) and constant.kind in _KINDS else _MISSING


def _bound(conditions: Sequence[LookupCondition], arguments: Mapping[str, Any] | Sequence[Any]) -> tuple[LookupCondition, ...] | None:
    """The conditions with the caller's values for parameters; None where one is missing."""
    bound = []
    for condition in conditions:
        value = condition.value
        if condition.op == "in":
            value = tuple(_argument(item, arguments) for item in value)
            if _MISSING in value:
                return None
        elif isinstance(value, Parameter):
            value = _argument(value, arguments)
            if value is _MISSING:
                return None
        bound.append(condition if value is condition.value else LookupCondition(condition.column, condition.op, value))
    return tuple(bound)


def _argument(value: Any, arguments: Mapping[str, Any] | Sequence[Any]) -> Any:
    match value:
        case Parameter(name=str(name)) if isinstance(arguments, Mapping):
            return arguments.get(name, _MISSING)
        case Parameter(index=int(index)) if isinstance(arguments, (tuple, list)):
            return arguments[index] if index < len(arguments) else _MISSING
        case Parameter():
            return _MISSING
        case _:
            return value


def _is_plain(table: Table, lookup: Lookup, conditions: Sequence[LookupCondition]) -> bool:
    """Whether the lookup means the same here as in Spark: exact names, and values of the columns' own types."""
    by_name = {field.name: field for field in table.fields}
    chosen = [column for column, _ in lookup.columns]
    if any(name not in by_name or not _is_same(by_name[name]) for name in chosen):
        return False
    return all(condition.column in by_name and _fits(by_name[condition.column], condition) for condition in conditions)


def _is_same(field: Field) -> bool:
    return isinstance(field.type, (Decimal, IntervalType)) or (isinstance(field.type, Primitive) and field.type.name in _SAME)


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
        """Whether all columns mean the same to Arrow and to Spark."""
        return self.table is not None and all(map(_is_same, self.table.fields))


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
