"""A gate of quality: rows that do not meet the critical expectations of a suite are not published."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from platform_plugin.errors import InvalidValue
from platform_plugin.lake.commit.gates import read_written
from platform_plugin.quality.validate import run_validation

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from platform_plugin.lake.catalogue.tables import Name, Table
    from platform_plugin.lake.files.files import DataFile
    from platform_plugin.lake.lake import Lake
    from platform_plugin.quality.suite import Suite

_MOST_SHOWN = 3


class RowsRefused(InvalidValue):
    """Rows do not meet what is expected of them, and were not published."""


@contextmanager
def gated(lake: Lake, name: Name, suite: Suite | None, *, batches: bool) -> Iterator[None]:
    """Hold what is committed to a relation meanwhile to its suite, if that is a gate; of `batches` an empty one always passes."""
    if suite is None or not suite.gate:
        yield
        return

    def judge(table: Table, files: Sequence[DataFile]) -> None:
        count = sum(file.record_count for file in files)
        if count > suite.most_rows:
            what = f"{count} rows are to be judged, {suite.most_rows} may be"
            hint = "raise most_rows of its suite, or publish less at a time"
            raise RowsRefused(f'nothing was published in "{name}"', detail=what, hint=hint)
        if files or not batches:
            require(name, suite, read_written(lake, table, files))

    with lake.gates.guarding(name, judge):
        yield


def require(name: Name, suite: Suite, rows: pa.Table) -> None:
    """Raise if rows break a critical expectation, with the first rows that do."""
    found = run_validation(replace(suite, expectations=suite.critical), rows)
    failed = [each for each in found if not each.passed]
    if not failed:
        return
    told = []
    for each in failed:
        told.append(f"{each.name}: {each.trouble or 'not met'}")
        told += [f"  {', '.join(f'{column} {value}' for column, value in row.items())}" for row in each.rows[:_MOST_SHOWN]]
    raise RowsRefused(
        f'nothing was published in "{name}": {len(failed)} of {len(found)} critical expectations are not met',
        detail="\n".join(told),
        hint="what was there before stays readable; correct the rows or the suite, and run it again",
    )
