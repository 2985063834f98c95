"""`Maintained` and `Maintenance`: what the loop of maintenance asks of relations that follow their inputs.

A relation is maintained if it stores something that follows from other relations: a view its partial aggregates and its result, a sample
its reservoir. Each kind of such relations has one `Maintenance`. The loop (`maintenance.run`) does the rest for all: what is due, retries,
poison rows, gates, and the one commit in which rows and cursors become visible.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from datetime import timedelta
    from uuid import UUID

    from pyspark.sql import DataFrame

    from platform_plugin.engine.figures import EngineRun
    from platform_plugin.engine.option import EngineName
    from platform_plugin.engine.spark.session.job import ProgressHandler
    from platform_plugin.engine.spark.tasks.job import JobPart, MergedPart
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.errors import PlatformError
    from platform_plugin.lake.catalogue.tables import Name, Snapshot
    from platform_plugin.lake.commit.commit import Commit
    from platform_plugin.lake.files.files import DataFile
    from platform_plugin.relations.answers import Answer

RangeKey = tuple[str, int, int]
"""A range of a stream: the stream's full name, its first row id, and the id after its last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What a run is to maintain: all relations that are due, or those named, of all kinds or of some.

    With `flush` a partial batch is enough; with `again` what has failed on the same rows a moment ago is tried, too. `maintained` are the
    relations that the same run has maintained before, and `excluded` those for which it has failed.
    """

    names: frozenset[Name] | None = None
    kinds: frozenset[str] | None = None
    flush: bool = False
    again: bool = False
    maintained: frozenset[str] = frozenset()
    excluded: frozenset[str] = frozenset()

    def has(self, name: Name, kind: str) -> bool:
        """Whether a relation is selected."""
        named = self.names is None or name in self.names
        return named and (self.kinds is None or kind in self.kinds) and str(name) not in self.excluded


@dataclass(frozen=True, slots=True, kw_only=True)
class RunControl:
    """The limits of a run and the receiver of its progress."""

    timeout: timedelta | None = None
    progress: ProgressHandler | None = None
    engine: EngineName | None = None
    """The engine that the run asks for, whatever relations and lake ask for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingInput:
    """The part of an input that a relation has not consumed: positions from `first` up to but not including `end`.

    Positions are row ids, or of changes snapshots; then `changes` is at most how many there are.
    """

    relation: str
    first: int
    end: int
    changes: int | None = None

    @property
    def row_count(self) -> int:
        """The number of rows, as far as it is known."""
        return max(0, self.end - self.first) if self.changes is None else self.changes


@dataclass(frozen=True, slots=True, kw_only=True)
class DueRelation:
    """What a run would do for a relation: the inputs that it would consume, what it would write, and where it would run.

    `writes` names what would change: stored operators, or the relation itself. `beside` are the relations that move with it. `why` says how
    the engine is chosen if the relation is maintained alone, and `estimated_seconds` what that takes.
    """

    name: str
    kind: str
    inputs: tuple[WaitingInput, ...]
    writes: tuple[str, ...]
    engine: str
    beside: tuple[str, ...] = ()
    why: str | None = None
    estimated_seconds: float | None = None

    @property
    def row_count(self) -> int:
        """The number of rows that it would consume."""
        return sum(waiting.row_count for waiting in self.inputs)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFigures:
    """What a step did, before it is committed: `fed` are rows that it appended to a stream.

    `jobs` and `tasks` are Spark's, `on_spark` says why Spark was needed, and `engine_runs` what each engine did.
    """

    names: tuple[str, ...] = ()
    ranges: frozenset[RangeKey] = frozenset()
    groups: int = 0
    compacted: int = 0
    fetched: int = 0
    fed: int = 0
    jobs: int = 0
    tasks: int = 0
    on_spark: Mapping[str, str] = field(default_factory=dict)
    engine_runs: tuple[EngineRun, ...] = ()

    @classmethod
    def of_intake(cls, pending: Maintained, runs: tuple[EngineRun, ...], *, fetched: int) -> StepFigures:
        """The figures of one relation that has consumed what waited for it and has read so many rows of that."""
        return cls(
            names=(pending.name,),
            ranges=frozenset(ranges_of([pending])),
            fetched=fetched,
            jobs=sum(run.jobs for run in runs),
            # Tasks of another's job are counted with that.
            tasks=sum(run.tasks for run in runs if run.jobs),
            engine_runs=runs,
        )


