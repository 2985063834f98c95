"""Overruns: a read of a stream that fails because rows left meanwhile says so, and not that a file is missing."""

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
    """Turn Spark's "a file is missing" into what it means: an overrun, an expired snapshot, or a file that was lost."""
    try:
        yield
    except QueryFailed as error:
        raise_overrun(lake, tables, snapshot, error)
        raise


def raise_overrun(lake: Lake, tables: Sequence[Table], snapshot: Snapshot, error: PlatformError) -> None:
    """Raise what an error of Spark's about a missing file means, if it is one."""
    told = explain_failed_query(lake, error, snapshot, tables)
    if told is not None:
        raise told from error
