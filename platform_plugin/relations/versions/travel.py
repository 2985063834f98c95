"""`find_snapshot`: the snapshot that a number or a time in a statement names."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

from platform_plugin.errors import InvalidValue

if TYPE_CHECKING:
    from platform_plugin.lake.catalogue.tables import Snapshot
    from platform_plugin.lake.lake import Lake


def find_version(lake: Lake, version: object) -> Snapshot:
    """The snapshot with a number."""
    if isinstance(version, bool) or not isinstance(version, int) or abs(version) >= 1 << 63:
        raise InvalidValue(f"{version!r} is not a snapshot's number", hint="write AT (VERSION => 3)")
    return lake.snapshot(version)


def find_snapshot(lake: Lake, value: object) -> Snapshot:
    """The snapshot with a number, or the newest one at a time."""
    if isinstance(value, int) and not isinstance(value, bool):
        return find_version(lake, value)
    return lake.snapshot(at=read_moment(value))


def read_moment(value: object) -> datetime:
    """The time that a text, a date or a time names; one without a zone is in UTC."""
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
