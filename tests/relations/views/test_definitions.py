"""The collection of definitions: each is accepted, or refused for its reason, and every engine gives what recomputation gives.

`python -m tests.relations.views.test_definitions` writes the page with the results.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
import sqlglot
from sqlglot.errors import SqlglotError

from platform_plugin.algebra.types.data_types import Primitive
from platform_plugin.engine.arrow.plans import run_plan
from platform_plugin.engine.arrow.values import NotSupportedByArrow
from platform_plugin.errors import InvalidStatement
from platform_plugin.lake.values.types import to_arrow
from platform_plugin.maintenance.run import run_maintenance
from platform_plugin.operators.group.split import plan_split
from platform_plugin.platform import Platform
from tests.relations.views.composed import Cut, bag, composed, relation
from tests.relations.views.definitions import COLUMNS, DEFINITIONS, KINDS, TABLES, Definition, make_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb

    from platform_plugin.algebra.types.data_types import DataType
    from platform_plugin.engine.spark.server.runtime import RuntimeFolder
    from platform_plugin.operators.group.parts import SplitPlan
    from tests.relations.views.definitions import Rows

PAGE = Path(__file__).parents[3] / "docs" / "views" / "definitions.md"
RELATIONS = {name: relation(name, KINDS[name], columns) for name, columns in COLUMNS.items()}
CONTINUOUS = [found for found in DEFINITIONS if found.result == "continuous"]
CUT = Cut(dict.fromkeys(COLUMNS, (15, 15, 30)), merged_before=2)
ROWS = make_rows()


DUCKDB_DIFFERS = {
    "an approximate distinct count": "it has no sketches of Spark's",
    "approximate percentiles": "it has no sketches of Spark's",
    "percentiles in the standard's words": "it has no array_repeat",
    "the latest values of each key, by max_by": "its max_by passes over values that are NULL",
    "percentiles": "sqlglot makes a percentile of an array one of its values",
    "an aggregate over the first of each key": "a part of a struct that is NULL is its largest, not its smallest",
}
"""What DuckDB can't say about the parts of a view."""

SPARK_LEAVES_OPEN = {
    "the first and last in order of arrival": (
        "SELECT user_id, min_by(page, _row_id) AS landing, max_by(page, _row_id) AS leaving FROM clicks GROUP BY user_id"
    ),
}
"""What Spark answers in any order of its files; a view answers in the order of arrival, which this query asks for in words of its own."""


def told(names: list[Definition]) -> list[Any]:
    return [pytest.param(found, id=found.title) for found in names]


def split(definition: Definition) -> SplitPlan:
    """The plan; Spark would only be asked for the type of a field of parsed JSON, which is INT."""

    def typer(text: str) -> tuple[DataType, ...]:
        assert "from_json" in text
        return (Primitive("int32"),)

    return plan_split(definition.sql, RELATIONS, typer=typer)


def judge(definition: Definition) -> tuple[str, str, str]:
    """What becomes of a definition, the reason of a refusal, and its hint."""
    try:
        split(definition)
    except InvalidStatement as refused:
        if getattr(refused, "is_plain", False):
            return "plain", "", ""
        return getattr(refused, "rule", "") or "text", refused.message, refused.hint or ""
    return "continuous", "", ""


@pytest.mark.parametrize("definition", told(DEFINITIONS))
def test_a_definition_is_accepted_or_refused_for_its_reason(definition: Definition) -> None:
    assert judge(definition)[:2] == (definition.result, definition.reason)


def test_titles_are_unique() -> None:
    assert max(Counter(found.title for found in DEFINITIONS).values()) == 1


def arrow_rows(name: str, found: list[tuple[Any, ...]], first: int = 0) -> pa.Table:
    """Rows as the lake would hold them."""
    arrays = {
        field.name: pa.array([row[place] for row in found], to_arrow(field.type, column=field.name))
        for place, field in enumerate(RELATIONS[name].fields)
    }
    return pa.table({**arrays, "_row_id": pa.array(range(first, first + len(found)), pa.int64())})


