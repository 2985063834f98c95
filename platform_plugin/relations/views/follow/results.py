"""`ResultMaintenance`: stores the results of views whose result each run keeps, that have a gate, or for which somebody asks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from platform_plugin.errors import InvalidValue, PlatformError, ServerError
from platform_plugin.lake.commit.passes import is_passed
from platform_plugin.relations.answers import Answer, StateTarget, put_answers, run_answers
from platform_plugin.relations.bind.read import read_named
from platform_plugin.relations.follow.maintained import DueRelation, Maintenance, StepFigures, WaitingInput
from platform_plugin.relations.views.follow.strategy import BATCH, keeps_result, strategy_of
from platform_plugin.relations.views.plans import find_plan
from platform_plugin.relations.views.read.stored import find_stored
from platform_plugin.relations.views.read.view import part_tables, read_view
from platform_plugin.relations.views.record import RESULT_PART, note_columns, note_result, read_records, read_result

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from platform_plugin.engine.spark.session.metrics import JobMetrics
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot, View
    from platform_plugin.lake.commit.commit import Commit
    from platform_plugin.lake.files.files import DataFile
    from platform_plugin.lake.lake import Lake
    from platform_plugin.relations.follow.maintained import JointScan, RunControl, Selection, Step
    from platform_plugin.relations.views.record import ViewRecord

KIND = "result"


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingResult:
    """A view whose stored result is not its answer any more; `stored_at` is the snapshot of the stored one, `until` that of the new one."""

    view: View
    record: ViewRecord
    stored_at: int | None
    until: int

    @property
    def name(self) -> str:
        """The view's full name."""
        return str(self.view.name)

    @property
    def kind(self) -> str:
        """The kind of what is maintained."""
        return KIND

    @property
    def uuid(self) -> UUID:
        """The identity of the result."""
        return self.record.parts[RESULT_PART]

    @property
    def twins(self) -> tuple[str, ...]:
        """None: each view has a result of its own."""
        return ()

    @property
    def inputs(self) -> tuple[WaitingInput, ...]:
        """The snapshots since that of the stored result."""
        first = -1 if self.stored_at is None else self.stored_at
        return (WaitingInput(relation=self.name, first=first, end=self.until),)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultStep:
    """New results that have passed their gates."""

    lake: Lake
    snapshot: Snapshot
    results: Sequence[tuple[PendingResult, StateTarget, list[DataFile]]]
    figures: StepFigures

    @property
    def files(self) -> Sequence[DataFile]:
        """All files that were written."""
        return [file for _, _, files in self.results for file in files]

    def put(self, commit: Commit) -> None:
        """Replace the stored results; a conflict if another run has stored one of them meanwhile."""
        put_answers(commit, [(target, files) for _, target, files in self.results])
        commit.take_ungated(each.view.name for each, _, _ in self.results)
        for each, target, _ in self.results:
            note_result(commit, each.view.uuid, target.table.uuid, self.snapshot, name=each.view.name, expected=each.stored_at)
            if self.lake.gates.find(each.view.name) is not None:
                commit.note_pass(each.view.name, target.table)
            if target.was is not None:
                note_columns(commit, each.record, target.table.fields)


