"""Stored results of views: storing them, and serving them until something that the view reads has changed."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from platform_plugin.cache import Cache
from platform_plugin.errors import InvalidValue, PlatformError, QueryFailed, ServerError
from platform_plugin.lake.catalogue.tables import Name, View, read_snapshot, read_tables
from platform_plugin.lake.commit.passes import is_passed
from platform_plugin.lake.read.last_change import has_changed
from platform_plugin.relations.answers import Answer, StateTarget, put_answers, run_answers
from platform_plugin.relations.kinds import find_kind
from platform_plugin.relations.lookups import RecentResult
from platform_plugin.relations.reading import Dependency, UnknownDependency
from platform_plugin.relations.views.follow.strategy import BATCH, keeps_result, strategy_of
from platform_plugin.relations.views.plans import find_plan
from platform_plugin.relations.views.read.static_tables import check_static_tables
from platform_plugin.relations.views.read.view import part_tables, read_view, split_name
from platform_plugin.relations.views.record import RESULT_PART, note_columns, note_result, read_records, read_result

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from datetime import timedelta
    from uuid import UUID

    from sqlalchemy.engine import Connection

    from platform_plugin.engine.spark.session.job import ProgressHandler
    from platform_plugin.engine.spark.session.metrics import JobMetrics
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot, Table
    from platform_plugin.lake.files.files import DataFile
    from platform_plugin.relations.views.record import ViewRecord


def find_stored(work: Workspace, view: View, snapshot: Snapshot) -> Table | None:
    """The table with a view's answer at a snapshot, or None if the view must be computed."""
    return _RESULTS.find((work.lake.uuid, view.uuid, snapshot.id), lambda: _find(work, view, snapshot))


def find_recent(work: Workspace, view: View, snapshot: Snapshot, staleness: timedelta) -> RecentResult | None:
    """The stored result of a view, if it is no older than `staleness`."""
    lake = work.lake
    with lake.reading() as connection:
        record = read_records(connection, only=view.uuid).get(view.uuid)
        of = _newest(connection, record, snapshot)
        answered = None if of is None else read_snapshot(connection, id=of)
        if record is None or answered is None or answered.time < datetime.now(UTC) - staleness:
            return None
        tables = read_tables(connection, snapshot.id, uuids=[record.parts[RESULT_PART]])
    return RecentResult(table=tables[0], snapshot=answered) if tables else None


def _newest(connection: Connection, record: ViewRecord | None, snapshot: Snapshot) -> int | None:
    """The snapshot that a view's stored result is the answer at, as of another."""
    if record is None or RESULT_PART not in record.parts:
        return None
    return read_result(connection, record.uuid, snapshot.id)


# What was found for a view at a snapshot holds for ever.
_RESULTS: Cache[tuple[UUID, UUID, int], Table | None] = Cache("stored results of views", weigh=lambda table: 0 if table is None else 4_000)


def _find(work: Workspace, view: View, snapshot: Snapshot) -> Table | None:
    with work.lake.reading() as connection:
        record = read_records(connection, only=view.uuid).get(view.uuid)
        of = _newest(connection, record, snapshot)
        if record is None or of is None:
            return None
    inputs = find_inputs(work, record, snapshot)
    if inputs is None or any(has_changed(work.lake, table, of, snapshot, appends_only=appends_only) for table, appends_only in inputs):
        return None
    try:
        check_static_tables(work, str(view.name), record, find_plan(work, record, snapshot), snapshot)
    except InvalidValue:
        return None  # told by who asks for the answer
    with work.lake.reading() as connection:
        found = read_tables(connection, snapshot.id, uuids=[record.parts[RESULT_PART]])
    return found[0] if found else None


def _inputs(work: Workspace, record: ViewRecord, snapshot: Snapshot) -> Iterator[Dependency]:
    """All that a view's answer depends on: streams, of which only appends count, and tables, of which every change does."""
    plan = find_plan(work, record, snapshot)
    for stream in plan.stream_names:
        yield Dependency(work.lake.table(split_name(stream), snapshot), appends_only=True)
    for name in plan.upper_tables:
        with work.lake.reading() as connection:
            relation = work.lake.find_relation(connection, Name.of(split_name(name)), snapshot)
        yield Dependency(relation, appends_only=False)
        yield from find_kind(work.lake, relation, snapshot).dependencies(work, relation, snapshot)


def find_dependencies(work: Workspace, view: View, snapshot: Snapshot) -> Iterator[Dependency]:
    """The relations that a continuous view's answer depends on; those of another view are not known."""
    with work.lake.reading() as connection:
        record = read_records(connection, only=view.uuid).get(view.uuid)
    if record is None or find_plan(work, record, snapshot).volatile:
        raise UnknownDependency
    yield from _inputs(work, record, snapshot)


def find_inputs(work: Workspace, record: ViewRecord, snapshot: Snapshot) -> list[Dependency] | None:
    """The relations that a view's answer depends on, each with whether only appends count; None if the time or chance counts too.

    For other views that it reads, their own dependencies count, and whether their definitions are the same.
    """
    if find_plan(work, record, snapshot).volatile:
        return None
    try:
        return list(_inputs(work, record, snapshot))
    except UnknownDependency:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultRequest:
    """A view whose result is to be stored."""

    view: View
    record: ViewRecord


