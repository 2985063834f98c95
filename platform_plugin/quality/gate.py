"""Gates of quality: a commit is refused if its rows break a critical expectation of the relation's suite."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from platform_plugin.lake.catalogue.stalls import end_stalls, note_stall
from platform_plugin.lake.commit.gates import GateRefusal, read_written
from platform_plugin.lake.commit.passes import lift_gate
from platform_plugin.quality.validate import run_validation

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from platform_plugin.lake.catalogue.tables import Name, Table
    from platform_plugin.lake.files.files import DataFile
    from platform_plugin.lake.lake import Lake
    from platform_plugin.quality.suite import Suite

_MOST_SHOWN = 3
_BEFORE = "what was there before stays readable; correct the rows or the suite, and run it again"
_PASSED = (
    "the result that passed last stays readable with AT (GATE => 'passed'); correct the query, the suite or the rows, and run it again"
)


class RowsRefused(GateRefusal):
    """Rows break a critical expectation, and were not published."""


@contextmanager
def hold_to_gate(lake: Lake, name: Name, suite: Suite | None, *, batches: bool = False, view: bool = False) -> Iterator[None]:
    """Hold what is committed to a relation meanwhile to its suite, if that is a gate; of `batches` an empty one always passes.

    Of a `view` it is the result that is stored, and what a run would have it consume. What is refused stays noted in the catalogue until
    something passes. Without a gate nothing is needed any more of what passed one before.
    """
    if suite is None or not suite.gate:
        lift_gate(lake, name)
        end_stalls(lake, [name], cause="gate")
        yield
        return

    again = f", in Dagster or with --gate {name}={suite.path or suite.file or 'FILE'}"
    of = f'the result of view "{name}" was not published' if view else f'nothing was published in "{name}"'

    # A run that reads no batch is not refused anything; of a view nothing is known until it is judged.
    is_open = batches

    def judge(table: Table, files: Sequence[DataFile]) -> None:
        nonlocal is_open
        count = sum(file.record_count for file in files)
        is_open = False
        try:
            judge_rows(table, files, count)
        except RowsRefused as error:
            note_stall(lake, name, cause="gate", error=error, suite=suite.file, row_count=count)
            raise
        is_open = True

    def judge_rows(table: Table, files: Sequence[DataFile], count: int) -> None:
        if count > suite.most_rows:
            what = f"{count} rows are to be judged, {suite.most_rows} may be"
            hint = "raise most_rows of its suite" if view else "raise most_rows of its suite, or publish less at a time"
            raise RowsRefused(of, detail=what, hint=f"{hint}; run it again{again}")
        if files or not batches:
            require_expectations(of, suite, read_written(lake, table, files), hint=(_PASSED if view else _BEFORE) + again)

    with lake.gates.guarding(name, judge):
        yield
    if is_open:
        end_stalls(lake, [name], cause="gate")


def require_expectations(refusal: str, suite: Suite, rows: pa.Table, *, hint: str = _BEFORE) -> None:
    """Raise the refusal if rows break a critical expectation; it shows the suite and the first of these rows."""
    found = run_validation(replace(suite, expectations=suite.critical), rows)
    failed = [each for each in found if not each.passed]
    if not failed:
        return
    told = []
    for each in failed:
        told.append(f"{each.name}: {each.trouble or 'not met'}")
        told += [f"  {', '.join(f'{column} {value}' for column, value in row.items())}" for row in each.rows[:_MOST_SHOWN]]
    of = "" if suite.file is None else f' of suite "{suite.file}"'
    raise RowsRefused(
        f"{refusal}: {len(failed)} of {len(found)} critical expectations{of} are not met",
        detail="\n".join(told),
        hint=hint,
    )
