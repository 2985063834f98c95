"""`SampleQuery`: the query over sampled rows, run with Arrow where it certainly agrees with Spark, else with Spark."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from platform_plugin.algebra.types.data_types import Field, Primitive
from platform_plugin.engine.choose import choose_engine
from platform_plugin.engine.engine import Task
from platform_plugin.engine.refusal import Refusal
from platform_plugin.lake.values.types import arrow_schema
from platform_plugin.language.query.approximate import STRATUM, UNIT
from platform_plugin.language.query.plan import relation_name
from platform_plugin.language.text.places import Span
from platform_plugin.relations.arguments import used_arguments
from platform_plugin.relations.bind.names import lake_name, new_name, place_errors
from platform_plugin.relations.bind.read import read_named
from platform_plugin.relations.samples.population import read_drawn

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from pyspark.sql import DataFrame

    from platform_plugin.engine.spark.session.job import ProgressHandler
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot
    from platform_plugin.language.query.plan import QueryPlan
    from platform_plugin.language.query.query import Query
    from platform_plugin.language.query.references import Reference
    from platform_plugin.relations.arguments import Arguments
    from platform_plugin.relations.samples.population import DrawnRows

_GROUPED = (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.string(), pa.bool_(), pa.date32())


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleQuery:
    """One query over sampled rows: `asked` is the form for these rows, `written` the user's text."""

    work: Workspace
    written: Span
    asked: Query
    plan: QueryPlan
    arguments: Arguments
    snapshot: Snapshot
    timeout: timedelta | None = None
    progress: ProgressHandler | None = None

    def is_local(self, fields: Sequence[Field]) -> bool:
        """Whether this process can run the query on such columns; values in the rows may still be left to Spark."""
        marks = [pa.field(UNIT, pa.int64()), pa.field(STRATUM, pa.int64())]
        return self._ask_here(pa.Table.from_batches([], schema=pa.schema([*arrow_schema(fields), *marks]))) is not None

    def ask(self, drawn: DrawnRows) -> pa.Table:
        """A row for each sampled row that passes, or for each that a join makes from it."""
        found = self._ask_here(_marked(read_drawn(self.work, drawn)))
        return self._ask_spark(drawn) if found is None else found

    def _ask_here(self, rows: pa.Table) -> pa.Table | None:
        """The answer of an engine in this process, or None."""
        planned = self.plan.planned
        if planned is None or len(self.asked.relations) > 1:
            return None
        inputs = {relation_name(self.asked.relations[0]): rows}
        choice = choose_engine(Task.of(planned.plan), inputs, self.work.engines)
        if isinstance(choice, Refusal):
            return None
        (result,) = choice.engine.run([choice.bid], inputs, self.arguments)
        if isinstance(result, Refusal):
            return None
        (found,) = result.rows
        is_grouped = all(_is_group(found.schema.field(name).type) for name in found.column_names if name.startswith("_g"))
        return found if is_grouped else None

    def as_written(self, reference: Reference) -> Reference:
        """A relation of `asked`, at its place in the user's text."""
        return written_relation(self.written, reference)

    def _ask_spark(self, drawn: DrawnRows) -> pa.Table:
        from platform_plugin.engine.spark.frames.scan import query_relations
        from platform_plugin.relations.faults import place_spark_errors

        work = self.work
        names = {reference: new_name() for reference in self.asked.relations}
        frames = {}
        for reference, name in list(names.items())[1:]:
            with place_errors(self.as_written(reference).span):
                with work.lake.reading() as connection:
                    found = work.lake.find_relation(connection, lake_name(reference.name), self.snapshot)
                frames[name] = read_named(work, (found.name.schema, found.name.relation), self.snapshot)
        frames[names[self.asked.relations[0]]] = _frame_of(work, drawn)
        rendered = self.asked.render(names)
        frame = query_relations(work.session, rendered.text, frames, used_arguments(self.asked.parameters, self.arguments))
        with place_spark_errors(rendered), work.session.arrow(frame, timeout=self.timeout, progress=self.progress) as stream:
            return stream.read_all()


def written_relation(query: Span, reference: Reference) -> Reference:
    """A relation at its place in the user's text."""
    found = re.search(rf"(?i)\b(?:FROM|JOIN)\s+({re.escape(reference.span.text)})", query.text)
    start, end = found.span(1) if found else (0, len(query.text))
    return replace(reference, span=Span(query.source, query.start + start, query.start + end))


def _is_group(kind: pa.DataType) -> bool:
    return kind in _GROUPED or pa.types.is_decimal(kind)


def _marked(drawn: DrawnRows) -> pa.Table:
    """The sampled rows, each with its unit and its stratum."""
    if drawn.rows is None:
        message = "a sample without rows"
        raise ValueError(message)
    units = np.arange(drawn.rows.num_rows) if drawn.units is None else drawn.units
    strata = np.zeros(drawn.rows.num_rows, dtype=np.int64) if drawn.strata is None else drawn.strata
    return drawn.rows.append_column(UNIT, pa.array(units, pa.int64())).append_column(STRATUM, pa.array(strata, pa.int64()))


def _frame_of(work: Workspace, drawn: DrawnRows) -> DataFrame:
    """The same for Spark."""
    from platform_plugin.engine.spark.frames.scan import frame_of, query_relations, read_relation

    if drawn.scan is not None:
        name = new_name()
        rows = read_relation(work.session, work.lake, drawn.scan, columns=[field.name for field in drawn.fields])
        text = f"SELECT *, monotonically_increasing_id() AS {UNIT}, CAST(0 AS BIGINT) AS {STRATUM} FROM {name}"
        return query_relations(work.session, text, {name: rows})
    marks = (Field(name=UNIT, type=Primitive("int64")), Field(name=STRATUM, type=Primitive("int64")))
    return frame_of(work.session, [*drawn.fields, *marks], _marked(drawn))
