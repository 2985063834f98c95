"""`SampleMaintenance`: how samples of streams consume rows: each alone, or in the scan of the views that read the same range."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from platform_plugin.errors import PlatformError
from platform_plugin.relations.follow.maintained import DueRelation, Maintenance
from platform_plugin.relations.samples.draw.source_draw import find_stored
from platform_plugin.relations.samples.read import draw_sample
from platform_plugin.relations.samples.record import KIND, TABLES, StoreSample, all_samples, definitions
from platform_plugin.relations.samples.reservoir.growing import find_pending, prepare_gap_draws, read_current_sample
from platform_plugin.relations.samples.reservoir.joint import find_joint_samples
from platform_plugin.relations.samples.reservoir.local import try_local
from platform_plugin.relations.samples.reservoir.reservoirs import prepare_pick_draws, run_sliding
from platform_plugin.relations.samples.reservoir.sliding import SampleWindow, find_window
from platform_plugin.relations.samples.reservoir.version import write_version
from platform_plugin.relations.samples.waiting import read_pending

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from datetime import timedelta

    from platform_plugin.engine.figures import EngineRun
    from platform_plugin.engine.spark.session.job import ProgressHandler
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot
    from platform_plugin.relations.follow.maintained import JointScan, RangeKey, RunControl, Selection, Step
    from platform_plugin.relations.samples.definition import Key
    from platform_plugin.relations.samples.keys.lowest import LowestRows
    from platform_plugin.relations.samples.record import SampleRecord
    from platform_plugin.relations.samples.reservoir.growing import PendingSample
    from platform_plugin.relations.samples.reservoir.local import PartDraw
    from platform_plugin.relations.samples.reservoir.reservoirs import WindowStep
    from platform_plugin.relations.samples.reservoir.version import SampleVersion

    Drawn = list[tuple[PartDraw, Mapping[Key, LowestRows]]]

Looked = TypeVar("Looked")


class SampleMaintenance(Maintenance["PendingSample | SampleWindow"]):
    """Samples of streams, with a window or without. One that fails does not hold up the others."""

    kind = KIND

    def find(
        self, work: Workspace, snapshot: Snapshot, selection: Selection
    ) -> tuple[list[PendingSample | SampleWindow], dict[str, PlatformError]]:
        """The samples for which enough waits, or those that are named and for which anything does."""
        if selection.kinds is not None and KIND not in selection.kinds:
            return [], {}
        if selection.names is None and _are_quiet(work, snapshot):
            return [], {}
        growing, failed = find_samples_behind(work, snapshot, selection)
        windows, troubled = find_windows_behind(work, snapshot, selection)
        return [*growing, *windows], failed | troubled

    def join(
        self, work: Workspace, pending: Sequence[PendingSample | SampleWindow], ranges: Collection[RangeKey]
    ) -> list[tuple[PendingSample | SampleWindow, JointScan]]:
        """The samples that wait for exactly a range that others scan."""
        return find_joint_samples(work, pending, ranges)

    def due(self, work: Workspace, snapshot: Snapshot, pending: PendingSample | SampleWindow, control: RunControl) -> DueRelation:
        """The sample itself; how many rows would be read depends on the picks of those that appended them."""
        del snapshot, control
        drawn = f"{work.find_engine(pending.sample.definition.engine)}: {pending.gap_rows} rows have no picks"
        engine = drawn if pending.gap_rows else "local: picks are merged"
        return DueRelation(name=pending.name, kind=KIND, inputs=pending.inputs, writes=(pending.name,), engine=engine)

    def step(
        self,
        work: Workspace,
        snapshot: Snapshot,
        pending: Sequence[PendingSample | SampleWindow],
        control: RunControl,
        joint: Sequence[JointScan],
    ) -> tuple[list[Step], dict[str, PlatformError]]:
        """Merge picks and reservoirs of what has arrived into each sample; what executors draw for all of them is one job."""
        del snapshot, joint
        steps: list[SampleVersion | WindowStep] = []
        with work.noting_engines() as noted:
            drawn, failed = _draw_together(work, pending, control)
        try:
            for each in pending:
                if each.name in failed:
                    continue
                try:
                    with work.noting_engines() as own:
                        step = _make_step(work, each, drawn.get(each.name), control)
                    steps.append(replace(step, engine_runs=tuple(replace(run, relations=(each.name,)) for run in own)))
                except PlatformError as error:
                    failed[each.name] = error
        except BaseException:
            work.lake.discard(file for step in steps for file in step.files)
            raise
        return [_with_runs(step, steps, noted) for step in steps], failed


def _draw_together(
    work: Workspace, pending: Sequence[PendingSample | SampleWindow], control: RunControl
) -> tuple[dict[str, Drawn], dict[str, PlatformError]]:
    """What is drawn for several samples whose rows somebody has to look at, by name, and the errors of those that it fails for."""
    draws: list[PartDraw] = []
    failed: dict[str, PlatformError] = {}
    for each in pending:
        if each.gap_rows and not each.sample.definition.is_counted:
            try:
                draws += prepare_pick_draws(work, each) if isinstance(each, SampleWindow) else prepare_gap_draws(work, each)
            except PlatformError as error:
                failed[each.name] = error
    drawn: dict[str, Drawn] = {}
    for draw, found in zip(draws, try_local(work, draws, timeout=control.timeout, progress=control.progress), strict=True):
        name = str(draw.sample)
        if isinstance(found, PlatformError):
            failed[name] = found
        else:
            drawn.setdefault(name, []).append((draw, found))
    return drawn, failed


def _make_step(work: Workspace, each: PendingSample | SampleWindow, drawn: Drawn | None, control: RunControl) -> SampleVersion | WindowStep:
    timeout, progress = control.timeout, control.progress
    if isinstance(each, SampleWindow):
        return run_sliding(work, each, drawn=drawn, timeout=timeout, progress=progress)
    return write_version(work, each, read_current_sample(work, each, drawn=drawn, timeout=timeout, progress=progress))


def _with_runs(
    step: SampleVersion | WindowStep, steps: Sequence[SampleVersion | WindowStep], runs: Sequence[EngineRun]
) -> SampleVersion | WindowStep:
    """A step with the runs of engines that were for its sample; of a run for several samples the first tells."""
    names = [each.behind.name for each in steps]
    own = [run for run in runs if next((name for name in names if name in run.relations), None) == step.behind.name]
    return replace(step, engine_runs=(*own, *step.engine_runs))


SAMPLES = SampleMaintenance()


def find_samples_behind(work: Workspace, snapshot: Snapshot, selection: Selection) -> tuple[list[PendingSample], dict[str, PlatformError]]:
    """The samples of streams with rows to consume, and those that can't be maintained.

    Picks are merged when there are many, or when the sample is named.
    """
    samples = [sample for sample in all_samples(work.lake, snapshot, windowed=False) if sample.definition.source == "stream"]
    behind, failed = _look_at(work, samples, snapshot, selection, find_pending)
    return [each for each in behind if not each.tail.is_empty], failed


def find_windows_behind(work: Workspace, snapshot: Snapshot, selection: Selection) -> tuple[list[SampleWindow], dict[str, PlatformError]]:
    """The windowed samples whose stream has rows without a reservoir, and those that can't be maintained."""
    windows, failed = _look_at(work, all_samples(work.lake, snapshot, windowed=True), snapshot, selection, find_window)
    behind = [each for each in windows if each.whole.next_row_id > max(each.progress.next_row_id, each.whole.first_row_id)]
    return behind, failed


def _look_at(
    work: Workspace,
    samples: Iterable[SampleRecord],
    snapshot: Snapshot,
    selection: Selection,
    find: Callable[[Workspace, SampleRecord, Snapshot], Looked],
) -> tuple[list[Looked], dict[str, PlatformError]]:
    """What is found of each sample, or of those that are named, and the errors of those that can't be maintained."""
    found, failed = [], {}
    for sample in samples:
        if not selection.has(sample.table.name, KIND):
            continue
        try:
            if selection.names is not None or not _is_quiet(work, sample, snapshot):
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
