"""`explain_split`: a split view in words, SQL and trees, for EXPLAIN CREATE VIEW."""

from __future__ import annotations

from typing import TYPE_CHECKING

from platform_plugin.algebra.plan.tree import draw_plan
from platform_plugin.language.statements.statement import trailer_text
from platform_plugin.language.text.options import VIEW, Option
from platform_plugin.language.text.writing import identifier, name_text
from platform_plugin.relations.options import read_options
from platform_plugin.relations.target import statement_name
from platform_plugin.relations.views.record import read_records

if TYPE_CHECKING:
    from collections.abc import Iterator

    from platform_plugin.algebra.plan.nodes import Output, Query
    from platform_plugin.lake.catalogue.relations import Declaration
    from platform_plugin.lake.catalogue.tables import View
    from platform_plugin.lake.lake import Lake
    from platform_plugin.operators.group.parts import SplitPlan


def explain_split(plan: SplitPlan, *, trees: bool = True) -> str:
    """The three kinds of parts of a view, when each runs, and what is stored between them."""
    return "\n".join(_lines(plan, trees=trees))


def _lines(plan: SplitPlan, *, trees: bool) -> Iterator[str]:
    parts = [f"{_count(len(plan.streams), 'stream part')} into {_count(len(plan.states), 'state')}", "an upper part"]
    yield " and ".join([", ".join([_count(len(plan.statics), "static part"), parts[0]]), parts[1]] if plan.statics else parts)
    yield ""
    for static in plan.statics:
        when = f"once, into {static.feeds}" if static.feeds else "once, at creation"
        title = f"static part {static.name}: {when}; reads {', '.join(static.tables)}"
        yield from _part(title, static.sql(pretty=True), static.query if trees else None)
    for part in plan.streams:
        looked_up = f", looks up {', '.join(part.statics)}" if part.statics else ""
        title = f"stream part {part.name}: for each range of {part.stream}, into {part.state}{looked_up}"
        yield from _part(title, part.sql(pretty=True), part.query if trees else None)
    for state in plan.states:
        keys = ", ".join(_column(column) for column in state.keys) or "nothing, so it is one row"
        yield f"state {state.name}: one row for each {keys}"
        if state.partials:
            yield f"  keeps {', '.join(_column(column) for column in state.partials)}"
        yield from _part("  merged by", state.merge_sql(pretty=True), None)
    reads = [*(state.name for state in plan.states), *plan.upper_tables]
    title = f"upper part: at each read after a change; reads {', '.join(reads)}"
    yield from _part(title, plan.upper_sql(pretty=True), plan.upper if trees else None)
    if plan.volatile:
        yield "its answer depends on the time of the read, so no answer is served twice"
    for note in plan.notes:
        yield f"note: {note}"
    for table in plan.static_tables:
        if table in plan.upper_tables:
            yield f"note: {table} is read twice: below the grouping as it is when the view is made, above it as it is at each read"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _part(title: str, sql: str, query: Query | None) -> Iterator[str]:
    yield title
    yield from (f"    {line}" for line in sql.splitlines())
    if query is not None:
        yield ""
        yield from (f"    {line}" for line in draw_plan(query).splitlines())
    yield ""


def _column(column: Output) -> str:
    return f"{column.name} {column.type}" if column.type is not None else column.name


def view_text(lake: Lake, view: View, declaration: Declaration) -> str:
    """The statement that creates a view like this one."""
    aliases = f" ({', '.join(map(identifier, view.columns))})" if view.columns else ""
    with lake.reading() as connection:
        record = read_records(connection, only=view.uuid).get(view.uuid)
    given = declaration.options if record is None else read_options(record.options, VIEW)
    trailer = trailer_text(view.comment, tuple(Option(name=option, value=value) for option, value in given.items()))
    return f"CREATE VIEW {name_text(statement_name(view))}{aliases}{trailer} AS {view.sql}"
