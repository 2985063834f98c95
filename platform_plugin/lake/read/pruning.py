"""File pruning: conditions on the catalogue that rule out files in which no row can satisfy a filter."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal as Number
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from platform_plugin.algebra.plan.predicates import Comparison, IsNotNull, IsNull, OneOf, Predicate
from platform_plugin.algebra.types.data_types import DataType, Decimal, Field, Primitive
from platform_plugin.lake.catalogue import catalogue as c
from platform_plugin.lake.catalogue.statistics import encode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from platform_plugin.lake.catalogue.tables import Table

_NUMBERS = frozenset({"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64"})
_FLOATS = frozenset({"float32", "float64"})
# Types whose text form sorts like the values.
_TEXTS = frozenset({"varchar", "date", "timestamp", "timestamptz", "timestamp_s", "timestamp_ms", "uuid"})


def plan_exclusions(table: Table, where: Sequence[Predicate], *, sqlite: bool) -> Iterator[sa.ColumnElement[bool]]:
    """Conditions on `DATA_FILE` that every file with matching rows meets; a predicate that statistics can't test gives none."""
    stats = c.FILE_COLUMN_STATS
    for predicate in where:
        field = table.field(predicate.column)
        if field is None or field.children or field.id is None:
            continue
        hopeless = _hopeless(predicate, field, sqlite=sqlite)
        if hopeless is not None:
            excluded = sa.select(stats.c.data_file_id).where(stats.c.table_id == table.id, stats.c.column_id == field.id, hopeless)
            yield c.DATA_FILE.c.data_file_id.not_in(excluded)
        yield from _partition_exclusions(table, field, predicate, sqlite=sqlite)


def _hopeless(predicate: Predicate, field: Field, *, sqlite: bool) -> sa.ColumnElement[bool] | None:
    """The condition on a column's statistics under which no row of the file can match."""
    stats = c.FILE_COLUMN_STATS.c
    match predicate:
        case IsNull():
            return stats.null_count == 0
        case IsNotNull():
            return stats.value_count == 0
        case Comparison(op="!="):
            return stats.value_count == 0
        case Comparison(op=op, value=value):
            return _any(stats.value_count == 0, _beyond(field.type, op, value, sqlite=sqlite))
        case OneOf(values=values):
            if all(value is None for value in values):
                return sa.true()
            outside = [_beyond(field.type, "=", value, sqlite=sqlite) for value in values if value is not None]
            known = [condition for condition in outside if condition is not None]
            if len(known) < len(outside):
                return stats.value_count == 0
            return _any(stats.value_count == 0, sa.and_(*known) if known else None)


def _any(first: sa.ColumnElement[bool], second: sa.ColumnElement[bool] | None) -> sa.ColumnElement[bool]:
    return first if second is None else sa.or_(first, second)


def _beyond(kind: DataType, op: str, value: Any, *, sqlite: bool) -> sa.ColumnElement[bool] | None:
    """The condition under which all values of a file lie on the wrong side of a constant; None if that can't be told."""
    stats = c.FILE_COLUMN_STATS.c
    bound = _comparable(kind, value, sqlite=sqlite)
    if bound is None:
        return None
    low, high = _bound(stats.min_value, kind, sqlite=sqlite), _bound(stats.max_value, kind, sqlite=sqlite)
    below, above = high < bound, low > bound
    not_below, not_above = low >= bound, high <= bound
    # Rounding to a double is monotone, but makes different numbers equal: only strict comparisons may exclude.
    inexact = isinstance(kind, Decimal) and sqlite
    if kind == Primitive("float32"):
        # Bounds may be the shortest text of a single-precision number, which is a different double.
        below, above, inexact = high < bound - _margin(value), low > bound + _margin(value), True
    if isinstance(kind, Primitive) and kind.name in _FLOATS:
        # NaN sorts above every number, and bounds leave it out: an upper bound tells nothing unless there is no NaN.
        no_nan = stats.contains_nan == sa.literal(value=False, type_=c.Flag())
        below, not_above = sa.and_(no_nan, below), sa.and_(no_nan, not_above)
    excluded: dict[str, sa.ColumnElement[bool]] = {
        "=": sa.or_(below, above),
        "<": above if inexact else not_below,
        "<=": above,
        ">": below if inexact else not_above,
        ">=": below,
    }
    return excluded.get(op)


