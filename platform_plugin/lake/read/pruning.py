"""File pruning: conditions on the catalogue that rule out files in which no row can be within a condition."""

from __future__ import annotations

import math
from datetime import date, datetime
from decimal import Decimal as Number
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from platform_plugin.algebra.predicates.fitting import fit_domain
from platform_plugin.algebra.types.data_types import DataType, Decimal, Field, Primitive
from platform_plugin.lake.catalogue import catalogue as c
from platform_plugin.lake.catalogue.statistics import encode
from platform_plugin.lake.read.bounds import bound_of
from platform_plugin.lake.read.partitions import plan_partition_exclusions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from platform_plugin.algebra.predicates.conditions import Box, Condition
    from platform_plugin.algebra.predicates.ranges import Domain, Interval
    from platform_plugin.lake.catalogue.tables import Table

_NUMBERS = frozenset({"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64"})
_FLOATS = frozenset({"float32", "float64"})
# Types whose text form sorts like the values.
_TEXTS = frozenset({"varchar", "date", "timestamp", "timestamptz", "timestamp_s", "timestamp_ms", "uuid"})
# Each box costs the catalogue as much as a condition without OR does, and each interval a comparison for every file.
_MOST_BOXES = 8
_MOST_INTERVALS = 200


def plan_exclusions(table: Table, where: Condition, *, sqlite: bool) -> Iterator[sa.ColumnElement[bool]]:
    """Conditions on `DATA_FILE` that every file with rows of a condition meets; what statistics can't test gives none."""
    if where.is_never:
        yield sa.false()
        return
    boxes = [list(_box_exclusions(table, box, sqlite=sqlite)) for box in where.widened(_MOST_BOXES).boxes]
    if len(boxes) == 1:
        yield from boxes[0]
    elif all(boxes):
        yield sa.or_(*(sa.and_(*exclusions) for exclusions in boxes))


def _box_exclusions(table: Table, box: Box, *, sqlite: bool) -> Iterator[sa.ColumnElement[bool]]:
    stats = c.FILE_COLUMN_STATS
    for column, domain in box.domains:
        field = table.field(column)
        if field is None or field.children or field.id is None:
            continue
        excluded = sa.select(stats.c.data_file_id).where(
            stats.c.table_id == table.id, stats.c.column_id == field.id, _hopeless(domain, field, sqlite=sqlite)
        )
        yield c.DATA_FILE.c.data_file_id.not_in(excluded)
        yield from plan_partition_exclusions(table, field, domain, sqlite=sqlite)


def _hopeless(domain: Domain, field: Field, *, sqlite: bool) -> sa.ColumnElement[bool]:
    """The condition on a column's statistics under which no value of the file is in a domain."""
    stats = c.FILE_COLUMN_STATS.c
    conditions = [stats.null_count == 0] if domain.null else []
    if domain.cuts:
        outside = _outside(domain, field.type, sqlite=sqlite)
        conditions.append(stats.value_count == 0 if outside is None else sa.or_(stats.value_count == 0, outside))
    return sa.and_(*conditions)


def _outside(domain: Domain, kind: DataType, *, sqlite: bool) -> sa.ColumnElement[bool] | None:
    """The condition under which a file's bounds lie outside of all intervals; None if that can't be told."""
    try:
        intervals = fit_domain(domain.widened(_MOST_INTERVALS), kind).intervals
    except TypeError:
        return None
    conditions = [_beyond(interval, kind, sqlite=sqlite) for interval in intervals]
    known = [condition for condition in conditions if condition is not None]
    return sa.and_(sa.true(), *known) if len(known) == len(conditions) else None


def _beyond(interval: Interval, kind: DataType, *, sqlite: bool) -> sa.ColumnElement[bool] | None:
    """The condition under which a file's bounds lie below or above one interval; None if that can't be told."""
    stats = c.FILE_COLUMN_STATS.c
    least, most = bound_of(stats.min_value, kind, sqlite=sqlite), bound_of(stats.max_value, kind, sqlite=sqlite)
    low, high = (None if end is None else _comparable(kind, end, sqlite=sqlite) for end in (interval.low, interval.high))
    # Rounding to a double is monotone, but makes different numbers equal: only strict comparisons may exclude.
    inexact = isinstance(kind, Decimal) and sqlite
    if kind == Primitive("float32"):
        # Bounds may be the shortest text of a single-precision number, which is a different double.
        inexact = True
        low, high = None if low is None else low - _margin(interval.low), None if high is None else high + _margin(interval.high)
    conditions = []
    if low is not None:
        below = most < low if interval.low_closed or inexact else most <= low
        # NaN is larger than every number, and bounds leave it out: an upper bound tells nothing unless there is no NaN.
        no_nan = stats.contains_nan == sa.literal(value=False, type_=c.Flag())
        conditions.append(sa.and_(no_nan, below) if isinstance(kind, Primitive) and kind.name in _FLOATS else below)
    if high is not None:
        conditions.append(least > high if interval.high_closed or inexact else least >= high)
    return sa.or_(*conditions) if conditions else None


def _margin(value: float) -> float:
    return abs(float(value)) * 1e-6 + 1e-44


def _comparable(kind: DataType, value: Any, *, sqlite: bool) -> Any:
    """A value of a type as the database compares it, or None where it can't be compared soundly."""
    match kind:
        case Primitive(name=name) if name in _NUMBERS:
            if name in _FLOATS:
                return sa.literal(value, sa.Double) if math.isfinite(value) else None
            # A huge number leaves 64 bits.
            return sa.literal(value, sa.BigInteger) if abs(value) < 1 << 62 else None
        case Decimal():
            return sa.literal(float(value), sa.Double) if sqlite else sa.literal(Number(value), sa.Numeric)
        case Primitive(name="boolean"):
            return sa.literal(str(int(value)), sa.String)
        case Primitive(name=name) if name in _TEXTS:
            return _comparable_text(kind, value)
        case _:
            return None


def _comparable_text(kind: Primitive, value: str | date) -> Any:
    if isinstance(value, str):
        return None if "\0" in value else sa.literal(value, sa.String)
    text = encode(value, kind) if isinstance(value, datetime) else value.isoformat()
    return None if text is None else sa.literal(text, sa.String)
