"""The types that plans tell without asking are those that Spark gives: a state's merges and a view's columns depend on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from platform_plugin.language.text.datatypes import parse_type
from platform_plugin.platform import Platform
from tests.relations.views.admitted import ADMITTED
from tests.relations.views.composed import COLUMNS, ROWS, split, whole, written, written_rows

if TYPE_CHECKING:
    from platform_plugin.algebra.plan.nodes import Output
    from platform_plugin.engine.spark.session.session import Session

EXPRESSIONS = (
    "amount + score",
    "amount * amount",
    "amount / score",
    "amount - 1",
    "amount % 3",
    "amount * 0.05",
    "1.5 * score",
    "score / 2",
    "score * 2L",
    "uid div 2",
    "ratio * amount",
    "-amount",
    "coalesce(amount, 0)",
    "coalesce(score, 0L)",
    "CASE WHEN score > 1 THEN amount ELSE 0 END",
    "CASE WHEN score > 1 THEN 1 ELSE 0.5 END",
    "if(score > 1, amount, 1.125)",
    "CAST(score AS DECIMAL(20,3)) * amount * amount",
    "abs(amount)",
    "greatest(score, 1)",
    "length(content)",
    "year(at)",
    "EXTRACT(MONTH FROM at)",
    "sqrt(score)",
    "tags[0]",
    "content || 'x'",
    "date_trunc('DAY', at)",
    "DATE '2026-01-01'",
    "1e3",
    "2147483648",
    "nullif(amount, 1)",
    "round(ratio)",
)


def check(columns: tuple[Output, ...], schema: object) -> int:
    """How many types are known; all of them must be right."""
    known = 0
    for column, field in zip(columns, schema, strict=True):  # type: ignore[call-overload]
        assert column.name == field.name
        if column.type is not None:
            known += 1
            assert str(column.type) == str(parse_type(field.dataType.simpleString())), column.name
    return known


@pytest.mark.spark
@pytest.mark.parametrize(
    "name", ["decimals", "bigints", "covariances", "collections", "expressions", "union of streams", "rollup of distinct"]
)
def test_types_of_states_and_views(spark_session: Session, name: str) -> None:
    plan = split(ADMITTED[name])
    assert check(plan.columns, spark_session.spark.sql(whole(ADMITTED[name], ROWS)).schema) > 0
    tables = [*written(ROWS), *(f"{part.name} AS ({part.sql({'main.users': 'users'})})" for part in plan.statics)]
    for part in plan.streams:
        stream = part.stream.split(".")[-1]
        numbered = f"numbered AS ({written_rows(stream, ROWS[stream], COLUMNS[stream])})"
        made = spark_session.spark.sql(f"WITH {', '.join([*tables, numbered])} {part.sql({part.stream: 'numbered'})}")
        assert check(plan.state(part.state).columns, made.schema) > 0


@pytest.mark.spark
def test_types_of_expressions(spark_session: Session) -> None:
    query = f"SELECT {', '.join(f'max({text}) AS m{number}' for number, text in enumerate(EXPRESSIONS))} FROM posts"
    found = check(split(query).columns, spark_session.spark.sql(whole(query, ROWS)).schema)
    assert found >= len(EXPRESSIONS) - 3
    sums = [text for text in EXPRESSIONS if "content" not in text and "tags" not in text and "DATE" not in text and "date" not in text]
    query = f"SELECT {', '.join(f'sum({text}) AS s{number}, avg({text}) AS a{number}' for number, text in enumerate(sums[:14]))} FROM posts"
    check(split(query).columns, spark_session.spark.sql(whole(query, ROWS)).schema)


@pytest.mark.spark
@pytest.mark.parametrize("engine", ["arrow", "spark"])
def test_unsigned_and_huge_numbers_are_summed_as_spark_sums_them(tmp_path, spark_server, engine):
    kinds = {"a": "UTINYINT", "b": "USMALLINT", "c": "UINTEGER", "d": "UBIGINT", "e": "HUGEINT", "f": "UHUGEINT"}
    large = {"a": 255, "b": 65_535, "c": (1 << 32) - 1, "d": (1 << 64) - 1, "e": -(10**30), "f": 10**30}
    with Platform.create(tmp_path / "lake") as platform:
        platform.work.engine = "spark_sql" if engine == "spark" else "local"
        platform.execute(f"CREATE STREAM numbers (k INT, {', '.join(f'{name} {kind}' for name, kind in kinds.items())})")
        calls = [f"{call}({name}) AS {call}_{name}" for name in kinds for call in ("sum", "min", "max")] + [
            f"avg({name}) AS avg_{name}" for name in "abcd"
        ]
        query = f"SELECT k, {', '.join(calls)} FROM numbers GROUP BY k"
        platform.execute(f"CREATE VIEW totals AS {query}")
        for step in range(3):
            values = ", ".join(str(large[name]) for name in kinds)
            platform.execute(
                f"INSERT INTO numbers VALUES ({step % 2}, {values}), (0, {', '.join(['1'] * 6)}), (1, {', '.join(['NULL'] * 6)})"
            )
            if step < 2:
                platform.execute("REFRESH VIEW totals")
            theirs = platform.execute(f"{query} ORDER BY k").arrow()
            ours = platform.execute("SELECT * FROM totals ORDER BY k").arrow()
            assert ours.to_pylist() == theirs.to_pylist()
            if engine == "spark":
                assert ours.schema.field("sum_d").type == theirs.schema.field("sum_d").type
