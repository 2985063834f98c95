"""Arrow says why it leaves something to Spark, and whether other rows would change that; a run says it of each view."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from platform_plugin.algebra.plan.nodes import Column
from platform_plugin.engine.arrow.values import ArrowRows, NotSupportedByArrow, evaluate_node
from platform_plugin.maintenance.run import run_maintenance
from platform_plugin.operators.group.body import read_body
from platform_plugin.platform import Platform

if TYPE_CHECKING:
    from platform_plugin.engine.refusal import Refusal

ROWS = pa.table({"l": pa.array([1, 2]), "d": pa.array([1.0, float("nan")]), "s": pa.array(["a", "b"])})


def refused(text: str) -> Refusal:
    node = read_body(f"SELECT {text} AS v FROM t").expressions[0].unalias()
    columns = {Column("", name): column.combine_chunks() for name, column in zip(ROWS.column_names, ROWS.columns, strict=True)}
    with pytest.raises(NotSupportedByArrow) as caught:
        evaluate_node(node, ArrowRows(columns=columns, count=ROWS.num_rows))
    return caught.value.refusal


@pytest.mark.parametrize(
    ("text", "why", "for_good"),
    [
        ("soundex(s)", "the function soundex", True),
        ("s LIKE s", "the expression LIKE", True),
        ("l / 0", "a division by zero", False),
        ("d > 1", "NaN among the values", False),
        ("l = s", "values of types int64, string side by side", True),
        ("x + 1", "a column that was not read", True),
        ("CAST(s AS BIGINT)", "a cast from string", True),
        ("l[0]", "the expression BRACKET", True),
    ],
)
def test_the_reason_is_told_and_whether_it_lasts(text: str, why: str, for_good: bool) -> None:  # noqa: FBT001
    refusal = refused(text)
    assert (str(refusal), refusal.for_good) == (why, for_good)


@pytest.fixture
def platform(tmp_path, spark_server):
    with Platform.create(tmp_path / "lake") as made:
        yield made


@pytest.mark.spark
def test_a_run_says_which_views_it_left_to_spark_and_why(platform):
    platform.execute("CREATE STREAM readings (sensor INT, value DOUBLE, name STRING)")
    platform.execute("CREATE VIEW totals AS SELECT sensor, sum(value) AS total FROM readings GROUP BY sensor")
    platform.execute("CREATE VIEW sounds AS SELECT soundex(name) AS sound, count(*) AS n FROM readings GROUP BY soundex(name)")
    platform.execute("INSERT INTO readings VALUES (1, 2.5, 'ada'), (1, 0.5, 'bob')")
    done = run_maintenance(platform.work)
    assert done.failed == {}
    assert done.on_spark == {"main.sounds": "the function soundex"}
    assert platform.execute("SELECT sound, n FROM sounds ORDER BY sound").arrow().to_pylist() == [
        {"sound": "A300", "n": 1},
        {"sound": "B100", "n": 1},
    ]
