"""Gates of views: the results that are judged before a run consumes rows, or before a new view replaces an old one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from platform_plugin.errors import InvalidValue, PlatformError
from platform_plugin.lake.commit.gates import scan_written
from platform_plugin.lake.ring.history import read_history
from platform_plugin.relations.answers import Answer, StateTarget, put_answers, run_answers
from platform_plugin.relations.bind.read import read_named
from platform_plugin.relations.follow.ranges import read_range_with_history
from platform_plugin.relations.views.follow.results import find_pending_result
from platform_plugin.relations.views.plans import find_plan
from platform_plugin.relations.views.read.view import merged_state, query_upper, run_stream_part, split_name
from platform_plugin.relations.views.record import RESULT_PART, note_result, read_records

if TYPE_CHECKING:
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Name, Snapshot
    from platform_plugin.lake.commit.commit import Commit
    from platform_plugin.lake.commit.gates import Gate
    from platform_plugin.lake.files.files import DataFile
    from platform_plugin.operators.group.parts import SplitPlan
    from platform_plugin.relations.follow.maintained import Maintained
    from platform_plugin.relations.follow.ranges import Range
    from platform_plugin.relations.views.build import BegunView
    from platform_plugin.relations.views.follow.pending import PendingView


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


def find_gated_results(work: Workspace, snapshot: Snapshot, pending: PendingView) -> list[Maintained]:
    """The results with gates of a view and of those that share its states; none of them may consume before all of these have passed.

    Consuming changes no answer, so a result that is judged and stored before is the one that readers get afterwards.
    """
    if not work.lake.gates.names:
        return []  # as in nearly every run; the views of a lake are not read for each of them
    names = {pending.name, *pending.twins}
    found = [view for view in work.lake.views(snapshot) if str(view.name) in names and work.lake.gates.find(view.name) is not None]
    if not found:
        return []
    with work.lake.reading() as connection:
        records = read_records(connection)
    for view in found:
        find_gate(work, view.name, find_plan(work, records[view.uuid], snapshot))
    results = (find_pending_result(work, view, records[view.uuid], snapshot) for view in found)
    return [each for each in results if each is not None]


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
    note_result(commit, begun.uuid, target.table.uuid, snapshot, name=begun.new.name, expected=None)
    commit.note_pass(begun.new.name, target.table)
    return made


def _covered(work: Workspace, begun: BegunView, stream: str, first_row_id: int, snapshot: Snapshot) -> Range:
    table = work.lake.table(split_name(stream), snapshot)
    with work.lake.reading() as connection:
        history = read_history(connection, table, snapshot.id)
    return read_range_with_history(work.lake, table, history, snapshot, first_row_id, view=str(begun.new.name))