class Step(Protocol):
    """What a run has made of changes: files that are written, and the operations that make them visible."""

    @property
    def figures(self) -> StepFigures:
        """What was done."""

    @property
    def files(self) -> Sequence[DataFile]:
        """The files to remove if the run fails."""

    def put(self, commit: Commit) -> None:
        """Add it to the run's commit, cursors included."""


class JointScan(Protocol):
    """A relation that consumes a range of a stream in the scan, or in the job, of another kind's step."""

    @property
    def key(self) -> RangeKey:
        """The range."""

    @property
    def looks_at_rows(self) -> bool:
        """Whether Spark's operators have to scan the range for it."""

    @property
    def job_part(self) -> JobPart | MergedPart | None:
        """What tasks do for it in the job of the other kind's step; None where it needs no tasks."""

    def accept(self, answers: Sequence[Any]) -> None:
        """What the tasks gave, before its step is finished."""

    def release(self, work: Workspace) -> None:
        """Remove what the tasks have left, whether the job has succeeded or not."""

    def answer(self, work: Workspace, rows: DataFrame) -> Answer:
        """Its query over the rows of the range, which have their row ids."""

    def finish(self, work: Workspace) -> Step:
        """Its step, when the scan and the job are over."""


class Maintained(Protocol):
    """A relation with changes in its inputs that it has not consumed."""

    @property
    def name(self) -> str:
        """Its full name."""

    @property
    def kind(self) -> str:
        """The kind of relation: that of its `Maintenance`."""

    @property
    def uuid(self) -> UUID:
        """Its identity."""

    @property
    def twins(self) -> tuple[str, ...]:
        """The relations that share what it stores, and so move with it."""

    @property
    def inputs(self) -> tuple[WaitingInput, ...]:
        """What it has to consume."""


M = TypeVar("M", bound=Maintained)


class Maintenance(Protocol[M]):
    """How the relations of one kind are maintained together."""

    kind: str
    """The word by which a selection names them."""
    precedes: bool = False
    """Whether relations of other kinds follow them, so that their round comes first."""

    def may_be_due(self, work: Workspace, selection: Selection) -> bool:
        """Whether a look at all of them may be worth its cost; asked of those that precede others, before their round."""
        del work, selection
        return True

    def find(self, work: Workspace, snapshot: Snapshot, selection: Selection) -> tuple[list[M], dict[str, PlatformError]]:
        """The selected relations with changes at a snapshot, and the errors of those that can't be maintained."""
        ...

    def step(
        self, work: Workspace, snapshot: Snapshot, pending: Sequence[M], control: RunControl, joint: Sequence[JointScan]
    ) -> tuple[list[Step], dict[str, PlatformError]]:
        """Let relations consume what waits for them; `joint` scans are done along where their ranges are consumed.

        An error that is one relation's may be returned beside the steps of the others. One that is raised makes the loop try by halves.
        """
        ...

    def due(self, work: Workspace, snapshot: Snapshot, pending: M, control: RunControl) -> DueRelation:
        """What a step would do for a relation, as far as that is known beforehand."""
        ...

    def join(self, work: Workspace, pending: Sequence[M], ranges: Collection[RangeKey]) -> list[tuple[M, JointScan]]:
        """Those relations that can consume what they wait for in a scan of these ranges by another kind's step."""
        del work, pending, ranges
        return []

    def conditions(self, work: Workspace, snapshot: Snapshot, pending: M) -> list[Maintained]:
        """What must be maintained at the snapshot, by another kind's step, before the relation may consume: a gated result."""
        del work, snapshot, pending
        return []

    def locate(self, work: Workspace, snapshot: Snapshot, pending: M, error: PlatformError) -> PlatformError:
        """A step's error for one relation, with the rows that it fails for where they can be found."""
        del work, snapshot, pending
        return error


def ranges_of(pending: Iterable[Maintained]) -> set[RangeKey]:
    """The ranges of streams that relations consume."""
    return {(waiting.relation, waiting.first, waiting.end) for each in pending for waiting in each.inputs}
