"""Dates and times over Arrow: their parts, truncation, formats and differences, in UTC as sessions of Spark are.

None is returned for what only Spark computes, such as years before the first or patterns of other letters.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Mapping

SECOND = 10**6
DAY = 86_400 * SECOND
# Days are of one length, because sessions of Spark are in UTC.
UNITS = {
    "microsecond": 1,
    "millisecond": 1000,
    "second": SECOND,
    "minute": 60 * SECOND,
    "hour": 3600 * SECOND,
    "day": DAY,
    "week": 7 * DAY,
}
_PART = re.compile(r"(\d+)\s+([a-z]+?)s?(?:\s+|$)")
_LENGTH = re.compile(rf"(?:{_PART.pattern})+")
_LARGEST = 1 << 62
_CALENDAR = re.compile(r"INTERVAL\s+('?)(-?\d{1,6})\1\s+(YEAR|MONTH|DAY)S?", re.IGNORECASE)
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
"""The days of years that every reader of dates knows: 0001-01-01 and 9999-12-31."""
_ZONED = pa.timestamp("us", tz="UTC")
_PLAIN = pa.timestamp("us")
_FLOORS: Mapping[str, str] = {
    **dict.fromkeys(("year", "yyyy", "yy"), "year"),
    **dict.fromkeys(("month", "mon", "mm"), "month"),
    **dict.fromkeys(("day", "dd"), "day"),
    **{unit: unit for unit in ("quarter", "week", "hour", "minute", "second", "millisecond", "microsecond")},
}
"""The units of date_trunc, and the part of a time down to which each cuts."""
_DATE_UNITS = frozenset({"year", "quarter", "month", "week"})
_MONDAY = np.int64(4 * DAY)
"""The first Monday after the beginning of 1970."""
_LETTERS = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S", "E": "%a", "EEE": "%a", "EEEE": "%A"}
_PATTERN = re.compile(r"[A-Za-z]+|'|[^A-Za-z']+")
_WRITTEN = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d{1,6})?")


def read_calendar_unit(text: str) -> tuple[int, int] | None:
    """The months and days of an interval of one whole number of years, months or days, as it is written; None for other intervals.

    >>> read_calendar_unit("INTERVAL '90' DAY"), read_calendar_unit("interval 2 years"), read_calendar_unit("INTERVAL '1' HOUR")
    ((0, 90), (24, 0), None)
    """
    found = _CALENDAR.fullmatch(text.strip())
    if found is None:
        return None
    number, unit = int(found[2]), found[3].lower()
    return (0, number) if unit == "day" else (number * (12 if unit == "year" else 1), 0)


def shift_dates(days: Any, months: int, more: int) -> Any:
    """Dates so many months and days later; a month that is too short gives its last day, as in Spark. None beyond the years 1 to 9999."""
    whole = days if isinstance(days, pa.Scalar) else pa.chunked_array([days]) if isinstance(days, pa.Array) else days
    dates = pa.array([whole.as_py()], pa.date32()) if isinstance(whole, pa.Scalar) else whole.combine_chunks()
    numbers = pc.fill_null(dates.cast(pa.int32()), 0).to_numpy(zero_copy_only=False).astype("datetime64[D]")
    begins = numbers.astype("datetime64[M]")
    target = begins + np.timedelta64(months, "M")
    length = ((target + np.timedelta64(1, "M")).astype("datetime64[D]") - target.astype("datetime64[D]")).astype(np.int64)
    inside = np.minimum((numbers - begins.astype("datetime64[D]")).astype(np.int64), length - 1)
    shifted = (target.astype("datetime64[D]").astype(np.int64) + inside if months else numbers.astype(np.int64)) + more
    unknown = dates.is_null().to_numpy(zero_copy_only=False)
    shifted[unknown] = 0
    if len(shifted) and (shifted.min() < _FIRST_DAY or shifted.max() > _LAST_DAY):
        return None
    found = pa.array(shifted.astype(np.int32), pa.int32(), mask=unknown).cast(pa.date32())
    return found[0] if isinstance(days, pa.Scalar) else found


def read_length(text: str) -> int | None:
    """The microseconds of a length of time that is written as whole numbers and units without months; None for other texts.

    >>> read_length("5 minutes"), read_length("1 DAY 2 HOURS"), read_length("1 month")
    (300000000, 93600000000, None)
    """
    text = text.strip().lower()
    parts = _PART.findall(text) if _LENGTH.fullmatch(text) else []
    if not parts or any(unit not in UNITS for _, unit in parts):
        return None
    length = sum(int(number) * UNITS[unit] for number, unit in parts)
    return length if length < _LARGEST else None


def read_time(text: str, *, zoned: bool) -> pa.Scalar | None:
    """A time that is written with all its parts; None for another text, which Spark may read.

    >>> read_time("2026-01-01 12:30:00", zoned=False).as_py()
    datetime.datetime(2026, 1, 1, 12, 30)
    """
    if _WRITTEN.fullmatch(text) is None:
        return None
    try:
        return pa.scalar(datetime.fromisoformat(text), _PLAIN).cast(_ZONED if zoned else _PLAIN)
    except ValueError:
        return None


def is_time(kind: pa.DataType) -> bool:
    """Whether values of a type are times in microseconds, with or without a zone."""
    return kind in (_ZONED, _PLAIN)


def _instants(value: Any) -> Any | None:
    """Dates and times as times without a zone."""
    return value.cast(_PLAIN) if value.type == pa.date32() or is_time(value.type) else None


def take_part(function: str, value: Any) -> Any | None:
    """A part of dates or times by the function of Arrow for it.

    >>> take_part("hour", pa.array([3_600_000_000, -1], pa.timestamp("us"))).to_pylist()
    [1, 23]
    """
    found = _instants(value)
    if found is None:
        return None
    if function == "day_of_week":  # Spark counts from Sunday, and from one
        return pc.day_of_week(found, count_from_zero=False, week_start=7).cast(pa.int32())
    return pc.call_function(function, [found]).cast(pa.int32())


def weekday(value: Any) -> Any | None:
    """The days since Monday.

    >>> weekday(pa.array([0], pa.int32()).cast(pa.date32())).to_pylist()
    [3]
    """
    found = _instants(value)
    return None if found is None else pc.day_of_week(found).cast(pa.int32())


def _floor(found: Any, unit: str) -> Any:
    if unit == "week":
        return _shift(found, lambda whole: whole - (whole - _MONDAY) % np.int64(7 * DAY))
    return pc.floor_temporal(found, unit=unit)


def _shift(found: Any, change: Any) -> Any:
    """Times changed as microseconds, which are whole numbers of numpy."""
    is_one = isinstance(found, pa.Scalar)
    column = pa.array([found.as_py()], _PLAIN) if is_one else found
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    whole = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    made = pa.array(change(whole), pa.int64(), mask=~valid).cast(_PLAIN)
    return made[0] if is_one else made


def date_trunc(unit: Any, value: Any) -> Any | None:
    """Times cut down to a unit, as times with a zone.

    >>> date_trunc(pa.scalar("HOUR"), pa.array([5_400_000_000], pa.timestamp("us"))).cast(pa.int64()).to_pylist()
    [3600000000]
    """
    found = _instants(value)
    known = _FLOORS.get(str(unit.as_py()).lower()) if isinstance(unit, pa.StringScalar) else None
    return None if found is None or known is None else _floor(found, known).cast(_ZONED)


def trunc_date(value: Any, unit: Any) -> Any | None:
    """Dates cut down to a unit of at least a week.

    >>> trunc_date(pa.array([45], pa.int32()).cast(pa.date32()), pa.scalar("month")).to_pylist()
    [datetime.date(1970, 2, 1)]
    """
    known = _FLOORS.get(str(unit.as_py()).lower()) if isinstance(unit, pa.StringScalar) else None
    if value.type != pa.date32() or known not in _DATE_UNITS:
        return None
    return _floor(value.cast(_PLAIN), known).cast(pa.date32())


def to_date(value: Any) -> Any | None:
    """The day of dates and times.

    >>> to_date(pa.array([-1], pa.timestamp("us"))).to_pylist()
    [datetime.date(1969, 12, 31)]
    """
    found = _instants(value)
    return None if found is None else pc.floor_temporal(found, unit="day").cast(pa.date32())


def add_days(value: Any, number: Any) -> Any | None:
    """Dates so many days later.

    >>> add_days(pa.array([0], pa.int32()).cast(pa.date32()), pa.scalar(31, pa.int32())).to_pylist()
    [datetime.date(1970, 2, 1)]
    """
    if value.type != pa.date32() or number.type not in (pa.int8(), pa.int16(), pa.int32()):
        return None
    return pc.add_checked(value.cast(pa.int32()), number.cast(pa.int32())).cast(pa.date32())


def count_days(end: Any, start: Any) -> Any | None:
    """The days from one date to another.

    >>> count_days(pa.scalar(9, pa.int32()).cast(pa.date32()), pa.array([2], pa.int32()).cast(pa.date32())).to_pylist()
    [7]
    """
    last, first = to_date(end), to_date(start)
    return None if last is None or first is None else pc.subtract_checked(last.cast(pa.int32()), first.cast(pa.int32()))


def count_seconds(value: Any) -> Any | None:
    """The whole seconds since the beginning of 1970; those before it are cut towards it, as Spark's unix_timestamp does.

    >>> count_seconds(pa.array([2_500_000, -2_500_000], pa.timestamp("us"))).to_pylist()
    [2, -2]
    """
    return pc.divide(value.cast(pa.int64()), SECOND) if is_time(value.type) else None


def format_time(value: Any, pattern: Any) -> Any | None:
    """Dates and times by a pattern of years, months, days, hours, minutes, seconds and names of weekdays.

    >>> format_time(pa.array([0], pa.timestamp("us")), pa.scalar("E yyyy-MM-dd")).to_pylist()
    ['Thu 1970-01-01']
    """
    found = _instants(value)
    if found is None or not isinstance(pattern, pa.StringScalar) or not pattern.is_valid or "%" in pattern.as_py():
        return None
    words = _PATTERN.findall(pattern.as_py())
    if any(word[0].isascii() and (word[0].isalpha() or word[0] in "'[]{}#") and word not in _LETTERS for word in words):
        return None
    if any(mark in pattern.as_py() for mark in "[]{}#") or not has_plain_years(found):
        return None
    return pc.strftime(pc.floor_temporal(found, unit="second").cast(pa.timestamp("s")), "".join(_LETTERS.get(word, word) for word in words))


def has_plain_years(found: Any) -> bool:
    """Whether all years have four digits, which both engines write alike.

    >>> has_plain_years(pa.array([0, None], pa.timestamp("us")))
    True
    """
    years = pc.min_max(pc.year(pa.array([found.as_py()], _PLAIN) if isinstance(found, pa.Scalar) else found))
    return not years["min"].is_valid or (years["min"].as_py() >= 1 and years["max"].as_py() <= 9999)
