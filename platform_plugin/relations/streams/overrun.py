"""`raise_overruns`: a read that fails since a stream evicted its rows raises an overrun, not a missing file."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from platform_plugin.errors import QueryFailed
from platform_plugin.lake.read.missing import explain_failed_query

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from platform_plugin.errors import PlatformError
    from platform_plugin.lake.catalogue.tables import Snapshot, Table
    from platform_plugin.lake.lake import Lake


@contextmanager
def raise_overruns(lake: Lake, tables: Sequence[Table], snapshot: Snapshot) -> Iterator[None]:
    """Replace Spark's error about a missing file by its reason: an overrun, an expired snapshot, or a lost file."""
    try:
        yield
    except QueryFailed as error:
        raise_overrun(lake, tables, snapshot, error)
        raise


def raise_overrun(lake: Lake, tables: Sequence[Table], snapshot: Snapshot, error: PlatformError) -> None:
    """Raise the reason for Spark's error if that is about a missing file."""
    told = explain_failed_query(lake, error, snapshot, tables)
    if told is not None:
        raise told from error
