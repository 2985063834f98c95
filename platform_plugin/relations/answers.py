"""`run_answers`: the queries of a maintenance run as one Spark job, which writes each one's rows to its tables."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from platform_plugin.algebra.types.data_types import can_widen
from platform_plugin.cache import Cache
from platform_plugin.engine.refusal import RefusedByEngine
from platform_plugin.engine.spark.tasks.job import RowsPart
from platform_plugin.lake.files.data_folder import DataFolder
from platform_plugin.lake.files.files import DataFile, discard
from platform_plugin.operators.group.packing import pack
from platform_plugin.operators.group.sharing import SET

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import timedelta

    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, StructType

    from platform_plugin.engine.spark.session.job import ProgressHandler
    from platform_plugin.engine.spark.session.metrics import JobMetrics
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Table
    from platform_plugin.lake.commit.commit import Commit
    from platform_plugin.operators.group.packing import PackedColumns
    from platform_plugin.operators.group.sharing import SharedPart
    from platform_plugin.state.compaction import Compaction
    from platform_plugin.state.store import Store

# With adaptive execution each shuffle of each view would be a job of its own.
_SINGLE_JOB = {"spark.sql.adaptive.enabled": "false"}
# Few rows are one task's work, and compiling code for them takes longer than they do.
_FEW_ROWS = {"spark.sql.shuffle.partitions": "1", "spark.sql.codegen.wholeStage": "false"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One query of a run, and the targets of its rows; the `part` of each target selects its rows."""

    frame: DataFrame
    targets: tuple[StateTarget, ...]
    cached_as: tuple[object, ...] | None = None
    is_small: bool = False
    """Whether all that it reads is little."""
    is_large: bool = False
    """Whether it reads so much that the tasks which compute it should write its rows, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateTarget:
    """A state's table, its part of an answer, and the files that those rows replace; `was` is the table before columns were widened."""

    table: Table
    part: SharedPart | None = None
    store: Store | None = None
    """The store that the rows are added to, or in which they replace files by a `compaction`."""
    replaces: tuple[int, ...] = ()
    compaction: Compaction | None = None
    was: Table | None = None
    keeps: list[pa.Table] | None = None
    """The list that receives the rows if they are to be checked before anything is written."""

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The answer's columns for the table's columns, in the table's order; None for all of them."""
        return None if self.part is None else tuple(column for _, column in self.part.columns)

    def merge(self, tables: Sequence[pa.Table]) -> pa.Table:
        """One row for each group of several parts, if the kernel merges them."""
        with suppress(RefusedByEngine):
            if self.store is not None and len(tables) > 1:
                return self.store.merge_rows(tables)
        return pa.concat_tables(tables)

    def write(self, lake: DataFolder, rows: pa.Table) -> list[DataFile]:
        """Write rows of this target as files of its table."""
        if self.store is None:
            return [lake.write(self.table, rows)]
        store = replace(self.store, table=self.table)
        if self.compaction is None:
            return [store.add(lake, rows)]
        # They may be a part of the merged rows, which are at most as many as there were.
        return store.write_compacted(lake, rows, self.compaction, most_rows=sum(file.rows for file in self.compaction.files))

    def rows_of(self, answer: pa.Table) -> pa.Table:
        """The answer's rows for this table, with its columns."""
        part = self.part
        if part is None:
            return answer
        if part.number is not None:
            answer = answer.filter(pc.equal(answer.column(SET), part.number))
        if part.hits is not None:
            answer = answer.filter(pc.greater(answer.column(part.hits), 0))
        return pa.table([answer.column(column) for _, column in part.columns], names=[name for name, _ in part.columns])


Written = list[tuple[StateTarget, list[DataFile]]]


class AnswerRun(NamedTuple):
    """The queries of a run as a part of a job, and the targets of their rows."""

    rows: RowsPart
    targets: list[StateTarget]

    def accept(self, results: Sequence[Sequence[Sequence[DataFile]]]) -> Written:
        """The files of each target, from what the tasks wrote."""
        return [(target, [file for made in results for file in made[place]]) for place, target in enumerate(self.targets)]


def prepare_answers(work: Workspace, answers: Sequence[Answer]) -> AnswerRun | None:
    """The queries as a part of a job whose tasks write the files; None where they read little, or the client wants rows.

    Workers take a second to start, and few rows would become as many files as there are tasks. Types that Spark does not pass on to Python
    stay with the client.
    """
    if not any(answer.is_large for answer in answers) or any(target.keeps is not None for answer in answers for target in answer.targets):
        return None
    schemas = _find_schemas(work, answers)
    if not all(_is_passed_on(field.dataType) for schema in schemas for field in schema.fields):
        return None
    packed = pack([answer.frame for answer in answers], schemas)
    targets = tuple(tuple(_widened(target, schema) for target in answer.targets) for answer, schema in zip(answers, schemas, strict=True))
    program = AnswerProgram(
        folder=DataFolder(work.lake.storage.root, outside=work.lake.location.outside),
        columns=packed.columns,
        targets=targets,
        memory_bytes=work.limits.state_memory_bytes,
    )
    return AnswerRun(RowsPart(packed.frame, program), [target for each in targets for target in each])


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerProgram:
    """Writes the rows of packed answers as files of their targets, in this process or in the tasks that compute them."""

    folder: DataFolder
    columns: PackedColumns
    targets: tuple[tuple[StateTarget, ...], ...]
    memory_bytes: int

    def run_rows(self, batches: Iterable[pa.RecordBatch]) -> list[list[DataFile]]:
        """The files of each target, in the order of answers and their targets."""
        targets = [target for each in self.targets for target in each]
        starts = [sum(map(len, self.targets[:place])) for place in range(len(self.targets))]
        waiting: list[list[pa.Table]] = [[] for _ in targets]
        files: list[list[DataFile]] = [[] for _ in targets]

        def write(number: int) -> None:
            rows = [part for part in waiting[number] if part.num_rows]
            waiting[number] = []
            keeps = targets[number].keeps
            if keeps is not None:
                keeps += rows
            elif rows:
                files[number] += targets[number].write(self.folder, pa.concat_tables(rows))

        try:
            for batch in batches:
                for place, rows in self.columns.unpack(batch):
                    for number, target in enumerate(self.targets[place], start=starts[place]):
                        waiting[number].append(target.rows_of(rows))
                        if sum(part.nbytes for part in waiting[number]) >= self.memory_bytes:
                            write(number)
            for number in range(len(targets)):
                write(number)
        except BaseException:
            discard(self.folder.storage, [file for made in files for file in made])
            raise
        return files