def _margin(value: float) -> float:
    return abs(float(value)) * 1e-6 + 1e-44


def _comparable(kind: DataType, value: Any, *, sqlite: bool) -> Any:
    """The constant as the database compares it, or None where it can't be compared soundly."""
    match kind:
        case Primitive(name=name) if name in _NUMBERS:
            if isinstance(value, bool) or not isinstance(value, int | float | Number) or value != value:  # noqa: PLR0124
                return None
            if name in _FLOATS:
                return None if abs(float(value)) == float("inf") else sa.literal(float(value), sa.Double)
            # A fraction compared with whole numbers keeps its meaning as a decimal, and a huge one leaves 64 bits.
            if isinstance(value, float | Number) or abs(value) >= 1 << 62:
                return None
            return sa.literal(value, sa.BigInteger)
        case Decimal():
            if isinstance(value, bool) or not isinstance(value, int | Number):
                return None
            return sa.literal(float(value), sa.Double) if sqlite else sa.literal(Number(value), sa.Numeric)
        case Primitive(name="boolean"):
            return sa.literal(str(int(value)), sa.String) if isinstance(value, bool) else None
        case Primitive(name=name) if name in _TEXTS:
            return _comparable_text(kind, value)
        case _:
            return None


def _comparable_text(kind: Primitive, value: Any) -> Any:
    match kind.name:
        case "varchar" if isinstance(value, str) and "\0" not in value:
            return sa.literal(value, sa.String)
        case "uuid":
            return sa.literal(str(value), sa.String)
        case "date" if isinstance(value, date) and not isinstance(value, datetime):
            return sa.literal(value.isoformat(), sa.String)
        case "timestamptz" if isinstance(value, datetime) and value.tzinfo is not None:
            text = encode(value, kind)
        case "timestamp" | "timestamp_s" | "timestamp_ms" if isinstance(value, datetime) and value.tzinfo is None:
            text = encode(value, kind)
        case _:
            return None
    return None if text is None else sa.literal(text, sa.String)


def _bound(column: sa.Column[str], kind: DataType, *, sqlite: bool) -> sa.ColumnElement[Any]:
    match kind:
        case Decimal():
            return sa.cast(column, sa.Double if sqlite else sa.Numeric)
        case Primitive(name=name) if name in _FLOATS:
            number = sa.cast(column, sa.REAL if sqlite else sa.Double)
            # SQLite reads 'inf' as zero.
            return sa.case((column.in_(("inf", "-inf", "nan")), None), else_=number) if sqlite else number
        case Primitive(name=name) if name in _NUMBERS:
            return sa.cast(column, sa.BigInteger if sqlite else sa.Numeric)
        case Primitive(name="boolean"):
            return sa.case((column.in_(("1", "true")), "1"), else_="0")
        case Primitive(name="varchar" | "uuid"):
            return column if sqlite else sa.collate(column, "C")
        case _:
            # Years before 1 and after 9999 have another width, and then text order is not time order.
            usual = sa.and_(column.like("____-__-__%"), column.not_like("%BC%"))
            return sa.case((usual, column if sqlite else sa.collate(column, "C")), else_=None)


