"""`run_upkeep`: one run that defines continuous views as their files say, and lets all of them consume."""

from __future__ import annotations

from collections import defaultdict
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from platform_plugin.errors import PlatformError
from platform_plugin.lake.catalogue.tables import View, read_tables
from platform_plugin.lake.read.sizes import read_files, read_rewritten
from platform_plugin.maintenance.run import MaintenanceOutcome, run_maintenance
from platform_plugin.orchestration.components.apply import find_changed, run_definition
from platform_plugin.orchestration.sensors.waiting import WaitingView, read_waiting
from platform_plugin.quality.gate import hold_to_gate
from platform_plugin.relations.views.record import RESULT_PART, read_records, result_fields

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from platform_plugin.algebra.types.data_types import Field
    from platform_plugin.engine.figures import EngineRun
    from platform_plugin.engine.spark.session.job import ProgressHandler
    from platform_plugin.lake.catalogue.tables import Name, Snapshot
    from platform_plugin.orchestration.components.model import Model
    from platform_plugin.platform import Platform
    from platform_plugin.relations.declarations import Action


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepResult:
    """What a run did for one view, and the view's figures afterwards."""

    name: Name
    action: Action
    taken_up: int
    """The snapshot at which the view last consumed rows, which is its data version."""
    rows_in: int = 0
    groups_touched: int = 0
    bytes_written: int = 0
    lag_seconds_before: float = 0.0
    lag_seconds_after: float = 0.0
    rows_waiting: int = 0
    state_rows: int = 0
    state_bytes: int = 0
    state_files: int = 0
    columns: tuple[Field, ...] = ()
    engine: str = "local"
    """What grouped the new rows: `local`, `executors`, or `spark_sql` with the reason."""
    engine_why: str = ""
    """Why that engine was chosen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepRun:
    """A run for many views at once; the figures of Spark are those of all together."""

    snapshot: Snapshot
    kept: tuple[UpkeepResult, ...] = ()
    failed: dict[str, PlatformError] = field(default_factory=dict)
    seconds: float = 0.0
    engine_runs: tuple[EngineRun, ...] = ()


def run_upkeep(platform: Platform, names: Sequence[Name], models: Sequence[Model], *, progress: ProgressHandler | None = None) -> UpkeepRun:
    """Maintain the views with these names, after those with a file are defined as it says; a failure of one stops no other.

    A result that does not pass its view's gate is not published.
    """
    with ExitStack() as gates:
        for model in models:
            gates.enter_context(hold_to_gate(platform.lake, model.name, model.suite, view=True))
        return _run_upkeep(platform, names, models, progress=progress)


def _run_upkeep(platform: Platform, names: Sequence[Name], models: Sequence[Model], *, progress: ProgressHandler | None) -> UpkeepRun:
    lake = platform.lake
    since = lake.snapshot()
    actions: dict[str, Action] = {}
    failed: dict[str, PlatformError] = {}
    for model in find_changed(platform, models):
        try:
            actions[str(model.name).lower()], _ = run_definition(platform, model, since=since, progress=progress)
        except PlatformError as error:
            failed[str(model.name)] = error
    base = lake.snapshot()
    made = {view.name: view for view in lake.views(base)}
    # Names are compared as the lake does, whatever their case.
    present = {str(name).lower(): name for name in made}
    chosen = [present[str(name).lower()] for name in names if str(name).lower() in present and str(name) not in failed]
    before = {waiting.view: waiting for waiting in read_waiting(lake, base)}
    began = datetime.now(UTC)
    done = run_maintenance(platform.work, frozenset(chosen), progress=progress)
    failed |= done.failed
    newest = lake.snapshot()
    after = {waiting.view: waiting for waiting in read_waiting(lake, newest)}
    states = _read_states(platform, [made[name] for name in chosen], newest, after=base.id)
    return UpkeepRun(
        snapshot=newest,
        kept=tuple(
            _kept(
                name,
                actions.get(str(name).lower(), "unchanged"),
                states[name],
                before=before.get(name, WaitingView(view=name)),
                after=after.get(name, WaitingView(view=name)),
                began=began,
                engine=_engine(str(name), done),
            )
            for name in chosen
            if str(name) not in failed
        ),
        failed=failed,
        seconds=done.seconds,
        engine_runs=done.engine_runs,
    )


@dataclass(slots=True)
class _State:
    rows: int = 0
    size: int = 0
    files: int = 0
    new_rows: list[int] = field(default_factory=list)
    new_bytes: int = 0
    columns: tuple[Field, ...] = ()


def _read_states(platform: Platform, views: Sequence[View], snapshot: Snapshot, *, after: int) -> dict[Name, _State]:
    """What the parts of views hold, and what of that was added after a snapshot."""
    with platform.lake.reading() as connection:
        records = read_records(connection)
        found = {view.name: _State(columns=result_fields(records[view.uuid]) if view.uuid in records else ()) for view in views}
        owners: defaultdict[UUID, list[Name]] = defaultdict(list)  # views may share what they keep
        for view in views:
            for part, uuid in records[view.uuid].parts.items() if view.uuid in records else ():
                if part != RESULT_PART:
                    owners[uuid].append(view.name)
        tables = {table.id or -1: owners[table.uuid] for table in read_tables(connection, snapshot.id, uuids=list(owners))}
        new: defaultdict[int, list[int]] = defaultdict(list)
        for file in read_files(connection, tables, snapshot):
            is_new = file.begin_snapshot > after
            if is_new:
                new[file.table_id].append(file.rows)
            for state in (found[name] for name in tables[file.table_id]):
                state.rows += file.rows
                state.size += file.size_bytes
                state.files += 1
                state.new_bytes += file.size_bytes if is_new else 0
        rewritten = read_rewritten(connection, tables, after=after)
    for table_id, rows_in_files in new.items():
        # What was only written together is no group that a new row belongs to; it is the largest of the new files.
        for name in tables[table_id]:
            found[name].new_rows += sorted(rows_in_files)[:-1] if table_id in rewritten else rows_in_files
    return found


def _engine(name: str, done: MaintenanceOutcome) -> tuple[str, str]:
    """The engine of a view, and the reason."""
    run = next((run for run in done.engine_runs if name in run.relations), None)
    if name in done.on_spark:
        return f"spark_sql: {done.on_spark[name]}", done.on_spark[name] if run is None else run.why
    return ("none: no new rows", "") if run is None else (run.engine, run.why)


def _kept(
    name: Name, action: Action, state: _State, *, before: WaitingView, after: WaitingView, began: datetime, engine: tuple[str, str]
) -> UpkeepResult:
    return UpkeepResult(
        name=name,
        action=action,
        taken_up=after.taken_up,
        rows_in=max(after.position - before.position, 0),
        groups_touched=sum(state.new_rows),
        bytes_written=state.new_bytes,
        lag_seconds_before=before.lag_seconds(began),
        lag_seconds_after=after.lag_seconds(datetime.now(UTC)),
        rows_waiting=after.rows,
        state_rows=state.rows,
        state_bytes=state.size,
        state_files=state.files,
        columns=state.columns,
        engine=engine[0],
        engine_why=engine[1],
    )