def find_result_requests(work: Workspace, only: Collection[Name] | None = None, *, maintained: Collection[str] = ()) -> list[ResultRequest]:
    """The views whose result is stored by each run or has a gate; a batched view's after a batch of it was `maintained`."""
    with work.lake.reading() as connection:
        records = read_records(connection)
    return [
        ResultRequest(view=view, record=records[view.uuid])
        for view in work.lake.views()
        if view.uuid in records
        and (only is None or view.name in only)
        and (keeps_result(records[view.uuid]) or work.lake.gates.find(view.name) is not None)
        and (strategy_of(records[view.uuid]) != BATCH or str(view.name) in maintained)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredResults:
    """What a run stored. `failed` has the errors of views without a new result."""

    metrics: JobMetrics | None = None
    failed: dict[str, PlatformError] = field(default_factory=dict)


def store_results(
    work: Workspace,
    wanted: Sequence[ResultRequest],
    *,
    at: Snapshot | None = None,
    timeout: timedelta | None = None,
    progress: ProgressHandler | None = None,
) -> StoredResults:
    """Store the present results of views, or those `at` a snapshot, by one job.

    Results that are still valid are left alone. A result that does not pass the view's gate is not stored.
    """
    with work.lake.lease(at, holder="storing") as lease:
        snapshot = lease.snapshot
        answers: list[tuple[ResultRequest, Answer]] = []
        failed: dict[str, PlatformError] = {}
        for each in wanted:
            try:
                answer = _answer(work, each, snapshot)
            except ServerError:
                raise
            except PlatformError as error:
                failed[str(each.view.name)] = error
                continue
            if answer is not None:
                answers.append((each, answer))
        try:
            metrics, refused = _store(work, answers, snapshot, timeout=timeout, progress=progress) if answers else (None, {})
        except QueryFailed as error:
            if len(answers) == 1:
                return StoredResults(failed=failed | {str(answers[0][0].view.name): error})
        else:
            return StoredResults(metrics=metrics, failed=failed | refused)
    # A result that can't be computed must not keep the others from being stored.
    parts = [store_results(work, [each], at=at, timeout=timeout, progress=progress) for each, _ in answers]
    return StoredResults(failed=failed | {name: error for part in parts for name, error in part.failed.items()})


def _answer(work: Workspace, each: ResultRequest, snapshot: Snapshot) -> Answer | None:
    from platform_plugin.relations.bind import read_named

    if find_plan(work, each.record, snapshot).volatile:
        return None
    if find_stored(work, each.view, snapshot) is not None and not _needs_judgement(work, each, snapshot):
        return None
    table = part_tables(work, each.record, snapshot)[RESULT_PART]
    old = tuple(file.id for file in work.lake.scan(table, snapshot).files)
    frame = read_view(work, str(each.view.name), each.record, snapshot, lambda name: read_named(work, name, snapshot))
    return Answer(frame=frame, targets=(StateTarget(table=table, replaces=old),))


def _needs_judgement(work: Workspace, each: ResultRequest, snapshot: Snapshot) -> bool:
    """Whether a view has a gate that its stored result has not passed: somebody stored it without the gate."""
    if work.lake.gates.find(each.view.name) is None:
        return False
    table = part_tables(work, each.record, snapshot)[RESULT_PART]
    with work.lake.reading() as connection:
        return not is_passed(connection, each.view.name, table, snapshot)


def _store(
    work: Workspace,
    answers: Sequence[tuple[ResultRequest, Answer]],
    snapshot: Snapshot,
    *,
    timeout: timedelta | None,
    progress: ProgressHandler | None,
) -> tuple[JobMetrics, dict[str, PlatformError]]:
    """Store what passes; the other results, and why not."""
    written, metrics = run_answers(work, [answer for _, answer in answers], timeout=timeout, progress=progress)
    passed: list[tuple[ResultRequest, StateTarget, list[DataFile]]] = []
    refused: dict[str, PlatformError] = {}
    try:
        for (each, _), (target, files) in zip(answers, written, strict=True):
            gate = work.lake.gates.find(each.view.name)
            try:
                if gate is not None:
                    gate(target.table, files)
            except InvalidValue as error:
                refused[str(each.view.name)] = error
            else:
                passed.append((each, target, files))
        if passed:
            names = ", ".join(str(each.view.name) for each, _, _ in passed)
            with work.lake.commit(f"store {names}"[:200], base=snapshot) as commit:
                put_answers(commit, [(target, files) for _, target, files in passed])
                commit.take_ungated(each.view.name for each, _, _ in passed)
                for each, target, _ in passed:
                    note_result(commit, each.record.uuid, snapshot)
                    if work.lake.gates.find(each.view.name) is not None:
                        commit.note_pass(each.view.name, target.table)
                    if target.was is not None:
                        note_columns(commit, each.record, target.table.fields)
    except PlatformError:
        work.lake.discard(file for _, files in written for file in files)
        raise
    stored = {file.path for _, _, files in passed for file in files}
    work.lake.discard(file for _, files in written for file in files if file.path not in stored)
    return metrics, refused
