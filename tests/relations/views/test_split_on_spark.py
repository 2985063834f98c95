"""On Spark itself: the parts over ranges give what the view's own text gives over all rows, for one query of each kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.relations.views.admitted import ADMITTED
from tests.relations.views.composed import ROWS, Cut, bag, composed, split, whole

if TYPE_CHECKING:
    from platform_plugin.engine.spark.session.session import Session

CUT = Cut({"posts": (0, 3, 3, 7), "likes": (2, 5)}, merged_before=2)


# What DuckDB can't check, because it has no such function or answers differently; the others are slow by their number only.
CORE = """
    decimals, variances, covariances, by row, joined strings, distinct with a filter, percentiles, approximations, approximate quantiles,
    sketches, filters, grouping sets, rollup of distinct, outer lateral view, union in a join, correlated over a stream, nothing arrives,
    literals, tumbling windows, two streams and a table
"""
NAMES = [pytest.param(name, marks=[] if name in CORE.replace("\n   ", "").strip().split(", ") else pytest.mark.slow) for name in ADMITTED]


@pytest.mark.spark
@pytest.mark.parametrize("name", NAMES)
def test_parts_over_ranges_give_what_the_query_gives_over_all_rows(spark_session: Session, name: str) -> None:
    expected = bag(spark_session.spark.sql(whole(ADMITTED[name], ROWS)).collect())
    plan = split(ADMITTED[name])
    found = spark_session.spark.sql(composed(plan, ROWS, CUT))
    assert found.columns == [column.name for column in plan.columns]
    assert bag(found.collect()) == expected