class ResultMaintenance(Maintenance[PendingResult]):
    """Stored results. All that a run stores are computed by one job; one that does not pass its view's gate is not stored."""

    kind = KIND

    def find(self, work: Workspace, snapshot: Snapshot, selection: Selection) -> tuple[list[PendingResult], dict[str, PlatformError]]:
        """The views whose result is kept and outdated; a batched view's after a batch of it was maintained."""
        is_asked_for = selection.kinds is not None and KIND in selection.kinds
        with work.lake.reading() as connection:
            records = read_records(connection)
        found: list[PendingResult] = []
        failed: dict[str, PlatformError] = {}
        for view in work.lake.views(snapshot):
            record = records.get(view.uuid)
            if record is None or not selection.has(view.name, KIND):
                continue
            is_kept = keeps_result(record) and (strategy_of(record) != BATCH or str(view.name) in selection.maintained)
            if not (is_asked_for or is_kept or work.lake.gates.find(view.name) is not None):
                continue
            try:
                pending = find_pending_result(work, view, record, snapshot)
            except ServerError:
                raise
            except PlatformError as error:
                failed[str(view.name)] = error
            else:
                found += [] if pending is None else [pending]
        return found, failed

    def due(self, work: Workspace, snapshot: Snapshot, pending: PendingResult, control: RunControl) -> DueRelation:
        """The table of the result, which is computed by Spark as any query."""
        del control
        table = part_tables(work, pending.record, snapshot)[RESULT_PART]
        return DueRelation(
            name=pending.name, kind=KIND, inputs=(), writes=(str(table.name),), engine="spark_sql", why="a result is a query"
        )

    def step(
        self, work: Workspace, snapshot: Snapshot, pending: Sequence[PendingResult], control: RunControl, joint: Sequence[JointScan]
    ) -> tuple[list[Step], dict[str, PlatformError]]:
        """Compute the results at the snapshot, and judge those that have a gate."""
        del joint
        answers: list[tuple[PendingResult, Answer]] = []
        failed: dict[str, PlatformError] = {}
        for each in pending:
            try:
                answers.append((each, _answer(work, each, snapshot)))
            except ServerError:
                raise
            except PlatformError as error:
                failed[each.name] = error
        if not answers:
            return [], failed
        written, metrics = run_answers(work, [answer for _, answer in answers], timeout=control.timeout, progress=control.progress)
        passed: list[tuple[PendingResult, StateTarget, list[DataFile]]] = []
        try:
            for (each, _), (target, files) in zip(answers, written, strict=True):
                gate = work.lake.gates.find(each.view.name)
                try:
                    if gate is not None:
                        gate(target.table, files)
                except InvalidValue as error:
                    failed[each.name] = error
                else:
                    passed.append((each, target, files))
        except BaseException:
            work.lake.discard(file for _, files in written for file in files)
            raise
        stored = {file.path for _, _, files in passed for file in files}
        work.lake.discard(file for _, files in written for file in files if file.path not in stored)
        return ([_step(work, snapshot, passed, metrics)] if passed else []), failed


def _step(
    work: Workspace, snapshot: Snapshot, passed: Sequence[tuple[PendingResult, StateTarget, list[DataFile]]], metrics: JobMetrics
) -> ResultStep:
    figures = StepFigures(names=tuple(each.name for each, _, _ in passed), jobs=metrics.jobs or 0, tasks=metrics.tasks)
    return ResultStep(lake=work.lake, snapshot=snapshot, results=passed, figures=figures)


def find_pending_result(work: Workspace, view: View, record: ViewRecord, snapshot: Snapshot) -> PendingResult | None:
    """A view's result if the stored one is outdated, or was never judged by the gate that the view has; None if there is nothing to do."""
    if find_plan(work, record, snapshot).volatile:
        return None
    if find_stored(work, view, snapshot) is not None and not _needs_judgement(work, view, record, snapshot):
        return None
    with work.lake.reading() as connection:
        stored_at = read_result(connection, record, snapshot.id)
    return PendingResult(view=view, record=record, stored_at=stored_at, until=snapshot.id)


def _needs_judgement(work: Workspace, view: View, record: ViewRecord, snapshot: Snapshot) -> bool:
    if work.lake.gates.find(view.name) is None:
        return False
    table = part_tables(work, record, snapshot)[RESULT_PART]
    with work.lake.reading() as connection:
        return not is_passed(connection, view.name, table, snapshot)


def _answer(work: Workspace, each: PendingResult, snapshot: Snapshot) -> Answer:
    table = part_tables(work, each.record, snapshot)[RESULT_PART]
    old = work.lake.scan(table, snapshot)
    frame = read_view(work, each.name, each.record, snapshot, lambda name: read_named(work, name, snapshot))
    target = StateTarget(table=table, replaces=tuple(file.id for file in old.files))
    # It will be about as large as the last one.
    return Answer(frame=frame, targets=(target,), is_large=old.size_bytes >= work.limits.client_state_bytes)


RESULTS = ResultMaintenance()
