"""Parts: the values that a view's query is split into, and the SQL of each. What a run and a read do with them stands in `split`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from platform_plugin.algebra.plan.nodes import Output, outputs, scans
from platform_plugin.algebra.plan.render import render

if TYPE_CHECKING:
    from collections.abc import Mapping

    from platform_plugin.algebra.plan.nodes import Query

    Names = Mapping[str, str | tuple[str, ...]]

ROW_ID = "_row_id"
"""The column that a stream's rows must also have where a part says `row_id`: it numbers them in the order of their arrival."""
ROWS = "rows"
"""What a state's merge calls the rows that it merges."""


def _named(query: Query, names: Names | None, *, pretty: bool = False) -> str:
    return render(query, {tuple(key.split(".")): name for key, name in (names or {}).items()}, pretty=pretty)


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticPart:
    """A result without streams that the stream parts look up: run once, at the snapshot at which the view is created, and kept.

    Where `feeds` names a state, the result is not looked up but is the first addition to that state.
    """

    name: str
    query: Query
    feeds: str | None = None

    @property
    def tables(self) -> tuple[str, ...]:
        """The relations that it reads."""
        return tuple(dict.fromkeys(".".join(found.relation) for found in scans(self.query)))

    @property
    def columns(self) -> tuple[Output, ...]:
        """The columns of the result, with their types where known."""
        return outputs(self.query)

    def sql(self, names: Names | None = None, *, pretty: bool = False) -> str:
        """Its SQL; `names` says by which names Spark knows the relations."""
        return _named(self.query, names, pretty=pretty)


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """A table of partial aggregates: `keys` say which group a row is of, `partials` what is known of the group so far.

    A group may have many rows, from many ranges; `merge_sql` makes one of them. Merging is associative and commutative, may be done to
    any of the rows at any time, and gives rows of the same columns; a NULL key is a key like others. A state without keys is merged to
    one row even if it has none.
    """

    name: str
    keys: tuple[Output, ...]
    partials: tuple[Output, ...]
    merge: Query = field(repr=False)

    @property
    def columns(self) -> tuple[Output, ...]:
        """Keys, then partials, with their types where known; where not, Spark's analysis of a stream part's SQL tells them."""
        return (*self.keys, *self.partials)

    def merge_sql(self, rows: str | tuple[str, ...] = ROWS, *, pretty: bool = False) -> str:
        """One row for each group of the relation `rows`, which holds rows of this state."""
        return _named(self.merge, {ROWS: rows}, pretty=pretty)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamPart:
    """What a range of a stream adds to a state: `sql` reads the range and gives rows with the state's columns, one for each group."""

    name: str
    state: str
    stream: str
    query: Query = field(repr=False)
    row_id: bool = False

    @property
    def statics(self) -> tuple[str, ...]:
        """The static parts that it looks up."""
        return tuple(dict.fromkeys(found.relation[-1] for found in scans(self.query) if found.kind == "static"))

    def sql(self, names: Names | None = None, *, pretty: bool = False) -> str:
        """Its SQL; `names` maps the stream's name to a range's, and the names of static parts to those of their results."""
        return _named(self.query, names, pretty=pretty)


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitPlan:
    """A view's query as static parts, stream parts with their states, and the query over the merged states that answers a read.

    `volatile` says that the answer depends on the time or on chance, so that an earlier one must not be served again.
    """

    columns: tuple[Output, ...]
    statics: tuple[StaticPart, ...]
    states: tuple[State, ...]
    streams: tuple[StreamPart, ...]
    upper: Query = field(repr=False)
    volatile: bool = False
    notes: tuple[str, ...] = ()

    def state(self, name: str) -> State:
        """The state of that name."""
        return next(found for found in self.states if found.name == name)

    @property
    def stream_names(self) -> tuple[str, ...]:
        """The streams that it reads, each once."""
        return tuple(dict.fromkeys(part.stream for part in self.streams))

    @property
    def upper_tables(self) -> tuple[str, ...]:
        """The relations that the upper query reads itself: tables, samples and other continuous views, at the reader's snapshot."""
        return tuple(dict.fromkeys(".".join(found.relation) for found in scans(self.upper) if found.kind not in ("state", "static")))

    @property
    def static_tables(self) -> tuple[str, ...]:
        """The tables that are read below a grouping: once, when the view is created."""
        return tuple(dict.fromkeys(table for part in self.statics for table in part.tables))

    def upper_sql(self, names: Names | None = None, *, pretty: bool = False) -> str:
        """The SQL of a read; `names` maps the names of states to those of their merged rows, and tables' names to their own."""
        return _named(self.upper, names, pretty=pretty)
