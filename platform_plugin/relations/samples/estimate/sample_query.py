"""`SampleQuery`: the query over sampled rows, run with Arrow where it certainly agrees with Spark, else with Spark."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from sqlglot import exp

from platform_plugin.algebra.types.data_types import Field, Primitive
from platform_plugin.engine.arrow.values import ArrowRows, NotSupportedByArrow, RelationColumns, evaluate_node, repeat_value
from platform_plugin.errors import PlatformError
from platform_plugin.lake.values.types import arrow_schema
from platform_plugin.language.query.approximate import STRATUM, UNIT
from platform_plugin.language.text.places import Span
from platform_plugin.operators.group.body import read_body
from platform_plugin.relations.arguments import used_arguments
from platform_plugin.relations.bind import lake_name, new_name, place_errors, read_named
from platform_plugin.relations.samples.population import read_drawn

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from pyspark.sql import DataFrame

    from platform_plugin.engine.spark.session.job import ProgressHandler
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot
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
    arguments: Arguments
    snapshot: Snapshot
    timeout: timedelta | None = None
    progress: ProgressHandler | None = None

    def is_local(self, fields: Sequence[Field]) -> bool:
        """Whether Arrow can run the query on such columns; values in the rows may still be left to Spark."""
        marks = [pa.field(UNIT, pa.int64()), pa.field(STRATUM, pa.int64())]
        try:
            self._ask_here(pa.Table.from_batches([], schema=pa.schema([*arrow_schema(fields), *marks])))
        except NotSupportedByArrow:
            return False
        return True

    def ask(self, drawn: DrawnRows) -> pa.Table:
        """A row for each sampled row that passes, or for each that a join makes from it."""
        try:
            return self._ask_here(_marked(read_drawn(self.work, drawn)))
        except NotSupportedByArrow:
            return self._ask_spark(drawn)

    def _ask_here(self, rows: pa.Table) -> pa.Table:
        if len(self.asked.relations) > 1:
            raise NotSupportedByArrow("several samples in one query")
        return _ask_arrow(_with_values(self.asked, self.arguments), rows)

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


def _with_values(asked: Query, arguments: Arguments) -> str:
    """The text of a query with its parameters' values written into it, of those kinds that Spark takes for what is written."""
    text, end, parts = asked.span.text, 0, []
    for parameter in sorted(asked.parameters, key=lambda each: each.span.start):
        value = arguments[parameter.name] if isinstance(arguments, Mapping) and parameter.name is not None else None
        match value:
            case bool():
                written = str(value).upper()
            case int() if value >= 0:
                written = str(value)
            case str() if "'" not in value and "\\" not in value:
                written = f"'{value}'"
            case date() if not isinstance(value, datetime):
                written = f"DATE '{value.isoformat()}'"
            case _:
                raise NotSupportedByArrow(f"a value of type {type(value).__name__}")
        parts += [text[end : parameter.span.start - asked.span.start], written]
        end = parameter.span.end - asked.span.start
    return "".join([*parts, text[end:]])


def _ask_arrow(text: str, sampled: pa.Table) -> pa.Table:
    """What a query says of rows, or `NotSupportedByArrow`."""
    try:
        tree = read_body(text)
    except PlatformError as error:
        raise NotSupportedByArrow("a query that only Spark reads") from error
    source = tree.args["from_"].this
    if not isinstance(tree, exp.Select) or not isinstance(source, exp.Table) or tree.args.get("joins") or tree.args.get("laterals"):
        raise NotSupportedByArrow("more than a filter and a projection of one sample")
    rows = ArrowRows(columns=RelationColumns(sampled, source.alias_or_name), count=sampled.num_rows)
    try:
        where = tree.args.get("where")
        if where is not None:
            mask = evaluate_node(where.this, rows)
            if not pa.types.is_boolean(mask.type):
                raise NotSupportedByArrow(f"a condition of type {mask.type}")
            rows = rows.picked(repeat_value(mask, rows.count))
        found = {item.alias_or_name: repeat_value(evaluate_node(item.unalias(), rows), rows.count) for item in tree.expressions}
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise NotSupportedByArrow(f"{error}", for_good=False) from error  # an overflow, for instance, which Spark tells in its own words
    if not all(column.type in _GROUPED or pa.types.is_decimal(column.type) for name, column in found.items() if name.startswith("_g")):
        raise NotSupportedByArrow("a grouping of a type that only Spark groups")
    return pa.table(found)


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
