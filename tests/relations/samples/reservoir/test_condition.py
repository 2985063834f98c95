"""A sample's condition lets through the rows that DuckDB lets through, decided by intervals or by the kernel, and rules out files."""

from __future__ import annotations

import math
from types import SimpleNamespace

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from platform_plugin.algebra.types.data_types import Field, Primitive
from platform_plugin.engine.refusal import RefusedByEngine
from platform_plugin.lake.values.types import arrow_schema
from platform_plugin.relations.samples.draw.pieces import read_pieces
from platform_plugin.relations.samples.reservoir.condition import RowCondition, matching_pieces

FIELDS = (
    Field(name="Id", type=Primitive("int32")),
    Field(name="other", type=Primitive("int64")),
    Field(name="word", type=Primitive("varchar")),
    Field(name="rate", type=Primitive("float64")),
    Field(name="yes", type=Primitive("boolean")),
)
TABLE = SimpleNamespace(name=SimpleNamespace(relation="things"), fields=FIELDS)
ROWS = pa.Table.from_pylist(
    [
        {"Id": number, "other": other, "word": word, "rate": rate, "yes": yes}
        for number, (other, word, rate, yes) in enumerate(
            zip(
                [None, 1, 2, 3] * 3, ["a", None, "b", "ab", "ü", ""] * 2, [0.5, None, -0.0, 1e300] * 3, [True, False, None] * 4, strict=True
            )
        )
    ],
    schema=arrow_schema(FIELDS),
)
TESTS = [
    "id > 3",
    "things.id <= 7",
    "other = 2",
    "other IS NULL",
    "word IN ('a', 'b')",
    "word LIKE 'a%'",
    "word IS NOT NULL",
    "rate < 0.5",
    "rate >= 0",
    "yes",
    "NOT yes",
    "id BETWEEN 2 AND 9",
]
BY_KERNEL = ["id + other > 5", "id = other", "length(word) = 1", "CASE WHEN id > 4 THEN yes ELSE word = 'a' END"]


@st.composite
def conditions(draw: st.DrawFn) -> str:
    parts = draw(st.lists(st.sampled_from([*TESTS, *BY_KERNEL]), min_size=1, max_size=4))
    text = parts[0]
    for part in parts[1:]:
        text = f"({text}) {draw(st.sampled_from(['AND', 'OR']))} {draw(st.sampled_from(['', 'NOT ']))}({part})"
    return text


@settings(max_examples=150, deadline=None)
@given(text=conditions())
def test_the_rows_that_pass_are_those_of_duckdb(text: str) -> None:
    things = ROWS
    with duckdb.connect(":memory:") as connection:
        connection.register("things", things)
        expected = connection.execute(f"SELECT coalesce({text}, false) AS p FROM things").to_arrow_table().column("p").to_pylist()
    assert RowCondition(TABLE, text).mask(ROWS).tolist() == expected, text


def test_intervals_decide_what_the_kernel_leaves_to_spark() -> None:
    rows = ROWS.set_column(3, "rate", pa.array([math.nan, 0.5, None] * 4))
    assert np.flatnonzero(RowCondition(TABLE, "rate > 0.4").mask(rows)).tolist() == [0, 1, 3, 4, 6, 7, 9, 10], "NaN is the largest number"
    with pytest.raises(RefusedByEngine):
        RowCondition(TABLE, "rate + 0 > 0.4").mask(rows)


def test_a_condition_knows_its_columns() -> None:
    assert RowCondition(TABLE, "ID > 3 AND things.Word = 'a'").columns == ["Id", "word"]


@pytest.mark.parametrize("text", ["rand() < 0.5", "1 = 0 AND id > 1", "id > 1 AND rand() < 0.5"])
def test_a_condition_without_columns_is_not_forgotten(text: str) -> None:
    condition = None
    try:
        condition = RowCondition(TABLE, text)
        passing = condition.mask(ROWS)
    except RefusedByEngine:
        return
    assert not passing.any(), "only FALSE can be decided here"


@pytest.mark.parametrize("text", ["soundex(word) = 'a'", "id IN (SELECT id FROM others)", "nobody = 1", "id = (", "id = ?", "rand() < 0.5"])
def test_what_only_spark_reads_is_refused(text: str) -> None:
    with pytest.raises(RefusedByEngine):
        RowCondition(TABLE, text).mask(ROWS)


def test_files_in_which_no_row_can_pass_are_left_out(tmp_path) -> None:
    from platform_plugin.platform import Platform

    with Platform.create(tmp_path / "lake") as platform:
        platform.execute("CREATE STREAM things (id INT)")
        for number in range(4):
            platform.execute("INSERT INTO things VALUES (?), (?)", [10 * number, 10 * number + 1])
        lake, table = platform.lake, platform.lake.table("things")
        pieces = read_pieces(lake, lake.scan(table, lake.snapshot()))
        assert [start for start, _ in matching_pieces(lake, pieces, RowCondition(table, "id BETWEEN 9 AND 10 OR id > 30"))] == [2, 6]
        assert len(matching_pieces(lake, pieces, RowCondition(table, "id + 0 = 1"))) == 4
        assert len(matching_pieces(lake, pieces, None)) == 4
