"""`Engine`: whoever computes plans. An engine bids for a task or refuses it, and runs the tasks that it has bid for.

A task holds plans and says where their rows go; it names no table in memory, so that an engine may run it in another process. Its inputs
say how much there is to read and how: a process reads them itself, and an engine that sends tasks elsewhere sends the files of the scan.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

    from platform_plugin.algebra.plan.nodes import Query
    from platform_plugin.algebra.types.data_types import Field
    from platform_plugin.engine.file_parts import PartReader
    from platform_plugin.engine.refusal import Refusal
    from platform_plugin.lake.files.data_folder import DataFolder
    from platform_plugin.lake.files.files import DataFile
    from platform_plugin.lake.read.scan import TableScan

Role = Literal["range", "tail", "state", "table", "rows"]
"""What a task reads a relation for: a range that a run consumes, a tail that a read adds, a state, a whole table, or rows in memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskInput:
    """A relation that tasks read: how much of it there is, and how it is read."""

    role: Role = "rows"
    row_count: int = 0
    size_bytes: int = 0
    file_count: int = 0
    is_whole: bool = True
    """Whether its files have exactly its rows."""
    schema: pa.Schema | None = None
    """The columns of its rows, where a bid is to be certain of the types."""
    read: Callable[[Collection[str]], pa.Table] | None = None
    """Reads at least these columns in this process."""
    scan: TableScan | None = None
    """Its files, for an engine that reads them elsewhere."""
    reader: Callable[[], PartReader] | None = None
    """Makes what reads parts of these files elsewhere; None where only this process can read them."""


Inputs = Mapping[str, "TaskInput | pa.Table"]
"""The relations of a task by the names that its plans have for them; a table is in this process."""
Values = Mapping[str, Any] | Sequence[Any]
"""The values of parameters."""


class Target(Protocol):
    """What the rows of a plan are written to: a table, or a store that divides or sorts them. It is sent to other processes by pickle."""

    def write(self, lake: DataFolder, rows: pa.Table) -> list[DataFile]:
        """Write rows as files."""

    def merge(self, tables: Sequence[pa.Table]) -> pa.Table:
        """The rows of several parts of an input as those of all of it; where that can't be done they stay side by side."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPlan:
    """A plan of a task: its rows must have exactly these `fields`; they become files of a `target`, or stay in memory."""

    query: Query
    fields: tuple[Field, ...] | None = None
    target: Target | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Plans over the same relations, which are computed all or not at all.

    `key` stands for the plans with the types of their inputs: what an engine learns of one task holds for all with the same key.
    """

    plans: tuple[TaskPlan, ...]
    key: Hashable = None

    @classmethod
    def of(cls, query: Query, fields: tuple[Field, ...] | None = None, *, key: Hashable = None) -> Task:
        """A task of one plan, whose rows stay in memory."""
        return cls(plans=(TaskPlan(query=query, fields=fields),), key=key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bid:
    """The offer of an engine to run a task, and why it is worth it; `program` is what the engine has prepared."""

    engine: str
    task: Task
    why: str
    program: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskResult:
    """What a task gave, for each of its plans: rows in memory, or the files that they were written to."""

    rows: tuple[pa.Table, ...] = ()
    files: tuple[tuple[DataFile, ...], ...] = ()


class Engine(Protocol):
    """An engine. Whatever it runs has the answer of Spark SQL, value for value; it refuses everything else."""

    @property
    def name(self) -> str:
        """What options and reports call it."""

    def bid(self, task: Task, inputs: Inputs) -> Bid | Refusal:
        """The offer for a task over inputs of this size, or the reason why it is left to others; no row is read."""
        ...

    def estimate(self, bids: Sequence[Bid], inputs: Inputs) -> float:
        """About how many seconds it takes to run tasks over these inputs."""
        ...

    def run(self, bids: Sequence[Bid], inputs: Inputs, values: Values = ()) -> Sequence[TaskResult | Refusal]:
        """The results of tasks over the same inputs, in their order; a refusal is about the rows, and leaves the others alone."""
        ...
