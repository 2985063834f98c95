"""The kernel's answers are Spark's: for every admitted query and definition that it does not leave to Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from platform_plugin.engine.arrow.values import NotSupportedByArrow
from tests.engine.arrow.test_plans import answer
from tests.relations.views import test_definitions as definitions
from tests.relations.views.admitted import ADMITTED
from tests.relations.views.composed import ROWS, Cut, bag, split, whole

if TYPE_CHECKING:
    from platform_plugin.engine.spark.session.session import Session

CUT = Cut({"posts": (0, 3, 3, 7), "likes": (2, 5)}, merged_before=2)
AT_LEAST = {"admitted": 97, "definitions": 77}
"""How many are answered without Spark."""


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(900)
def test_admitted_queries(spark_session: Session) -> None:
    different, compared = {}, 0
    for name, text in ADMITTED.items():
        try:
            ours = answer(split(text), ROWS, CUT)
        except NotSupportedByArrow:
            continue
        compared += 1
        theirs = bag(spark_session.spark.sql(whole(text, ROWS)).collect())
        if definitions.plain(ours) != definitions.plain([tuple(row) for row in theirs]):
            different[name] = (ours, theirs)
    assert different == {}
    assert compared >= AT_LEAST["admitted"]


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(900)
def test_definitions(spark_session: Session) -> None:
    for name in definitions.COLUMNS:
        rows = definitions.arrow_rows(name, definitions.ROWS[name]).drop_columns("_row_id")
        spark_session.spark.createDataFrame(rows).createOrReplaceTempView(name)
    different, compared = {}, 0
    for definition in definitions.CONTINUOUS:
        if "_arrived_at" in definition.sql or definition.title in definitions.SPARK_LEAVES_OPEN:
            continue
        try:
            ours = definitions.run_on_arrow(definitions.split(definition), definitions.ROWS, definitions.CUT)
        except NotSupportedByArrow:
            continue
        compared += 1
        theirs = definitions.plain([tuple(row.values()) for row in spark_session.arrow(definition.sql).read_all().to_pylist()])
        if ours != theirs:
            different[definition.title] = (ours, theirs)
    assert different == {}
    assert compared >= AT_LEAST["definitions"] - 3