def run_answers(
    work: Workspace, answers: Sequence[Answer], *, timeout: timedelta | None, progress: ProgressHandler | None
) -> tuple[Written, JobMetrics]:
    """Run all queries as one and write each target's rows as files of its table; on an error all files are removed."""
    planned = prepare_answers(work, answers)
    if planned is not None:
        engine = work.run_engines(timeout=timeout, progress=progress).executors
        results = engine.run_together([], rows=[planned.rows]).rows[0]
        return planned.accept(results), engine.jobs[0].metrics
    schemas = _find_schemas(work, answers)
    settings = _SINGLE_JOB | (_FEW_ROWS if all(answer.is_small for answer in answers) else {})
    packed = pack([answer.frame for answer in answers], schemas)
    targets = tuple(tuple(_widened(target, schema) for target in answer.targets) for answer, schema in zip(answers, schemas, strict=True))
    program = AnswerProgram(folder=work.lake, columns=packed.columns, targets=targets, memory_bytes=work.limits.state_memory_bytes)
    with work.session.use_settings(settings), work.session.arrow(packed.frame, timeout=timeout, progress=progress) as stream:
        files = program.run_rows(stream)
        try:
            metrics = stream.metrics()
        except BaseException:
            work.lake.discard(file for made in files for file in made)
            raise
    return list(zip((target for each in targets for target in each), files, strict=True)), metrics


def _is_passed_on(kind: DataType) -> bool:
    """Whether Spark passes a type on to Python as it sends it to clients."""
    from pyspark.sql import types as t

    match kind:
        case t.StructType():
            return all(_is_passed_on(field.dataType) for field in kind.fields)
        case t.ArrayType():
            return _is_passed_on(kind.elementType)
        case t.MapType():
            return _is_passed_on(kind.keyType) and _is_passed_on(kind.valueType)
    plain = (t.NumericType, t.StringType, t.BinaryType, t.BooleanType, t.DateType, t.TimestampType, t.TimestampNTZType)
    return isinstance(kind, plain)


def put_answers(commit: Commit, written: Sequence[tuple[StateTarget, Sequence[DataFile]]]) -> None:
    """Append a run's files to their tables, whose columns are widened where the answers' are wider."""
    grown: set[tuple[object, str]] = set()
    for target, files in written:
        before = {field.id: field.type for field in target.was.fields} if target.was is not None else {}
        for field in target.table.fields:
            if target.was is not None and before[field.id] != field.type and (target.table.uuid, field.name) not in grown:
                grown.add((target.table.uuid, field.name))
                commit.widen_column(target.was, field.name, to=field.type)
        if target.replaces:
            commit.replace(target.table, target.replaces, files)
        else:
            commit.append(target.table, files)


def _widened(target: StateTarget, schema: StructType) -> StateTarget:
    """The target with columns for what the answer gives now: a column of the stream may have become wider since the table was made."""
    from platform_plugin.engine.spark.frames.schema import from_spark_type

    if target.keeps is not None:
        return target
    table = target.table
    columns = target.columns if target.columns is not None else tuple(schema.names)
    types = {field.name: field.dataType for field in schema.fields}
    fields = []
    for field, column in zip(table.fields, columns, strict=True):
        found = from_spark_type(types[column], column=column)
        fields.append(replace(field, type=found) if found != field.type and can_widen(field.type, found) else field)
    if tuple(fields) == table.fields:
        return target
    return replace(target, table=replace(table, fields=tuple(fields)), was=table)


_SCHEMAS: Cache[tuple[object, ...], StructType] = Cache("schemas of queries", weigh=lambda schema: 1_000 * len(schema.fields))


def _find_schemas(work: Workspace, answers: Sequence[Answer]) -> list[StructType]:
    """The columns of answers; the same queries over the same relations have the same, so that the server is asked once, and for all."""
    from platform_plugin.engine.spark.frames.analysis import ask_schemas

    known = [None if answer.cached_as is None else _SCHEMAS.get(answer.cached_as) for answer in answers]
    missing = [answer for answer, schema in zip(answers, known, strict=True) if schema is None]
    asked = iter(ask_schemas(work.session, [answer.frame for answer in missing]))
    schemas = [next(asked) if schema is None else schema for schema in known]
    for answer, schema in zip(answers, schemas, strict=True):
        if answer.cached_as is not None:
            _SCHEMAS.put(answer.cached_as, schema)
    return schemas
