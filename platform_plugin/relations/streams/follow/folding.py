"""`FoldedAnswer`: a session query whose rows are aggregated as they arrive, so that only groups are kept."""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from platform_plugin.algebra.plan.relations import ROW_ID, RelationFacts
from platform_plugin.engine.refusal import RefusedByEngine
from platform_plugin.errors import PlatformError
from platform_plugin.lake.values.types import arrow_schema
from platform_plugin.language.text.tokens import tokenize
from platform_plugin.operators.group.split import plan_split
from platform_plugin.relations.bind.names import new_name
from platform_plugin.relations.streams.follow.kernel_fold import KernelFold

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import timedelta

    from pyspark.sql import DataFrame

    from platform_plugin.engine.spark.session.job import ProgressHandler
    from platform_plugin.engine.spark.session.streams import ArrowStream
    from platform_plugin.language.query.references import Reference
    from platform_plugin.operators.group.parts import SplitPlan, State, StreamPart
    from platform_plugin.relations.streams.follow.collecting import Inputs
    from platform_plugin.relations.streams.follow.rows import ArrivedRows

# The most that Spark's LIMIT takes: it keeps an ORDER BY from being dropped, as a view's would be.
_NO_LIMIT = 2_147_483_647


def plan_fold(inputs: Inputs) -> SplitPlan | str:
    """The split of a session query, or the reason why its rows must be kept until the end of the session."""
    if inputs.query.parameters:
        return "it has parameters"
    if any(inputs.wants_hidden(reference) for reference in inputs.streams):
        return "it reads row ids or arrival times"
    relations = {}
    for reference, name in inputs.names.items():
        fields = inputs.fields_of(reference)
        if not fields:
            return f"it reads the view {reference.name}"
        relations[name] = RelationFacts(name=(name,), kind="stream" if reference in inputs.streams else "table", fields=fields)
    text = inputs.query.render(inputs.names).text
    try:
        return plan_split(_with_limit(text), relations)
    except PlatformError as error:
        # What a view's rules refuse, a session can still answer in one piece.
        return error.message


def _with_limit(text: str) -> str:
    tokens = tokenize(text)
    depth, words = 0, []
    for index in range(len(tokens)):
        word = tokens.upper(index)
        depth += (word in ("(", "[")) - (word in (")", "]"))
        if depth == 0 and word in ("ORDER", "LIMIT"):
            words.append(word)
    return f"{text} LIMIT {_NO_LIMIT}" if words == ["ORDER"] else text


