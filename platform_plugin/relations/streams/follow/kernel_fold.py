"""`KernelFold`: the steps of a folded session by the Arrow kernel, in this process or as tasks on the executors.

It is made where the types of all columns are certain and what is looked up is small. What the kernel refuses for the rows alone, such as a
division by zero, is left to Spark step by step: both give rows of the same columns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow as pa

from platform_plugin.engine.certain_columns import certain_fields, empty_rows
from platform_plugin.engine.choose import OfferedTask, choose_engines
from platform_plugin.engine.engine import Task, TaskInput, TaskPlan
from platform_plugin.engine.file_parts import FilePart, TableReader, is_read_by_tasks
from platform_plugin.engine.kernel_run import compute
from platform_plugin.engine.refusal import RefusedByEngine, accept
from platform_plugin.lake.catalogue.tables import Name, Table
from platform_plugin.lake.read.scan import FileScan
from platform_plugin.lake.values.types import arrow_schema
from platform_plugin.relations.follow.ranges import Range, range_input
from platform_plugin.relations.result import has_plain_types

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta

    from platform_plugin.algebra.types.data_types import Field
    from platform_plugin.engine.engine import Engine
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot
    from platform_plugin.lake.files.data_folder import DataFolder
    from platform_plugin.lake.files.files import DataFile
    from platform_plugin.operators.group.parts import SplitPlan, State, StreamPart
    from platform_plugin.relations.streams.follow.collecting import Inputs
    from platform_plugin.relations.streams.follow.rows import ArrivedRows


@dataclass(frozen=True, slots=True, kw_only=True)
class ScratchTarget:
    """The groups of a task as a file of no table, which the client reads and removes; a vacuum removes those of a killed client."""

    table: Table
    state: State

    @classmethod
    def of(cls, state: State, fields: tuple[Field, ...]) -> ScratchTarget:
        """The groups of a state."""
        numbered = tuple(replace(field, id=number) for number, field in enumerate(fields, start=1))
        table = Table(id=None, uuid=uuid4(), name=Name.of(("main", "session")), path="_results/", fields=numbered)
        return cls(table=table, state=state)

    def merge(self, tables: Sequence[pa.Table]) -> pa.Table:
        """One row for each group, if the kernel merges them."""
        try:
            return compute(self.state.merge, {"rows": pa.concat_tables(tables)})
        except RefusedByEngine:
            return pa.concat_tables(tables)

    def write(self, lake: DataFolder, rows: pa.Table) -> list[DataFile]:
        """Write groups as a file."""
        return [lake.write(self.table, rows)] if rows.num_rows else []


class KernelFold:
    """The plan of a session with the columns of its parts, and the rows of all tables that it reads besides its streams."""

    def __init__(self, inputs: Inputs, plan: SplitPlan) -> None:
        """Raises `RefusedByEngine` for a plan that is left to Spark."""
        if plan.volatile:
            raise RefusedByEngine("its answer depends on the time or on chance")
        self._work: Workspace = inputs.work
        self._plan = plan
        self._tables = inputs.read_small()
        self.fields = {state.name: certain_fields(state.columns) for state in plan.states}
        self._statics: dict[str, pa.Table] = {}
        self.begun: dict[str, pa.Table] = {}
        """What tables add to states before anything arrives."""
        for static in plan.statics:
            if static.feeds is None:
                self._statics[static.name] = compute(static.query, self._tables, certain_fields(static.columns))
            else:
                self.begun[static.feeds] = compute(static.query, self._tables, self.fields[static.feeds])
        self._result = certain_fields(plan.columns)
        self._rehearse({inputs.names[reference]: table.fields for reference, table in inputs.streams.items()})

    def _rehearse(self, streams: Mapping[str, tuple[Field, ...]]) -> None:
        """Run everything over no rows: the kernel refuses what it does not answer as Spark does."""
        nothing = {name: arrow_schema(fields).empty_table() for name, fields in self.fields.items()}
        for part in self._plan.streams:
            compute(part.query, {**self._statics, part.stream: empty_rows(streams[part.stream], part.hidden)}, self.fields[part.state])
        merged = {state.name: self.merge(state, [nothing[state.name]]) for state in self._plan.states}
        self.answer(merged)

    def fold(self, parts: Sequence[StreamPart], arrived: ArrivedRows, *, timeout: timedelta | None) -> list[pa.Table]:
        """What rows that have arrived add to the state of each part; raises `RefusedByEngine`."""
        states = [self._plan.state(part.state) for part in parts]
        inputs: dict[str, TaskInput | pa.Table] = {**self._statics, parts[0].stream: self._input(parts, arrived)}
        engine, task = self._choose(parts, states, inputs, timeout=timeout)
        (result,) = engine.run([accept(engine.bid(task, inputs))], inputs)
        done = accept(result)
        if done.rows:
            return list(done.rows)
        tables = [plan.target.table for plan in task.plans if isinstance(plan.target, ScratchTarget)]
        return [self._read(table, files, arrived.scan.snapshot) for table, files in zip(tables, done.files, strict=True)]

    def _choose(
        self, parts: Sequence[StreamPart], states: Sequence[State], inputs: Mapping[str, TaskInput | pa.Table], *, timeout: timedelta | None
    ) -> tuple[Engine, Task]:
        """The engine that folds rows in the least time; of tasks on executors only files come back."""
        here = Task(plans=tuple(TaskPlan(query=part.query, fields=self.fields[part.state]) for part in parts))
        away = replace(
            here,
            plans=tuple(
                replace(plan, target=ScratchTarget.of(state, self.fields[state.name]))
                for plan, state in zip(here.plans, states, strict=True)
            ),
        )
        engines = self._work.run_engines(timeout=timeout).offer(None)
        choice = choose_engines({"fold": OfferedTask(away, inputs, engines)})
        if not choice.choices:
            raise RefusedByEngine(choice.refused["fold"].why, for_good=False)
        engine = choice.choices[0].engine
        return engine, here if engine.name == "local" else away

    def _input(self, parts: Sequence[StreamPart], arrived: ArrivedRows) -> TaskInput:
        """The rows as an input; of files that hold others as well, those are left out."""
        lake, hidden = self._work.lake, frozenset[str]().union(*(part.hidden for part in parts))
        found = range_input(
            lake, Range(scan=arrived.scan, first_row_id=arrived.first_row_id, next_row_id=arrived.next_row_id), "range", hidden=hidden
        )
        if found.is_whole or found.reader is None or not is_read_by_tasks(arrived.scan):
            return found
        reader, files = found.reader(), [FilePart(file) for file in arrived.scan.files]
        return replace(found, is_whole=True, read=lambda columns: reader.read(lake, files, columns))

    def _read(self, table: Table, files: Sequence[DataFile], snapshot: Snapshot) -> pa.Table:
        """The groups in files of tasks, which are removed."""
        lake = self._work.lake
        parts = [FilePart(FileScan(0, file.path, file.record_count, file.size_bytes, file.footer_bytes, 0, snapshot.id)) for file in files]
        try:
            rows = TableReader(table=table, snapshot=snapshot).read(lake, parts, [field.name for field in table.fields])
        finally:
            lake.discard(files)
        return pa.Table.from_arrays(rows.columns, schema=arrow_schema(table.fields).remove_metadata())

    def merge(self, state: State, rows: Sequence[pa.Table]) -> pa.Table:
        """One row for each group of a state; raises `RefusedByEngine`."""
        fields = self.fields[state.name]
        return compute(state.merge, {"rows": pa.concat_tables([arrow_schema(fields).empty_table(), *rows])}, fields)

    def answer(self, merged: Mapping[str, pa.Table]) -> pa.Table:
        """The rows of the query over merged states; raises `RefusedByEngine`, also for types that Spark sends in another form."""
        rows = compute(self._plan.upper, {**self._tables, **self._statics, **merged}, self._result)
        if not has_plain_types(rows.schema):
            raise RefusedByEngine("a type that Spark has in another form")
        return rows
