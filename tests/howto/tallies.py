"""The maintained relation of docs/howto/maintained.md: a *tally* stores in one row how many rows a stream has ever had."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from platform_plugin.algebra.types.data_types import Field, Primitive
from platform_plugin.lake.catalogue.relations import Declaration, declare_relation, read_declarations
from platform_plugin.lake.cursors.cursor import read_cursors_at
from platform_plugin.lake.cursors.move import AddCursor, MoveCursor, end_cursors
from platform_plugin.relations.follow.maintained import DueRelation, Maintenance, StepFigures, WaitingInput, ranges_of
from platform_plugin.relations.follow.ranges import read_range
from platform_plugin.relations.kind import Kind
from platform_plugin.relations.lookups import SmallRelation

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.errors import PlatformError
    from platform_plugin.lake.catalogue.tables import Snapshot, Table
    from platform_plugin.lake.commit.commit import Commit
    from platform_plugin.lake.commit.writer import Writer
    from platform_plugin.lake.files.files import DataFile
    from platform_plugin.lake.lake import Lake
    from platform_plugin.relations.follow.maintained import JointScan, RunControl, Selection, Step
    from platform_plugin.relations.follow.ranges import Range

KIND = "tally"


def create_tally(lake: Lake, name: str, stream: Table) -> None:
    """Create a tally of a stream that has no rows yet: its table, and its cursor, in one commit."""
    with lake.commit(f"create tally {name}") as commit:
        table = commit.create_table(name, (Field(name="n", type=Primitive("int64")),))
        declare_relation(commit, table, Declaration(kind=KIND, options={"stream": str(stream.name)}))
        commit.also(AddCursor(owner=table.uuid, input=stream.uuid, position=0))


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingTally:
    """A tally at a snapshot, and the rows of its stream that it has not consumed."""

    table: Table
    total: int
    tail: Range

    kind = KIND
    twins: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return str(self.table.name)

    @property
    def uuid(self) -> UUID:
        return self.table.uuid

    @property
    def inputs(self) -> tuple[WaitingInput, ...]:
        return (WaitingInput(relation=str(self.tail.stream.name), first=self.tail.first_row_id, end=self.tail.next_row_id),)

    def count(self) -> int:
        """The step itself, which reads and runs share: the stored number, and the rows beyond."""
        return self.total + self.tail.row_count


@dataclass(frozen=True, slots=True, kw_only=True)
class TallyStep:
    """A tally's next row, written and not committed."""

    pending: PendingTally
    replaced: Sequence[int]
    files: Sequence[DataFile]

    @property
    def figures(self) -> StepFigures:
        return StepFigures(names=(self.pending.name,), ranges=frozenset(ranges_of([self.pending])), groups=1)

    def put(self, commit: Commit) -> None:
        """Row and cursor become visible together; a conflict if another run has moved the cursor."""
        tail = self.pending.tail
        commit.replace(self.pending.table, self.replaced, self.files)
        move = MoveCursor(
            owner=self.pending.uuid,
            input=tail.stream.uuid,
            expected=tail.first_row_id,
            position=tail.next_row_id,
            consumer=f'tally "{self.pending.name}"',
        )
        commit.also(move)


def read_tally(lake: Lake, table: Table, snapshot: Snapshot) -> PendingTally:
    """A tally at a snapshot, whatever has consumed since."""
    with lake.reading() as connection:
        ((stream_uuid, position),) = read_cursors_at(connection, snapshot.id, [table.uuid])[str(table.uuid)].items()
    stream = next(found for found in lake.tables(snapshot) if str(found.uuid) == stream_uuid)
    stored = lake.read(table.name, snapshot=snapshot).column("n").to_pylist()
    return PendingTally(table=table, total=sum(stored), tail=read_range(lake, stream, snapshot, position, view=str(table.name)))


class TallyMaintenance(Maintenance[PendingTally]):
    """All tallies of a lake."""

    kind = KIND

    def find(self, work: Workspace, snapshot: Snapshot, selection: Selection) -> tuple[list[PendingTally], dict[str, PlatformError]]:
        with work.lake.reading() as connection:
            declared = {uuid for uuid, found in read_declarations(connection).items() if found.kind == KIND}
        tables = [table for table in work.lake.tables(snapshot) if str(table.uuid) in declared and selection.has(table.name, KIND)]
        pending = [read_tally(work.lake, table, snapshot) for table in tables]
        return [each for each in pending if not each.tail.is_empty], {}

    def due(self, work: Workspace, snapshot: Snapshot, pending: PendingTally, control: RunControl) -> DueRelation:
        return DueRelation(
            name=pending.name, kind=KIND, inputs=pending.inputs, writes=(pending.name,), engine="none: rows are only counted"
        )

    def step(
        self, work: Workspace, snapshot: Snapshot, pending: Sequence[PendingTally], control: RunControl, joint: Sequence[JointScan]
    ) -> tuple[list[Step], dict[str, PlatformError]]:
        steps: list[Step] = []
        for each in pending:
            old = [file.id for file in work.lake.scan(each.table, snapshot).files]
            file = work.lake.write(each.table, pa.table({"n": pa.array([each.count()], pa.int64())}))
            steps.append(TallyStep(pending=each, replaced=old, files=[file]))
        return steps, {}


TALLIES = TallyMaintenance()


class EndTally:
    """Ends the cursor of a dropped tally, so that its stream holds no rows for it."""

    def __init__(self, table: Table) -> None:
        self.table = table

    def apply(self, w: Writer) -> None:
        end_cursors(w, self.table.uuid)


class TallyKind(Kind["Table"]):
    """Numbers of rows."""

    name = KIND
    plural = "TALLIES"

    def find_small(self, work: Workspace, relation: Table, snapshot: Snapshot) -> SmallRelation:
        """The row as of the snapshot: rows that no run has consumed are counted as well."""
        return SmallRelation(relation, pa.table({"n": pa.array([read_tally(work.lake, relation, snapshot).count()], pa.int64())}))

    def maintenance(self) -> Sequence[Maintenance[Any]]:
        return (TALLIES,)

    def text(self, lake: Lake, relation: Table, declaration: Declaration, snapshot: Snapshot) -> str:
        return f"CREATE TALLY {relation.name} ON {declaration.options['stream']}"

    def drop(self, work: Workspace, commit: Commit, relation: Table, snapshot: Snapshot, *, alone: bool) -> None:
        commit.drop_table(relation)
        commit.also(EndTally(relation))


TALLY = TallyKind()
