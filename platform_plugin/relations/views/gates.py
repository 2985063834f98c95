"""Gates of views: a result is judged and stored before a run consumes rows, or before a new view replaces an old one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from platform_plugin.errors import InvalidValue, PlatformError
from platform_plugin.lake.commit.gates import scan_written
from platform_plugin.lake.ring.history import read_history
from platform_plugin.relations.answers import Answer, StateTarget, put_answers, run_answers
from platform_plugin.relations.bind import read_named
from platform_plugin.relations.follow.ranges import read_range_with_history
from platform_plugin.relations.views.follow.poison import note_failure
from platform_plugin.relations.views.plans import find_plan
from platform_plugin.relations.views.read.stored import ResultRequest, store_results
from platform_plugin.relations.views.read.view import merged_state, query_upper, run_stream_part, split_name
from platform_plugin.relations.views.record import RESULT_PART, note_result, read_records

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from platform_plugin.engine.spark.session.job import ProgressHandler
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Name, Snapshot
    from platform_plugin.lake.commit.commit import Commit
    from platform_plugin.lake.commit.gates import Gate
    from platform_plugin.lake.files.files import DataFile
    from platform_plugin.operators.group.parts import SplitPlan
    from platform_plugin.relations.follow.ranges import Range
    from platform_plugin.relations.views.build import BegunView
    from platform_plugin.relations.views.follow.maintain import PendingView


def find_gate(work: Workspace, name: Name, plan: SplitPlan) -> Gate | None:
    """The gate of a continuous view; a gate on a view whose result can't be judged beforehand is refused."""
    gate = work.lake.gates.find(name)
    if gate is not None and plan.volatile:
        raise InvalidValue(
            f'the suite of view "{name}" is a gate, but its answer depends on the time of the read',
            hint="leave out `gate`, and the suite is a check",
        )
    return gate


def refuse_gate_of_view(work: Workspace, name: Name) -> None:
    """Refuse a gate on a view that is computed at each read."""
    if work.lake.gates.find(name) is not None:
        raise InvalidValue(
            f'the suite of view "{name}" is a gate, but the view reads no stream: no run publishes its result',
            hint="leave out `gate`, and the suite is a check",
        )


def pass_gates(
    work: Workspace,
    behind: Sequence[PendingView],
    snapshot: Snapshot,
    *,
    timeout: timedelta | None = None,
    progress: ProgressHandler | None = None,
) -> tuple[list[PendingView], dict[str, PlatformError]]:
    """The views that may consume what waits, and the refusals of the others.

    Consuming changes no answer, so the result that is judged and stored here is the one that readers get afterwards.
    """
    gated = {view.name: wanted for view in behind if (wanted := _with_gates(work, view, snapshot))}
    if not gated:
        return list(behind), {}
    everything = [each for wanted in gated.values() for each in wanted]
    failed = dict(store_results(work, everything, at=snapshot, timeout=timeout, progress=progress).failed)
    refused: dict[str, PlatformError] = {}
    for view in behind:
        try:
            for each in gated.get(view.name, ()):
                find_gate(work, each.view.name, find_plan(work, each.record, snapshot))
        except InvalidValue as error:
            failed[view.name] = error
        found = next((failed[str(each.view.name)] for each in gated.get(view.name, ()) if str(each.view.name) in failed), None)
        if found is not None:
            refused[view.name] = note_failure(work, snapshot, view, found)
    return [view for view in behind if view.name not in refused], refused


def _with_gates(work: Workspace, view: PendingView, snapshot: Snapshot) -> list[ResultRequest]:
    """A view and those that share its states, as far as they have gates."""
    if not work.lake.gates.names:
        return []  # as in nearly every run; the views of a lake are not read for each of them
    names = {view.name, *view.twins}
    found = [each for each in work.lake.views(snapshot) if str(each.name) in names and work.lake.gates.find(each.name) is not None]
    if not found:
        return []
    with work.lake.reading() as connection:
        records = read_records(connection)
    return [ResultRequest(view=each, record=records[each.uuid]) for each in found]


def put_judged(work: Workspace, commit: Commit, begun: BegunView, gate: Gate, snapshot: Snapshot) -> list[DataFile]:
    """Store the result at a snapshot with a new view, if it passes the gate; nothing if the view covers no row yet."""
    plan = begun.new.plan
    starts = begun.begins if begun.is_deferred else begun.reached
    ranges = {stream: _covered(work, begun, stream, starts[stream], snapshot) for stream in begun.streams}
    files = {} if begun.is_deferred else begun.written
    if all(found.is_empty for found in ranges.values()) and not any(files.get(begun.tables[state.name].uuid) for state in plan.states):
        return []
    states = {}
    for state in plan.states:
        table = begun.tables[state.name]
        live = [
            run_stream_part(work, part, ranges[part.stream], begun.statics)
            for part in plan.streams
            if part.state == state.name and not ranges[part.stream].is_empty
        ]
        states[state.name] = merged_state(work, state, live, scan_written(table, files.get(table.uuid, ()), snapshot))
    frame = query_upper(work, plan, states, begun.statics, lambda name: read_named(work, name, snapshot))
    target = StateTarget(table=begun.tables[RESULT_PART])
    judged, _ = run_answers(work, [Answer(frame=frame, targets=(target,))], timeout=None, progress=None)
    made = judged[0][1]
    try:
        gate(target.table, made)
    except PlatformError:
        work.lake.discard(made)
        raise
    put_answers(commit, judged)
    note_result(commit, begun.uuid, snapshot)
    commit.note_pass(begun.new.name, target.table)
    return made


def _covered(work: Workspace, begun: BegunView, stream: str, first_row_id: int, snapshot: Snapshot) -> Range:
    table = work.lake.table(split_name(stream), snapshot)
    with work.lake.reading() as connection:
        history = read_history(connection, table, snapshot.id)
    return read_range_with_history(work.lake, table, history, snapshot, first_row_id, view=str(begun.new.name))