def run_on_arrow(plan: SplitPlan, found: Rows, cut: Cut) -> list[tuple[Any, ...]]:
    """The parts over ranges, merged, under the upper query, all on the Arrow kernel."""
    tables = {f"main.{name}": arrow_rows(name, found[name]).drop_columns("_row_id") for name in COLUMNS}
    additions: dict[str, list[pa.Table]] = {state.name: [] for state in plan.states}
    for static in plan.statics:
        tables[static.name] = run_plan(static.query, tables)
        if static.feeds:
            additions[static.feeds].append(tables[static.name])
    for part in plan.streams:
        stream = part.stream.split(".")[-1]
        for first, last in cut.ranges(stream, len(found[stream])):
            rows = arrow_rows(stream, found[stream][first:last], first)
            arrived = pa.array([datetime(2026, 1, 1, tzinfo=UTC)] * rows.num_rows, pa.timestamp("us", "UTC"))
            rows = rows.append_column("_arrived_at", arrived)
            additions[part.state].append(run_plan(part.query, {**tables, part.stream: rows}))
    for state in plan.states:
        early, late = additions[state.name][: cut.merged_before], additions[state.name][cut.merged_before :]
        compact = run_plan(state.merge, {"rows": pa.concat_tables(early)})
        tables[state.name] = run_plan(state.merge, {"rows": pa.concat_tables([compact, *late])})
    return plain([tuple(row.values()) for row in run_plan(plan.upper, tables).to_pylist()])


