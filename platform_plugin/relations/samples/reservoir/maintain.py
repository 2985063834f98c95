"""Maintenance of samples: one run lets all pending samples consume their streams, in one commit; and REFRESH SAMPLE."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from platform_plugin.errors import CommitConflict, InvalidValue, PlatformError
from platform_plugin.language.text.counting import count_text
from platform_plugin.relations.bind import lake_name, place_errors
from platform_plugin.relations.missing import name_missing_relations
from platform_plugin.relations.samples.draw.source_draw import find_stored
from platform_plugin.relations.samples.read import draw_sample
from platform_plugin.relations.samples.record import TABLES, AdvanceSample, StoreSample, all_samples, definitions, find_sample
from platform_plugin.relations.samples.reservoir.growing import find_pending, read_current_sample
from platform_plugin.relations.samples.reservoir.reservoirs import run_sliding
from platform_plugin.relations.samples.reservoir.sliding import SampleWindow, find_window
from platform_plugin.relations.samples.waiting import read_pending
from platform_plugin.relations.target import statement_result

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence
    from datetime import timedelta

    from platform_plugin.engine.spark.session.job import ProgressHandler
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Name, Snapshot
    from platform_plugin.lake.commit.commit import Commit
    from platform_plugin.lake.files.files import DataFile
    from platform_plugin.language import statements as s
    from platform_plugin.relations.result import Result
    from platform_plugin.relations.samples.record import SampleRecord
    from platform_plugin.relations.samples.reservoir.growing import CurrentSample, PendingSample
    from platform_plugin.relations.samples.reservoir.reservoirs import SampleStep

_ATTEMPTS = 5

Looked = TypeVar("Looked")


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleMaintenance:
    """What a run did: its samples, the rows that it consumed for them, and how many of those were read."""

    samples: tuple[str, ...] = ()
    rows: int = 0
    fetched: int = 0
    seconds: float = 0.0
    snapshot: Snapshot
    failed: dict[str, PlatformError] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleVersion:
    """A sample's next version, written but not committed."""

    behind: PendingSample
    grown: CurrentSample
    files: tuple[DataFile, ...]

    @property
    def name(self) -> str:
        """The sample's name."""
        return self.behind.sample.name

    def put(self, commit: Commit) -> None:
        """Add it to a commit; a conflict if another run has consumed any of its range."""
        sample, stored = self.behind.sample, self.behind.scan
        if self.grown.rows_changed:
            commit.replace(sample.table, [file.id for file in stored.files], self.files)
        stream, expected = self.behind.tail.stream, self.behind.progress.snapshot_id
        commit.also(AdvanceSample(sample=sample.table, stream=stream, expected=expected, progress=self.grown.progress))


def find_samples_behind(
    work: Workspace, snapshot: Snapshot, only: Collection[Name] | None = None
) -> tuple[list[PendingSample], dict[str, PlatformError]]:
    """The samples of streams with rows to consume, and those that can't be maintained.

    Picks are merged when there are many, or when the sample is named.
    """
    samples = [sample for sample in all_samples(work.lake, snapshot, windowed=False) if sample.definition.source == "stream"]
    behind, failed = _look_at(work, samples, snapshot, only, find_pending)
    return [each for each in behind if not each.tail.is_empty], failed


def find_windows_behind(
    work: Workspace, snapshot: Snapshot, only: Collection[Name] | None = None
) -> tuple[list[SampleWindow], dict[str, PlatformError]]:
    """The windowed samples whose stream has rows without a reservoir, and those that can't be maintained."""
    windows, failed = _look_at(work, all_samples(work.lake, snapshot, windowed=True), snapshot, only, find_window)
    behind = [each for each in windows if each.whole.next_row_id > max(each.progress.next_row_id, each.whole.first_row_id)]
    return behind, failed


def _look_at(
    work: Workspace,
    samples: Iterable[SampleRecord],
    snapshot: Snapshot,
    only: Collection[Name] | None,
    find: Callable[[Workspace, SampleRecord, Snapshot], Looked],
) -> tuple[list[Looked], dict[str, PlatformError]]:
    """What is found of each sample, or of those that are named, and the errors of those that can't be maintained."""
    found, failed = [], {}
    for sample in samples:
        if only is not None and sample.table.name not in only:
            continue
        try:
            if only is not None or not _is_quiet(work, sample, snapshot):
                found.append(find(work, sample, snapshot))
        except PlatformError as error:
            failed[sample.name] = error
    return found, failed


def _is_quiet(work: Workspace, sample: SampleRecord, snapshot: Snapshot) -> bool:
    """Whether nothing waits for a sample that is worth a run."""
    with work.lake.reading() as connection:
        return not read_pending(connection, sample.table.uuid, sample.definition.relation, snapshot.id).is_due


def _are_quiet(work: Workspace, snapshot: Snapshot) -> bool:
    """The same of all samples, in a fraction of the time that it takes to look at each."""
    known = [(uuid, found.relation) for uuid, found in definitions(work.lake, snapshot).items() if found.source == "stream"]
    if not known:
        return True
    with work.lake.reading() as connection:
        return not any(read_pending(connection, uuid, relation, snapshot.id).is_due for uuid, relation in known)


def write_change(work: Workspace, behind: PendingSample, grown: CurrentSample) -> SampleVersion:
    """Write a sample's next version; if none of the new rows is in it, no file is written."""
    table = behind.sample.table
    files: tuple[DataFile, ...] = ()
    if grown.rows_changed and grown.rows.num_rows:
        files = (work.lake.write(table, grown.rows, row_ids=pa.array(grown.row_ids, pa.int64())),)
    return SampleVersion(behind=behind, grown=grown, files=files)


