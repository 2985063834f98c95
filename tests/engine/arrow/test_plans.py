"""What is answered without Spark is what the query gives: random queries, rows and cuts against DuckDB, and corners by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings

from platform_plugin.engine.arrow.plans import run_plan
from platform_plugin.engine.arrow.values import NotSupportedByArrow
from platform_plugin.lake.values.types import to_arrow
from tests.relations.views.admitted import ADMITTED
from tests.relations.views.composed import COLUMNS, RELATIONS, ROWS, Cut, Rows, bag, split
from tests.relations.views.queries import queries, rows
from tests.relations.views.test_split_property import ask, cuts, engine, fill  # noqa: F401  a fixture

if TYPE_CHECKING:
    import duckdb

    from platform_plugin.operators.group.parts import SplitPlan


def table(name: str, found: list[tuple[Any, ...]], first: int = 0) -> pa.Table:
    """Rows as the lake would hold them."""
    arrays = {}
    for place, field in enumerate(RELATIONS[name].fields):
        kind = to_arrow(field.type, column=field.name)
        values = [row[place] for row in found]
        arrays[field.name] = pa.array([list(v) if isinstance(v, tuple) else v for v in values]).cast(kind) if found else pa.nulls(0, kind)
    return pa.table({**arrays, "_row_id": pa.array(range(first, first + len(found)), pa.int64())})


def answer(plan: SplitPlan, found: Rows, cut: Cut) -> list[tuple[Any, ...]]:
    """The parts over ranges, merged, under the upper query, all without an engine."""
    tables = {f"main.{name}": table(name, found[name]) for name in COLUMNS}
    additions: dict[str, list[pa.Table]] = {state.name: [] for state in plan.states}
    for static in plan.statics:
        tables[static.name] = run_plan(static.query, tables)
        if static.feeds:
            additions[static.feeds].append(tables[static.name])
    for part in plan.streams:
        stream = part.stream.split(".")[-1]
        for first, last in cut.ranges(stream, len(found[stream])):
            chosen = table(stream, found[stream][first:last], first)
            additions[part.state].append(run_plan(part.query, {**tables, part.stream: chosen}))
    for state in plan.states:
        made = additions[state.name]
        if cut.merged_before and made[: cut.merged_before]:
            early = run_plan(state.merge, {"rows": pa.concat_tables(made[: cut.merged_before])})
            assert early.schema.types == made[0].schema.types, "merging changes no types"
            made = [early, *made[cut.merged_before :]]
        tables[state.name] = run_plan(state.merge, {"rows": pa.concat_tables(made)})
    return bag([tuple(row.values()) for row in run_plan(plan.upper, tables).to_pylist()])


@settings(max_examples=60)
@given(query=queries(), found=rows(), cut=cuts)
def test_what_is_answered_without_spark_is_what_the_query_gives(
    engine: duckdb.DuckDBPyConnection,  # noqa: F811
    query: str,
    found: Rows,
    cut: Cut,
) -> None:
    check(engine, query, found, cut)


@pytest.mark.slow
@pytest.mark.timeout(900)
@settings(max_examples=1000)
@given(query=queries(), found=rows(), cut=cuts)
def test_so_are_thousands_of_them(engine: duckdb.DuckDBPyConnection, query: str, found: Rows, cut: Cut) -> None:  # noqa: F811
    check(engine, query, found, cut)


def check(engine: duckdb.DuckDBPyConnection, query: str, found: Rows, cut: Cut) -> None:  # noqa: F811
    try:
        answered = answer(split(query), found, cut)
    except NotSupportedByArrow:
        return
    fill(engine, found)
    assert answered == ask(engine, f"SELECT * FROM ({query}) AS answer")


def test_the_common_kinds_of_view_are_answered() -> None:
    local = set()
    for name, query in ADMITTED.items():
        try:
            answer(split(query), ROWS, Cut({"posts": (3, 7), "likes": (2,)}, 2))
        except NotSupportedByArrow:
            continue
        local.add(name)
    print(sorted(local))
    assert len(local) >= 30