def plain(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Rows without order; structs as tuples, moments without a zone."""
    return bag([tuple(map(_plain, row)) for row in rows])


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    if isinstance(value, dict):
        return tuple(map(_plain, value.values()))
    return [_plain(item) for item in value] if isinstance(value, list) else value


@pytest.fixture(scope="module")
def engine() -> Iterator[duckdb.DuckDBPyConnection]:
    import duckdb as library

    with library.connect(":memory:", config={"threads": 1}) as connection:
        for name in COLUMNS:
            rows = arrow_rows(name, ROWS[name])
            naive = pa.schema([(f.name, pa.timestamp("us") if pa.types.is_timestamp(f.type) else f.type) for f in rows.schema])
            connection.register("given", rows.cast(naive))
            connection.execute(f"CREATE TABLE {name}_rows AS SELECT * FROM given")
            connection.execute(f"CREATE VIEW {name} AS SELECT * EXCLUDE (_row_id) FROM {name}_rows ORDER BY _row_id")
        yield connection


def ask(engine: duckdb.DuckDBPyConnection, sql: str) -> list[tuple[Any, ...]]:
    return plain(engine.execute(sqlglot.transpile(sql, read="spark", write="duckdb")[0]).fetchall())


def as_doubles(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Rows with doubles for decimals: a quotient of decimals is a double to DuckDB; Spark's digits are compared with Spark's."""

    def convert(value: Any) -> Any:
        is_number = isinstance(value, str) and re.fullmatch(r"-?\d+(\.\d+)?", value)
        return float(f"{float(value):.9g}") if is_number else value

    return bag([tuple(map(convert, row)) for row in rows])


def range_of(stream: str, first: int, last: int) -> str:
    return f"SELECT * FROM {stream}_rows WHERE _row_id >= {first} AND _row_id < {last}"


def test_on_duckdb_the_parts_give_what_the_definition_gives_and_so_does_the_kernel(engine: duckdb.DuckDBPyConnection) -> None:
    import duckdb as library

    compared, on_arrow = set(), set()
    for definition in CONTINUOUS:
        if definition.title in DUCKDB_DIFFERS:
            continue
        try:
            expected = ask(engine, definition.sql)
        except (library.Error, SqlglotError):
            continue  # in Spark's words only
        plan = split(definition)
        assert ask(engine, composed(plan, ROWS, CUT, range_of, COLUMNS)) == expected, definition.title
        compared.add(definition.title)
        try:
            assert as_doubles(run_on_arrow(plan, ROWS, CUT)) == as_doubles(expected), definition.title
        except NotSupportedByArrow:
            continue
        on_arrow.add(definition.title)
    assert len(compared) >= 75
    assert len(on_arrow) >= 25


def leave_to_spark() -> dict[str, list[str]]:
    """Why the kernel leaves definitions to Spark, with their titles."""
    left = defaultdict(list)
    for definition in CONTINUOUS:
        try:
            run_on_arrow(split(definition), ROWS, CUT)
        except NotSupportedByArrow as refused:
            left[refused.refusal.why].append(definition.title)
    return dict(sorted(left.items(), key=lambda item: (-len(item[1]), item[0])))


def page_text() -> str:
    """The page of the documentation with what becomes of each definition."""
    judged = {found.title: judge(found) for found in DEFINITIONS}
    left = leave_to_spark()
    counts = Counter("refused" if found.result not in ("continuous", "plain") else found.result for found in DEFINITIONS)
    lines = [
        "# Definitions from streaming systems, and what becomes of them",
        "",
        "<!-- Written by `python -m tests.relations.views.test_definitions`; a test compares it. -->",
        "",
        f"{len(DEFINITIONS)} definitions as users of streaming systems write them, Nexmark's q0 to q22 among them. As written,",
        f"{counts['continuous']} are continuous views,",
        f"{counts['plain']} group no stream and are plain views, which are computed when they are read; {counts['refused']} are refused.",
        "Tests compare every accepted one on each engine, the Arrow kernel where it can, with a",
        "recomputation over all rows. [The rules](admission.md) have a page of their own.",
        "",
        f"{len(CONTINUOUS) - sum(map(len, left.values()))} of the {len(CONTINUOUS)} continuous ones need no Spark while rows are few:",
        "the kernel evaluates the parts of their ranges, the merge of their states and what is above.",
        "[Below](#left-to-spark) is what it leaves to Spark, and why.",
        "",
        "| topic | continuous | plain | refused |",
        "|---|---|---|---|",
    ]
    topics = list(dict.fromkeys(found.topic for found in DEFINITIONS))
    for topic in topics:
        results = Counter(judged[found.title][0] for found in DEFINITIONS if found.topic == topic)
        refused = sum(results.values()) - results["continuous"] - results["plain"]
        lines.append(f"| {topic} | {results['continuous']} | {results['plain']} | {refused} |")
    lines += ["", "## Refused", ""]
    for found in DEFINITIONS:
        rule, reason, hint = judged[found.title]
        if rule not in ("continuous", "plain"):
            where = "a plan can't express it" if rule == "text" else f"rule {rule}"
            lines += [f"**{found.topic}: {found.title}** ({where}): {reason}.", "", "```text", found.sql, "```", ""]
            lines += [f"Instead: {hint}", ""] if hint else []
    lines += ["## Left to Spark", "", "| why | continuous views |", "|---|---|"]
    lines += [f"| {why} | {', '.join(titles)} |" for why, titles in left.items()]
    lines += ["", "## Accepted as written", ""]
    for topic in topics:
        lines += [f"### {topic}", "", "| definition | becomes | query |", "|---|---|---|"]
        for found in DEFINITIONS:
            if found.topic == topic and found.result in ("continuous", "plain"):
                query = found.sql.replace("|", "\\|")
                lines.append(f"| {found.title} | {found.result} | `{query}` |")
        lines.append("")
    return "\n".join(lines)


def test_the_page_says_what_becomes_of_each() -> None:
    assert PAGE.read_text() == page_text()


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory, spark_server: RuntimeFolder) -> Iterator[Platform]:
    """A lake with all accepted definitions as views, maintained by ranges; the last rows of each stream wait."""
    del spark_server
    with Platform.create(tmp_path_factory.mktemp("definitions") / "lake") as made:
        for name, columns in COLUMNS.items():
            made.execute(f"CREATE {KINDS[name]} {name} ({', '.join(f'{column} {kind}' for column, kind in columns.items())})")
        for name in TABLES:
            append(made, name, ROWS[name])
        for number, definition in enumerate(DEFINITIONS):
            if definition.result in ("continuous", "plain"):
                made.execute(f"CREATE VIEW v{number} AS {definition.sql}")
        for first, last in ((0, 15), (15, 30), (30, None)):
            for name in COLUMNS:
                if name not in TABLES and ROWS[name][first:last]:
                    append(made, name, ROWS[name][first:last])
            if last is not None:
                assert not run_maintenance(made.work).failed
        yield made


def append(platform: Platform, name: str, rows: list[tuple[Any, ...]]) -> None:
    with platform.lake.commit("append") as commit:
        table = platform.lake.table(name)
        commit.append(table, [platform.lake.write(table, arrow_rows(name, rows).drop_columns("_row_id"))])


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("definition", told([found for found in DEFINITIONS if found.result in ("continuous", "plain")]))
def test_every_engine_gives_what_the_definition_gives_over_all_rows(
    platform: Platform, monkeypatch: pytest.MonkeyPatch, definition: Definition
) -> None:
    view = f"v{DEFINITIONS.index(definition)}"
    expected = plain(list(platform.execute(f"SELECT * FROM ({SPARK_LEAVES_OPEN.get(definition.title, definition.sql)})")))
    assert plain(list(platform.execute(f"SELECT * FROM {view}"))) == expected, "by whatever engine pays"
    with monkeypatch.context() as patched:
        for place in ("local", "source"):
            patched.setattr(f"platform_plugin.relations.views.read.{place}.read_local", lambda *_: None)
        assert plain(list(platform.execute(f"SELECT * FROM (SELECT * FROM {view})"))) == expected, "by Spark"


if __name__ == "__main__":
    PAGE.write_text(page_text())