def _partition_exclusions(table: Table, field: Field, predicate: Predicate, *, sqlite: bool) -> Iterator[sa.ColumnElement[bool]]:
    """Files of other partitions are left out: for equality on an identity key, or on a part of a date.

    A value that can't be true of its file tells nothing: one of several under the same key, as DuckDB 1.5 notes those of files that it
    adds by their Hive paths, or one that the file's own statistics contradict.
    """
    p, f, stats = c.FILE_PARTITION_VALUE.c, c.DATA_FILE.c, c.FILE_COLUMN_STATS.c
    other = c.FILE_PARTITION_VALUE.alias("other_value").c
    values = _equals(predicate)
    if not values or table.partition_id is None:
        return
    for index, key in enumerate(table.partition_keys):
        if key.column_id != field.id:
            continue
        wanted = [_partition_text(key.transform, value, field.type) for value in values]
        if any(text is None for text in wanted):
            continue
        doubled = sa.exists().where(
            other.data_file_id == f.data_file_id,
            other.table_id == table.id,
            other.partition_key_index == index,
            other.partition_value.is_distinct_from(p.partition_value),
        )
        contradicted = sa.exists().where(
            stats.data_file_id == f.data_file_id,
            stats.table_id == table.id,
            stats.column_id == field.id,
            _contradicts(p.partition_value, key.transform, field.type, sqlite=sqlite),
        )
        # Asked file by file, so that those that statistics leave out cost nothing here.
        elsewhere = sa.exists().where(
            p.data_file_id == f.data_file_id,
            p.table_id == table.id,
            p.partition_key_index == index,
            # Files of an earlier partitioning may use the same index for another column.
            f.partition_id == table.partition_id,
            sa.or_(p.partition_value.is_(None), p.partition_value.not_in(wanted)),
            ~doubled.correlate(c.DATA_FILE, c.FILE_PARTITION_VALUE),
            ~contradicted.correlate(c.DATA_FILE, c.FILE_PARTITION_VALUE),
        )
        yield ~elsewhere.correlate(c.DATA_FILE)


def _contradicts(value: sa.Column[str], transform: str, kind: DataType, *, sqlite: bool) -> sa.ColumnElement[bool]:
    """The condition under which a file's statistics say that a partition value is not that of all its rows, or may not be."""
    stats = c.FILE_COLUMN_STATS.c
    empty = sa.and_(value.is_(None), stats.value_count > 0)
    if transform == "identity":
        if kind == Primitive("varchar"):
            low, high, text = (_bound(column, kind, sqlite=sqlite) for column in (stats.min_value, stats.max_value, value))
            return sa.or_(empty, low > text, high < text)
        return sa.or_(empty, stats.min_value != value, stats.max_value != value)
    start, length = _PLACES[transform]
    parts = [
        sa.func.ltrim(sa.func.substr(_bound(bound, kind, sqlite=sqlite), start, length), "0")
        for bound in (stats.min_value, stats.max_value)
    ]
    return sa.or_(empty, *(part != sa.func.ltrim(value, "0") for part in parts))


# Where the parts of a date stand in the text of a bound.
_PLACES = {"year": (1, 4), "month": (6, 2), "day": (9, 2), "hour": (12, 2)}


def _equals(predicate: Predicate) -> Iterable[Any]:
    match predicate:
        case Comparison(op="=", value=value):
            return (value,)
        case OneOf(values=values):
            return values
        case _:
            return ()


def _partition_text(transform: str, value: Any, kind: DataType) -> str | None:
    if transform == "identity":
        exact = isinstance(kind, Primitive) and kind.name in (_NUMBERS - _FLOATS) | {"varchar", "date"}
        return encode(value, kind) if exact and isinstance(value, int | str | date) and not isinstance(value, bool | datetime) else None
    if not isinstance(value, date):
        return None
    if isinstance(value, datetime) and value.tzinfo is not None:
        value = value.astimezone(UTC)
    return partition_text(transform, value)


def partition_text(transform: str, value: date) -> str | None:
    """A date's year, month, day or hour in the text of partition values.

    >>> partition_text("month", date(2026, 3, 4))
    '3'
    """
    if transform == "hour" and not isinstance(value, datetime):
        return None
    return str(getattr(value, transform)) if transform in ("year", "month", "day", "hour") else None
