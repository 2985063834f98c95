"""On Spark itself: the parts over ranges give what the view's own text gives over all rows, for one query of each kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.views.admitted import ADMITTED
from tests.views.composed import ROWS, Cut, bag, composed, split, whole

if TYPE_CHECKING:
    from platform_plugin.spark.session import Session

CUT = Cut({"posts": (0, 3, 3, 7), "likes": (2, 5)}, merged_before=2)


@pytest.mark.spark
@pytest.mark.parametrize("name", ADMITTED)
def test_parts_over_ranges_give_what_the_query_gives_over_all_rows(spark_session: Session, name: str) -> None:
    expected = bag(spark_session.spark.sql(whole(ADMITTED[name], ROWS)).collect())
    plan = split(ADMITTED[name])
    found = spark_session.spark.sql(composed(plan, ROWS, CUT))
    assert found.columns == [column.name for column in plan.columns]
    assert bag(found.collect()) == expected
