"""The values of a split view: `StaticPart`, `StreamPart`, `State` and `SplitPlan`, with the SQL of each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from platform_plugin.algebra.plan.nodes import Aggregate, Output, outputs, scans, walk
from platform_plugin.algebra.plan.relations import ROW_ID
from platform_plugin.algebra.plan.render import render

if TYPE_CHECKING:
    from collections.abc import Mapping

    from platform_plugin.algebra.plan.nodes import Item, Query

    Names = Mapping[str, str | tuple[str, ...]]

ROWS = "rows"
"""The name of the rows that a state's merge reads."""


def find_hidden(query: Query, stream: tuple[str, ...] | None = None) -> frozenset[str]:
    """The hidden columns that a plan reads of streams, or of one stream."""
    return frozenset(
        column.name
        for scan in scans(query)
        if scan.kind == "stream" and stream in (None, scan.relation)
        for column in scan.fields
        if column.hidden
    )


def _named(query: Query, names: Names | None, *, pretty: bool = False) -> str:
    return render(query, {tuple(key.split(".")): name for key, name in (names or {}).items()}, pretty=pretty)


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticPart:
    """A query without streams, whose result the stream parts look up: it runs once, at the snapshot of the view's creation, and is stored.

    Where `feeds` names a state, the result is not looked up but is the first addition to that state.
    """

    name: str
    query: Query
    feeds: str | None = None

    @property
    def tables(self) -> tuple[str, ...]:
        """The relations that the part reads."""
        return tuple(dict.fromkeys(".".join(found.relation) for found in scans(self.query)))

    @property
    def columns(self) -> tuple[Output, ...]:
        """The columns of the result, with their types where known."""
        return outputs(self.query)

    def sql(self, names: Names | None = None, *, pretty: bool = False) -> str:
        """The part's SQL; `names` has the names by which Spark knows the relations."""
        return _named(self.query, names, pretty=pretty)


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """A table of partial aggregates: `keys` identify the group of a row, `partials` hold its aggregates.

    A group may have many rows, from many ranges; `merge_sql` makes one of them. Merging is associative and commutative, may be done to any
    of the rows at any time, and gives rows of the same columns; a NULL key is a key like others. A state without keys is merged to one row
    even if it has none.
    """

    name: str
    keys: tuple[Output, ...]
    partials: tuple[Output, ...]
    merge: Query = field(repr=False)

    @property
    def columns(self) -> tuple[Output, ...]:
        """Keys, then partials, with their types where known; Spark's analysis of a stream part's SQL tells the others."""
        return (*self.keys, *self.partials)

    @property
    def merges(self) -> tuple[Item, ...]:
        """The aggregate that merges each partial aggregate, in their order."""
        grouping = next(found for found in walk(self.merge) if isinstance(found, Aggregate))
        return grouping.calls[: len(self.partials)]

    def merge_sql(self, rows: str | tuple[str, ...] = ROWS, *, pretty: bool = False) -> str:
        """The SQL that merges the rows of the relation `rows`, which are rows of this state, to one for each group."""
        return _named(self.merge, {ROWS: rows}, pretty=pretty)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamPart:
    """The query that aggregates a range of a stream for a state: its rows have the state's columns, one row for each group."""

    name: str
    state: str
    stream: str
    query: Query = field(repr=False)

    @property
    def hidden(self) -> frozenset[str]:
        """The hidden columns that the rows of the stream must have."""
        return find_hidden(self.query)

    @property
    def row_id(self) -> bool:
        """Whether it reads row ids."""
        return ROW_ID in self.hidden

    @property
    def statics(self) -> tuple[str, ...]:
        """The static parts that it looks up."""
        return tuple(dict.fromkeys(found.relation[-1] for found in scans(self.query) if found.kind == "static"))

    def sql(self, names: Names | None = None, *, pretty: bool = False) -> str:
        """Its SQL; `names` maps the stream's name to a range's, and the names of static parts to those of their results."""
        return _named(self.query, names, pretty=pretty)


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitPlan:
    """A view's query as static parts, stream parts with their states, and the upper query over merged states that answers a read.

    `volatile` says that the answer depends on the time or on chance, so that a stored one must not be served again.
    """

    columns: tuple[Output, ...]
    statics: tuple[StaticPart, ...]
    states: tuple[State, ...]
    streams: tuple[StreamPart, ...]
    upper: Query = field(repr=False)
    volatile: bool = False
    notes: tuple[str, ...] = ()

    def state(self, name: str) -> State:
        """The state with a name."""
        return next(found for found in self.states if found.name == name)

    @property
    def stream_names(self) -> tuple[str, ...]:
        """The streams that it reads, each once."""
        return tuple(dict.fromkeys(part.stream for part in self.streams))

    @property
    def upper_tables(self) -> tuple[str, ...]:
        """The relations that the upper query reads directly: tables, samples and other continuous views, at the reader's snapshot."""
        return tuple(dict.fromkeys(".".join(found.relation) for found in scans(self.upper) if found.kind not in ("state", "static")))

    @property
    def static_tables(self) -> tuple[str, ...]:
        """The tables below a grouping, which are read once, when the view is created."""
        return tuple(dict.fromkeys(table for part in self.statics for table in part.tables))

    def upper_sql(self, names: Names | None = None, *, pretty: bool = False) -> str:
        """The SQL of a read; `names` maps the names of states to those of their merged rows, and tables' names to their own."""
        return _named(self.upper, names, pretty=pretty)
