"""Overruns: a read of a stream that fails because rows left meanwhile says so, and not that a file is missing."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from platform_plugin.errors import PlatformError, QueryFailed
from platform_plugin.lake.segments import refuse_overrun

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from platform_plugin.lake.lake import Lake
    from platform_plugin.lake.tables import Snapshot, Table

_MISSING = ("FILE_NOT_EXIST", "does not exist", "FileNotFoundException")


@contextmanager
def blaming_overruns(lake: Lake, tables: Sequence[Table], snapshot: Snapshot) -> Iterator[None]:
    """Turn "a file is missing" into `StreamOverrun` where one of these tables is a stream that has let go of it."""
    try:
        yield
    except QueryFailed as error:
        blame_overrun(lake, tables, snapshot, error)
        raise


def blame_overrun(lake: Lake, tables: Sequence[Table], snapshot: Snapshot, error: PlatformError) -> None:
    """Raise `StreamOverrun` in place of an error of Spark's about a missing file, if that is what it means."""
    said = f"{error} {error.detail or ''} {error.__cause__ or ''}"
    if any(word in said for word in _MISSING):
        with lake.reading() as connection:
            for table in tables:
                try:
                    refuse_overrun(connection, table, snapshot)
                except PlatformError as overrun:
                    raise overrun from error