class FoldedAnswer:
    """A session query that aggregates each segment: its memory depends on the number of groups, not of rows.

    Each step is the kernel's, or Spark's where the kernel refuses it.
    """

    def __init__(self, inputs: Inputs, plan: SplitPlan) -> None:
        self._inputs = inputs
        self._plan = plan
        self._references = {name: reference for reference, name in inputs.names.items()}
        self._groups: dict[str, list[pa.Table]] = {state.name: [] for state in plan.states}
        self._merged_rows = dict.fromkeys(self._groups, 0)
        self._is_begun = False
        self._kernel: KernelFold | None = None
        self.why = "by the Arrow kernel, in this process or on the executors"
        """Who folds the rows, and why."""
        try:
            self._kernel = KernelFold(inputs, plan)
        except RefusedByEngine as refused:
            self.why = f"by Spark SQL, as the Arrow kernel refuses {refused.refusal.why}"

    @property
    def is_certain(self) -> bool:
        """Whether the query was tried already, over no rows."""
        return self._kernel is not None

    @cached_property
    def _tables(self) -> dict[str, DataFrame]:
        return {self._inputs.names[reference]: frame for reference, (frame, *_) in self._inputs.others.items()}

    def add(self, reference: Reference, arrived: ArrivedRows, *, timeout: timedelta | None) -> None:
        """Aggregate what has arrived into the groups."""
        self._begin(timeout)
        parts = [part for part in self._plan.streams if self._references[part.stream] == reference]
        for part, rows in zip(parts, self._fold(parts, arrived, timeout), strict=True):
            self._groups[part.state].append(rows)
        for state in self._plan.states:
            rows = sum(table.num_rows for table in self._groups[state.name])
            least = self._inputs.work.limits.session_merge_rows
            if len(self._groups[state.name]) > 1 and rows > max(least, 2 * self._merged_rows[state.name]):
                merged = self._merged(state, timeout)
                self._groups[state.name], self._merged_rows[state.name] = [merged], merged.num_rows

    def _fold(self, parts: Sequence[StreamPart], arrived: ArrivedRows, timeout: timedelta | None) -> list[pa.Table]:
        """What some rows of a stream add to the state of each part."""
        if self._kernel is not None:
            with suppress(RefusedByEngine):
                return self._kernel.fold(parts, arrived, timeout=timeout)
        return [self._fetch(self._part(part, arrived), part.state, timeout) for part in parts]

    def _begin(self, timeout: timedelta | None) -> None:
        """Static results that count as the first addition to a state."""
        if self._is_begun:
            return
        self._is_begun = True
        if self._kernel is not None:
            for state, rows in self._kernel.begun.items():
                self._groups[state].append(rows)
            return
        for static in self._plan.statics:
            if static.feeds is not None:
                self._groups[static.feeds].append(self._fetch(self._run(static.sql(), self._tables), static.feeds, timeout))

    def _fetch(self, frame: DataFrame, state: str, timeout: timedelta | None) -> pa.Table:
        """Groups of a state that Spark has made."""
        rows = self._inputs.work.session.arrow(frame, timeout=timeout).read_all()
        if self._kernel is not None:
            return rows.cast(arrow_schema(self._kernel.fields[state]))
        # Whether a column can be NULL is Spark's guess, which differs between a segment's groups and merged ones.
        return rows.cast(pa.schema([column.with_nullable(nullable=True) for column in rows.schema]))

    def _part(self, part: Any, arrived: ArrivedRows) -> DataFrame:
        """What some rows of a stream add to a state."""
        inputs, rows = self._inputs, new_name()
        reference = self._references[part.stream]
        names, frames = self._lookups(part.statics)
        columns = inputs.columns_of(reference)
        frames[rows] = arrived.read(inputs.work.session, inputs.work.lake, columns, row_id=ROW_ID if part.row_id else None)
        return self._run(part.sql({part.stream: rows, **names}), frames)

    def _lookups(self, wanted: Collection[str]) -> tuple[dict[str, str], dict[str, DataFrame]]:
        """Static results, and all tables, by the names that Spark shall know them by."""
        names = {static.name: new_name() for static in self._plan.statics if static.name in wanted}
        frames = {names[static.name]: self._run(static.sql(), self._tables) for static in self._plan.statics if static.name in names}
        return names, self._tables | frames

    def _run(self, text: str, frames: dict[str, DataFrame]) -> DataFrame:
        from platform_plugin.engine.spark.frames.scan import query_relations

        return query_relations(self._inputs.work.session, text, frames)

    def _merged(self, state: State, timeout: timedelta | None) -> pa.Table:
        """One row for each group of a state."""
        if self._kernel is not None:
            with suppress(RefusedByEngine):
                return self._kernel.merge(state, self._groups[state.name])
        return self._fetch(self._merged_frame(state), state.name, timeout)

    def _merged_frame(self, state: State) -> DataFrame:
        """The same as a DataFrame."""
        from platform_plugin.engine.spark.frames.scan import arrow_frame

        rows, groups = new_name(), self._groups[state.name]
        if groups:
            frame = arrow_frame(self._inputs.work.session, pa.concat_tables(groups))
        else:
            part = next(part for part in self._plan.streams if part.state == state.name)
            frame = self._part(part, self._inputs.nothing_of(self._references[part.stream]))
        return self._run(state.merge_sql(rows), {rows: frame})

    def answer(self, *tags: str, timeout: timedelta | None, progress: ProgressHandler | None) -> ArrowStream | pa.Table:
        """The rows of the query over the groups of all that has arrived."""
        self._begin(timeout)
        if self._kernel is not None:
            with suppress(RefusedByEngine):
                kernel = self._kernel
                return kernel.answer({state.name: kernel.merge(state, self._groups[state.name]) for state in self._plan.states})
        names, frames = self._lookups([static.name for static in self._plan.statics if static.feeds is None])
        for state in self._plan.states:
            names[state.name] = new_name()
            frames[names[state.name]] = self._merged_frame(state)
        frame = self._run(self._plan.upper_sql(names), frames)
        return self._inputs.work.session.arrow(frame, *tags, timeout=timeout, progress=progress)