def run_sample_maintenance(
    work: Workspace,
    only: Collection[Name] | None = None,
    *,
    timeout: timedelta | None = None,
    progress: ProgressHandler | None = None,
) -> SampleMaintenance:
    """Let all samples with pending rows, or those that are named, consume them; a run that loses a race starts again."""
    began = time.monotonic()
    now = work.lake.snapshot()
    if only is None and _are_quiet(work, now):
        return SampleMaintenance(snapshot=now, seconds=time.monotonic() - began)
    for attempt in range(_ATTEMPTS):
        with work.lake.lease(holder="samples") as lease:
            behind, failed = find_samples_behind(work, lease.snapshot, only)
            windows, troubled = find_windows_behind(work, lease.snapshot, only)
            failed |= troubled
            if not behind and not windows:
                return SampleMaintenance(snapshot=lease.snapshot, failed=failed, seconds=time.monotonic() - began)
            try:
                done = _take_up(work, [*behind, *windows], lease.snapshot, timeout=timeout, progress=progress)
            except CommitConflict:
                if attempt == _ATTEMPTS - 1:
                    raise
                continue
            return replace(done, failed=failed | done.failed, seconds=time.monotonic() - began)
    raise AssertionError  # unreachable: the last attempt returns or raises


def _take_up(
    work: Workspace,
    behind: Sequence[PendingSample | SampleWindow],
    snapshot: Snapshot,
    *,
    timeout: timedelta | None,
    progress: ProgressHandler | None,
) -> SampleMaintenance:
    changes: list[SampleVersion | SampleStep] = []
    failed: dict[str, PlatformError] = {}
    try:
        for each in behind:
            try:
                if isinstance(each, SampleWindow):
                    changes.append(run_sliding(work, each, timeout=timeout, progress=progress))
                else:
                    changes.append(write_change(work, each, read_current_sample(work, each, timeout=timeout, progress=progress)))
            except PlatformError as error:
                # What one sample can't digest must not hold up the others.
                failed[each.sample.name] = error
        if not changes:
            return SampleMaintenance(snapshot=snapshot, failed=failed)
        with work.lake.commit(f"sample {', '.join(change.behind.sample.name for change in changes)}"[:200], base=snapshot) as commit:
            for change in changes:
                change.put(commit)
    except BaseException:
        work.lake.discard(file for change in changes for file in change.files)
        raise
    return SampleMaintenance(
        samples=tuple(change.behind.sample.name for change in changes),
        rows=sum(_new_rows(change.behind) for change in changes),
        fetched=sum(change.grown.fetched for change in changes),
        snapshot=commit.made,
        failed=failed,
    )


def _new_rows(behind: PendingSample | SampleWindow) -> int:
    """How many rows are merged now that were not before."""
    end = behind.whole.next_row_id if isinstance(behind, SampleWindow) else behind.tail.next_row_id
    first = behind.whole.first_row_id if isinstance(behind, SampleWindow) else behind.tail.first_row_id
    return max(0, end - max(first, behind.progress.next_row_id))


def run_refresh_sample(
    work: Workspace, statement: s.RefreshSample, *, timeout: timedelta | None = None, progress: ProgressHandler | None = None
) -> Result:
    """REFRESH SAMPLE: consume what has arrived, or draw again and store the sample for later reads."""
    snapshot = work.lake.snapshot()
    with place_errors(statement.name.span), name_missing_relations(work.lake, lake_name(statement.name), snapshot, "sample"):
        table = work.lake.table(lake_name(statement.name), snapshot)
    sample = find_sample(work.lake, table, snapshot)
    if sample is None:
        with place_errors(statement.name.span):
            raise InvalidValue(f'"{lake_name(statement.name)}" is not a sample', hint="SHOW SAMPLES lists them")
    if sample.definition.source == "stream":
        done = run_sample_maintenance(work, [table.name], timeout=timeout, progress=progress)
        if done.failed:
            raise next(iter(done.failed.values()))
        return statement_result(done.snapshot, f"sample {table.name} consumed {count_text(done.rows, 'row')}", rows=done.rows)
    made, rows = draw_and_store(work, sample, timeout=timeout, progress=progress)
    return statement_result(made, f"sample {table.name} holds {count_text(rows, 'row')}", rows=rows)


def draw_and_store(
    work: Workspace, sample: SampleRecord, *, timeout: timedelta | None = None, progress: ProgressHandler | None = None
) -> tuple[Snapshot, int]:
    """Draw the sample of a table, a view or other samples and store it, unless the stored one is of the relation as it is now."""
    lake = work.lake
    with lake.lease(holder="samples") as lease:
        stored = find_stored(work, sample, lease.snapshot)
        if stored is not None:
            return lease.snapshot, stored.rows.num_rows
        drawn = draw_sample(work, sample, lease.snapshot, timeout=timeout, progress=progress)
        files = []
        if drawn.rows_changed and drawn.rows.num_rows:
            row_ids = None if drawn.row_ids is None else pa.array(drawn.row_ids, pa.int64())
            files = [lake.write(sample.table, drawn.rows, row_ids=row_ids)]
        lake.prepare_tables(TABLES)
        try:
            with lake.commit(f"sample {sample.name}", base=lease.snapshot) as commit:
                if drawn.rows_changed:
                    commit.replace(sample.table, [file.id for file in lake.scan(sample.table, lease.snapshot).files], files)
                commit.also(StoreSample(sample=sample.table, progress=drawn.progress))
        except BaseException:
            lake.discard(files)
            raise
    return commit.made, drawn.rows.num_rows
