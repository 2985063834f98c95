"""`run_maintenance`: the one loop. Relations of all kinds consume what has changed in their inputs, and one commit makes it visible.

A run leases a snapshot, asks each kind what is due there, and lets the due relations of all kinds make their steps; relations that read
the same range share its scan. The commit adds what the steps wrote, and moves each cursor from where the run has read it. If anything was
moved meanwhile, nothing is stored and the run starts again. Nothing else is remembered: a run may end anywhere, be repeated, or run twice.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from platform_plugin.engine.figures import note_runs
from platform_plugin.errors import CatalogueError, CommitConflict, PlatformError, QueryInterrupted, ServerError, StorageError
from platform_plugin.lake.catalogue.stalls import end_stalls, note_stall, read_stalled_names
from platform_plugin.lake.catalogue.tables import Name
from platform_plugin.lake.commit.gates import GateRefusal
from platform_plugin.maintenance.poison import find_poisoned, note_failure
from platform_plugin.relations import hooks
from platform_plugin.relations.follow.maintained import DueRelation, RangeKey, RunControl, Selection, StepFigures, ranges_of
from platform_plugin.relations.kinds import every_kind

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from datetime import timedelta

    from platform_plugin.engine.figures import EngineRun
    from platform_plugin.engine.option import EngineName
    from platform_plugin.engine.spark.session.job import ProgressHandler
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot
    from platform_plugin.relations.follow.maintained import JointScan, Maintained, Maintenance, Step

_ATTEMPTS = 5
RESULT = "result"
# These are nobody's own fault: the run fails, and whoever repeats it tries again.
_COMMON = (CommitConflict, CatalogueError, StorageError, ServerError, QueryInterrupted)


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceOutcome:
    """What a run did. `jobs` counts Spark's jobs for all relations; `failed` has the errors of those that consumed nothing."""

    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The relations that were maintained, by kind; `result` has the views whose result was stored."""
    rows: int = 0
    groups: int = 0
    compacted: int = 0
    fetched: int = 0
    """The rows that were read for samples."""
    fed: int = 0
    """The rows that came to streams from the tables that these follow."""
    jobs: int = 0
    tasks: int = 0
    seconds: float = 0.0
    snapshot: Snapshot
    failed: dict[str, PlatformError] = field(default_factory=dict)
    on_spark: dict[str, str] = field(default_factory=dict)
    """The views whose new rows Spark grouped, and why that was not done in this process."""
    engine_runs: tuple[EngineRun, ...] = ()
    """What each engine did, why it was chosen, and what that was estimated to take."""

    @property
    def views(self) -> tuple[str, ...]:
        """The continuous views that consumed rows."""
        return self.names.get("view", ())

    @property
    def samples(self) -> tuple[str, ...]:
        """The samples that consumed rows."""
        return self.names.get("sample", ())

    @property
    def feeds(self) -> tuple[str, ...]:
        """The streams that consumed what had come to their tables."""
        return self.names.get("feed", ())

    @property
    def results(self) -> tuple[str, ...]:
        """The views whose result was stored."""
        return self.names.get(RESULT, ())

    @property
    def did_anything(self) -> bool:
        """Whether it maintained a relation, or failed to."""
        return any(self.names.values()) or bool(self.failed)


def run_maintenance(
    work: Workspace,
    only: Collection[Name] | None = None,
    *,
    kinds: Collection[str] | None = None,
    flush: bool = False,
    again: bool = False,
    timeout: timedelta | None = None,
    progress: ProgressHandler | None = None,
    engine: EngineName | None = None,
) -> MaintenanceOutcome:
    """Let all due relations, or those that are named or of these kinds, consume what has arrived, and store the results that runs keep.

    With `flush` a partial batch is enough. A relation that has failed on the same rows before is tried at growing intervals, unless `again`
    is set. One whose result does not pass its gate consumes nothing. A run that loses a race starts again. `engine` decides for
    all relations, whatever they and the lake ask for.
    """
    began = time.monotonic()
    names = None if only is None else frozenset(Name.of(name) for name in only)
    selection = Selection(names=names, kinds=None if kinds is None else frozenset(kinds), flush=flush, again=again)
    control = RunControl(timeout=timeout, progress=progress, engine=engine)
    with work.asking(engine):
        done = _maintain(work, selection, control)
    return replace(done, seconds=time.monotonic() - began)


def _maintain(work: Workspace, selection: Selection, control: RunControl) -> MaintenanceOutcome:
    kinds = selection.kinds
    every = _all_maintenance()
    first = [each for each in every if each.precedes and each.may_be_due(work, selection)]
    before = [_round(work, selection, control, first)] if first else []
    for outcome in before:
        _announce(work, outcome)
    done = _round(work, selection, control, [each for each in every if each.kind != RESULT and not each.precedes])
    done = merge_outcomes([*before, done]) if before else done
    _note_stalls(work, selection, done)
    if kinds is None or RESULT in kinds:
        maintained = replace(selection, maintained=frozenset(done.views), excluded=frozenset(done.failed))
        done = merge_outcomes([done, _round(work, maintained, control, [each for each in _all_maintenance() if each.kind == RESULT])])
    return done


def find_due(
    work: Workspace, selection: Selection, *, engine: EngineName | None = None
) -> tuple[list[DueRelation], dict[str, PlatformError]]:
    """What a run would do now, as values; nothing is done. Relations that failed a short time ago are among the failed."""
    control = RunControl(engine=engine)
    with work.asking(engine):
        return _find_due(work, selection, control)


def _find_due(work: Workspace, selection: Selection, control: RunControl) -> tuple[list[DueRelation], dict[str, PlatformError]]:
    found: list[DueRelation] = []
    failed: dict[str, PlatformError] = {}
    with work.lake.lease(holder="maintenance") as lease:
        for maintenance in _all_maintenance():
            pending, troubled = maintenance.find(work, lease.snapshot, selection)
            poisoned = {} if selection.again else find_poisoned(work.lake, pending)
            failed |= troubled | poisoned
            found += (maintenance.due(work, lease.snapshot, each, control) for each in pending if each.name not in poisoned)
    return found, failed


def _announce(work: Workspace, done: MaintenanceOutcome) -> None:
    """Tell who waits for appends of the streams that have got rows."""
    if done.fed:
        for stream in work.lake.tables(done.snapshot):
            if str(stream.name) in done.feeds:
                hooks.notify_appended(work, stream, done.snapshot)


def _all_maintenance() -> list[Maintenance[Any]]:
    return [each for kind in every_kind() for each in kind.maintenance()]


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingBatch:
    """Relations that are maintained together, each with the maintenance of its kind."""

    members: Sequence[tuple[Maintenance[Any], Maintained]]

    @property
    def names(self) -> list[str]:
        return [each.name for _, each in self.members]

    def by_kind(self) -> Iterator[tuple[Maintenance[Any], list[Maintained]]]:
        for maintenance in dict.fromkeys(maintenance for maintenance, _ in self.members):
            yield maintenance, [each for own, each in self.members if own is maintenance]

    def without(self, names: Collection[str]) -> PendingBatch:
        return PendingBatch(members=[member for member in self.members if member[1].name not in names])

    def halves(self) -> list[PendingBatch]:
        middle = (len(self.members) + 1) // 2
        return [PendingBatch(members=half) for half in (self.members[:middle], self.members[middle:]) if half]


def _round(work: Workspace, selection: Selection, control: RunControl, kinds: Sequence[Maintenance[Any]]) -> MaintenanceOutcome:
    """One round for relations of some kinds; tried again from a newer snapshot when another commit was first."""
    for attempt in range(_ATTEMPTS):
        with work.lake.lease(holder="maintenance") as lease:
            batch, failed = _find_batch(work, lease.snapshot, selection, kinds)
            twins = {each.name: each.twins for _, each in batch.members}
            if not selection.again:
                poisoned = find_poisoned(work.lake, [each for _, each in batch.members])
                batch, failed = batch.without(poisoned), failed | poisoned
            try:
                refused = _meet_conditions(work, lease.snapshot, batch, control)
                batch, failed = batch.without(refused), failed | refused
                if not batch.members:
                    return MaintenanceOutcome(snapshot=lease.snapshot, failed=_with_twins(failed, twins))
                done = _run_batch(work, lease.snapshot, batch, control, shares_scans=True)
            except CommitConflict:
                if attempt == _ATTEMPTS - 1:
                    raise
                continue
            return replace(done, failed=_with_twins(failed | done.failed, twins))
    raise AssertionError  # unreachable: the last attempt returns or raises


def _find_batch(
    work: Workspace, snapshot: Snapshot, selection: Selection, kinds: Sequence[Maintenance[Any]]
) -> tuple[PendingBatch, dict[str, PlatformError]]:
    members: list[tuple[Maintenance[Any], Maintained]] = []
    failed: dict[str, PlatformError] = {}
    for maintenance in kinds:
        pending, troubled = maintenance.find(work, snapshot, selection)
        members += [(maintenance, each) for each in pending]
        failed |= troubled
    return PendingBatch(members=members), failed


def _meet_conditions(work: Workspace, snapshot: Snapshot, batch: PendingBatch, control: RunControl) -> dict[str, PlatformError]:
    """Maintain at the snapshot what has to be before relations of a batch may consume; the errors of those that may not."""
    refused: dict[str, PlatformError] = {}
    wanted: dict[str, list[Maintained]] = {}
    for maintenance, each in batch.members:
        try:
            conditions = maintenance.conditions(work, snapshot, each)
        except PlatformError as error:
            refused[each.name] = note_failure(work.lake, each, error, _as_is)
        else:
            wanted |= {each.name: conditions} if conditions else {}
    if not wanted:
        return refused
    of_kind = {maintenance.kind: maintenance for maintenance in _all_maintenance()}
    members = {condition.name: (of_kind[condition.kind], condition) for conditions in wanted.values() for condition in conditions}
    done = _run_batch(work, snapshot, PendingBatch(members=list(members.values())), control, shares_scans=False)
    for _, each in batch.members:
        found = next((done.failed[condition.name] for condition in wanted.get(each.name, ()) if condition.name in done.failed), None)
        if found is not None:
            refused[each.name] = note_failure(work.lake, each, found, _as_is)
    return refused


def _as_is(error: PlatformError) -> PlatformError:
    return error


def _run_batch(work: Workspace, snapshot: Snapshot, batch: PendingBatch, control: RunControl, *, shares_scans: bool) -> MaintenanceOutcome:
    """Maintain a batch in one commit; where that fails for some of them, by halves, so that the others go on for few more queries."""
    try:
        return _commit_batch(work, snapshot, batch, control, shares_scans=shares_scans)
    except _COMMON:
        raise
    except PlatformError as error:
        if len(batch.members) == 1:
            maintenance, each = batch.members[0]
            located = note_failure(work.lake, each, error, lambda found: maintenance.locate(work, snapshot, each, found))
            return MaintenanceOutcome(snapshot=snapshot, failed={each.name: located})
    return merge_outcomes([_run_batch(work, snapshot, half, control, shares_scans=False) for half in batch.halves()])


def _commit_batch(
    work: Workspace, snapshot: Snapshot, batch: PendingBatch, control: RunControl, *, shares_scans: bool
) -> MaintenanceOutcome:
    joint: list[JointScan] = []
    if shares_scans:
        joined: set[str] = set()
        for maintenance, pending in batch.by_kind():
            others = ranges_of(each for own, each in batch.members if own is not maintenance)
            for each, scan in maintenance.join(work, pending, others):
                joint.append(scan)
                joined.add(each.name)
        batch = batch.without(joined)
    steps: list[Step] = []
    by_kind: dict[str, list[StepFigures]] = {}
    failed: dict[str, PlatformError] = {}
    try:
        for maintenance, pending in batch.by_kind():
            made, troubled = maintenance.step(work, snapshot, pending, control, joint)
            steps += made
            known = {each.name: each for each in pending}
            failed |= {name: note_failure(work.lake, known[name], error, _as_is) for name, error in troubled.items()}
            by_kind.setdefault(maintenance.kind, []).extend(step.figures for step in made)
        for scan in joint:
            steps.append(step := scan.finish(work))
            by_kind.setdefault("sample", []).append(step.figures)
        if not steps:
            return MaintenanceOutcome(snapshot=snapshot, failed=failed)
        runs = [run for figures in by_kind.values() for each in figures for run in each.engine_runs]
        with work.lake.commit(_label(by_kind), base=snapshot, notes=note_runs(runs)) as commit:
            for step in steps:
                step.put(commit)
    except BaseException:
        work.lake.discard(file for step in steps for file in step.files)
        raise
    return _outcome(by_kind, commit.made, failed)


def _label(by_kind: Mapping[str, Sequence[StepFigures]]) -> str:
    """The message of the commit: what it maintains."""
    words = {"view": "maintain", "sample": "sample", "feed": "ingest into", RESULT: "store"}
    parts = [f"{words.get(kind, kind)} {', '.join(name for each in figures for name in each.names)}" for kind, figures in by_kind.items()]
    return "; ".join(part for part in parts if not part.endswith(" "))[:200]


def _outcome(by_kind: Mapping[str, Sequence[StepFigures]], made: Snapshot, failed: dict[str, PlatformError]) -> MaintenanceOutcome:
    every = [figures for found in by_kind.values() for figures in found]
    # A sample may merge picks of rows that views have consumed long ago.
    counted = by_kind.get("view") or every
    return MaintenanceOutcome(
        names={kind: tuple(name for figures in found for name in figures.names) for kind, found in by_kind.items()},
        rows=sum(end - first for _, first, end in frozenset[RangeKey]().union(*(figures.ranges for figures in counted))),
        groups=sum(figures.groups for figures in every),
        compacted=sum(figures.compacted for figures in every),
        fetched=sum(figures.fetched for figures in every),
        fed=sum(figures.fed for figures in every),
        jobs=sum(figures.jobs for figures in every),
        tasks=sum(figures.tasks for figures in every),
        snapshot=made,
        failed=failed,
        on_spark={name: why for figures in every for name, why in figures.on_spark.items()},
        engine_runs=tuple(run for figures in every for run in figures.engine_runs),
    )


def merge_outcomes(parts: Sequence[MaintenanceOutcome]) -> MaintenanceOutcome:
    """What several rounds did together, as of the newest snapshot that one of them made."""

    def total(of: Callable[[MaintenanceOutcome], int]) -> int:
        return sum(of(part) for part in parts)

    kinds = dict.fromkeys(kind for part in parts for kind in part.names)
    return MaintenanceOutcome(
        names={kind: tuple(name for part in parts for name in part.names.get(kind, ())) for kind in kinds},
        rows=total(lambda part: part.rows),
        groups=total(lambda part: part.groups),
        compacted=total(lambda part: part.compacted),
        fetched=total(lambda part: part.fetched),
        fed=total(lambda part: part.fed),
        jobs=total(lambda part: part.jobs),
        tasks=total(lambda part: part.tasks),
        snapshot=max((part.snapshot for part in parts), key=lambda made: made.id),
        failed={name: error for part in parts for name, error in part.failed.items()},
        on_spark={name: why for part in parts for name, why in part.on_spark.items()},
        engine_runs=tuple(run for part in parts for run in part.engine_runs),
    )


def _with_twins(failed: dict[str, PlatformError], twins: Mapping[str, tuple[str, ...]]) -> dict[str, PlatformError]:
    """Add the errors of relations to those that share what they store, which can't consume either."""
    return failed | {twin: error for name, error in failed.items() for twin in twins.get(name, ())}


def _note_stalls(work: Workspace, selection: Selection, done: MaintenanceOutcome) -> None:
    """Note in the lake which relations a run could not maintain; a refusal of a gate is noted by whoever holds the relation to it."""
    stopped = {name: error for name, error in done.failed.items() if not isinstance(error, GateRefusal)}
    if not stopped and not read_stalled_names(work.lake, "maintenance"):
        return
    views = [view.name for view in work.lake.views() if selection.has(view.name, "view") or str(view.name) in done.failed]
    end_stalls(work.lake, [name for name in views if str(name) not in stopped], cause="maintenance")
    for name in views:
        if str(name) in stopped:
            note_stall(work.lake, name, cause="maintenance", error=stopped[str(name)])
