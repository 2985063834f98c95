"""Plans of texts over tables of whole numbers, for the tests of engines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from platform_plugin.algebra.plan.relations import RelationFacts
from platform_plugin.algebra.types.data_types import Field, Primitive
from platform_plugin.operators.group.split import read_plan

if TYPE_CHECKING:
    from platform_plugin.algebra.plan.nodes import Query

FIELDS = (Field(name="k", type=Primitive("int32")), Field(name="v", type=Primitive("int64")))


def plan(text: str) -> Query:
    """The plan of a query over `main.numbers` and `main.others`."""
    return read_plan(text, {name: RelationFacts(name=("main", name), kind="table", fields=FIELDS) for name in ("numbers", "others")})


SUMS = (Field(name="k", type=Primitive("int32")), Field(name="s", type=Primitive("int64")))
SUM = "SELECT k, sum(v) AS s FROM numbers GROUP BY k"
