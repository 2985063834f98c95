"""`bind_rows`: a query over the rows of one table, composed from parts of a statement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from platform_plugin.algebra.types.data_types import quote_identifier
from platform_plugin.language.query.pruning import ALL_ROWS, BoundFormula
from platform_plugin.language.query.query import analyse_expression, analyse_query
from platform_plugin.language.text.places import Place, Span, locate_offset
from platform_plugin.language.text.writing import name_text
from platform_plugin.relations.arguments import argument
from platform_plugin.relations.bind.names import lake_name, new_name, place_errors
from platform_plugin.relations.bind.plans import find_query_plan
from platform_plugin.relations.bind.read import read_reference
from platform_plugin.relations.bind.resolve import Resolver
from platform_plugin.relations.reading import ReadContext, ReadRequest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame

    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Snapshot
    from platform_plugin.lake.read.scan import TableScan
    from platform_plugin.language.query.rendering import RenderedQuery
    from platform_plugin.language.text.names import WrittenName
    from platform_plugin.language.text.values import Parameter
    from platform_plugin.relations.arguments import Arguments


@dataclass(frozen=True, slots=True, kw_only=True)
class ComposedQuery:
    """A query composed from parts of a statement, with the place that each part comes from."""

    frame: DataFrame
    text: str
    scan: TableScan
    _parts: tuple[tuple[int, RenderedQuery], ...]

    def at(self, position: int) -> Place:
        """The place in the statement of an offset in the query; an offset outside all parts gives the first part's start."""
        for start, rendered in reversed(self._parts):
            if start <= position <= start + len(rendered.text):
                return rendered.at(position - start)
        return self._parts[0][1].at(0) if self._parts else locate_offset(self.text)


def bind_rows(
    work: Workspace,
    name: WrittenName,
    alias: str | None,
    pieces: Sequence[str | Span],
    *,
    target: str,
    snapshot: Snapshot,
    arguments: Arguments,
    parameters: Sequence[Parameter] = (),
    also: Mapping[str, DataFrame] | None = None,
    where: Span | None = None,
) -> ComposedQuery:
    """A query over the rows of one table, with the columns that identify each row.

    `pieces` are texts, and parts of a statement that are expressions over the table's rows; `where`, if it is one of them, is a condition,
    by which files are pruned. The table is called `target` in the texts, and has its name or alias in expressions.
    """
    from platform_plugin.engine.spark.frames.scan import query_relations, read_relation

    with place_errors(name.span):
        table = work.lake.table(lake_name(name), snapshot)
    reading = ReadContext(work, snapshot)
    frames: dict[str, DataFrame] = dict(also or {})
    text, parts = "", []
    bound: dict[str, Any] = {}
    placed: list[Any] = []
    formula = ALL_ROWS
    for piece in pieces:
        if isinstance(piece, str):
            text += piece
            continue
        expression = analyse_expression(piece, name, alias)
        inside = [parameter for parameter in parameters if piece.start <= parameter.span.start < piece.end]
        values = tuple(argument(parameter, arguments) for parameter in inside)
        own: Arguments = values if isinstance(arguments, tuple) else arguments
        bound |= {parameter.name: value for parameter, value in zip(inside, values, strict=True) if parameter.name is not None}
        placed += values if isinstance(arguments, tuple) else ()
        if piece is where:
            formula = _selecting_formula(Resolver(work, snapshot, own), name, alias, piece, own)
        names = {reference: new_name() for reference in expression.relations}
        frames |= {
            names[reference]: read_reference(reading, reference, Resolver(work, snapshot, own), ReadRequest()).frame
            for reference in expression.relations
        }
        rendered = expression.render(names)
        parts.append((len(text), rendered))
        text += rendered.text
    selected = formula.condition(table.fields)
    scan = work.lake.scan(table, snapshot, where=selected)
    frames[target] = read_relation(work.session, work.lake, scan, hidden=True, where=selected)
    frame = query_relations(work.session, text, frames, bound or tuple(placed))
    return ComposedQuery(frame=frame, text=text, scan=scan, _parts=tuple(parts))


def _selecting_formula(resolver: Resolver, name: WrittenName, alias: str | None, where: Span, arguments: Arguments) -> BoundFormula:
    """What is true of the rows of a table that a condition selects."""
    called = "" if alias is None else f" AS {quote_identifier(alias)}"
    query = analyse_query(f"SELECT 1 FROM {name_text(name)}{called} WHERE ({where.text})")
    plan = find_query_plan(resolver.work, query, resolver.snapshot, resolver)
    return plan.formula_of(query.relations[0], arguments)
