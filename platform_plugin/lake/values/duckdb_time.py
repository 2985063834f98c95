"""DuckDB's text form of dates and timestamps, for years that Python's own types can't hold."""

from __future__ import annotations

import re

_FORM = re.compile(
    r"(?P<year>\d+)-(?P<month>\d\d)-(?P<day>\d\d)(?P<bc> \(BC\))?"
    r"(?:[ T](?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)(?:\.(?P<fraction>\d{1,9}))?)?"
    r"(?:(?P<sign>[+-])(?P<hours>\d\d)(?::?(?P<minutes>\d\d))?(?::?(?P<seconds>\d\d))?|Z)?"
)
# The ends of the number line stand for infinity, as in the files that DuckDB writes.
_INFINITE_DAYS = 2**31 - 1
_INFINITE = 2**63 - 1
_DAY_SECONDS = 86_400


def parse_days(text: str) -> int:
    """The days since 1970 of a date.

    >>> parse_days("1970-01-02"), parse_days("0001-12-31 (BC)"), parse_days("infinity")
    (1, -719163, 2147483647)
    """
    if text in ("infinity", "-infinity"):
        return -_INFINITE_DAYS if text.startswith("-") else _INFINITE_DAYS
    return _days(_matched(text))


def parse_moment(text: str, *, per_second: int) -> int:
    """The time since 1970 in UTC, in fractions of a second.

    >>> parse_moment("1970-01-01 01:00:00.5+01", per_second=1_000_000), parse_moment("20000-01-01 00:00:00", per_second=1)
    (500000, 568971820800)
    """
    if text in ("infinity", "-infinity"):
        return -_INFINITE if text.startswith("-") else _INFINITE
    found = _matched(text)
    seconds = _days(found) * _DAY_SECONDS
    seconds += int(found["hour"] or 0) * 3600 + int(found["minute"] or 0) * 60 + int(found["second"] or 0)
    if found["sign"]:
        offset = int(found["hours"]) * 3600 + int(found["minutes"] or 0) * 60 + int(found["seconds"] or 0)
        seconds += offset if found["sign"] == "-" else -offset
    nanoseconds = int((found["fraction"] or "0").ljust(9, "0"))
    return seconds * per_second + nanoseconds * per_second // 1_000_000_000


def _matched(text: str) -> re.Match[str]:
    found = _FORM.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not a date or timestamp")
    return found


def _days(found: re.Match[str]) -> int:
    """Days since 1970 in the Gregorian calendar of all times: 400 years always have the same number of days."""
    year, month, day = int(found["year"]), int(found["month"]), int(found["day"])
    if found["bc"]:
        year = 1 - year
    # Years that begin in March have their leap day last.
    year -= month <= 2
    era, year_of_era = divmod(year, 400)
    day_of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146_097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year - 719_468
