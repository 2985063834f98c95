"""Partition pruning: files of partitions in which no row can have a value of a domain are left out."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from platform_plugin.algebra.predicates.fitting import fit_domain
from platform_plugin.algebra.types.data_types import DataType, Field, Primitive
from platform_plugin.lake.catalogue import catalogue as c
from platform_plugin.lake.catalogue.statistics import encode
from platform_plugin.lake.read.bounds import bound_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from platform_plugin.algebra.predicates.ranges import Domain, Interval
    from platform_plugin.lake.catalogue.tables import Table

# Types whose values have one text, the same in every writer.
_EXACT = frozenset({"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "varchar", "date"})
# Where the parts of a date stand in the text of a bound.
_PLACES = {"year": (1, 4), "month": (6, 2), "day": (9, 2), "hour": (12, 2)}
# The parts that there are of each kind, or as many years as a list is made of.
_CYCLES = {"year": 200, "month": 12, "day": 31, "hour": 24}


def plan_partition_exclusions(table: Table, field: Field, domain: Domain, *, sqlite: bool) -> Iterator[sa.ColumnElement[bool]]:
    """Conditions on `DATA_FILE` that every file with a value of a domain meets, by partitions of the column or of a part of its date.

    A value that can't be true of its file tells nothing: one of several under the same key, as DuckDB 1.5 notes those of files that it
    adds by their Hive paths, or one that the file's own statistics contradict.
    """
    p, f, stats = c.FILE_PARTITION_VALUE.c, c.DATA_FILE.c, c.FILE_COLUMN_STATS.c
    other = c.FILE_PARTITION_VALUE.alias("other_value").c
    if table.partition_id is None:
        return
    for index, key in enumerate(table.partition_keys):
        texts = plan_partition_texts(key.transform, domain, field.type) if key.column_id == field.id else None
        if texts is None:
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
        unlike = p.partition_value.not_in(sorted(texts))
        # Asked file by file, so that those that statistics leave out cost nothing here.
        elsewhere = sa.exists().where(
            p.data_file_id == f.data_file_id,
            p.table_id == table.id,
            p.partition_key_index == index,
            # Files of an earlier partitioning may use the same index for another column.
            f.partition_id == table.partition_id,
            sa.and_(p.partition_value.is_not(None), unlike) if domain.null else sa.or_(p.partition_value.is_(None), unlike),
            ~doubled.correlate(c.DATA_FILE, c.FILE_PARTITION_VALUE),
            ~contradicted.correlate(c.DATA_FILE, c.FILE_PARTITION_VALUE),
        )
        yield ~elsewhere.correlate(c.DATA_FILE)


def _contradicts(value: sa.Column[str], transform: str, kind: DataType, *, sqlite: bool) -> sa.ColumnElement[bool]:
    """The condition under which a file's statistics say that a partition value is not that of all its rows, or may not be."""
    stats = c.FILE_COLUMN_STATS.c
    other_null = sa.or_(sa.and_(value.is_(None), stats.value_count > 0), sa.and_(value.is_not(None), stats.null_count > 0))
    if transform == "identity":
        if kind == Primitive("varchar"):
            low, high, text = (bound_of(column, kind, sqlite=sqlite) for column in (stats.min_value, stats.max_value, value))
            return sa.or_(other_null, low > text, high < text)
        return sa.or_(other_null, stats.min_value != value, stats.max_value != value)
    start, length = _PLACES[transform]
    parts = [
        sa.func.ltrim(sa.func.substr(bound_of(bound, kind, sqlite=sqlite), start, length), "0")
        for bound in (stats.min_value, stats.max_value)
    ]
    return sa.or_(other_null, *(part != sa.func.ltrim(value, "0") for part in parts))


def plan_partition_texts(transform: str, domain: Domain, kind: DataType) -> frozenset[str] | None:
    """The texts of the partitions that values of a domain may be in, beside that of NULL; None if they can't be listed.

    >>> from platform_plugin.algebra.predicates.ranges import between
    >>> sorted(plan_partition_texts("month", between(date(2025, 12, 3), date(2026, 2, 1)), Primitive("date")))
    ['1', '12', '2']
    """
    try:
        fitted = fit_domain(domain, kind)
    except TypeError:
        return None
    if transform == "identity":
        is_exact = isinstance(kind, Primitive) and kind.name in _EXACT
        texts = [encode(value, kind) for value in fitted.values or ()] if is_exact and fitted.values is not None else [None]
    elif transform in _CYCLES:
        texts = [text for interval in fitted.intervals for text in _date_parts(transform, interval)]
    else:
        return None
    known = frozenset(text for text in texts if text is not None)
    return known if None not in texts else None


def _date_parts(transform: str, interval: Interval) -> list[str | None]:
    """The years, months, days or hours of an interval's dates; None among them if these can't be listed."""
    low, high = interval.low, interval.high
    if not isinstance(low, date) or not isinstance(high, date) or (transform == "hour" and not isinstance(low, datetime)):
        return [None]
    if not interval.high_closed:
        high -= timedelta(microseconds=1) if isinstance(high, datetime) else timedelta(days=1)
    first, last = _count(transform, low), _count(transform, high)
    if last - first >= _CYCLES[transform]:
        return [None]
    return [_part(transform, number) for number in range(first, last + 1)]


def _count(transform: str, value: Any) -> int:
    """A date's year, month, day or hour, counted from the first one that there is."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        value = value.astimezone(UTC)
    match transform:
        case "year":
            return int(value.year)
        case "month":
            return int(value.year * 12 + value.month - 1)
        case "day":
            return int(value.toordinal())
        case _:
            return int(value.toordinal() * 24 + value.hour)


def _part(transform: str, number: int) -> str:
    match transform:
        case "year":
            return str(number)
        case "month":
            return str(number % 12 + 1)
        case "day":
            return str(date.fromordinal(number).day)
        case _:
            return str(number % 24)
